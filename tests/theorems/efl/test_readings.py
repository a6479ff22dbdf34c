"""Theorem 1's violations do not hang on where A4's G is taken or on clients that never act; correlated mini-batches."""

from __future__ import annotations

import dataclasses
from fractions import Fraction as F
from functools import cache

import numpy as np
import pytest
from cases import each

from fedtheory.algorithms import EFL
from fedtheory.errors import InvalidInput
from fedtheory.local import LocalSGD, TheoremStep
from fedtheory.participation.irregular import Irregular
from fedtheory.problems.quadratic import Quadratic
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems import get
from fedtheory.theorems.efl.quantities import exact_run as efl_runs
from fedtheory.theorems.efl.quantities.step import StepState
from fedtheory.theorems.efl.run_instances import QuadraticInstance
from fedtheory.theory.judge.registry import setting_of
from fedtheory.theory.judge.replay import builtin_witnesses
from fedtheory.theory.rounds.coefficients import RoundLaw
from fedtheory.theory.rounds.second_moments import QuadraticOracles, second_moments

RUNS = [w for w in builtin_witnesses("efl") if w.statement.startswith("efl/theorem-1") and w.kind == "run"]
LONG = [w for w in RUNS if w.form in ("r_t flipped", "J")]
THEOREM = get("efl/theorem-1")


# --- where G is taken -----------------------------------------------------------------------------
def _largest_everywhere(data, sure=False):
    """sup E||g||^2 over the box that no coordinate leaves: the start, every minimiser, and as far as noise reaches.

    With ``sure`` the supremum of ||g||^2 itself, for the worst draw of the noise as well."""
    h, c = (np.array([[F(x) for x in row] for row in data[k]], dtype=object) for k in ("h", "c"))
    noise = np.array([[F(x) for x in row] for row in data.get("noise", (0 * h).tolist())], dtype=object)
    ends = np.stack([np.array([[F(x) for x in data["w0"]]] * len(h), dtype=object), c - noise / h, c + noise / h])
    low, high = ends.min(axis=(0, 1)), ends.max(axis=(0, 1))
    far = np.maximum(abs(low - c), abs(high - c))
    return ((h * far + noise) ** 2 if sure else (h * far) ** 2 + noise**2).sum(axis=1).max()


def exact_sides(witness):
    """The view of a witness, and the sides of its form; computed once, for several tests."""
    return _exact_sides(witness.name)


@cache
def _exact_sides(name):
    [witness] = [w for w in RUNS if w.name == name]
    statement = get(witness.statement)
    form = statement.form(witness.form)
    view = setting_of(statement).exact_view(statement, form, witness)
    return view, form.sides(view)


@pytest.mark.parametrize("witness", RUNS, ids=lambda w: w.name)
def test_a_violation_does_not_depend_on_where_the_gradients_are_bounded(witness):
    """A4 over the run's rounds, or over all later rounds and outcomes, of E||g||^2 given the past or of ||g||^2 surely;
    rhs is convex in G^2, so also in between.

    Where the largest sum of coefficients may exceed 1 the box can be left; there the right side falls as G grows."""
    view, sides = exact_sides(witness)  # in fractions, thousands of rounds: once for all readings
    assert (sides.lhs[-1], sides.rhs[-1]) == (F(witness.lhs), F(witness.rhs)) and sides.lhs[-1] > sides.rhs[-1]
    assert get(witness.statement).form(witness.form).established[witness.rule] == "violated"
    form, c = get(witness.statement).form(witness.form), view.constants
    for sure in (False, True):
        wide = max(_largest_everywhere(witness.data, sure), c.G_sq)
        wider = form.sides(dataclasses.replace(view, constants=dataclasses.replace(c, G_sq=wide)))
        assert (wider.lhs > wider.rhs).any(), sure
        if c.rounds[0].theta * c.E * c.eta.max() * c.L > 1:  # at least the largest sum p (1 - rho^s)
            assert (wider.rhs <= sides.rhs).all(), sure


