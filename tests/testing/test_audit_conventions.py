"""The audit on what is right but written or weighed otherwise, and on what it must not take for right."""

import numpy as np
import pytest

from fedtheory.errors import InvalidInput
from fedtheory.testing import audit_algorithm, check_algorithm
from fedtheory.testing.audit.battery import clients_of, everybody
from fedtheory.testing.audit.clients import Task


def local_work(state, client, rate, steps):
    y = state["x"].copy()
    for _ in range(steps):
        y = y - rate * client.gradient(y)
    return y


def weighed(values, clients, cohort, total=None):
    sizes = np.array([float(clients[k].num_examples) for k in cohort])
    return sizes @ np.array(values) / (sizes.sum() if total is None else total)


def test_a_scaffold_that_weighs_clients_still_ends_at_the_optimum_of_the_plain_mean():
    def round(state, clients, cohort, learning_rate, local_steps, server_lr):
        x, c, c_k, moves = state["x"], state["c"], state["c_k"].copy(), []
        for k in cohort:
            y = x.copy()
            for _ in range(local_steps):
                y = y - learning_rate * (clients[k].gradient(y) - c_k[k] + c)
            c_k[k] += (x - y) / (local_steps * learning_rate) - c
            moves.append(y - x)
        x = x + server_lr * weighed(moves, clients, cohort)
        return {"x": x, "c": c + (c_k - state["c_k"]).sum(axis=0) / len(clients), "c_k": c_k}

    assert check_algorithm(round, "scaffold", weighting="examples").passed


@pytest.mark.parametrize(
    ("by_size", "asked", "says"),
    [
        (False, {}, 'client weights are ignored.*: weighting="uniform"'),
        (True, {"weighting": "uniform"}, 'weighted by their numbers of examples.*: weighting="examples"'),
    ],
)
def test_what_to_ask_for_is_said_with_its_value(by_size, asked, says):
    def round(state, clients, cohort, learning_rate, local_steps):
        models = [local_work(state, clients[k], learning_rate, local_steps) for k in cohort]
        return {"x": weighed(models, clients, cohort) if by_size else np.mean(models, axis=0)}

    with pytest.raises(AssertionError, match=says):
        check_algorithm(round, "fedavg", **asked)
    value = "examples" if by_size else "uniform"
    assert check_algorithm(round, "fedavg", weighting=value).passed


def averaging_in(kind, given):
    def round(state, clients, cohort, learning_rate, local_steps):
        models = []
        for k in cohort:
            a, b, y = clients[k].features.astype(kind), clients[k].labels.astype(kind), state["x"].astype(kind)
            for _ in range(local_steps):
                slope = a @ y - b if clients[k].loss == "squared" else -b / (1 + np.exp(b * (a @ y)))
                y = y - kind(learning_rate) * (a.T @ slope / kind(len(b)) + kind(clients[k].ridge) * y)
            models.append(y)
        return {"x": weighed(models, clients, cohort).astype(kind).astype(given)}

    return round


def test_numbers_of_single_precision_are_taken_as_such_in_whatever_type_they_come():
    for given in (np.float32, np.float64):
        report = audit_algorithm(averaging_in(np.float32, given), "fedavg")
        assert report.passed, str(report)
        assert report.rtol > 1e-5
    assert audit_algorithm(averaging_in(np.float64, np.float64), "fedavg").rtol < 1e-8


def elastic_net(l1_built_in, of_all):
    def work(clients, k, x, rate, steps, mu, l1):
        y = x.copy()
        for _ in range(steps):
            y = y - rate * (clients[k].gradient(y) + mu * (y - x) + l1 * np.sign(y - x))
        return y - x

    def round(state, clients, cohort, learning_rate, local_steps, mu, l1=0.05):
        moves = [work(clients, k, state["x"], learning_rate, local_steps, mu, l1) for k in cohort]
        total = sum(c.num_examples for c in clients) if of_all else None
        return {"x": state["x"] + weighed(moves, clients, cohort, total)}

    def without(state, clients, cohort, learning_rate, local_steps, mu):
        return round(state, clients, cohort, learning_rate, local_steps, mu)

    return without if l1_built_in else round


def test_an_elastic_net_whose_l1_is_built_in_passes():
    assert check_algorithm(elastic_net(True, False), "fedelasticnet-prox", settings={"l1": 0.05}).passed


def test_the_sum_over_the_cohort_as_fedelasticnet_prints_it_is_a_convention():
    told = audit_algorithm(elastic_net(False, True), "fedelasticnet-prox").diagnosis
    assert "as printed" in told
    assert 'ask for the other convention: weighting="all-examples".' in told
    assert check_algorithm(elastic_net(False, True), "fedelasticnet-prox", weighting="all-examples").passed


