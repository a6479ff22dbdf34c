"""The audit on implementations that are right, and on lines that are wrong."""

import itertools

import numpy as np
import pytest

from fedtheory import algorithms
from fedtheory.errors import InvalidInput, UnknownName
from fedtheory.testing import audit_algorithm, check_algorithm
from fedtheory.testing.audit import METHODS, MISTAKES, check_names, from_algorithm, mistakes_of, reference
from fedtheory.testing.audit.adapters import Adapter
from fedtheory.testing.audit.audit import ALL
from fedtheory.testing.audit.battery import clients_of, everybody, optimum
from fedtheory.testing.audit.convergence import contraction
from fedtheory.testing.audit.session import Session

OURS = {
    "fedavg": (lambda: algorithms.FedAvg(), "examples"),
    "fedprox": (lambda mu: algorithms.FedProx(mu=mu, aggregation="samples"), "examples"),
    "scaffold": (lambda server_lr: algorithms.Scaffold(server_lr=server_lr), "uniform"),
    "feddyn": (lambda alpha: algorithms.FedDyn(alpha=alpha), "uniform"),
    "fedelasticnet-prox": (
        lambda mu, l1: algorithms.FedElasticNetProx(l1=l1, l2=mu, aggregation="samples"),
        "examples",
    ),
    "fedelasticnet-scaffold": (
        lambda mu, l1, server_lr: algorithms.FedElasticNetScaffold(l1=l1, l2=mu, server_lr=server_lr),
        "uniform",
    ),
    "mime": (lambda momentum: algorithms.Mime(momentum=momentum), "uniform"),
    "fedgate": (lambda server_lr: algorithms.FedGATE(server_lr=server_lr), "uniform"),
    "vrl-sgd": (lambda: algorithms.VRLSGD(), "uniform"),
    "elastic-aggregation": (
        lambda tau, server_lr: algorithms.ElasticAggregation(tau=tau, server_lr=server_lr),
        "examples",
    ),
    "fedelasticnet-dyn": (lambda alpha, l1: algorithms.FedElasticNetDyn(l1=l1, l2=alpha), "uniform"),
    "fedavgm": (lambda beta1, server_lr: algorithms.FedAvgM(beta1, server_lr), "examples"),
    "fedadagrad": (lambda **given: algorithms.FedAdagrad(**given, aggregation="samples"), "examples"),
    "fedadam": (lambda **given: algorithms.FedAdam(**given, aggregation="samples"), "examples"),
    "fedyogi": (lambda **given: algorithms.FedYogi(**given, aggregation="samples"), "examples"),
}
WAYS = [(name, local) for name in OURS for local in ("steps", "exact") if local == "steps" or METHODS[name].exact]


@pytest.mark.parametrize("name, local", WAYS)
def test_our_methods_are_what_they_are_called(name, local):
    """Two writings that share no line: batched, and a plain loop over clients."""
    make, weighting = OURS[name]
    more = {"option": "v-from-tau"} if "v" in METHODS[name].state else {}
    check_algorithm(from_algorithm(make, weighting, local), name, local=local, **more)


def local_work(state, client, rate, steps, slope=lambda y: 0.0):
    y = state["x"].copy()
    for _ in range(steps):
        y = y - rate * (client.gradient(y) + slope(y))
    return y


def server_step(kind):
    """FedAvgM, FedAdagrad, FedAdam and FedYogi as Reddi et al. print them, with v = 0 at first."""

    def round(state, clients, cohort, learning_rate, local_steps, server_lr, beta1, beta2=0.0, tau=0.0):
        sizes = np.array([clients[k].num_examples for k in cohort])
        models = np.array([local_work(state, clients[k], learning_rate, local_steps) for k in cohort])
        delta = sizes @ (models - state["x"]) / sizes.sum()
        if kind == "fedavgm":
            m = beta1 * state["m"] + delta
            return {"x": state["x"] + server_lr * m, "m": m}
        m = beta1 * state["m"] + (1 - beta1) * delta
        v = {
            "fedadagrad": state["v"] + delta**2,
            "fedadam": beta2 * state["v"] + (1 - beta2) * delta**2,
            "fedyogi": state["v"] - (1 - beta2) * delta**2 * np.sign(state["v"] - delta**2),
        }[kind]
        return {"x": state["x"] + server_lr * m / (np.sqrt(v) + tau), "m": m, "v": v}

    return round


