"""Wrong lines that come to mind first, each written into a right implementation: the audit names it, and it alone."""

import numpy as np
import pytest

from fedtheory.testing import audit_algorithm

SCAFFOLD = """
def mine(state, clients, cohort, learning_rate, local_steps, server_lr):
    x, c, c_k, N = state["x"], state["c"], state["c_k"].copy(), len(clients)
    ys, moves, changes = [], [], []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            y -= learning_rate * (clients[k].gradient(y) - c_k[k] + c)
        new = c_k[k] - c + (x - y) / (local_steps * learning_rate)
        ys.append(y)
        moves.append(y - x)
        changes.append(new - c_k[k])
        c_k[k] = new
    x = x + server_lr * np.mean(moves, axis=0)
    c = c + len(cohort) / N * np.mean(changes, axis=0)
    return {"x": x, "c": c, "c_k": c_k}
"""
LINE_10 = "y -= learning_rate * (clients[k].gradient(y) - c_k[k] + c)"
LINE_12 = "new = c_k[k] - c + (x - y) / (local_steps * learning_rate)"
LINE_17 = "c = c + len(cohort) / N * np.mean(changes, axis=0)"
SIZES = "np.array([clients[k].num_examples for k in cohort])"
OF_SCAFFOLD = [
    ("control-c-sign", LINE_12, LINE_12.replace("- c +", "+ c +")),
    ("control-c_k-sign", LINE_12, LINE_12.replace("= c_k", "= -c_k")),
    ("control-both-signs", LINE_12, LINE_12.replace("= c_k[k] - c", "= -c_k[k] + c")),
    ("control-without-c_k", LINE_12, LINE_12.replace("c_k[k] ", "")),
    ("c-sign", LINE_17, LINE_17.replace("c + len", "c - len")),
    ("correction-c-sign", LINE_10, LINE_10.replace("+ c)", "- c)")),
    ("correction-c_k-sign", LINE_10, LINE_10.replace("- c_k", "+ c_k")),
    ("correction-without-rate", LINE_10, "y -= learning_rate * clients[k].gradient(y) - c_k[k] + c"),
    ("control-over-one-more", "(local_steps * learning_rate)", "((local_steps + 1) * learning_rate)"),
    ("control-over-one-less", "(local_steps * learning_rate)", "((local_steps - 1) * learning_rate)"),
    ("control-over-server-lr", "(local_steps * learning_rate)", "(local_steps * server_lr * learning_rate)"),
    ("server-lr-squared", "x + server_lr *", "x + server_lr * server_lr *"),
    ("c-with-server-lr", LINE_17, LINE_17.replace("c + len", "c + server_lr * len")),
    ("control-over-cohort", LINE_17, "c = c + np.mean(changes, axis=0)"),
    ("c-share-twice", LINE_17, LINE_17.replace("/ N *", "** 2 / N**2 *")),
    ("c-by-examples", LINE_17, f"c = c + {SIZES} @ np.array(changes) / sum(z.num_examples for z in clients)"),
    ("c-by-cohorts-examples", LINE_17, f"c = c + len(cohort) / N * np.average(changes, axis=0, weights={SIZES})"),
    ("c-within-round", "        c_k[k] = new", "        c, c_k[k] = c + (new - c_k[k]) / N, new\n    changes = [0 * x]"),
    ("model-shared", "y = x.copy()", "y = x"),
    ("c_k-set-to-c", 'return {"x": x, "c": c, "c_k": c_k}', 'return {"x": x, "c": c, "c_k": np.tile(c, (N, 1))}'),
    ("control-at-new-x", LINE_17, "NEW"),
    ("controls-early", "    for k in cohort:", "EARLY"),
    ("start-stale", "y = x.copy()", "y = state.get('own', {}).get(k, state.get('first', x)).copy()"),
]  # fmt: skip
MORE = {
    "NEW": """for i, k in enumerate(cohort):
        c_k[k] = state["c_k"][k] - c + (x - ys[i]) / (local_steps * learning_rate)
    c = c + (c_k - state["c_k"]).sum(axis=0) / N""",
    "EARLY": """    for k in cohort:
        changes.append(clients[k].gradient(x) - c_k[k])
        c_k[k] = clients[k].gradient(x)
    c, changes = c + np.sum(changes, axis=0) / N, []
    for k in cohort:""",
}


