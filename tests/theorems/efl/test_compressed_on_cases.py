"""Convergence with compression on a user's case: what is refused, at its limit; gamma, rounds and rounding by hand."""

from __future__ import annotations

import numpy as np
import pytest
from efl_on_a_problem import BOTH_WAYS, MAKE, TWO, case_of

from fedtheory import messages, problems
from fedtheory.algorithms import EFL, FedAvg
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps, LocalSGD
from fedtheory.participation.irregular import Irregular, complete
from fedtheory.participation.laws import JointLaw
from fedtheory.theorems.efl import partial_world
from fedtheory.theorems.efl.cases import given

H, C, P = [[3 / 7, 5 / 3], [5 / 2, 6 / 5], [4 / 3, 7 / 4]], [[3 / 2, -2 / 3], [-5 / 4, 7 / 3], [2 / 5, -3.0]], [0.2, 0.3, 0.5]
PROBLEM = problems.Quadratic([np.diag(row) for row in H], C, P)
START = np.array([7 / 3, -5 / 2])
ALIKE = problems.Quadratic([np.eye(40)] * 2, np.arange(80.0).reshape(2, 40) / 40)
MAKERS = (MAKE["compressed"], MAKE["compressed-partial"])


def case(algorithm=BOTH_WAYS, problem=PROBLEM, **how):
    return case_of(problem, algorithm, **{"x0": START if problem is PROBLEM else np.ones(problem.dim), "rounds": 3, **how})


def test_the_residuals_period_is_not_made_of_a_case():
    with pytest.raises(InvalidInput, match="is looked at in fractions, on instances of its own: `fedtheory replay` shows one"):
        MAKE["frozen"](None, case())


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("algorithm", "how", "said"),
    [
        (FedAvg(), {}, "the statement is about EFL, not FedAvg"),
        (EFL(lam=0.5), {}, "lambda = 0.5, the limit is 0"),
        (BOTH_WAYS, {"local_solver": GradientSteps(2, 0.1)}, "local work by GradientSteps: gradients must be unbiased"),
        (EFL(variant="literal"), {}, "variant = 'literal': the theorem is about 'consistent', with the coefficient before"),
        (EFL(compressor=messages.ST(0.5), scale="after"), {}, "variant = 'consistent': the theorem is about 'consistent', with"),
        (
            EFL(compressor=messages.ST(0.5), client_feedback=False), {},
            "residuals are not kept: use client_feedback=True and server_feedback=True",
        ),
        (BOTH_WAYS, {"local_solver": LocalSGD(2, 1.0, noise_std=0.5)}, "mini-batches or noise: a run is judged with full gradients"),
    ],
)  # fmt: skip
def test_what_the_theorem_is_not_about(make, algorithm, how, said):
    with pytest.raises(InvalidInput) as caught:
        make(None, case(algorithm, **how))
    assert str(caught.value).startswith(said)


def test_clients_are_complete_in_every_round_of_the_run():
    def late(when):
        return Irregular(1, lambda t: np.array([[0, 1], [0.25, 0.75] if t == when else [0, 1], [0, 1]], dtype=float))

    assert MAKE["compressed"](None, case(sampling=late(4))).view().T == 3
    with pytest.raises(InvalidInput, match="client 1 may be inactive or incomplete in round 3: the theorem is about complete clients"):
        MAKE["compressed"](None, case(sampling=late(3)))


@pytest.mark.parametrize("k", [1, 8, None])
def test_gamma_of_a_strong_compressor(k):
    """L = mu = 1, d = 40, E = 20: max{4E/delta, 64} with delta = k/40, or 1 where nothing is compressed; either side counts."""
    top = None if k is None else messages.TopK(k)
    for algorithm in (EFL(compressor=top), EFL(down_compressor=top)):
        how = {"problem": ALIKE, "local_solver": LocalSGD(20, 1.0)}
        view = MAKE["compressed"](None, case(algorithm, **how)).view()
        assert view.gamma == pytest.approx(80 if k is None else 80 * 40 / k)
        assert (view.delta, view.down).count(None) == (2 if k is None else 1)
        if algorithm.compressor is None:
            assert not view.R.any()
        if algorithm.down_compressor is None:
            assert not view.R_G.any()


