"""Samples of several tensors (dicts, tuples, masks), and torch Datasets."""

from __future__ import annotations

from collections import UserDict

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset  # noqa: E402

from fedtheory import Uniform, algorithms, errors, local, neural  # noqa: E402
from fedtheory.neural.training import configuration  # noqa: E402

WORDS, LENGTH, COUNT = 20, 6, 90
rng = np.random.default_rng(0)
IDS = rng.integers(1, WORDS, size=(COUNT, LENGTH))
MASK = rng.random((COUNT, LENGTH)) < 0.3
MASK[:, 0] = False
LABELS = IDS[:, 0] % 3
CLIENTS = [np.arange(0, 25), np.arange(25, 42), np.arange(42, 70)]


class Reader(nn.Module):
    """Attention over the words that the mask leaves."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.attention = nn.Embedding(WORDS, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, ids, mask=None):
        h = self.words(ids)
        return self.out((h + self.attention(h, h, h, key_padding_mask=mask, need_weights=False)[0]).mean(dim=1))


class OneTensor(Reader):
    """The same of words and masks in one tensor (b, length, 2)."""

    def forward(self, both):
        return super().forward(both[..., 0], both[..., 1] > 0)


def problem(how, **options):
    inputs = {
        "one": np.stack([IDS, MASK], axis=-1), "dict": {"ids": IDS, "mask": MASK}, "tuple": (torch.from_numpy(IDS), MASK),
    }[how]  # fmt: skip
    one = inputs if how == "one" else None
    tested = one[70:] if one is not None else {k: v[70:] for k, v in inputs.items()} if how == "dict" else tuple(v[70:] for v in inputs)
    module = OneTensor() if how == "one" else Reader()
    options = {"dtype": "float64", "test": (tested, LABELS[70:])} | options
    return neural.NeuralProblem(module, inputs, LABELS, CLIENTS, **options)


def last(of, algorithm, **options):
    record = ["objective", "drift", "test_accuracy", "test_loss"]
    solver = local.SGD(7, 0.2, epochs=2)
    run = neural.train(of, algorithm, 3, Uniform(2), solver, record=record, progress=False, **options)
    return run.x, np.concatenate([run.metrics[name] for name in record])


@pytest.mark.parametrize("engine", ["stacked", "loop"])
@pytest.mark.parametrize("method", [algorithms.FedDyn(0.1), algorithms.Scaffold("gradient"), algorithms.EFL(0.1)], ids=lambda m: m.name)
def test_dicts_and_tuples_are_the_modules_arguments(engine, method):
    x, measured = last(problem("one", engine=engine), method)
    start = problem("one").initial().numpy()
    assert np.abs(x - start).max() > 1e-3
    for how in ("dict", "tuple"):
        other, numbers = last(problem(how, engine=engine), method)
        np.testing.assert_allclose(other, x, rtol=0, atol=1e-14)
        np.testing.assert_allclose(numbers, measured, rtol=0, atol=1e-13)


def test_the_engines_are_those_asked_for_and_a_mask_counts():
    assert type(problem("dict").engine).__name__ == "Stacked"  # nothing is left to the loop, which a warning would tell
    without = neural.NeuralProblem(Reader(), {"ids": IDS}, LABELS, CLIENTS, dtype="float64")
    x = without.initial()
    assert abs(float(without.objective(x)) - float(problem("dict").objective(x))) > 1e-4


def test_what_is_like_a_dict_is_one_and_tensors_with_a_gradient_are_numbers():
    given = UserDict(ids=IDS, mask=torch.from_numpy(MASK))  # what tokenizers return
    p = neural.NeuralProblem(Reader(), given, LABELS, CLIENTS, dtype="float64")
    np.testing.assert_array_equal(p.initial(), problem("dict").initial())
    assert float(p.objective(p.initial())) == float(problem("dict").objective(p.initial()))
    weights = torch.ones(COUNT, 3, requires_grad=True)
    of_weights = neural.NeuralProblem(nn.Linear(3, 3), weights, LABELS, CLIENTS)
    solver = local.SGD(8, 0.1, epochs=1)
    run = neural.train(of_weights, algorithms.FedAvg(), 1, Uniform(2), solver, record=["objective"], progress=False)
    assert run.rounds == 1


def test_targets_of_several_parts_reach_a_loss_of_ones_own():
    scores = rng.normal(size=COUNT)

    def loss(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets["label"]) + (outputs[:, 0] - targets["score"]).square().mean()

    def by_hand(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets[:, 0].long()) + (outputs[:, 0] - targets[:, 1]).square().mean()

    given = {"label": LABELS, "score": scores}
    several = neural.NeuralProblem(Reader(), {"ids": IDS, "mask": MASK}, given, CLIENTS, loss, dtype="float64")
    table = neural.NeuralProblem(
        Reader(), {"ids": IDS, "mask": MASK}, np.stack([LABELS, scores], axis=1), CLIENTS, by_hand, dtype="float64"
    )
    solver = local.SGD(8, 0.1, epochs=1)
    runs = [
        neural.train(p, algorithms.FedAvg(), 2, Uniform(2), solver, record=["objective"], progress=False) for p in (several, table)
    ]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=1e-14)
    assert np.ptp(runs[0].metrics["objective"]) > 1e-3
    seen = {}

    def metric(outputs, targets):
        seen.update({name: tuple(t.shape) for name, t in targets.items()})
        return float(targets["score"].sum())

    tested = ({"ids": IDS[:9], "mask": MASK[:9]}, {"label": LABELS[:9], "score": scores[:9]})
    again = neural.NeuralProblem(Reader(), {"ids": IDS, "mask": MASK}, given, CLIENTS, loss, test=tested)
    run = neural.train(again, algorithms.FedAvg(), 1, Uniform(2), solver, progress=False, metrics={"sum": metric}, record=["test_loss"])
    assert seen == {"label": (9,), "score": (9,)} and np.isfinite(run.metrics["test_loss"]).all()
    np.testing.assert_allclose(run.metrics["sum"], scores[:9].astype(np.float32).sum(), rtol=1e-5)


def test_runs_of_dicts_go_on_bit_for_bit_and_other_masks_are_another_problem(tmp_path):
    whole, _ = last(problem("dict"), algorithms.FedDyn(0.1))
    solver, path = local.SGD(7, 0.2, epochs=2), tmp_path / "run.ckpt"
    record = ["objective", "drift", "test_accuracy", "test_loss"]
    how = {"record": record, "progress": False, "checkpoint": path}
    neural.train(problem("dict"), algorithms.FedDyn(0.1), 2, Uniform(2), solver, **how)
    gone_on = neural.train(problem("dict"), algorithms.FedDyn(0.1), 3, Uniform(2), solver, **how)
    assert np.array_equal(gone_on.x, whole)

    def digest(inputs):
        p = neural.NeuralProblem(Reader(), inputs, LABELS, CLIENTS)
        settings = (algorithms.FedAvg(), Uniform(2), solver, 0, ["drift"], 1)
        return configuration(p, *settings, p.initial())["problem"]["data"]

    flipped = MASK.copy()
    flipped[3, 1] ^= True
    assert digest({"ids": IDS, "mask": MASK}) == digest({"mask": MASK, "ids": IDS}) != digest({"ids": IDS, "mask": flipped})
    assert digest({"ids": IDS, "mask": MASK}) != digest((IDS, MASK))  # by name, not by position


def refused(says, make):
    with pytest.raises(errors.InvalidInput, match=says):
        make()


def test_parts_that_do_not_fit_are_refused_in_words():
    class Both(Reader):
        def forward(self, ids, mask):
            return super().forward(ids, mask)

    def made(inputs, targets=LABELS, module=None, **options):
        return lambda: neural.NeuralProblem(module or Reader(), inputs, targets, CLIENTS, **options)

    refused(r"inputs\['ids'\] has 90, inputs\['mask'\] has 89 samples", made({"ids": IDS, "mask": MASK[1:]}))
    refused(r"unexpected keyword argument 'hidden'", made({"ids": IDS, "hidden": MASK}))
    refused(r"inputs\['mask'\] cannot be taken \(can't convert np.ndarray of type numpy", made({"ids": IDS, "mask": ["a"] * COUNT}))
    refused("6 inputs and 90 targets.*inputs in a tuple.*make a list", made(tuple(IDS)))
    refused("the TensorDataset: use NeuralProblem.from_dataset", made(TensorDataset(torch.from_numpy(IDS))))
    refused("keywords must be strings", made({0: IDS}))
    without = made({"ids": IDS, "mask": MASK}, test=(IDS, LABELS), module=Both())
    refused("fails on test samples 0, .*missing 1 required positional argument: 'mask'", without)
    refused("must be Tensor, not Parts", made(IDS, {"a": LABELS}))
    refused(r"augment = 'flip-crop' with inputs\['ids'\]", made({"ids": IDS, "mask": MASK}, augment="flip-crop"))
    hurt = rng.normal(size=(COUNT, LENGTH))
    hurt[5, 2] = np.nan
    refused(r"inputs\['weights'\]\[5, 2\] is nan", made({"ids": IDS, "weights": hurt}))


# --- torch Datasets -------------------------------------------------------------------------------
class Items(Dataset):
    def __init__(self, numbers, item):
        self.numbers, self.item = numbers, item

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, i):
        return self.item(self.numbers[i])


def as_dict(i):
    return {"ids": torch.from_numpy(IDS[i]), "mask": MASK[i], "labels": int(LABELS[i])}


def test_datasets_are_the_arrays_they_hold():
    everything = np.arange(COUNT)
    plain = problem("dict", test=None)
    tensors = TensorDataset(torch.from_numpy(IDS), torch.from_numpy(MASK), torch.from_numpy(LABELS))
    given = [
        (Items(everything, as_dict), {"clients": CLIENTS, "target": "labels"}),
        (Items(everything, lambda i: (IDS[i], MASK[i], LABELS[i])), {"clients": CLIENTS}),
        (tensors, {"clients": CLIENTS}),
        ([Items(c, as_dict) for c in CLIENTS], {"target": "labels"}),
        ([Subset(tensors, c.tolist()) for c in CLIENTS], {}),
        ([Subset(Subset(tensors, list(range(COUNT))[::-1]), (COUNT - 1 - c).tolist()) for c in CLIENTS], {}),
    ]
    x = plain.initial()
    y = x.expand(3, 1, -1)
    for dataset, options in given:
        made = neural.NeuralProblem.from_dataset(Reader(), dataset, dtype="float64", progress=False, **options)
        np.testing.assert_allclose(made.client_gradient(y), plain.client_gradient(y), rtol=0, atol=1e-15)


def test_test_sets_of_datasets_and_of_each_client():
    train = Items(np.arange(70), as_dict)
    shared = neural.NeuralProblem.from_dataset(
        Reader(), train, CLIENTS, target="labels", test=Items(np.arange(70, 90), as_dict), dtype="float64"
    )
    assert shared.evaluate(shared.initial()[None]) == problem("dict").evaluate(shared.initial()[None])
    parts = [np.arange(70, 75), np.arange(75, 83), np.arange(83, 90)]
    own = neural.NeuralProblem.from_dataset(
        Reader(), [Items(c, as_dict) for c in CLIENTS], target="labels", test=[Items(c, as_dict) for c in parts]
    )
    assert [list(t + 70) for t in own.tested] == [list(c) for c in parts]


def test_datasets_that_are_none_are_refused_in_words():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([])

    def made(dataset, clients=CLIENTS, **options):
        return lambda: neural.NeuralProblem.from_dataset(Reader(), dataset, clients, **options)

    def item(f):
        return Items(np.arange(COUNT), f)

    for says, dataset, clients, options in [
        (r"dataset = .*: it has no items", Items([], as_dict), CLIENTS, {}),
        ("entries 'ids', 'labels', 'mask', and target = None", item(as_dict), CLIENTS, {}),
        ("2 entries, and target = 'labels'", item(lambda i: (IDS[i], 1)), CLIENTS, {"target": "labels"}),
        ("one entry, and target = None: give pairs", item(lambda i: IDS[i]), CLIENTS, {}),
        ("clients = None: give one Dataset with clients", item(as_dict), None, {"target": "labels"}),
        ("a list of Datasets without", [item(as_dict)], CLIENTS, {"target": "labels"}),
        ("client 1 has no samples", [item(as_dict), Items([], as_dict)], None, {"target": "labels"}),
    ]:  # fmt: skip
        refused(says, made(dataset, clients, **options))
    for error, says, dataset in [
        (TypeError, "has no len", Stream()),
        (RuntimeError, "each tensor to be equal size", item(lambda i: (IDS[i, : 3 + i % 2], 1))),
        (RuntimeError, "each tensor to be equal size", Items(np.repeat([0, 1], 256), lambda i: (IDS[i, : 3 + i], 1))),
        (ZeroDivisionError, "by zero", item(lambda i: 1 // 0)),
        (errors.InvalidInput, "inputs cannot be taken .can't convert", item(lambda i: ("a word", 1))),
    ]:  # fmt: skip
        with pytest.raises(error, match=says):
            made(dataset)()