def test_the_printed_bound_with_a_sure_bound_by_hand():
    """Corrected C, h = (1, 100), c = (+-2, 0), noise +-1000, w_0 = (73/10, 0): gamma = 6400, eta_0 = 16/6401, D_k = 2."""
    (witness,) = [w for w in RUNS if (w.form, w.rule) == ("printed", "C-corrected")]
    view, sides = exact_sides(witness)
    lhs = F(6385, 6401) ** 2 * F(73, 10) ** 2 + F(16, 6401) ** 2 * F(1000**2, 2)
    rhs = F(6400, 6401) ** 2 * F(73, 10) ** 2 + F(16, 6401)  # r_t = 1 as worded, J = 16 as printed
    assert (sides.lhs[-1], sides.rhs[-1]) == (lhs, rhs) == (F(witness.lhs), F(witness.rhs)) and lhs > rhs
    sure = 2002**2  # |w| <= 1000 in all rounds: the mean of both noises is at most 1000, and the c cancel
    assert sure < _largest_everywhere(witness.data, sure=True) == 2004**2
    at = F(2182758400 // 256 - 1000**2 // 2 - 6 * 100 * 2, 2)  # 256 (sigma^2/2 + 2 (2 + theta) L D + 2 G^2) = gamma^2 w_0^2
    assert at == 4012600 > sure
    for G_sq, same in ((F(sure), True), (at, True), (at + 1, False)):
        wider = dataclasses.replace(view, constants=dataclasses.replace(view.constants, G_sq=G_sq))
        assert (THEOREM.form("printed").sides(wider).rhs[-1] == rhs) == same


def test_the_old_instance_of_the_maximum_hangs_on_the_reading():
    """kappa = 2, w_0 = (1/4, 0): violated with G of its one round, not with G^2 = 2, the least for all rounds."""
    shape = {"h": [["1", "2"]], "c": [["0", "0"]], "weights": ["1"], "noise": [["1", "0"]]}
    data = {**shape, "scheme": "B", "laws": [[["0", "1"]]], "w0": ["1/4", "0"], "T": 1}
    view = efl_runs.run_of(data)
    wider = dataclasses.replace(view, constants=dataclasses.replace(view.constants, G_sq=F(2)))
    narrow, wide = (THEOREM.form("max").sides(v) for v in (view, wider))
    assert (narrow.lhs[-1], narrow.rhs[-1]) == (F(16865, 266256), F(1024, 16641)) and narrow.lhs[-1] > narrow.rhs[-1]
    assert wide.lhs[-1] < wide.rhs[-1] and _largest_everywhere(data) == 2


# --- clients that act now and then ----------------------------------------------------------------
@each("witness", RUNS)
def test_every_client_acts(witness):
    laws = np.array([[[F(x) for x in row] for row in law] for law in witness.data["laws"]], dtype=object)
    assert (laws[:, :, 0].min(axis=0) < 1).all()


@pytest.mark.parametrize("witness", {w.rule: w for w in LONG if w.rule in "AB"}.values(), ids=lambda w: w.name)
def test_simulate_reruns_the_long_witnesses(witness):
    """One witness of each scheme: the library's algorithm and participation, the theorem's steps, the same distance at the end."""
    data, T = witness.data, witness.data["T"]
    view, _ = exact_sides(witness)
    tables = [np.array(law, dtype=float) for law in data["laws"]]
    law = Irregular(1, [tables[0]] * (data["every"] - 1) + [tables[1]])
    problem = Quadratic(np.ones((2, 1, 1)), np.array(data["c"], dtype=float), np.array([0.5, 0.5]))
    c = view.constants
    solver = LocalSGD(1, TheoremStep(float(c.mu), 1, float(c.gamma), tuple(float(s) for s in c.S[: data["every"]])))
    method, start = EFL(scheme=witness.rule, variant="none"), np.array([float(data["w0"][0])])
    run = simulate(problem, method, T, start, law, local_solver=solver, record=("distance",))
    assert run.metrics["distance"][-1, 0] ** 2 == pytest.approx(float(F(witness.lhs)), rel=1e-9)


TWO_THAT_MOVE = {
    "weights": ["1/2", "1/2"], "h": [["1"], ["2"]], "c": [["1"], ["-1"]], "w0": ["10"], "laws": [[["0", "0", "1"]] * 2],
    "T": 5, "lam": "128", "u": [["1"], ["2"]], "scheme": "B",
}  # fmt: skip


def test_the_library_with_moving_anchors_falls_behind_the_bound():
    """Two clients, two local steps, where the elastic term does act: the algorithm itself, 400 rounds of it in floats.

    The gradients and the D_k are largest at the start, so that the constants of five rounds are those of all.
    """
    c = efl_runs.run_of(TWO_THAT_MOVE).constants
    assert (c.L, c.mu) == (2 + 128 * 3, 1 + 128 * 3) and c.D.min() > 0
    problem = Quadratic(np.array([[[1.0]], [[2.0]]]), np.array([[1.0], [-1.0]]), np.array([0.5, 0.5]))
    solver = LocalSGD(2, TheoremStep(float(c.mu), 2, float(c.gamma), 2.0))
    run = simulate(problem, EFL(lam=128.0, variant="none"), 1000, np.array([10.0]), None, local_solver=solver, record=("distance",))
    y = 2 * 1000 + float(c.gamma)
    bound = (float(c.gamma**2 * c.start_sq) + (32 / float(c.mu)) ** 2 * 1000 * float(c.B()[0]) / 4) / y**2
    assert run.metrics["distance"][-1, 0] ** 2 > 1.5 * bound
    free = simulate(problem, EFL(lam=0.0, variant="none"), 1000, np.array([10.0]), None, local_solver=solver, record=("distance",))
    assert run.metrics["distance"][-1, 0] != free.metrics["distance"][-1, 0]  # the term acts


def test_anchors_that_move_are_of_complete_clients_without_noise():
    for bad in ({"noise": [["1"], ["1"]]}, {"laws": [[["0", "0", "1"], ["1/2", "0", "1/2"]]]}):
        with pytest.raises(InvalidInput, match="complete in every round, and gradients without noise"):
            efl_runs.run_of({**TWO_THAT_MOVE, **bad})
    for bad in ({"lam": "0"}, {"u": [["1"]]}, {"u": [["1"], ["-1"]]}):
        with pytest.raises(InvalidInput, match="lambda must be > 0, and u >= 0"):
            efl_runs.run_of({**TWO_THAT_MOVE, **bad})


def test_every_needs_two_laws():
    data = {**LONG[0].data, "laws": LONG[0].data["laws"][:1]}
    with pytest.raises(InvalidInput, match="every = 100 with 1 laws: give two"):
        efl_runs.run_of(data)
    with pytest.raises(InvalidInput, match="every = 1: expected a whole number from 2"):
        efl_runs.run_of({**LONG[0].data, "every": 1})


# --- correlated mini-batches ----------------------------------------------------------------------
@pytest.mark.parametrize("scheme", ["A", "B", "C", "C-corrected"])
@pytest.mark.parametrize(("clients", "E"), [(3, 1), (2, 2), (2, 3)])
def test_the_recursion_with_common_draws_is_the_enumeration(scheme, clients, E):
    rng = np.random.default_rng([clients, E])
    root = rng.standard_normal((clients, 2, 2, 2))
    H, b = root @ np.swapaxes(root, -1, -2) / 4 + np.eye(2), rng.standard_normal((clients, 2, 2))
    w = rng.dirichlet(np.ones(clients))
    oracles = QuadraticOracles(H, b, np.tile([0.3, 0.7], (clients, 1)), w, np.zeros(clients), common=True)
    law, w0 = RoundLaw(EFL(scheme=scheme), rng.dirichlet(np.ones(E + 1), clients), w), rng.standard_normal(2)
    state = StepState(oracles, law, 0.1, w0, oracles.L, oracles.mu, law.moments.theta)
    far = state.over_all(((state.wbar[:, :, -1] - oracles.star) ** 2).sum(axis=-1))
    assert second_moments(oracles, [law], [0.1], w0).distance_sq[1] == pytest.approx(far, rel=1e-12)
    apart = second_moments(dataclasses.replace(oracles, common=False), [law], [0.1], w0).distance_sq[1]
    assert abs(apart - far) > 1e-6 * far


def _common(clients, scheme="B"):
    return efl_runs.run_of(
        {"h": [["1"]] * clients, "c": [["0"]] * clients, "weights": [f"1/{clients}"] * clients,
         "noise": [["1"]] * clients, "common": True, "scheme": scheme, "laws": [[["0", "1"]] * clients],
         "w0": ["0"], "T": 1}
    )  # fmt: skip


@pytest.mark.parametrize("clients", [1, 2, 5])
def test_common_noise_by_hand(clients):
    """N clients w^2/2 with the same noise +-1, from w* = 0: w_1 = -+ eta, eta = 16/65 (scheme B: gamma = 64, S = 1)."""
    view = _common(clients)
    own = F(16, 65) ** 2
    any_correlation = THEOREM.form("sharpened, any correlation").sides(view)
    assert any_correlation.lhs[-1] == any_correlation.rhs[-1] == own  # attained
    uncorrelated = THEOREM.form("sharpened, common mini-batches").sides(view)
    assert uncorrelated.lhs[-1] == clients * uncorrelated.rhs[-1]  # N times too small
    repaired = THEOREM.form("repaired").sides(view)
    assert repaired.rhs[-1] == own * (2 + F(1, clients))  # B = sigma^2/N + 2 G^2, G = sigma = 1


def test_forms_say_which_mini_batches_they_are_about():
    common, apart = _common(2), efl_runs.run_of({**RUNS[0].data})
    assert "must be uncorrelated" in common.applies(THEOREM.form("sharpened"))
    assert common.applies(THEOREM.form("repaired")) is None
    assert common.applies(THEOREM.form("sharpened, any correlation")) is None
    assert "about common ones" in apart.applies(THEOREM.form("sharpened, common mini-batches"))
    step = QuadraticInstance(3, clients=2, E=1, samples=2, noise=1.0, rounds=2, common=True, kind="step").view()
    assert "must be uncorrelated" in step.applies(get("efl/theorem-1-step-1").form("repaired"))


def test_common_draws_that_are_none_are_refused():
    shape = {"h": [["1"]] * 2, "c": [["0"]] * 2, "weights": ["1/2"] * 2, "noise": [["1"]] * 2}
    with pytest.raises(InvalidInput, match="write true, or leave it out"):
        efl_runs.exact_oracles({**shape, "common": "yes"})
    oracles = efl_runs.exact_oracles(shape)
    with pytest.raises(InvalidInput, match="one law of j for all clients"):
        dataclasses.replace(oracles, common=True, noise_sq=oracles.noise_sq + 1)
