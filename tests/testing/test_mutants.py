"""Mutants of the package's own methods: one line of a module is written otherwise, and the audit finds it and names it.

The mutants are edits of the text of `fedtheory.algorithms`, which shares no line with the audit's reference. Where another mistake
gives the same models, the one that was made is among the explanations.
"""

import importlib
import itertools
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fedtheory.testing import audit_algorithm
from fedtheory.testing.audit import check_names, from_algorithm

KEEP = {"local steps", "one client", "unequal sizes", "part of the clients", "several rounds", "clients come and go"}  # these tell most
SKIP = tuple(name for name in check_names() if name not in KEEP)
NUMBER = itertools.count()

AVG = ("fedavg", lambda m: lambda: m.FedAvg(), "examples")
PROX = ("fedprox", lambda m: lambda mu: m.FedProx(mu=mu, aggregation="samples"), "examples")
SCAFFOLD = ("scaffold", lambda m: lambda server_lr: m.Scaffold(server_lr=server_lr), "uniform")
DYN = ("feddyn", lambda m: lambda alpha: m.FedDyn(alpha=alpha), "uniform")
EN_PROX = (
    "fedelasticnet-prox", lambda m: lambda mu, l1: m.FedElasticNetProx(l1=l1, l2=mu, aggregation="samples"), "examples",
)  # fmt: skip
EN_SCAFFOLD = (
    "fedelasticnet-scaffold",
    lambda m: lambda mu, l1, server_lr: m.FedElasticNetScaffold(l1=l1, l2=mu, server_lr=server_lr),
    "uniform",
)
EN_DYN = ("fedelasticnet-dyn", lambda m: lambda alpha, l1: m.FedElasticNetDyn(l1=l1, l2=alpha), "uniform")
METHODS = (AVG, PROX, SCAFFOLD, DYN, EN_PROX, EN_SCAFFOLD, EN_DYN)

STEP = "aggregate(clients, update, self.aggregation)"
NEW = "c_plus = c_k - c + (x - y) / steps"
MEAN = 'clients.mean(dy if self.send == "update" else y - x)'
LINEAR = "linear=c_k - c"
ALL_C = "clients.sum(dc) / clients.num_clients"
BY_SIZE = '__import__("fedtheory.algorithms.base", fromlist=["base"]).aggregate(clients, dy, "samples")'
STORED = "clients.dual_step(state.gradients, gradients, moved, self.alpha)"
CHANGED = "clients.sum(-self.alpha * moved[...])"
LAST = "clients.mean(theta_k) - h / self.alpha"
LINE_5 = "memory, change = clients.dual_step(state.stored, stored, delta, self.l2, self.l1)"
LINE_11 = "state.h + change / clients.num_clients"