def test_an_adaptive_method_may_begin_with_v_at_tau_squared():
    def run(start, clients, cohorts, learning_rate, local_steps, server_lr, beta1, beta2, tau):
        x, m, v = start, 0 * start, np.full(len(start), tau**2)
        for cohort in cohorts:
            models = [local_work({"x": x}, clients[k], learning_rate, local_steps) for k in cohort]
            move = weighed(models, clients, cohort) - x
            m, v = beta1 * m + (1 - beta1) * move, beta2 * v + (1 - beta2) * move**2
            x = x + server_lr * m / (np.sqrt(v) + tau)
            yield x

    assert "v begins at tau^2" in audit_algorithm(run, "fedadam").diagnosis
    assert check_algorithm(run, "fedadam", option="v-from-tau").passed


def test_v_may_be_made_of_the_momentum():
    def run(start, clients, cohorts, learning_rate, local_steps, server_lr, beta1, beta2, tau):
        x, m, v = start, 0 * start, 0 * start
        for cohort in cohorts:
            models = [local_work({"x": x}, clients[k], learning_rate, local_steps) for k in cohort]
            m = beta1 * m + (1 - beta1) * (weighed(models, clients, cohort) - x)
            v = beta2 * v + (1 - beta2) * m**2
            x = x + server_lr * m / (np.sqrt(v) + tau)
            yield x

    assert 'ask for the other convention: option="v-of-momentum"' in audit_algorithm(run, "fedadam").diagnosis
    assert check_algorithm(run, "fedadam", option="v-of-momentum").passed


@pytest.mark.parametrize("divisor", [lambda n: 5, lambda n: min(n, 7), lambda n: max(n, 5)])
def test_a_number_of_clients_that_is_written_down_shows(divisor):
    def round(state, clients, cohort, learning_rate, local_steps, server_lr):
        x, c, c_k = state["x"], state["c"], state["c_k"].copy()
        moves, changes = [], []
        for k in cohort:
            y = x
            for _ in range(local_steps):
                y = y - learning_rate * (clients[k].gradient(y) + c - c_k[k])
            new = c_k[k] - c + (x - y) / (local_steps * learning_rate)
            moves.append(y - x)
            changes.append(new - c_k[k])
            c_k[k] = new
        return {"x": x + server_lr * np.mean(moves, axis=0), "c": c + np.sum(changes, axis=0) / divisor(len(clients)), "c_k": c_k}

    report = audit_algorithm(round, "scaffold")
    assert [f.check for f in report.failed] == ["clients come and go"] and not report.explanations


def test_with_small_steps_a_run_is_longer_and_another_limit_is_still_seen():
    def drifting(state, clients, cohort, learning_rate, local_steps, server_lr):  # FedAvg, under another name
        moves = [local_work(state, clients[k], learning_rate, local_steps) - state["x"] for k in cohort]
        return {**state, "x": state["x"] + server_lr * np.mean(moves, axis=0)}

    report = audit_algorithm(drifting, "scaffold", settings={"learning_rate": 0.02})
    found = next(f for f in report.findings if f.check == "convergence")
    assert found.verdict == "fail"
    assert float(found.expected.split()[2]) < 1e-3  # of the first distance


def test_a_factor_that_only_turns_the_sign_is_no_factor_below_1(monkeypatch):
    from fedtheory.testing.audit import convergence

    def turned(asked):
        return {"x": np.diag([-1.0, 0.5, 0.2, 1.0]) @ asked.x}

    monkeypatch.setitem(convergence.reference.REFERENCES, "fedavg", turned)
    task = Task(clients_of("squared", 0), np.ones(4), everybody(1), {})
    assert convergence.contraction("fedavg", task) == pytest.approx(1)


def test_examples_that_are_taken_in_order_are_no_mistake():
    def run(start, clients, cohorts, learning_rate, local_steps, seed=0, batch_size=None, stride=1):
        x, at = start, dict.fromkeys(range(len(clients)), 0)
        for cohort in cohorts:
            models = []
            for k in cohort:
                y = x.copy()
                for _ in range(local_steps):
                    size = batch_size or clients[k].num_examples
                    rows = (at[k] + np.arange(size)) % clients[k].num_examples
                    at[k] += stride * size
                    y = y - learning_rate * clients[k].gradient(y, rows)
                models.append(y)
            x = weighed(models, clients, cohort)
            yield x

    def same_again(start, clients, cohorts, learning_rate, local_steps, seed=0, batch_size=None):
        return run(start, clients, cohorts, learning_rate, local_steps, seed, batch_size, stride=0)

    def verdict(adapter):
        return next(f.verdict for f in audit_algorithm(adapter, "fedavg").findings if f.check == "streams")

    assert (verdict(run), verdict(same_again)) == ("note", "fail")


@pytest.mark.parametrize(
    ("name", "asked", "told"),
    [
        ("scaffold", {"option": "v-from-tau"}, "no second moment"),
        ("fedavgm", {"option": "v-from-tau"}, "no second moment"),
        ("fedadam", {"option": "gradient"}, "no control variates"),
        ("scaffold", {"weighting": "all-examples"}, "does not weigh clients"),
    ],
)
def test_a_convention_of_another_method_is_refused(name, asked, told):
    def run(start, clients, cohorts, **settings):
        raise NotImplementedError

    with pytest.raises(InvalidInput, match=told):
        audit_algorithm(run, name, **asked)