@pytest.mark.parametrize("k", [1, 8, None])
def test_gamma_of_a_client_that_rarely_sends(k):
    """E = 1, pi = 1/100: 8E/(pi delta) is above the other entry of gamma, which is 64 where all send."""
    rare, top = Irregular(1, [[0, 1.0], [0.99, 0.01]]), None if k is None else messages.TopK(k)
    for algorithm in (EFL(compressor=top), EFL(down_compressor=top)):
        view = MAKE["compressed-partial"](None, case(algorithm, ALIKE, sampling=rare, rounds=2)).view()
        assert view.gamma == pytest.approx(800 if k is None else 800 * 40 / k)
    assert MAKE["compressed-partial"](None, case(EFL(), ALIKE, sampling=complete(2, 1), rounds=2)).view().gamma == pytest.approx(64)


@pytest.mark.parametrize(("factor", "taken"), [(1, True), (1 + 5e-10, True), (1 + 2e-9, False), (1 - 2e-9, False)])
def test_a_schedule_is_the_theorems(factor, taken):
    """16/(mu ((t + 1) E + gamma)) in the round t + 1, with E = 2, mu = 3/7 and gamma = 64 L/mu."""
    lr = {t: 16 / (3 / 7 * (2 * t + 64 * 35 / 6)) * (factor if t == 3 else 1) for t in (1, 2, 3)}
    how = case(local_solver=LocalSGD(2, lambda t: lr[t]))
    if taken:
        assert MAKE["compressed"](None, how).view().T == 3
    else:
        with pytest.raises(InvalidInput, match=r"the schedule of lr is not the theorem's, 16/\(mu \(\(t \+ 1\) E \+ gamma\)\)"):
            MAKE["compressed"](None, how)


def test_a_short_gradient():
    """G^2 is the largest squared gradient that the run meets, however short: from 1/8 off both minima, at 0."""
    near = problems.Quadratic([[[1.0]], [[1.0]]], [[0.0], [0.0]])
    view = MAKE["compressed"](None, case(EFL(), near, x0=[0.125], local_solver=LocalSGD(1, 1.0))).view()
    assert view.G_sq == pytest.approx(1 / 64)


@pytest.mark.parametrize("make", MAKERS)
def test_what_rounding_and_the_certified_optimum_leave(make, monkeypatch):
    """d (a + o)(a + o + 2 size), a = 1e-13 size (T + 10), with o = 1/8 and with o = 0; size is the largest number of the run."""
    for off in (0.125, 0.0):
        monkeypatch.setattr(given, "distance_off", lambda problem, found, off=off: off)
        view = make(None, case(local_solver=LocalSGD(2, 1.0))).view()
        paths = (view.w, view.local, view.R, view.R_G, view.star) if make is MAKE["compressed"] else None
        size = 2.5 if paths is None else max(float(abs(a).max()) for a in paths)
        assert size >= 2.5
        points = 1e-13 * size * 13
        assert view.noise == pytest.approx(2 * (points + off) * (points + off + 2 * size), rel=1e-9, abs=0)
        if paths is not None:
            assert view.noise_of_points == pytest.approx(points, rel=1e-9, abs=0)


def test_how_many_rounds_there_are_paths_for(monkeypatch):
    """One case a round: as many as are asked for, at most 20. Two cases: log(MOST)/log 2 rounds, at least one."""
    sure, two = complete(2, 1), Irregular(1, [[0, 1.0], [0.5, 0.5]])
    for rounds, T in ((None, 20), (3, 3), (20, 20), (21, 20), (40, 20)):
        assert MAKE["compressed-partial"](None, case(EFL(), TWO, sampling=sure, rounds=rounds)).view().T == T
    for most, rounds, T in ((9, None, 3), (9, 2, 2), (4.1, 9, 2), (2, 9, 1)):
        monkeypatch.setattr(partial_world, "MOST", most)
        assert MAKE["compressed-partial"](None, case(EFL(), TWO, sampling=two, rounds=rounds)).view().T == T


def test_joint_laws_are_refused_whatever_the_scheme():
    law = Irregular(1, JointLaw(np.array([[0, 1, 0], [1, 0, 1]]), np.array([0.5, 0.5])))
    for scheme in ("A", "B", "C"):
        with pytest.raises(InvalidInput, match="clients that depend on each other"):
            MAKE["compressed-partial"](None, case(EFL(scheme=scheme), sampling=law))
