"""Hints agree with all checks, each method's lines are its own, and what was not looked at is said."""

import re
import warnings

import numpy as np
import pytest

from fedtheory.problems import random_quadratic
from fedtheory.testing import assert_contraction, assert_rate, audit_algorithm
from fedtheory.testing.audit import METHODS, mistakes_of
from fedtheory.testing.audit.battery import clients_of
from tests.testing.test_audit_names import LINE_17, SCAFFOLD, made

SLOW = ("convergence",)


def audited(*changes, **options):
    return audit_algorithm(made(SCAFFOLD, *changes), "scaffold", skip=SLOW, **options)


def hints(report):
    return {f.check: f.hint for f in report.failed}


def test_the_penalty_is_suspected_only_of_a_method_that_has_one():
    """Every local step takes the gradient at the model of the round's start."""

    def stale(state, clients, cohort, learning_rate, local_steps, mu=0.0):
        x, out, size = state["x"], 0, sum(len(clients[k].labels) for k in cohort)
        for k in cohort:
            y = x
            for _ in range(local_steps):
                y = y - learning_rate * (clients[k].gradient(x) + mu * (y - x))
            out = out + y * len(clients[k].labels) / size
        return {"x": out}

    told = [hints(audit_algorithm(stale, name, skip=SLOW))["local steps"] for name in ("fedavg", "fedprox")]
    assert all("from its second local step on" in hint for hint in told)
    assert ["penalty" in hint for hint in told] == [False, True]


NEGATED = (LINE_17, "c = -(c + len(cohort) / N * np.mean(changes, axis=0))")


def test_a_c_that_is_negated_is_told_and_the_gradient_is_not_suspected():
    report = audited(NEGATED)
    found = hints(report)
    assert not report.explanations
    assert found["one local step"] == "x and c_k are right, c changes by -1 times what it should"
    assert found["any state"].startswith("x and c_k are right, c is -1 times what it should be")
    assert (
        "(one local step: x and c_k are right, c changes by -1 times what it should)"
        in report.sentence
    )
    assert not any("gradient" in hint for hint in found.values())


@pytest.mark.parametrize(
    "factor, check, told",
    [
        ("2", "one local step", "c changes by 2 times what it should"),
        ("0.5 * (1 + 0 * c)", "one local step", "c changes by 0.5 times what it should"),
        ("(N / len(cohort))**2", "part of the clients", "c changes by 6.25 times what it should;"),
        (
            "-N / len(cohort)",
            "part of the clients",
            "c changes by -2.5 times what it should (here -N/|S|)",
        ),
        ("1 / local_steps", "local steps", "c changes by 0.25 times what it should (here 1/K)"),
        ("learning_rate", "one local step", "c changes by 0.15 times what it should (here eta)"),
        ("0", "one local step", "x and c_k are right, c does not change"),
    ],
)
def test_a_factor_of_the_expected_change_is_said_and_in_the_rounds_letters(factor, check, told):
    wrong = LINE_17.replace("c + len", f"c + {factor} * len")
    assert told in hints(audited((LINE_17, wrong)))[check] + ";"


def test_where_c_k_is_right_the_servers_step_is_suspected_not_the_gradient():
    report = audited(('"x": x,', '"x": x + 0.1 * c**2,'))
    hint = hints(report)["one local step"]
    assert hint.startswith("c and c_k are right, x differs; ") and hint.endswith(
        "look at the server's step"
    )
    both = hints(audited(("clients[k].gradient(y)", "np.sin(clients[k].gradient(y))")))[
        "one local step"
    ]
    assert both.startswith("x, c and c_k differ; a single step of one client: look at the gradient")


def test_squared_losses_are_right_is_said_only_where_they_are():
    """Wrong from the second round on: 'any state' and 'several rounds' are squared losses, and simpler."""
    found = hints(
        audited(("clients[k].gradient(y)", "clients[k].gradient(y * (1 + 0.01 * c_k[k]))"))
    )
    assert next(iter(found)) == "any state"
    assert "squared losses are right" not in " ".join(found.values())
    assert (
        "'any state' differs already" in found["logistic loss"]
        and "'any state' differs already" in found["several rounds"]
    )
    alone = hints(
        audited(
            (
                "clients[k].gradient(y)",
                "(clients[k].gradient(y) + (clients[k].loss == 'logistic') * y**2)",
            )
        )
    )
    assert list(alone) == ["logistic loss"] and "squared losses are right" in alone["logistic loss"]


def test_the_first_round_is_right_is_said_only_where_it_is():
    """With a fixed number of clients written down, what is simpler passes."""
    late = hints(audited(("(x - y)", "(x - y * (1 + 0.01 * (len(state['c_k']) != 5)))")))
    assert "the first round differs already" in late["clients come and go"]
    assert "look at the checks before" not in " ".join(late.values())