@pytest.mark.parametrize("kind", ["fedavgm", "fedadagrad", "fedadam", "fedyogi"])
def test_optimisers_on_the_server_as_printed_pass(kind):
    check_algorithm(server_step(kind), kind)


def scaffold(state, clients, cohort, learning_rate, local_steps, server_lr):
    """SCAFFOLD line by line, with a number of local steps for each client where a list is given."""
    x, c, c_k = state["x"], state["c"], state["c_k"].copy()
    steps = np.broadcast_to(local_steps, len(clients))
    dx, dc = np.zeros_like(x), np.zeros_like(x)
    for k in cohort:
        y = local_work(state, clients[k], learning_rate, steps[k], lambda _, k=k: c - c_k[k])
        new = c_k[k] - c + (x - y) / (steps[k] * learning_rate)
        dx, dc, c_k[k] = dx + (y - x) / len(cohort), dc + (new - c_k[k]) / len(clients), new
    return {"x": x + server_lr * dx, "c": c + dc, "c_k": c_k}


def test_a_single_round_is_begun_from_any_state_and_at_the_certified_optimum():
    report = check_algorithm(scaffold, "scaffold")
    seen = {f.check: f.verdict for f in report.findings}
    for name in ("any state", "certified optimum", "mean of what is kept", "unequal local steps", "convergence"):
        assert seen[name] == "pass", name


def stale(start, clients, cohorts, learning_rate, local_steps, alpha):
    """FedDyn whose h is never updated: it goes to a point, at a rate, and to the wrong one."""
    x, h, h_k, models = start.copy(), np.zeros_like(start), np.zeros((len(clients), len(start))), []
    for cohort in cohorts:
        ys = [
            local_work({"x": x}, clients[k], learning_rate, local_steps, lambda y, k=k, x=x: alpha * (y - x) - h_k[k]) for k in cohort
        ]
        for k, y in zip(cohort, ys, strict=True):
            h_k[k] -= alpha * (y - x)
        x = np.mean(ys, axis=0) - h / alpha
        models.append(x)
    return models


def test_a_feddyn_with_a_stale_h_is_named():
    with pytest.raises(AssertionError, match=r"Likely one of 2 mistakes.*: either h is never updated; or") as failure:
        check_algorithm(stale, "feddyn")
    assert "the server's model is made without h" in str(failure.value)  # the same from outside
    assert "convergence" in str(failure.value)


def test_what_is_shown_of_the_state_tells_mistakes_apart():
    def round(state, clients, cohort, learning_rate, local_steps, alpha):
        x, h_k = state["x"], state["h_k"].copy()
        ys = [local_work(state, clients[k], learning_rate, local_steps, lambda y, k=k: alpha * (y - x) - h_k[k]) for k in cohort]
        for k, y in zip(cohort, ys, strict=True):
            h_k[k] -= alpha * (y - x)
        return {"x": np.mean(ys, axis=0) - state["h"] / alpha, "h": state["h"], "h_k": h_k}

    report = audit_algorithm(round, "feddyn")
    assert [[m.name for m in found] for found in report.explanations] == [["h-never-updated"]]


def test_only_the_last_model_is_enough():
    def last(start, clients, cohorts, learning_rate, local_steps, alpha):
        return stale(start, clients, cohorts, learning_rate, local_steps, alpha)[-1]

    assert audit_algorithm(last, "feddyn").explanations == audit_algorithm(stale, "feddyn").explanations