def made(source, *changes):
    for old, new in changes:
        assert source.count(old) >= 1, old
        source = source.replace(old, MORE.get(new, new))
    names = {"np": np}
    exec(compile(source, "mine.py", "exec"), names)
    return names["mine"]


def named(adapter, method):
    report = audit_algorithm(adapter, method, skip=("convergence",))
    assert not report.passed
    return [{m.name for m in found} for found in report.explanations]


def test_the_scaffold_that_is_changed_is_right():
    assert audit_algorithm(made(SCAFFOLD), "scaffold").passed


@pytest.mark.parametrize("name, old, new", OF_SCAFFOLD, ids=[m[0] for m in OF_SCAFFOLD])
def test_a_scaffold_with_one_line_changed_is_named(name, old, new):
    changes = [(old, new)]
    if name == "start-stale":  # and it is kept
        changes.append(
            (
                '"c_k": c_k}',
                '"c_k": c_k, "own": {**state.get("own", {}), **dict(zip(cohort, ys))}, "first": state.get("first", state["x"])}',
            )
        )
    if name == "controls-early":
        changes += [
            ("new = c_k[k] - c + (x - y) / (local_steps * learning_rate)", "new = c_k[k]"),
            (LINE_17, "pass"),
        ]
    assert named(made(SCAFFOLD, *changes), "scaffold") == [{name}]


def test_two_of_them_together_are_both_named():
    adapter = made(
        SCAFFOLD,
        (LINE_12, LINE_12.replace("- c +", "+ c +")),
        (LINE_17, LINE_17.replace("c + len", "c - len")),
    )
    assert {"control-c-sign", "c-sign"} in named(adapter, "scaffold")


PROX = """
def mine(state, clients, cohort, learning_rate, local_steps, mu):
    x, ys = state["x"], []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            y -= learning_rate * (clients[k].gradient(y) + mu * (y - x))
        ys.append(y)
    return {"x": np.average(ys, axis=0, weights=[clients[k].num_examples for k in cohort])}
"""
DYN = """
def mine(state, clients, cohort, learning_rate, local_steps, alpha):
    x, h, h_k, N = state["x"], state["h"], state["h_k"].copy(), len(clients)
    ys = []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            y -= learning_rate * (clients[k].gradient(y) - h_k[k] + alpha * (y - x))
        ys.append(y)
    sizes = np.ones(len(cohort))
    h = h - alpha * sizes @ (np.array(ys) - x) / N
    new = np.mean(ys, axis=0) - h / alpha
    for k, y in zip(cohort, ys, strict=True):
        h_k[k] = h_k[k] - alpha * (y - x)
    return {"x": new, "h": h, "h_k": h_k}
"""
OTHERS = [
    ("fedprox", PROX, "penalty-without-rate", "(clients[k].gradient(y) + mu * (y - x))", "clients[k].gradient(y) + mu * (y - x)"),
    ("fedprox", PROX, "model-shared", "x.copy()", "x"),
    ("fedavg", PROX.replace(", mu)", ")").replace(" + mu * (y - x)", ""), "model-shared", "x.copy()", "x"),
    ("feddyn", DYN, "model-shared", "x.copy()", "x"),
    ("feddyn", DYN, "penalty-without-rate", "- h_k[k] + alpha * (y - x))", "- h_k[k]) + alpha * (y - x)"),
    ("feddyn", DYN, "linear-without-rate", "learning_rate * (clients[k].gradient(y) - h_k[k] + alpha * (y - x))",
     "learning_rate * (clients[k].gradient(y) + alpha * (y - x)) - h_k[k]"),
    ("feddyn", DYN, "h_k-at-new-x", "alpha * (y - x)\n    return", "alpha * (y - new)\n    return"),
    ("feddyn", DYN, "h-by-examples", "np.ones(len(cohort))",
     "np.array([clients[k].num_examples for k in cohort]) * N / sum(z.num_examples for z in clients)"),
]  # fmt: skip


@pytest.mark.parametrize(
    "method, source, name, old, new", OTHERS, ids=[f"{m[0]}-{m[2]}" for m in OTHERS]
)
def test_another_method_with_one_line_changed_is_named(method, source, name, old, new):
    assert audit_algorithm(made(source), method, skip=("convergence",)).passed
    assert named(made(source, (old, new)), method) == [{name}]