MUTANTS = [
    (AVG, STEP, "clients.mean(update)", "other-weights"),
    (AVG, STEP, "clients.sum(update)", "sum-not-mean"),
    (AVG, STEP, 'aggregate(clients, update, "printed")', "divide-by-all"),
    (AVG, STEP, "aggregate(clients, y, self.aggregation)", "model-added"),
    (AVG, "state.x + step", "state.x - step", "server-sign"),
    (PROX, STEP, "clients.mean(update)", "other-weights"),
    (PROX, STEP, 'aggregate(clients, update, "printed")', "divide-by-all"),
    (PROX, STEP, "aggregate(clients, y, self.aggregation)", "model-added"),
    (PROX, "state.x + step", "state.x - step", "server-sign"),
    (PROX, "curvature=self.mu", "curvature=0.0", "penalty-none"),
    (PROX, "curvature=self.mu", "curvature=self.mu / 2", "penalty-half"),
    (PROX, "curvature=self.mu", "curvature=2 * self.mu", "penalty-double"),
    (PROX, "curvature=self.mu", "curvature=-self.mu", "penalty-sign"),
    (PROX, "center=w", "center=0 * w", "penalty-of-model"),
    (PROX, "center=w, curvature=self.mu", "center=w, linear=self.mu * w", "penalty-overwritten"),
    (SCAFFOLD, LINEAR, "linear=c - c_k", "correction-sign"),
    (SCAFFOLD, LINEAR, "linear=0 * c_k", "correction-none"),
    (SCAFFOLD, LINEAR, "linear=c_k", "correction-without-c"),
    (SCAFFOLD, LINEAR, "linear=0 * c_k - c", "correction-without-c_k"),
    (SCAFFOLD, NEW, "c_plus = c_k - c + (y - x) / steps", "control-update-sign"),
    (SCAFFOLD, NEW, "c_plus = c_k - c + (x - y) * clients.solver.steps / steps", "local-steps-not-divided"),
    (SCAFFOLD, NEW, "c_plus = c_k - c + (x - y) * clients.solver.lr / steps", "learning-rate-not-divided"),
    (SCAFFOLD, NEW, "c_plus = c_k + (x - y) / steps", "control-without-c"),
    (SCAFFOLD, NEW, "c_plus = (x - y) / steps", "control-without-old"),
    (SCAFFOLD, NEW, "c_plus = c + (x - y) / steps", "control-with-c"),
    (SCAFFOLD, 'self.option == "gradient":', 'self.option != "gradient":', "other-option"),
    (SCAFFOLD, ALL_C, "clients.mean(dc)", "control-over-cohort"),
    (SCAFFOLD, ALL_C, "clients.sum(dc)", "control-not-divided"),
    (SCAFFOLD, ALL_C, "clients.sum(c_plus) / clients.num_clients", "control-sent-whole"),
    (SCAFFOLD, f"state.c + {ALL_C}", "clients.mean(c_plus)", "control-replaced"),
    (SCAFFOLD, f"state.c + {ALL_C}", "state.c", "c-never-updated"),
    (SCAFFOLD, "clients.put(state.c_k, c_plus)", "state.c_k", "c_k-never-updated"),
    (SCAFFOLD, f"self.server_lr * {MEAN}", MEAN, "server-lr-ignored"),
    (SCAFFOLD, f"self.server_lr * {MEAN}", f"-self.server_lr * {MEAN}", "server-sign"),
    (SCAFFOLD, MEAN, BY_SIZE, "other-weights"),
    (SCAFFOLD, MEAN, "clients.sum(dy) / clients.num_clients", "divide-by-all"),
    (DYN, "linear=gradients", "linear=-gradients", "linear-sign"),
    (DYN, "linear=gradients, ", "", "linear-none"),
    (DYN, "curvature=self.alpha", "curvature=0.0", "penalty-none"),
    (DYN, "curvature=self.alpha", "curvature=self.alpha / 2", "penalty-half"),
    (DYN, "curvature=self.alpha", "curvature=2 * self.alpha", "penalty-double"),
    (DYN, "center=theta, ", "center=0 * theta, ", "penalty-of-model"),
    (DYN, "linear=gradients, curvature=self.alpha", "curvature=0.0", "local-plain"),
    (DYN, LINE_11, "state.h - change / clients.num_clients", "h-sign"),
    (DYN, LINE_11, "state.h", "h-never-updated"),
    (DYN, LINE_11, "change / clients.num_clients", "h-replaced"),
    (DYN, LINE_11, "state.h - self.alpha * clients.mean(theta_k - theta)", "h-over-cohort"),
    (DYN, LINE_11, "state.h + change", "h-not-divided"),
    (DYN, LINE_11, "state.h + change / self.alpha / clients.num_clients", "h-without-alpha"),
    (DYN, LINE_11, "state.h - self.alpha / clients.num_clients * (clients.sum(theta_k) - state.x)", "h-of-models"),
    (DYN, LAST, "clients.mean(theta_k) - state.h / self.alpha", "h-late"),
    (DYN, LAST, "clients.mean(theta_k)", "h-unused"),
    (DYN, LAST, "clients.mean(theta_k) + h / self.alpha", "h-added"),
    (DYN, LAST, "clients.mean(theta_k) - h", "h-not-over-alpha"),
    (DYN, LAST, "state.x + clients.sum(theta_k - theta) / clients.num_clients - h / self.alpha", "divide-by-all"),
    (DYN, STORED, f"(state.gradients, {CHANGED})", "h_k-never-updated"),
    (DYN, STORED, f"(clients.put(state.gradients, gradients + self.alpha * moved[...]), {CHANGED})", "h_k-sign"),
    (DYN, STORED, f"(clients.put(state.gradients, -self.alpha * moved[...]), {CHANGED})", "h_k-replaced"),
    (DYN, STORED, f"(clients.put(state.gradients, gradients - moved[...]), {CHANGED})", "alpha-not-stored"),
    (EN_PROX, ", l1=self.l1", "", "l1-none"),
    (EN_PROX, "curvature=self.l2, l1=self.l1", "curvature=0.0", "penalty-none"),
    (EN_PROX, "curvature=self.l2", "curvature=self.l2 / 2", "penalty-half"),
    (EN_PROX, "center=theta, ", "center=theta, anchor=0 * theta, ", "l1-of-model"),
    (EN_PROX, "center=theta, ", "center=0 * theta, ", "penalty-of-model l1-of-model"),
    (EN_PROX, "aggregate(clients, delta, self.aggregation)", "clients.mean(delta)", "other-weights"),
    (EN_SCAFFOLD, LINEAR, "linear=c - c_k", "correction-sign"),
    (EN_SCAFFOLD, "c_k - c + (theta - result.y) / steps", "c_k + (theta - result.y) / steps", "control-without-c"),
    (EN_SCAFFOLD, "clients.sum(delta_c) / clients.num_clients", "clients.mean(delta_c)", "control-over-cohort"),
    (EN_SCAFFOLD, ", l1=self.l1", "", "l1-none"),
    (EN_DYN, "linear=stored", "linear=-stored", "linear-sign"),
    (EN_DYN, LINE_5, LINE_5.replace(", self.l1", ""), "l1-not-stored l1-not-in-h"),
    (EN_DYN, LINE_11, f"{LINE_11} + self.l1 * clients.sum(clients.xp.sign(delta)) / clients.num_clients", "l1-not-in-h"),
    (EN_DYN, LINE_11, "state.h + change / clients.size", "h-over-cohort"),
    (EN_DYN, LINE_11, LINE_11.replace("+", "-"), "h-sign"),
    (EN_DYN, LINE_5, LINE_5.replace("memory,", "_,").replace("(state.stored", "(1 * (memory := state.stored)"), "h_k-never-updated"),
    (EN_DYN, "clients.mean(y) - h / self.l2", "clients.mean(y) - state.h / self.l2", "h-late"),
    (EN_DYN, ", l1=self.l1", "", "l1-none"),
]
SOLVED = [  # clients minimise to the end
    (PROX, "curvature=self.mu", "curvature=self.mu / 2", "penalty-half"),
    (DYN, "linear=gradients", "linear=-gradients", "linear-sign"),
    (DYN, LINE_11, "state.h - self.alpha * clients.mean(theta_k - theta)", "h-over-cohort"),
]