def test_two_mistakes_together_are_both_named():
    """As a public port had them: the whole control variate is sent, and the learning rate is left in."""

    def round(state, clients, cohort, learning_rate, local_steps, server_lr):
        x, c, c_k = state["x"], state["c"], state["c_k"].copy()
        dx, dc = 0.0, 0.0
        for k in cohort:
            y = local_work(state, clients[k], learning_rate, local_steps, lambda _, k=k: c - c_k[k])
            c_k[k] = c_k[k] - c + (x - y) / local_steps
            dx, dc = dx + (y - x) / len(cohort), dc + c_k[k] / len(clients)
        return {"x": x + server_lr * dx, "c": c + dc, "c_k": c_k}

    report = audit_algorithm(round, "scaffold")
    assert {m.name for m in report.explanations[0]} == {"control-sent-whole", "learning-rate-not-divided"}
    assert "these two mistakes together" in report.sentence


def test_control_variates_that_begin_elsewhere_are_named():
    """With everybody in every round such a start cancels; it is seen in clients that come later."""

    def run(start, clients, cohorts, learning_rate, local_steps, server_lr):
        begin = np.random.default_rng(3).normal(size=len(start))
        state = {"x": start, "c": begin, "c_k": np.tile(begin, (len(clients), 1))}
        models = []
        for cohort in cohorts:
            state = scaffold(state, clients, cohort, learning_rate, local_steps, server_lr)
            models.append(state["x"])
        return models

    report = audit_algorithm(run, "scaffold")
    assert [m.name for m in report.explanations[0]] == ["controls-begin-elsewhere"]
    assert next(f for f in report.findings if f.check == "several rounds").verdict == "pass"


def test_another_convention_is_said_to_be_one():
    def option_1(state, clients, cohort, learning_rate, local_steps, server_lr):
        after = scaffold(state, clients, cohort, learning_rate, local_steps, server_lr)
        c_k = state["c_k"].copy()
        c_k[list(cohort)] = [clients[k].gradient(state["x"]) for k in cohort]
        return {**after, "c_k": c_k, "c": state["c"] + (c_k - state["c_k"]).sum(axis=0) / len(clients)}

    report = audit_algorithm(option_1, "scaffold")
    assert report.explanations[0][0].convention == 'option="gradient"' and 'convention: option="gradient".' in report.sentence
    check_algorithm(option_1, "scaffold", option="gradient")


@pytest.mark.parametrize("name", METHODS)
def test_every_known_mistake_changes_a_run_of_the_audit(name):
    """A mistake that no run shows could never be found."""

    def itself(start, clients, cohorts, **settings):
        raise NotImplementedError

    for local in ("steps", "exact") if METHODS[name].exact else ("steps",):
        session = Session(Adapter(itself), METHODS[name], {"local": local}, None, 1.0, 0)
        for check in ALL[:13]:
            check.look(session, check.name)
        tasks = [c.task for c in session.compared.values()]
        assert len(tasks) > 10
        if local == "exact":  # a minimiser takes time: what tells most
            some = ("mean", "unequal sizes", "part of the clients (3, 0)", "clients come and go")
            tasks = [session.compared[label].task for label in some]
        right = [reference.run(name, task)[-1]["x"] for task in tasks]
        for mistake in mistakes_of(name, local == "exact"):
            wrong = (reference.run(name, task, frozenset({mistake.name}))[-1]["x"] for task in tasks)
            assert any(not np.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in zip(right, wrong, strict=True)), mistake.name


def test_every_mistake_has_its_line_and_no_two_have_the_same_words():
    assert len({m.words for m in MISTAKES}) == len(MISTAKES) >= 60
    assert all(m.line and set(m.methods) <= set(METHODS) for m in MISTAKES)
    assert {name for m in MISTAKES for name in m.methods} == set(METHODS)


def test_the_contraction_is_the_textbooks():
    """FedAvg with one local step is gradient descent: 1 - eta mu of the weighted mean loss, by its smallest eigenvalue."""
    session = Session(Adapter(scaffold), METHODS["fedavg"], {}, None, 1.0, 0)
    clients = clients_of("squared", 0)
    share = np.array([c.num_examples for c in clients]) / sum(c.num_examples for c in clients)
    least = np.linalg.eigvalsh(sum(w * c.curvature(np.zeros(4)) for w, c in zip(share, clients, strict=True)))[0]
    found = contraction("fedavg", session.task(clients, everybody(), local_steps=1))
    assert found == pytest.approx(1 - 0.15 * least, rel=1e-10)


