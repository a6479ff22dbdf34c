"""Runs by device and precision: from the command line, refused where there is no device, judged honestly in single precision."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from fedtheory import Full, Uniform, algorithms, devices, messages, problems, simulate
from fedtheory.cli import app
from fedtheory.errors import InvalidInput, MissingCapability, UnknownName
from fedtheory.local import SGD, GradientSteps, LocalSGD
from fedtheory.messages import measures

torch = pytest.importorskip("torch")
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
RUN = ("run", "fedprox", "quadratic", "--mu", "1", "--rounds", "4", "-P", "3", "--seed", "3", "--no-figures")


def cli(tmp_path, *options: str):
    return CliRunner().invoke(app, [*RUN, "--out", str(tmp_path), *options])


def written(tmp_path, *options: str) -> dict:
    done = cli(tmp_path, "--json", *options)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_the_command_line_runs_where_it_is_told(tmp_path):
    plain = written(tmp_path)
    assert [plain["provenance"][k] for k in ("arrays", "device", "dtype")] == ["numpy", "cpu", "float64"]
    for options, arrays, dtype, rtol in (
        (("--device", "cpu"), "torch", "float64", 1e-12),
        (("--device", "cpu", "--dtype", "float32"), "torch", "float32", 1e-4),
        (("--dtype", "float32"), "numpy", "float32", 1e-4),
    ):
        run = written(tmp_path, *options)
        assert [run["provenance"][k] for k in ("arrays", "device", "dtype")] == [arrays, "cpu", dtype]
        np.testing.assert_allclose(run["metrics"]["distance"], plain["metrics"]["distance"], rtol=rtol)
        assert dtype == "float64" or run["final_x"] != plain["final_x"]
        share = 0.5 if dtype == "float32" else 1.0  # a float of half the width
        assert run["metrics"]["bits"][-1][0] == share * plain["metrics"]["bits"][-1][0]


def test_a_nonsmooth_run_under_torch(tmp_path):
    options = ("subgradient", "lad", "--rounds", "3", "--no-figures", "--json", "--out", str(tmp_path))
    runs = [CliRunner().invoke(app, ["run", *options, *more]) for more in ((), ("--device", "cpu"), ("--dtype", "float32"))]
    assert [r.exit_code for r in runs] == [0, 0, 0], runs[1].output
    plain, *others = (json.loads(r.stdout)["metrics"]["suboptimality"] for r in runs)
    np.testing.assert_allclose(others[0], plain, rtol=1e-12)
    np.testing.assert_allclose(others[1], plain, rtol=1e-4)


def test_what_is_not_there_is_told_before_any_work(tmp_path, monkeypatch):
    def never(*_):
        raise AssertionError("the problem was made")

    monkeypatch.setattr("fedtheory.cli.run_made.problem_of", never)
    if not torch.cuda.is_available():
        refused = cli(tmp_path, "--device", "cuda")
        assert refused.exit_code == 2 and "finds no CUDA GPU" in refused.output
    refused = cli(tmp_path, "--device", "quantum")
    assert refused.exit_code == 2 and "use 'cpu', 'cuda' or 'cuda:0'" in refused.output
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    refused = cli(tmp_path, "--device", "cpu")
    assert refused.exit_code == 2 and "pip install 'fedtheory[torch]'" in " ".join(refused.output.split())


def test_processes_do_not_share_a_device():
    elsewhere = torch.zeros(1, dtype=torch.float64, device="meta")  # a device that is always there, and is not main memory
    with pytest.raises(InvalidInput, match="processes do not share meta"):
        simulate(problems.random_quadratic(3, 2, 1), algorithms.FedAvg(), 1, scenarios=2, workers=2, like=elsewhere)


def test_names(monkeypatch):
    with pytest.raises(UnknownName):
        devices.array_like(dtype="float16")
    with pytest.raises(UnknownName):
        devices.array_like("cpu", "bfloat16")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)  # as on a machine that is no Mac
    with pytest.raises(InvalidInput, match="'mps': use 'cpu' or 'cuda'"):
        devices.array_like("mps")
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    with pytest.raises(InvalidInput, match="double precision"):
        devices.array_like("mps")
    assert devices.array_like(dtype="float32").dtype == np.float32
    assert devices.as_dtype(torch.float64) is torch.float64
    assert issubclass(MissingCapability, Exception)


# --- what single precision can resolve ------------------------------------------------------------
def test_suboptimality_in_single_precision_is_that_of_the_point():
    """Gradient steps run to their end in float32: what is measured is F of the point reached, no rounding of F.

    Near x*, F - F* <= |grad F|^2/(2 mu), and steps stop where the computed gradient is rounding: eps times what it is summed from.
    """
    p = problems.random_least_squares(4, 3, 5, seed=0)
    p = problems.LeastSquares(p.features, p.targets + 100.0, ridge=0.5)  # F* is large: eps |F*| hides much
    c = p.constants()
    like = torch.zeros(1, dtype=torch.float32)
    run = simulate(
        p, algorithms.FedAvg(), 300, None, Full(), 1, 0, GradientSteps(1, 1.0 / c.beta), ("suboptimality", "gradient_norm"), like=like
    )
    last, optimum, eps = run.x[0].astype(float), p.optimum(), float(np.finfo(np.float32).eps)
    measured = run.metrics["suboptimality"][-1, 0]
    assert measured == p.objective(last) - optimum.value  # of the float32 point, in float64
    assert measured >= -1e-13 * optimum.value
    summed = c.beta * np.linalg.norm(last) + np.linalg.norm(p.moment, axis=1).max()
    assert measured <= (4 * eps * summed) ** 2 / (2 * c.mu)
    coarse = float(p.objective(torch.tensor(run.x[0]))) - optimum.value  # F itself in float32
    assert abs(coarse) > 1e4 * abs(measured)
    assert run.metrics["gradient_norm"][-1, 0] <= 4 * eps * summed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bins_counted_on_a_device_are_the_hosts(dtype, monkeypatch):
    """Messages counted where they lie, here with the CPU as the device, give the same bins."""
    monkeypatch.setattr(measures, "PIECE", 1000)
    halves = (np.arange(-300, 300) + 0.5) * 0.01  # on, or a rounding off, the edge of two bins
    edges = np.concatenate([halves, np.nextafter(halves, 9), np.nextafter(halves, -9)])
    odd = (np.array([1.0, 1e9]), np.array([np.nan, np.inf, 0.0]), edges[:0])
    for message in (edges, np.random.default_rng(0).normal(size=(3, 2500)), *odd):
        message = message.astype(dtype)
        for found, wanted in zip(measures._on_device(torch.from_numpy(message), 0.01), measures.bin_counts(message), strict=True):
            np.testing.assert_array_equal(found, wanted)


# --- on a GPU -------------------------------------------------------------------------------------
@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_convex_run_on_cuda(dtype):
    g = np.random.default_rng(0)
    p = problems.Logistic(g.normal(size=(6, 8, 4)), np.sign(g.normal(size=(6, 8))), ridge=0.1)
    x0 = g.normal(size=(2, 4))
    for algorithm, solver in (
        (algorithms.EFL(0.3, "C", messages.TopK(k=2), messages.RandomK(k=2, scaled=False)), LocalSGD(3, 0.2, batch_size=2)),
        (algorithms.FedElasticNetDyn(0.1, 1.0), None),
        (algorithms.Scaffold("difference"), SGD(3, 0.1, epochs=1)),
    ):
        record = ("suboptimality", "entropy", "bits")
        here, there = (
            simulate(p, algorithm, 4, x0, Uniform(3), 2, 1, solver, record, like=like)
            for like in (devices.array_like(dtype=dtype), devices.array_like("cuda", dtype))
        )
        assert there.final.x.device.type == "cuda" and there.provenance["device"].startswith("cuda")
        np.testing.assert_allclose(there.x, here.x, rtol=0, atol=1e-11 if dtype == "float64" else 1e-4)
        np.testing.assert_array_equal(there.metrics["bits"], here.metrics["bits"])


@pytest.mark.cuda
@needs_cuda
@pytest.mark.parametrize("engine", ["stacked", "loop"])
def test_an_mlp_on_cuda(engine):
    from fedtheory.neural import NeuralProblem
    from fedtheory.neural.models import get

    g = np.random.default_rng(0)
    inputs, targets = g.normal(size=(60, 1, 6, 6)), g.integers(0, 3, 60)
    net = get("mlp-100-100").build((1, 6, 6), 3)
    ends = []
    for device in ("cpu", "cuda"):
        p = NeuralProblem(
            net, inputs, targets, np.split(np.arange(60), [7, 20, 41]), test=(inputs, targets), device=device, dtype="float64",
            engine=engine,
        )  # fmt: skip
        run = simulate(
            p, algorithms.FedElasticNetDyn(1e-4, 0.1), 2, p.initial(), Uniform(2), 1, 0, SGD(5, 0.1, epochs=1), ("test_accuracy",),
            like=p.like_array(),
        )  # fmt: skip
        ends.append(run.x)
    np.testing.assert_allclose(ends[1], ends[0], rtol=0, atol=1e-9)
