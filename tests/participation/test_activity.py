"""Laws of participation that change with time: factors, exact laws and moments of every round, runs, and Theorem 1 on them."""

from __future__ import annotations

import pickle
from fractions import Fraction as F

import numpy as np
import pytest

from fedtheory import problems, simulate
from fedtheory.algorithms.efl import EFL
from fedtheory.local.local_sgd import LocalSGD
from fedtheory.participation.activity import Away, Cycle, Decay, Every, Fade, Grow, Only, varying
from fedtheory.participation.irregular import Irregular, JointLaw, complete, inactive, windows
from fedtheory.participation.moments import round_moments
from fedtheory.randomness import Stream
from fedtheory.theorems import get

HALF = F(1, 2)


@pytest.mark.parametrize(
    ("shape", "factors"),
    [
        (Decay(HALF), "1 1/2 1/4 1/8"), (Grow(HALF), "1/2 3/4 7/8 15/16"), (Fade(2), "1 2/3 1/2 2/5"), (Fade(F(1, 2)), "1 1/3 1/5 1/7"),
        (Away(2, 3), "1 0 0 1"), (Only(2, 3), "0 1 1 0"), (Every(3), "1 0 0 1"), (Every(2, 2), "0 1 0 1"), (Every(2, 3), "0 0 1 0"),
        (Cycle(2, 3), "1 1 0 1"),
    ],
)  # fmt: skip
def test_factors_of_the_first_rounds(shape, factors):
    assert [shape(t) for t in range(1, 5)] == [F(v) for v in factors.split()]


def test_laws_and_moments_of_a_round_are_exact():
    """Client 0 makes 1 or 2 of 2 steps, active with (1/2)^(t-1) 3/4; client 1 is complete and away in round 3; p = (1/3, 2/3)."""
    base = Irregular(2, [[F(1, 4), F(1, 4), F(1, 2)], [F(0), F(0), F(1)]])
    law = varying(base, {0: Decay(HALF), 1: Away(3, 3)})
    assert law.law(2, exact=True).tolist() == [[F(5, 8), F(1, 8), F(1, 4)], [0, 0, 1]]
    assert law.law(3, exact=True).tolist() == [[F(13, 16), F(1, 16), F(1, 8)], [1, 0, 0]]
    weights = np.array([F(1, 3), F(2, 3)], dtype=object)
    # C: p = E p^k/s, so that E[p s] = E p^k P(s > 0); B: E[p s] = p^k E[s], with E[s] = 5/8 of client 0 in round 2
    c, b, gone = (round_moments(s, law, t, weights, exact=True) for s, t in (("C", 2), ("B", 2), ("C", 3)))
    assert list(c.ps) == [F(2, 3) * F(3, 8), F(4, 3)] and list(b.ps) == [F(5, 24), F(4, 3)]
    assert c.p2s[0] == F(1, 9) * (4 * F(1, 8) + 2 * F(1, 4)) and not c.ratio_equal
    assert list(gone.ps) == [F(2, 3) * F(3, 16), 0] and gone.sum_ps == F(1, 8)


def test_several_shapes_multiply_and_windows_stay():
    law = varying(windows(complete(3, 1), {2: (2, None)}), {0: [Decay(0.5), Every(2)], 1: lambda t: 0.25})
    np.testing.assert_allclose([law.law(t)[:2, 1] for t in (1, 2, 3)], [[1, 0.25], [0, 0.25], [0.25, 0.25]])
    assert [list(law.present_in(t)) for t in (1, 2)] == [[True, True, False], [True, True, True]]
    assert pickle.loads(pickle.dumps(varying(complete(2, 1), {0: Cycle(1, 2)}))).law(2)[0, 0] == 1


def test_clients_that_depend_on_each_other_are_refused():
    from fedtheory.errors import MissingCapability

    with pytest.raises(MissingCapability, match="depend on each other"):
        varying(Irregular(1, JointLaw([[1, 0], [0, 1]], [HALF, HALF])), {0: Decay(0.5)}).law(1)


def test_draws_are_paired_with_the_base_law_and_follow_the_factor():
    base = inactive(2, 3, 0.2)
    law, often = varying(base, {0: Decay(0.5)}), range(4000)
    mine, theirs = (s.sample(Stream(1), 3, often, 2).mask for s in (law, base))
    assert (mine <= theirs).all() and (mine[:, 1] == theirs[:, 1]).all()
    assert abs(mine[:, 0].mean() - 0.2) < 4 * np.sqrt(0.16 / 4000)


def test_a_client_that_comes_every_other_round_moves_the_model_only_then():
    """Two clients at -1 and 1, E = 1, lr = 1, scheme B: with both there the model goes to 0, without client 1 by half to -1."""
    problem = problems.Quadratic([[[1.0]], [[1.0]]], [[-1.0], [1.0]], [0.5, 0.5])
    run = simulate(
        problem, EFL(scheme="B", variant="none"), 4, np.zeros(1), varying(complete(2, 1), {1: Every(2)}), local_solver=LocalSGD(1, 1.0),
        keep_states=True, record=(),
    )  # fmt: skip
    assert [float(s.x[0, 0]) for s in run.states[-4:]] == [0.0, -0.5, 0.0, -0.5]


TWO = problems.Quadratic([[[1.0]], [[1.0]]], [[-1.0], [1.0]], [0.5, 0.5])


def test_theorem_1_counts_the_rounds_in_which_the_ratios_differ():
    """Client 1 away in rounds 3 to 5 and complete else: H_T = 3 under schemes B and C; min S = E/2."""
    law = varying(complete(2, 2), {1: Away(3, 5)})
    for scheme in ("B", "C"):
        found = get("efl/theorem-1").verify(TWO, EFL(scheme=scheme), sampling=law, rounds=10, x0=[3.0])
        check = next(c for c in found if c.form == "repaired")
        constants = check.where["constants"]
        assert check.verdict == "holds" and constants["H_T"] == 3 and constants["S_min"] == 1.0


def test_theorem_1_on_activity_that_fades_is_the_run_in_fractions():
    """The same law as a list of rounds in fractions: the distance and both parts of the bound agree."""
    from fedtheory.theorems.efl.cases.theorem_1 import view_of
    from fedtheory.theorems.efl.quantities.exact_run import run_of
    from fedtheory.theory.judge.case import Case

    law, T = varying(complete(2, 1), {1: Fade(4)}), 5
    rows = [[["0", "1"], [str(1 - Fade(4)(t)), str(Fade(4)(t))]] for t in range(1, T + 1)]
    data = {"h": [["1"], ["1"]], "c": [["-1"], ["1"]], "weights": ["1/2", "1/2"], "scheme": "B", "laws": rows, "w0": ["3"], "T": T}
    exact = run_of(data)
    case = Case(TWO, EFL(scheme="B"), sampling=law, rounds=T, x0=np.array([3.0]))
    view = view_of("run", case)
    np.testing.assert_allclose(view.distance_sq, exact.distance_sq.astype(float), rtol=1e-12)
    for name in ("S", "r", "gamma", "J"):
        ours, theirs = getattr(view.constants, name), getattr(exact.constants, name)
        np.testing.assert_allclose(np.asarray(ours, float), np.asarray(theirs, dtype=object).astype(float), rtol=1e-12)
