"""Runs of Algorithm 3 for the tests: views of an instance or of a problem, and the paper's letters on them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from fedtheory import theorems
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import Letters
from fedtheory.theory.judge.replay import builtin_witnesses
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.method_setting import MethodSetting
from paper_figures.fedelasticnet.runs import runs

THEOREM = theorems.get("fedelasticnet/theorem-3.1")
OF_A_METHOD = {s.id for s in FILE.authored.values() if not s.of_world}
SHIPPED = [w for w in builtin_witnesses("fedelasticnet") if w.statement in OF_A_METHOD]
SUMS = {
    "inner_exact": ("s",), "inner_sign": ("sign",), "inner_own_sign": ("own_sign",), "inner_split": ("s", True),
    "inner_split_sign": ("sign", True), "inner_split_own_sign": ("own_sign", True),
}  # fmt: skip
START = {"start_sq": "start", "C0": "C_0", "C0_printed": "C_0_unsquared", "C0_true": "C_0_true"}


def data_of(h, c, l1, l2, P, x0, rounds=0, **more):
    """The data of a witness about diagonal quadratics, for a run of so many rounds or the round after them."""
    h, c, x0 = (np.vectorize(str)(np.array(v, dtype=object)).tolist() for v in (h, c, x0))
    beta = max(Fraction(v) for row in h for v in row)
    drawn = {"method.l1": str(l1), "method.l2": str(Fraction(l2) / beta)}
    given = {"weights": [str(Fraction(1, len(h)))] * len(h), "start": x0, "rounds": rounds, "cohort_size": P}
    return {"h": h, "c": c, **given, "drawn": drawn, **more}


def witness_of(statement, form, rule, *numbers, lhs="", rhs="", **more):
    """A witness with the data that `data_of` makes of the numbers."""
    kind = statement.partition("/")[2]
    return Witness(statement, form, rule, kind, data_of(*numbers, **more), lhs, rhs)


def changed(witness, **data):
    """The witness with some of its data changed, or the numbers l1 and l2 that are drawn."""
    drawn = {f"method.{k}": data.pop(k) for k in ("l1", "l2") if k in data}
    data = {**witness.data, "drawn": {**witness.data["drawn"], **drawn}, **data}
    return replace(witness, data=data)


def in_fractions(h, c, l1, l2, P, rule, x0, T, exact=True):
    """The view of a run on diagonal quadratics."""
    setting = MethodSetting.of(FILE["theorem-3.1"].variants[rule])
    return setting.view(Draw.from_data(data_of(h, c, l1, l2, P, x0, T)), exact=exact)


def tree(problem, algorithm, sampling, rounds, x0):
    """The view of a run over all sequences of cohorts."""
    [view] = runs(problem, algorithm, sampling, rounds, x0)
    return view


def letters(view):
    """The letters' expectations: (T,), those of the start numbers; of draws (T, S)."""
    v = view.once(Letters)
    mean = (lambda x: np.asarray(x)) if view.sampled else view.expectation
    found = {name: -mean(v.last(*of)) * v.l2 * v.T[:, 0] / 2 for name, of in SUMS.items()} if not view.sampled else {
        name: -v.last(*of) * v.l2 * v.T / 2 for name, of in SUMS.items()
    }  # fmt: skip
    start = {name: np.ravel(mean(getattr(v, of)))[0] for name, of in START.items()}
    return SimpleNamespace(excess=mean(v.excess), zeros=mean(v.zeros), T=v.T, constants=v.constants, **found, **start)
