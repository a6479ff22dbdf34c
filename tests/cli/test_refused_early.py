"""Wrong options and a second writer are refused before an optimum is looked for."""

from __future__ import annotations

import sys

import pytest
from command_line import refused

import fedtheory.central  # noqa: F401  (its module `plan` is patched)
from fedtheory.problems.base import Problem


@pytest.fixture(autouse=True)
def no_optimum(monkeypatch):
    def work(*args, **more):
        pytest.fail("an optimum was looked for")

    monkeypatch.setattr(Problem, "optimum", work)
    monkeypatch.setattr(Problem, "optimum_on_ball", work)
    monkeypatch.setattr(sys.modules["fedtheory.central.plan"], "optimum_over", work)


VERIFY = [
    ("theorem-3.1 --l2 -1", "--l2 -1"),
    ("theorem-3.1 --l2-over-beta -1", "--l2"),
    ("theorem-3.1 --l1 -1", "--l1 -1"),
    ("theorem-3.1 --lam 1", "no hyperparameter --lam"),
    ("theorem-3.1 -P 0", "--participants 0"),
    ("theorem-3.1 --given nosuch=3", "nothing can be given"),
    ("theorem-3.1 --figure x.svg", "--figure x.svg"),
    ("theorem-3.1 --figure /proc/none/x.png", "--figure /proc/none/x.png"),
    ("theorem-3.1 --keep /proc/none", "/proc/none"),
    ("algorithm-1-fixed-point --l2 -1", "--l2 -1"),
    ("at-rest --start x", "--start x"),
    ("fedmls/theorem-1 --lam -1", "lambda must be"),
    ("fedmls/theorem-1 --given nosuch=3", "unknown given name"),
    ("fedmls/theorem-1 --given G_i=-1", "one finite number >= 0"),
    ("fedmls/theorem-1 --given optimum=3", "give an Optimum"),
    ("fedmls/mopes-bound --given lam=-1", "--given lam=-1"),
    ("fedmls/mopes-bound --given K=-1", "--rounds -1"),
    ("fedmls/mopes-bound --radius 3", "--radius 3 does not apply"),
    ("fedmls/mopes-bound --sigma 3", "--sigma 3 does not apply"),
]
RUN = [
    ("fedmls lad --epsilon 0", "--epsilon 0"),
    ("fedmls lad --lam -1", "lambda must be"),
    ("fedmls lad --D -1", "D~ must be"),
    ("fedmls lad -T 0", "--rounds 0"),
    ("fedmls lad -S 0", "--scenarios 0"),
    ("fedmls lad --lipschitz -1", "Lipschitz constant"),
    ("fedmls lad --local-lr 0.1", "--local-lr"),
    ("fedmls lad --batch-size 0", "--batch-size 0"),
    ("fedmls lad --inactive 2", "--inactive"),
    ("fedavg lad --l1 1", "no hyperparameter --l1"),
    ("fedavg lad -P 0", "--participants 0"),
    ("fedavg lad -P 100", "--participants 100"),
    ("fedavg lad -T -3", "--rounds -3"),
    ("fedavg lad --local-lr -1", "--local-lr -1"),
    ("fedavg lad --compressor nosuch", "nosuch"),
    ("fedavg lad --start 1,2,3,4,5,6", "--start"),
    ("fedprox lad", "fedprox needs --mu"),
    ("subgradient lad --step -1", "--step -1"),
    ("subgradient lad --schedule constant --noise -1", "--noise"),
    ("fedavg quadratic --local-solver sgd --batch-size 2 --epochs 1", "no samples to draw"),
    ("mopes lad --lam -1", "lam is -1"),
    ("mopes lad --rounds 0", "--rounds 0"),
    ("mopes lad --batch-size 0", "--batch-size 0"),
    ("mopes lad --allowance 1", "moles' allowance"),
    ("moles lad --allowance -1", "C is -1"),
]
OTHERS = [
    ("proof theorem-3.1 --problem quadratic --given nosuch=3", "nothing can be given"),
    ("proof theorem-3.1 --problem quadratic --form nosuch", "nosuch"),
    ("proof theorem-3.1 --problem quadratic --l2 -1", "--l2 -1"),
    ("solve lad --gap 0", "--gap"),
    ("solve lad --radius -1", "--radius -1"),
]
ROWS = [*((f"verify {args}", says) for args, says in VERIFY), *((f"run {args}", says) for args, says in RUN), *OTHERS]


@pytest.mark.parametrize(("command", "says"), ROWS, ids=[command for command, _ in ROWS])
def test_it_is_told_before_any_work(command, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert says in refused(*command.split())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method, problem", [("fedavg", "quadratic"), ("fedavg", "lad"), ("fedmls", "lad")])
def test_a_second_run_is_refused_before_it_works(method, problem, tmp_path):
    """Its first line may else be how far the optimum is, which takes two seconds on a machine with other work."""
    pytest.importorskip("fcntl")
    from fedtheory.store.result_store import only_writer

    with only_writer(tmp_path / f"run-{method}-{problem}"):
        told = refused("run", method, problem, "--out", tmp_path)
    assert "is writing it; wait for its end" in told and not list(tmp_path.iterdir())
