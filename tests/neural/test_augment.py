"""Mirrored and cropped training images, against the loop of FedDyn's public code image by image."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from active_rows import rows_of

from fedtheory import Uniform, algorithms, simulate
from fedtheory.errors import CheckpointError, InvalidInput, MissingCapability
from fedtheory.local import SGD, LocalObjective, LocalSGD
from fedtheory.local.objective import Rows
from fedtheory.local.sgd import sample_order
from fedtheory.neural.benchmarks import presets
from fedtheory.randomness import Stream

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from fedtheory.neural import NeuralProblem, augment, data  # noqa: E402
from fedtheory.neural.benchmarks import run as bench  # noqa: E402

SIZES = (5, 9, 2)


def one_by_one(img, mirrored, dim_1, dim_2):
    """An image (c, h, w), as utils_dataset.py does it: crop (4, 4) is what it leaves alone."""
    img = np.flip(img, axis=2).copy() if mirrored else img
    channels, height, width = img.shape
    extended = np.zeros((channels, height + 8, width + 8), img.dtype)
    extended[:, 4:-4, 4:-4] = img
    return extended[:, dim_1 : dim_1 + height, dim_2 : dim_2 + width]


def test_images_are_moved_as_there():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(164, 2, 5, 7))
    how = np.array([(m, i, j) for m in (0, 1) for i in range(9) for j in range(9)] + [(0, 4, 4), (1, 4, 4)])
    got = augment.augmented(torch.as_tensor(x), torch.as_tensor(how)).numpy()
    np.testing.assert_array_equal(got, [one_by_one(img, *h) for img, h in zip(x, how, strict=True)])
    np.testing.assert_array_equal(got[-2], x[-2])
    np.testing.assert_array_equal(got[-1], x[-1, :, :, ::-1])


def test_how_often_and_where_to():
    """Half mirrored; half cropped, whatever the other; 81 places alike. By the binomial's standard errors."""
    drawn = np.concatenate([augment.draws(rows_of(1, 1, t, 3), 0, 0, 4000, e) for t in (1, 2) for e in (0, 1, 2)])
    n = len(drawn)
    assert drawn.min() == 0 and drawn.max() == 8 and set(drawn[:, 0]) == {0, 1}
    mirrored, kept = drawn[:, 0] == 1, (drawn[:, 1:] == 4).all(axis=1)
    wanted = {"mirrored": (mirrored, 1 / 2), "kept": (kept, 1 / 2 + 1 / 162), "both": (mirrored & kept, 1 / 4 + 1 / 324)}
    for place in ((0, 0), (8, 3), (5, 8)):
        wanted[place] = ((drawn[:, 1:] == place).all(axis=1), 1 / 162)
    for name, (found, p) in wanted.items():
        assert abs(found.mean() - p) < 5 * np.sqrt(p * (1 - p) / n), name


def test_draws_depend_on_round_epoch_scenario_and_client_alone():
    rows = rows_of(3, 2, 2, 3)
    base = augment.draws(rows, 1, 1, 50, 0)
    others = [augment.draws(rows, 0, 1, 50, 0), augment.draws(rows, 1, 0, 50, 0), augment.draws(rows, 1, 1, 50, 1)]
    others += [augment.draws(rows_of(3, 2, 5, 3), 1, 1, 50, 0)]
    assert all((o != base).any() for o in others)
    alone = Rows(np.array([1]), np.array([[1]]), np.ones((1, 1), bool), Stream(3), 2)
    np.testing.assert_array_equal(augment.draws(alone, 0, 0, 50, 0), base)


def flat():
    return nn.Sequential(nn.Flatten(), nn.Linear(2 * 6 * 6, 4), nn.ReLU(), nn.Linear(4, 3))


def images():
    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 3))


def problem(module, engine, how="flip-crop", **options):
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    n = sum(SIZES)
    clients = np.split(rng.permutation(n), np.cumsum(SIZES)[:-1])
    inputs, targets = rng.normal(size=(n, 2, 6, 6)), rng.integers(0, 3, n)
    return NeuralProblem(module(), inputs, targets, clients, engine=engine, augment=how, **{"dtype": "float64", **options})