def test_the_optimum_is_certified_near():
    clients = clients_of("logistic", 0)
    x, error = optimum(clients, "uniform")
    assert np.linalg.norm(sum(c.gradient(x) for c in clients) / len(clients)) <= 0.1 * error + 1e-15 and error < 1e-8


def test_a_clients_gradient_and_curvature_are_those_of_its_value():
    for loss, client in itertools.product(("squared", "logistic"), (1, 3)):
        one, x = clients_of(loss, 5)[client], np.array([0.3, -0.7, 0.2, 0.5])
        steps = 1e-6 * np.eye(4)
        slope = [(one.value(x + e) - one.value(x - e)) / 2e-6 for e in steps]
        assert one.gradient(x) == pytest.approx(slope, abs=1e-8)
        bend = np.array([(one.gradient(x + e) - one.gradient(x - e)) / 2e-6 for e in steps])
        assert one.curvature(x) == pytest.approx(bend, abs=1e-7)


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda: audit_algorithm(scaffold, "scafold"), "did you mean 'scaffold'"),
        (lambda: audit_algorithm(scaffold, "scaffold", skip=("convergense",)), "did you mean 'convergence'"),
        (lambda: audit_algorithm(scaffold, "fedprox"), "no parameter 'mu', which fedprox needs"),
        (lambda: audit_algorithm(scaffold, "fedavg", option="gradient", settings={}), "has no control variates"),
        (lambda: audit_algorithm(scaffold, "scaffold", local="exact"), "made of local gradient steps"),
        (lambda: audit_algorithm(scaffold, "scaffold", weighting="size"), "use one of 'examples', 'uniform'"),
        (lambda: audit_algorithm(3, "scaffold"), "it cannot be called"),
        (lambda: audit_algorithm(lambda x, y: x, "scaffold"), "first three parameters"),
        (lambda: audit_algorithm(server_step("fedadam"), "scaffold"), "needs 'beta1', which scaffold does not have"),
    ],
)
def test_what_cannot_be_audited_is_refused_before_work_starts(call, told):
    with pytest.raises((InvalidInput, UnknownName), match=told):
        call()


def test_no_rate_is_promised_where_the_method_has_none():
    report = audit_algorithm(scaffold, "scaffold", settings={"learning_rate": 1e-4})
    assert report.passed and next(f for f in report.findings if f.check == "convergence").verdict == "does not apply"


def test_a_report_can_be_read_by_programs():
    report = audit_algorithm(stale, "feddyn", skip=("convergence",))
    told = report.to_json()
    assert told["passed"] is False and told["explanations"][0][0]["name"] == "h-never-updated"
    assert {row["check"] for row in told["checks"]} <= set(check_names()) - {"convergence"}


def scaffold_with_c_changed_within_the_round(state, clients, cohort, learning_rate, local_steps):
    x, c, c_k, models = state["x"], state["c"].copy(), state["c_k"].copy(), []
    for k in cohort:
        y = x.copy()
        for _ in range(local_steps):
            y -= learning_rate * (clients[k].gradient(y) - c_k[k] + c)
        new = c_k[k] - c + (x - y) / (local_steps * learning_rate)
        c, c_k[k] = c + (new - c_k[k]) / len(clients), new
        models.append(y)
    return {"x": np.mean(models, axis=0), "c": c, "c_k": c_k}


def test_a_c_that_changes_within_the_round_is_named():
    report = audit_algorithm(scaffold_with_c_changed_within_the_round, "scaffold", skip=["convergence"])
    assert [[m.name for m in found] for found in report.explanations] == [["c-within-round"]]


def test_what_no_known_mistake_explains_is_told_by_the_order_of_the_cohort():
    def round(state, clients, cohort, learning_rate, local_steps):
        after = scaffold_with_c_changed_within_the_round(state, clients, cohort, learning_rate, local_steps)
        return {**after, "c": np.sin(after["c"])}

    report = audit_algorithm(round, "scaffold", skip=["convergence"])
    assert not report.explanations and "The order of a cohort matters, which it must not" in report.sentence