def audited(method, old="", new="", local="steps"):
    """The audit of a method's module with one line of its text written otherwise. The line stands there at least once."""
    name, make, weighting = method
    path = Path(importlib.import_module(f"fedtheory.algorithms.{name.replace('-', '_')}").__file__)
    text = path.read_text()
    assert not old or old in text, f"{path.name} has no {old!r}"
    module = ModuleType(f"mutant_{next(NUMBER)}")
    sys.modules[module.__name__] = module  # dataclasses look there
    try:
        exec(compile(text.replace(old, new) if old else text, path.name, "exec"), vars(module))
        return audit_algorithm(from_algorithm(make(module), weighting, local), name, local=local, skip=SKIP)
    finally:
        del sys.modules[module.__name__]


def named(report):
    return [" ".join(m.name for m in found) for found in report.explanations]


def test_there_are_many():
    assert len(MUTANTS) >= 40 and {method for method, *_ in MUTANTS} == set(METHODS)
    assert len({(method[0], old, new) for method, old, new, _ in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m[0])
def test_the_text_as_it_is_passes(method):
    assert audited(method).passed


@pytest.mark.parametrize("method, old, new, name", MUTANTS, ids=[f"{m[0]}-{name.replace(' ', '+')}" for m, _, _, name in MUTANTS])
def test_a_mutant_is_found_and_named(method, old, new, name):
    report = audited(method, old, new)
    assert not report.passed
    assert name in named(report), named(report)


@pytest.mark.parametrize("method, old, new, name", SOLVED, ids=[f"{m[0]}-{name}" for m, _, _, name in SOLVED])
def test_a_mutant_whose_clients_minimise_to_the_end_is_found_and_named(method, old, new, name):
    report = audited(method, old, new, local="exact")
    assert not report.passed and name in named(report), named(report)