@pytest.mark.parametrize("module, engines", [(flat, ("stacked", "loop")), (images, ("stacked", "loop"))], ids=["flat", "images"])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_a_walk_takes_them(module, engines, clip):
    """Unequal clients, two epochs, two scenarios: the optimizer's steps on images made one by one."""
    rows, solver = rows_of(len(SIZES), 2, 2, 3), SGD(4, 0.1, epochs=2, clip=clip)
    p = problem(module, engines[0])
    start = torch.randn(len(SIZES), 2, p.dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 3
    wanted, plain = torch.empty_like(start), module().double()
    for n, held in enumerate(p._clients):
        for b in range(2):
            nn.utils.vector_to_parameters(start[n, b].clone(), plain.parameters())
            optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
            for epoch, i, j, _ in solver.schedule(len(held), rows.round_index):
                order = held[sample_order(rows, n, b, len(held), epoch)][i:j]
                how = augment.draws(rows, n, b, len(held), epoch)[i:j]
                x = np.array([one_by_one(img, *h) for img, h in zip(p.inputs[torch.as_tensor(order)].numpy(), how, strict=True)])
                optimizer.zero_grad()
                nn.functional.cross_entropy(plain(torch.as_tensor(x)), p.targets[torch.as_tensor(order)]).backward()
                if clip is not None:
                    nn.utils.clip_grad_norm_(plain.parameters(), clip)
                optimizer.step()
            wanted[n, b] = nn.utils.parameters_to_vector(plain.parameters()).detach()
    for engine in engines:
        got = problem(module, engine).walk(solver, LocalObjective(center=start), start, rows).y
        torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-11)
        other = problem(module, engine, None).walk(solver, LocalObjective(center=start), start, rows).y
        assert abs(other - wanted).max() > 1e-3  # the mutant: images as they are


def test_only_training_is_augmented():
    x = np.random.default_rng(1).normal(size=(4, 2, 6, 6))
    test = (x, np.array([0, 1, 2, 0]))
    plain, moved = (problem(images, "loop", how, test=test) for how in (None, "flip-crop"))
    point = plain.initial()[None]
    assert plain.evaluate(point) == moved.evaluate(point) and plain.objective(point) == moved.objective(point)
    assert torch.equal(plain.client_gradient(point.expand(3, 1, -1)), moved.client_gradient(point.expand(3, 1, -1)))


def test_what_cannot_be_augmented_is_refused():
    with pytest.raises(InvalidInput, match="augment = 'crop': use 'flip-crop'"):
        problem(images, "loop", "crop")
    with pytest.raises(InvalidInput, match="images are"):
        NeuralProblem(nn.Linear(3, 2), np.zeros((4, 3)), np.zeros(4, int), [[0, 1, 2, 3]], augment="flip-crop")
    p = problem(images, "loop")
    how = dict(like=p.like_array(), record=())
    with pytest.raises(MissingCapability, match=r"goes with fedtheory\.local\.SGD only"):
        simulate(p, algorithms.FedAvg(), 1, p.initial(), Uniform(2), local_solver=LocalSGD(2, 0.1, batch_size=2), **how)


def test_a_run_records_it(tmp_path):
    preset = presets.get("fedelasticnet/cifar10/iid/10%/fedprox").quick(digits=True)
    plain = bench.run_preset(preset, data.digits(), None, progress=False)
    moved = bench.run_preset(replace(preset, augment="flip-crop"), data.digits(), tmp_path, progress=False)
    one, other = (r.metrics["test_loss"] for r in (plain, moved))
    assert one[0] == other[0] and one[3] != other[3]
    assert moved.provenance["configuration"]["problem"]["augment"] == "flip-crop"
    assert bench.read_result(preset, tmp_path).metrics == moved.metrics
    assert json.loads((tmp_path / "runs" / f"{preset.name}.json").read_text())["preset"]["augment"] == "flip-crop"
    with pytest.raises(CheckpointError, match=r"problem\.augment is flip-crop there and None here"):
        bench.run_preset(preset, data.digits(), tmp_path, progress=False)
