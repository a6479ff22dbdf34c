"""Runs of EFL whose numbers are all different and none of them 1: the library and the second writings give the same sides.

Where mu = 1 or L = 1, as in the instances that are worked out by hand, a factor of it may stand in the numerator or in the
denominator, or not at all. Here it may not.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import worked_efl as worked
import worked_efl_compressed as compressed
import worked_efl_participation as participation
import worked_efl_steps as steps
from efl_on_a_problem import BUILDERS

from fedtheory.rational import fraction, table, vector
from fedtheory.theorems import get
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws
from fedtheory.theorems.efl.quantities.run import EVERY_D, FROZEN, UNCORRELATED, _brief
from fedtheory.theory.rounds.irregular_run import COMMON, exact_oracles, laws_of

THREE = {
    "weights": ["5/12", "1/4", "1/3"], "h": [["3/7", "5/3"], ["5/2", "6/5"], ["4/3", "7/4"]],
    "c": [["3/2", "-2/3"], ["-5/4", "7/3"], ["2/5", "-3"]], "noise": [["1/2", "2/3"], ["3/5", "1/3"], ["5/4", "3/7"]],
    "w0": ["7/3", "-5/2"],
}  # fmt: skip
LAWS = [[["0", "2/5", "0", "3/5"]] * 3, [["1/4", "1/2", "0", "1/4"], ["1/3", "0", "1/6", "1/2"], ["0", "2/7", "0", "5/7"]]]
RUN = {**THREE, "laws": LAWS, "T": 2}
ANCHORS = {
    "lam": "3/4", "u": [["5/4", "1/2"], ["1/3", "3/2"], ["2/3", "7/5"]], "anchors": [["3/2", "-2"], ["1/5", "3"], ["-4/3", "5/7"]],
}  # fmt: skip
FOLLOWED = {name: THREE[name] for name in ("weights", "h", "c", "w0")}  # complete clients, anchors that move
FOLLOWED |= {"laws": [[["0", "0", "0", "1"]] * 3], "T": 2, "lam": ANCHORS["lam"], "u": ANCHORS["u"]}
PAIR = {name: rows[:2] for name, rows in THREE.items()} | {"weights": ["3/8", "5/8"]}
LONG = {  # nine steps and L = mu: the first entry of gamma is the larger one
    **PAIR, "h": [["5/3", "5/3"]] * 2, "laws": [[["0"] * 9 + ["1"]] * 2], "T": 2,
}  # fmt: skip
SCHEMES = ("A", "B", "C", "C-corrected")


def numbers(sides):
    return list(np.ravel(sides.lhs)), list(np.ravel(sides.rhs))


def the_view(data, form):
    if form == "sharpened, common mini-batches":
        return BUILDERS["run"]({**data, "common": True})
    if form == "moving anchors":
        return BUILDERS["run"]({**FOLLOWED, "scheme": data["scheme"]})
    if form != "frozen anchors":
        return BUILDERS["run"](data)
    oracles, T = exact_oracles(data), data["T"]
    laws = round_laws(data["scheme"], laws_of(data["laws"], len(oracles.weights)), T, oracles.weights)
    elastic = fraction(ANCHORS["lam"]), table(ANCHORS["u"], "u"), table(ANCHORS["anchors"], "anchors")
    return quadratic_run(oracles, laws, vector(data["w0"], "w0"), np.array([T - 1, T]), elastic)


@pytest.mark.parametrize("scheme", [*SCHEMES, "C, nine steps", "A, one round"])
def test_theorem_1(scheme):
    name, data = scheme.partition(",")[0], LONG if "nine" in scheme else {**RUN, "T": 1} if "one" in scheme else RUN
    views, runs = {}, {}
    for form in get("efl/theorem-1").forms:
        apart = ("frozen anchors", "moving anchors", "sharpened, common mini-batches")
        own = form.name if form.name in apart else "repaired"
        if own != "repaired" and data is LONG:
            continue
        if own not in views:
            views[own] = the_view({**data, "scheme": name}, own)
            whose = FOLLOWED if own == "moving anchors" else data
            runs[own] = worked.Run(name, whose, common="common" in own, anchors=ANCHORS if own == "frozen anchors" else None)
        run = runs[own]
        taus = [tau for tau in (run.T - 1, run.T) if tau]  # the bound is about tau >= 1
        expected = [run.distance_sq[t] for t in taus], [worked.THEOREM_1[form.name](run, t) for t in taus]
        assert numbers(form.sides(views[own])) == tuple(expected), form.name
    for form in get("efl/theorem-1-step-7").forms:
        if form.kind == "run":
            found = tuple(side[-1] for side in numbers(form.sides(views["repaired"])))
            assert found == worked.STEP_7[form.name](runs["repaired"], runs["repaired"].T - 1), form.name
    c = views["repaired"].constants
    assert list(c.eta) == runs["repaired"].eta and c.smallest_D == min(runs["repaired"].D)
    assert (c.gamma == 4 * c.E**2 * c.theta / min(c.S)) == (data is LONG)


ROUND = {**PAIR, "law": [["0", "1/6", "5/6"], ["1/4", "0", "3/4"]], "tau": 2, "scheme": "C-corrected"}


SAME_SIGNS = {
    "weights": ["3/8", "5/8"], "h": [["3/7", "5/3", "2"], ["5/2", "6/5", "3/4"]], "c": [["3/2", "-2/3", "1/5"], ["-5/4", "7/3", "3"]],
    "noise": [["1/2", "2/3", "1/7"], ["3/5", "1/3", "5/4"]], "w0": ["7/3", "-5/2", "4/3"], "common": True,
    "law": [["0", "1/6", "5/6"], ["1/4", "3/4", "0"]], "tau": 3, "scheme": "C",
}  # fmt: skip


OF_THREE = {**THREE, "law": [["1/6", "5/6"], ["0", "1"], ["1/4", "3/4"]], "tau": 1, "scheme": "A"}


@pytest.mark.parametrize("data", [ROUND, SAME_SIGNS, OF_THREE], ids=["independent", "common mini-batches", "three clients"])
def test_the_steps_of_theorem_1(data):
    view, by_hand = BUILDERS["step"](data), steps.Round(data["scheme"], data)
    for (number, name), sides in steps.STEPS.items():
        form = get(f"efl/theorem-1-step-{number}").form(name)
        if form.kind != "step" or view.applies(form) is not None:
            continue
        pairs = [[(a, b) for a, b in zip(*both, strict=True) if a or b] for both in (numbers(form.sides(view)), sides(by_hand))]
        assert pairs[0] == pairs[1] and len(pairs[0]) <= len(np.ravel(form.sides(view).lhs)), (number, name)


# --- compression -------------------------------------------------------------------------------------------------------------
NOISELESS = {name: rows for name, rows in THREE.items() if name != "noise"} | {"q": "1/2", "down": True, "E": 3, "T": 2}
SLIGHT = {"w0": ["1/9", "-1/7"], "c": [["1/8", "-1/6"], ["1/7", "-1/9"], ["1/10", "-1/8"]]}  # gradients are short
ZEROS = {"w0": ["0", "5/2"], "c": [["0", "-2/3"], ["-5/4", "0"], ["2/5", "-3"]], "T": 1}  # a start and minima with zeros
NOISY = {**NOISELESS, "E": 2, "noise": [["1/2", "2/3"], ["0", "0"], ["0", "0"]]}
MANY_STEPS = {**NOISELESS, "h": [["5/3", "5/3"]] * 3, "E": 9, "down": False}  # the first entry of gamma is the larger one
PARTIAL = {
    "scheme": "C", **{name: THREE[name] for name in ("weights", "h", "c", "w0")}, "q": "1/2", "down": True, "T": 2,
    "law": [["0", "1/2", "1/2", "0"], ["1/3", "2/3", "0", "0"], ["0", "0", "0", "1"]],
}  # fmt: skip
TWO = {name: PARTIAL[name][:2] for name in ("h", "c")} | {"weights": ["3/8", "5/8"]}
CORRECTED = {**PARTIAL, **TWO, "scheme": "C-corrected", "law": [["1/4", "1/3", "5/12"], ["1/3", "0", "2/3"]]}
COMPLETE = {**PARTIAL, **TWO, **SLIGHT, "c": SLIGHT["c"][:2], "scheme": "A", "law": [["0", "1/3", "2/3"], ["1/4", "0", "3/4"]]}
ALIKE = {**PARTIAL, **TWO, "scheme": "B", "law": [["1/3", "0", "2/3"]] * 2, "down": False}
FROM_ZERO = {**PARTIAL, **ZEROS, "down": False, "law": [["1/4", "3/4"], ["0", "1"], ["1/3", "2/3"]]}
RARE = {**PARTIAL, "law": [["9/10", "1/10"], ["0", "1"], ["1/3", "2/3"]], "h": [["5/3", "5/3"]] * 3, "down": False}


def forms_on(sheet, room):
    """form -> the function of its sides."""
    return {key[1]: sides for key, (data, sides) in sheet.WORKED.items() if key[0] == room and "variant" not in data}


@pytest.mark.parametrize(
    "data",
    [NOISELESS, NOISY, MANY_STEPS, {**NOISELESS, **SLIGHT}, {**NOISELESS, **ZEROS, "E": 1}],
    ids="noiseless noisy one-way slight zeros".split(),
)
@pytest.mark.parametrize("name", ["compressed-convergence", "compressed-proof"])
def test_runs_with_compression(name, data):
    view, by_hand = BUILDERS["compressed"](data), forms_on(compressed, f"efl/{name}")
    for form in get(f"efl/{name}").forms:
        if form.kind == "compressed":
            compare(form, view, by_hand[form.name](data))
    assert (view.gamma == 4 * view.E / view.delta) == (data is MANY_STEPS)


@pytest.mark.parametrize(
    "data",
    [PARTIAL, RARE, CORRECTED, COMPLETE, ALIKE, FROM_ZERO],
    ids="partial rare corrected complete alike zeros".split(),
)
def test_runs_with_compression_and_irregular_clients(data):
    view, by_hand = BUILDERS["compressed-partial"](data), forms_on(participation, "efl/compressed-participation")
    for form in get("efl/compressed-participation").forms:
        compare(form, view, by_hand[form.name](data))
    assert (view.gamma == 8 * view.E / (min(view.pi) * view.delta)) == (data is RARE)
    assert (view.moments.overlap > 0) == (data is PARTIAL) and view.r == (data not in (CORRECTED, ALIKE))


def compare(form, view, expected):
    sides = form.sides(view)
    lhs, rhs = (list(side) for side in expected)
    if sides.relation == "==":
        lhs, rhs = [abs(a - b) for a, b in zip(lhs, rhs, strict=True)], [Fraction(0)] * len(lhs)
    assert numbers(sides) == (lhs, rhs), form.name


# --- what a reader is shown of a run, and which forms are about it ---------------------------------------------------------
def test_the_constants_that_are_shown():
    """The ratios are equal in the first round only, so that H_T = 1."""
    view, run = BUILDERS["run"]({**RUN, "scheme": "C"}), worked.Run("C", RUN)
    shown = view.printed_constants()["constants"]
    B = [run.B(t) for t in range(2)]
    C = run.gamma**2 * run.distance_sq[0] + (16 * run.E / run.mu) ** 2 * sum(b / S**2 for b, S in zip(B, run.S, strict=True))
    expected = {
        "E": 3, "L": run.L, "mu": run.mu, "theta": run.theta, "G_sq": run.G_sq, "gamma": run.gamma, "start_sq": run.distance_sq[0],
        "J": run.J(), "N": 3, "rounds": 2, "S_min": min(run.S), "eta_0": run.eta[0], "B_max": max(B), "r_mean": 0.5, "C_T": C, "H_T": 1,
    }  # fmt: skip
    assert {name: float(shown[name]) for name in expected} == pytest.approx({name: float(v) for name, v in expected.items()})
    assert set(shown) == {*expected, "sigma_sq", "D", "how"} and shown["how"] is view.constants.how
    assert shown["sigma_sq"] == [float(v) for v in run.sigma_sq] and shown["D"] == [float(v) for v in run.D]
    assert list(view.constants.B("no last term")) == [
        b - 2 * 3 * run.G_sq * sum(q / p for q, p in zip(run.squares(t), run.p, strict=True)) for t, b in enumerate(B)
    ]
    assert _brief(np.arange(8.0)) == list(range(8)) and _brief(np.arange(9.0)) == {"min": 0, "mean": 4, "max": 8}


def test_which_forms_are_about_a_run():
    def needs(*what):
        return SimpleNamespace(needs=what)

    plain, common = BUILDERS["run"]({**RUN, "scheme": "C"}), BUILDERS["run"]({**RUN, "scheme": "C", "common": True})
    frozen = the_view({**RUN, "scheme": "C"}, "frozen anchors")
    none = replace(plain, constants=replace(plain.constants, D=plain.constants.D * [1, 0, 1]))
    for view, need, reason in (
        (plain, (), None), (common, (), None), (none, (), None), (plain, (EVERY_D,), None), (none, (EVERY_D,), "some D_k = 0"),
        (plain, (UNCORRELATED,), None), (common, (UNCORRELATED,), "all clients draw the same"), (common, (COMMON,), None),
        (plain, (COMMON,), "the clients' mini-batches are independent"), (frozen, (FROZEN,), None),
        (frozen, (), "lambda > 0: the form with frozen anchors"), (plain, (FROZEN,), "lambda = 0: there are no anchors"),
    ):  # fmt: skip
        found = view.applies(needs(*need))
        assert found == reason if reason is None else found.startswith(reason), (need, found)
    assert plain.column(values := np.array([5, 7])) is values
    many = replace(plain, exact=False, distance_sq=np.ones((3, 4)))
    assert many.column(np.array([5, 7])).tolist() == [[5] * 4, [7] * 4]


@pytest.mark.parametrize(("least", "found"), [(2e-10, 2e-10), (0.5e-10, 0)])
def test_the_smallest_gap_is_0_where_rounding_decides(least, found):
    """1e-12 (max D + L ||w_0 - w*||^2), here 1e-12 (10 + 3 * 30)."""
    c = BUILDERS["run"]({**RUN, "scheme": "C"}).constants
    assert replace(c, D=np.array([10.0, least, 1.0]), L=3.0, start_sq=30.0).smallest_D == found
