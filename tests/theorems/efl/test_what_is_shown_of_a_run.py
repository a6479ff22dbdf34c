"""What a reader is shown of a run of EFL, and which of Theorem 1's forms are about it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import worked_efl as worked
from efl_on_a_problem import BUILDERS
from worked_pairs import view_of

from fedtheory.theorems.efl.quantities.run import EVERY_D, FROZEN, UNCORRELATED, _brief
from fedtheory.theory.rounds.irregular_run import COMMON

RUN = {  # no two numbers are alike
    "weights": ["5/12", "1/4", "1/3"], "h": [["3/7", "5/3"], ["5/2", "6/5"], ["4/3", "7/4"]],
    "c": [["3/2", "-2/3"], ["-5/4", "7/3"], ["2/5", "-3"]],
    "noise": [["1/2", "2/3"], ["3/5", "1/3"], ["5/4", "3/7"]], "w0": ["7/3", "-5/2"], "T": 2,
    "laws": [
        [["0", "2/5", "0", "3/5"]] * 3,
        [["1/4", "1/2", "0", "1/4"], ["1/3", "0", "1/6", "1/2"], ["0", "2/7", "0", "5/7"]],
    ],
}  # fmt: skip
HELD = {
    **RUN, "scheme": "C", "lam": "3/4", "u": [["5/4", "1/2"], ["1/3", "3/2"], ["2/3", "7/5"]],
    "anchors": [["3/2", "-2"], ["1/5", "3"], ["-4/3", "5/7"]],
}  # fmt: skip


def test_the_constants_that_are_shown():
    """The ratios are equal in the first round only, so that H_T = 1."""
    view, run = BUILDERS["run"]({**RUN, "scheme": "C"}), worked.Run("C", RUN)
    shown = view.printed_constants()["constants"]
    assert list(view.constants.eta) == run.eta and view.constants.smallest_D == min(run.D)
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
    frozen = view_of({"paper": "efl", "kind": "run, frozen anchors", "data": HELD})
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