def test_each_methods_lines_are_its_own():
    for name in METHODS:
        for m in mistakes_of(name):
            assert "penalty'" not in m.line
            if name not in (
                "scaffold",
                "fedelasticnet-prox",
                "fedelasticnet-scaffold",
                "fedelasticnet-dyn",
            ):
                assert not re.match("lines? [0-9]", m.line), (name, m.line)
            if "mu" not in METHODS[name].settings:
                assert not re.search(r"\bmu\b", m.line), (name, m.line)
            if "c_k" not in METHODS[name].state:
                assert "c_k" not in m.line, (name, m.line)
    own = {m.name: m.line for m in mistakes_of("scaffold")}
    theirs = {m.name: m.line for m in mistakes_of("fedelasticnet-scaffold")}
    assert own["steps-one-more"].startswith("lines 7 to 10: ") and own["sum-not-mean"].startswith(
        "lines 16 and 17: "
    )
    assert theirs["control-c-sign"].startswith("line 9: ") and theirs["c-sign"].startswith(
        "line 13: "
    )
    assert theirs["correction-sign"].startswith("line 7: ") and theirs["server-sign"].startswith(
        "line 12: "
    )


def test_a_line_is_that_of_the_convention_that_was_asked_for():
    def line(name, method, **asked):
        return next(m.line for m in mistakes_of(method, **asked) if m.name == name)

    assert line("other-weights", "fedavg").endswith("each client weighing n_k")
    for method, weighting in (("fedavg", "uniform"), ("scaffold", "examples")):
        own = line("other-weights", method, weighting=weighting)
        assert own == f'x <- mean over the cohort of y, with weighting="{weighting}" as asked for'
    assert "n_k" not in line("server-sign", "fedprox", weighting="uniform")
    assert line("server-sign", "scaffold", weighting="examples").startswith("lines 16 and 17: ")
    assert line("other-option", "scaffold") == line("control-c-sign", "scaffold")
    first = line("other-option", "scaffold", option="gradient")
    assert first == "line 12 (i): c_k+ <- grad f_k(x)"


def test_a_printed_line_is_said_to_be_one():
    told = audited(("y = x.copy()", "y = x")).sentence
    assert (
        "The printed lines 7 to 10 are: y <- x, then K times y <- y - eta (grad f_k(y) - c_k + c)."
        in told
    )
    assert told.endswith("In the reference, this mistake alone gives all your numbers.")


def test_settings_that_were_never_varied_are_said():
    report = audited((", server_lr)", ")"), ("server_lr *", ""))
    assert report.passed
    assert report.sentence.endswith(
        "server_lr (1) was never varied: the adapter has no such parameter."
    )
    assert next(f for f in report.findings if f.check == "settings").verdict == "note"
    assert "never varied" not in audited().sentence

    def nothing(start, clients, cohorts):
        return audit_rounds(start, clients, cohorts)

    def audit_rounds(x, clients, cohorts):
        for cohort in cohorts:
            sizes = np.array([clients[k].num_examples for k in cohort])
            x = x - 0.2 * sizes @ np.array([clients[k].gradient(x) for k in cohort]) / sizes.sum()
        return x

    built_in = audit_algorithm(nothing, "fedavg", settings={"learning_rate": 0.2, "local_steps": 1})
    assert (
        built_in.passed
        and "learning_rate (0.2) and local_steps (1) were never varied" in built_in.sentence
    )


def test_a_method_is_taken_in_any_case():
    assert audit_algorithm(made(SCAFFOLD), "SCAFFOLD", skip=SLOW).method == "scaffold"


def test_mini_batches_are_suspected_where_a_single_step_is_wrong_and_the_order_matters():
    source = SCAFFOLD.replace(
        "    for k in cohort:\n", "    rng = np.random.default_rng(0)\n    for k in cohort:\n"
    )
    batch = "clients[k].gradient(y, rng.integers(clients[k].num_examples, size=2))"
    report = audit_algorithm(made(source, ("clients[k].gradient(y)", batch)), "scaffold", skip=SLOW)
    assert "does it draw mini-batches, from a generator that clients share?" in report.sentence


def test_a_run_that_overflows_warns_of_nothing():
    """Models of 1e308 and the other sign: their distance is infinite."""
    problem, far = random_quadratic(4, 3, seed=1), np.array([[1e200] * 3, [1e308] * 3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report = audit_algorithm(
            made(SCAFFOLD, ('"x": x,', '"x": np.where(x > 0, 1.7e308, -1.7e308),')),
            "scaffold",
            skip=SLOW,
        )
        gaps = problem.objective(far) - problem.optimum().lower_bound
        assert (
            not np.isfinite(gaps).any()
            and clients_of("squared", 0)[0].value(np.full(4, 1e200)) == np.inf
        )
        with pytest.raises(AssertionError, match="Run diverged"):
            assert_rate(np.tile(gaps, 20), -1, window=(2, 30))
    assert not report.passed


@pytest.mark.parametrize("check", [assert_rate, assert_contraction])
def test_what_a_fit_leaves_out_is_said_in_words(check):
    gaps = np.where(np.arange(60) < 40, 0.5 ** np.arange(60), 0)
    with pytest.raises(
        AssertionError, match=r"left out: 19 with a value of 0 or less, which has no logarithm"
    ):
        check(gaps, -1 if check is assert_rate else 0.5, window=(2, 58))
