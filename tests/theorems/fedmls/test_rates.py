"""The measured rates: the fast loops against the library's own methods, the proved bounds, the search for K, and the command."""

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from typer.testing import CliRunner

from fedtheory.algorithms import FedAvg, FedProx
from fedtheory.algorithms.fedmls import fedmls_parameters
from fedtheory.cli import app
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps, LocalResult, LocalSolver
from fedtheory.local.sliding import SubgradientSliding
from fedtheory.problems.nonsmooth_instances import NesterovWorst, TwoClientPull
from fedtheory.rates.series import Series, crossovers
from fedtheory.simulation.simulate import simulate
from fedtheory.theorems.fedmls import figures as figures_rates
from fedtheory.theorems.fedmls.rates import experiments
from fedtheory.theorems.fedmls.rates.competitors import (
    Schedule,
    fedmls_on_pull,
    nesterov_rounds,
    pull_rounds,
    subgradient_rounds,
    tune,
)

KINDS = ["constant", "inverse-sqrt", "hold-and-cut"]


@dataclass(frozen=True)
class Walk(LocalSolver):
    """The schedule's steps by the library's gradient steps."""

    schedule: Schedule
    steps: int

    def solve(self, problem, objective, start, rows):
        return GradientSteps(self.steps, self.schedule.at(rows.round_index)).solve(problem, objective, start, rows)


@dataclass(frozen=True)
class PullProx(LocalSolver):
    """argmin f_i + ||u - w||^2/(2h): the best of the kink and the two stationary points of every coordinate."""

    schedule: Schedule

    def solve(self, problem, objective, start, rows):
        h, y = self.schedule.at(rows.round_index), np.array(start)
        for i in range(2):
            pieces = (
                (problem.pulls[i], problem.slopes[i], problem.first), (0.0, problem.shallow, problem.second),
            )  # fmt: skip
            for j, (a, b, c) in enumerate(pieces):
                w = start[i, :, j]
                points = np.stack([w - h * (a + b), w - h * (a - b), np.full_like(w, c)])
                values = a * points + b * abs(points - c) + (points - w) ** 2 / (2 * h)
                y[i, :, j] = points[values.argmin(axis=0), np.arange(len(w))]
        return LocalResult(y)


def first_rounds(problem, algorithm, solver, rounds, value, epsilons):
    run = simulate(problem, algorithm, rounds, local_solver=solver)
    below = run.metrics["objective"][1:, 0] - value <= np.array(epsilons)[:, None]
    return [row.argmax() + 1 if row.any() else math.inf for row in below]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0.04, 0.13, 0.6])
def test_the_pulls_loop_is_fedavg_and_fedprox(kind, step):
    problem, schedule = TwoClientPull(0.1), Schedule(kind, step, 3)
    for steps, solver, algorithm in (
        (3, Walk(schedule, 3), FedAvg()), (1, Walk(schedule, 1), FedAvg()), (0, PullProx(schedule), FedProx(1 / step)),
    ):  # fmt: skip
        epsilons = (0.6, 0.3, 0.15)
        found = [pull_rounds(problem, schedule, steps, 120, e) for e in epsilons]
        assert found == first_rounds(problem, algorithm, solver, 120, 0.0, epsilons)


@pytest.mark.parametrize("radius", [4.0, 1.15])  # the second one bends the paths
def test_the_pulls_loop_is_fedmls(radius):
    problem = TwoClientPull(0.1)
    for rounds in (1, 2, 12, 40):
        algorithm = fedmls_parameters(problem, 0.1, radius, math.sqrt(1.25), rounds=rounds)
        run = simulate(problem, algorithm, rounds, local_solver=SubgradientSliding(engine="numpy"))
        np.testing.assert_allclose(fedmls_on_pull(problem, algorithm), run.x[0], rtol=1e-9, atol=1e-12)
    with pytest.raises(InvalidInput, match="use simulate"):
        fedmls_on_pull(problem, fedmls_parameters(problem, 0.1, radius, 1.2, rounds=3, average="printed"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0.05, 0.2, 0.5])
def test_nesterovs_loop_is_the_subgradient_method(kind, step):
    problem, schedule = NesterovWorst(12), Schedule(kind, step, 20)
    value = problem.least_value(1.0)
    epsilons = (0.2, 0.15, 0.13, 0.11, 0.1)
    found = [nesterov_rounds(problem, schedule, 150, e) for e in epsilons]
    assert found == first_rounds(problem, FedAvg(), Walk(schedule, 1), 150, value, epsilons)


def test_the_batched_subgradient_method_is_fedavg_with_one_step():
    problem = experiments.lad_instance(1, clients=3, samples=5, dim=2)
    value = problem.optimum_on_ball(8.0).value
    schedules = [Schedule(kind, step, 2) for kind in KINDS for step in (0.1, 0.7)]
    found = subgradient_rounds(problem, schedules, 60, value, [0.3, 0.1, 0.03])
    assert np.isfinite(found).any() and len(np.unique(found)) > 3
    for column, schedule in zip(found.T, schedules, strict=True):
        assert column.tolist() == first_rounds(problem, FedAvg(), Walk(schedule, 1), 60, value, [0.3, 0.1, 0.03])
    short = subgradient_rounds(problem, schedules, 60, value, [0.3, 0.1, 0.03], best_only=True)
    assert (short.min(axis=1) == found.min(axis=1)).all()


@pytest.mark.parametrize("epsilon", [0.1, 0.03, 0.01])
def test_no_constant_step_of_fedprox_beats_its_lower_bound(epsilon):
    # c_1 - x_1 >= min(c_1, h) at all times, so F <= epsilon needs h <= sqrt(2) epsilon (h < c_1), while x_2 walks 2 epsilon h a
    # round and must come within 1/2 of c = 1: at least 1/(4 sqrt(2) epsilon^2) rounds
    problem, least = TwoClientPull(epsilon), 1 / (4 * math.sqrt(2) * epsilon**2)
    found = [pull_rounds(problem, Schedule("constant", h), 0, 3 * math.ceil(least), epsilon) for h in np.geomspace(1e-4, 1e4, 400)]
    assert math.isfinite(min(found))
    assert least <= min(found) <= 2.2 * least


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_beats_the_span_bound(kind):
    problem = NesterovWorst.for_epsilon(0.05)
    found = [nesterov_rounds(problem, Schedule(kind, h, 40), 2000, 0.05) for h in np.geomspace(1e-3, 30, 60)]
    assert min(found) >= problem.dim
    assert kind == "hold-and-cut" or math.isfinite(min(found))


def test_tuning_finds_the_best_of_the_grid():
    best = {0.5: 40, 1.0: 12, 2.0: 17}
    calls = []

    def run(schedule, limit):
        calls.append((schedule.step, limit))
        return best[schedule.step] if best[schedule.step] <= limit else math.inf

    rounds, schedule = tune(run, "constant", list(best), 0.4, 100)
    assert (rounds, schedule.step) == (12, 1.0)
    assert calls == [(0.5, 100), (1.0, 39), (2.0, 11)]  # the nearest first; later ones are cut off
    assert tune(lambda s, limit: math.inf, "constant", [1.0], 1.0, 5) == (math.inf, None)


def test_the_smallest_k_reaches_and_the_one_before_does_not():
    case = experiments.nesterov_case(0.05)
    every = {k: case.gap(0.05, k) <= 0.05 for k in range(1, 40)}
    for guess in (2, 18, 37):
        K, _ = experiments.smallest_rounds(case, 0.05, guess, 60.0)
        assert every[int(K)] and not every[int(K) - 1]
    K, why = experiments.smallest_rounds(case, 0.05, 10, 1e-9)
    assert math.isnan(K) and "local steps a client" in why


def series(label, rounds, instance="pull", role="measured"):
    s = Series(instance, label, label, role, "some step")
    for epsilon, r in zip((0.1, 0.05, 0.02, 0.01), rounds, strict=True):
        s.add(epsilon, r, 2 * r)
    return s


def test_verdicts_name_the_slope():
    e = np.array([0.1, 0.05, 0.02, 0.01])
    rows = {1.0: "1/eps", 2.0: "1/eps^2", 1.5: "between the two", 0.3: "better than 1/eps"}
    for power, verdict in rows.items():
        s = series("a", 7 * e**-power)
        assert s.fit["verdict"] == verdict and s.fit["slope"] == pytest.approx(-power)
        assert s.fit_local["slope"] == pytest.approx(-power)
    assert series("a", [5, math.inf, 70, 900]).fit is None  # three points are not enough


def test_crossovers_say_who_is_ahead_where():
    e = np.array([0.1, 0.05, 0.02, 0.01])
    rows = [series("FedMLS", 6 / e), series("other", 0.2 / e**2), series("fast", 3 / e), series("proof", 9 / e, role="theory")]
    first, second = crossovers(rows, "FedMLS")  # theory is not a competitor
    assert first["at"] == [pytest.approx(1 / 30)]
    assert (first["ahead_at_largest"], first["ahead_at_smallest"]) == ("other", "FedMLS")
    assert second["at"] == [] and second["ahead_at_smallest"] == "fast"


def test_bad_epsilons_are_refused():
    for bad, says in (
        ([0.1, 0.05, 0.02, 0.0], "(0, 0.25]"), ([0.1, 0.05, 0.02, 0.3], "(0, 0.25]"), ([0.1, 0.1, 0.05, 0.02], "3 different"),
        ([0.1, 0.05, 0.02, 1e-6], "stay at or above 1e-4"), ([0.1, 0.05, 0.02, math.nan], "(0, 0.25]"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=says.replace("(", r"\(").replace("]", r"\]").replace("[", r"\[")):
            experiments.compute(bad)
    for bad in ({"kind": "none", "step": 1.0}, {"kind": "constant", "step": 0.0}, {"kind": "constant", "step": 1.0, "hold": -1}):
        with pytest.raises(InvalidInput):
            Schedule(**bad)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    out = tmp_path_factory.mktemp("rates")
    result = CliRunner().invoke(app, ["rates", "--quick", "--epsilons", "0.08,0.06,0.045,0.034", "--out", str(out), "--json"])
    assert result.exit_code == 0, result.output
    return out, json.loads(result.stdout)


def test_the_command_measures_what_theory_says(written):
    out, data = written
    rows = {(s["instance"], s["label"]): s for s in data["series"]}
    for instance in experiments.INSTANCES:
        assert rows[instance, "FedMLS"]["fit"]["verdict"] == "1/eps", instance
        measured, least = (np.array(rows[instance, label]["rounds"]) for label in ("FedMLS", "FedMLS, K_min"))
        assert len(measured) == 4 and (measured <= least).all(), instance  # Theorem 1
    for label in ("FedProx, constant", "FedProx, 1/sqrt(t)", "FedAvg, constant", "FedAvg, 1/sqrt(t)"):
        assert rows["pull", label]["fit"]["verdict"] == "1/eps^2", label
    assert rows["pull", "FedProx, held, cut"]["fit"]["verdict"] == "better than 1/eps"
    assert rows["nesterov", "one subgradient a round"]["fit"]["verdict"] == "1/eps^2"
    span = np.array(rows["nesterov", "one subgradient a round"]["rounds"])
    assert (np.array(rows["nesterov", "FedMLS"]["rounds"]) < span).all()
    assert (np.array(rows["nesterov", "FedMLS"]["local_steps"]) >= span).all()  # it is a span method in its local steps
    assert (np.array(rows["chain", "FedMLS"]["rounds"]) >= rows["chain", "any method at all"]["rounds"]).all()
    ahead = {(c["instance"], c["other"]): c["ahead_at_smallest"] for c in data["crossovers"]}
    assert ahead["lad", "subgradient, constant"] == "subgradient, constant"
    assert {"commit", "seed"} <= set(data["provenance"])
    assert {p.name for p in out.iterdir()} == {"rates.json", "rates.png", "rates.pdf"}


def test_the_figure_draws_every_measured_line(written):
    _, data = written
    figure = figures_rates.draw(data)
    names = [t.get_text() for t in figure.axes[0].texts]
    shown = [s for s in data["series"] if s["instance"] == "pull" and s["label"] in figures_rates._LOOKS]
    assert len(shown) == 10
    for s in shown:
        slope = f"{s['fit']['slope']:.2f}".replace("-", "\N{MINUS SIGN}")
        assert f"{figures_rates._LOOKS[s['label']][0]}  {slope}" in names


def test_the_small_figure_is_readable_and_says_the_same(written):
    _, data = written
    figure = figures_rates.draw_summary(data)
    assert figure.get_figwidth() <= 9.5 and len(figure.axes) == 2
    for ax, instance in zip(figure.axes, figures_rates.SUMMARY, strict=True):
        texts = {t.get_text(): t.get_fontsize() for t in ax.texts}
        for s in (s for s in data["series"] if s["instance"] == instance and s["label"] in figures_rates._LOOKS):
            name = figures_rates._LOOKS[s["label"]][0]
            slope = "" if s["fit"] is None else f"  {s['fit']['slope']:.2f}".replace("-", "\N{MINUS SIGN}")
            assert texts[name + slope] >= 9


def test_progress_is_counted_right(monkeypatch):
    def fedmls(name, make, epsilons, seconds, tick):  # counts, and runs nothing
        return [s for e in epsilons for s in [tick(name)] if s]

    monkeypatch.setattr(experiments, "_fedmls_series", fedmls)
    ticks, epsilons = [], [0.2, 0.15, 0.12, 0.1]
    experiments.compute(epsilons, progress=ticks.append)
    assert len(ticks) == experiments.steps(epsilons)


def test_an_interrupt_keeps_what_is_finished(monkeypatch, tmp_path):
    def interrupted(epsilon):
        raise KeyboardInterrupt

    monkeypatch.setattr(experiments, "nesterov_case", interrupted)
    args = ["rates", "--quick", "--epsilons", "0.2,0.15,0.12,0.1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 130 and "interrupted" in result.stderr
    stored = json.loads((tmp_path / "rates.json").read_text())
    assert stored["complete"] is False and list(stored["instances"]) == ["pull"] and len(stored["series"]) == 11
    assert [p.name for p in tmp_path.iterdir()] == ["rates.json"]
    monkeypatch.setattr(experiments, "pull_case", interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiments.compute([0.2, 0.15, 0.12, 0.1], quick=True)


def test_the_table_names_slopes_and_schedules():
    result = CliRunner().invoke(app, ["rates", "--epsilons", "0.2,0.1"])
    assert result.exit_code == 2 and "2 different epsilons" in " ".join(result.output.split())
    result = CliRunner().invoke(app, ["rates", "--epsilons", "0.2,x"])
    assert result.exit_code == 2 and "write numbers with commas" in " ".join(result.output.split())


# --- what docs/fedmls.md says of the rates ------------------------------------------------------------------------------
def test_the_subgradient_method_is_ahead_on_the_pull(written):
    _, data = written
    rows = {s["label"]: np.array(s["rounds"]) for s in data["series"] if s["instance"] == "pull"}
    for label in ("subgradient, constant", "subgradient, 1/sqrt(t)"):
        assert (4 * rows[label] < rows["FedMLS"]).all(), label
    ahead = {c["other"]: (c["at"], c["ahead_at_smallest"]) for c in data["crossovers"] if c["instance"] == "pull"}
    assert ahead["subgradient, 1/sqrt(t)"] == ([], "subgradient, 1/sqrt(t)")


def test_the_documented_rounds_at_a_hundredth():
    problem, case = TwoClientPull(0.01), experiments.pull_case(0.01)
    for kind, likely, rounds in (("constant", 0.01, 129), ("inverse-sqrt", 0.5, 16)):
        assert tune(lambda s, most: pull_rounds(problem, s, 1, most, 0.01), kind, experiments._grid(-1, 1), likely, 1000)[0] == rounds
    assert case.gap(0.01, 654) <= 0.01 < case.gap(0.01, 648)  # bisection to 0.5 %


def test_at_small_epsilon_only_the_decaying_subgradient_step_stays_ahead():
    def tuned(kind, epsilon, likely):
        problem, steps = TwoClientPull(epsilon), experiments._grid(-4, 2)
        return tune(lambda s, most: pull_rounds(problem, s, 1, most, epsilon), kind, steps, likely, 10**6)[0]

    enough = experiments.pull_case(0.00177828).fedmls(0.00177828, "fewest").rounds
    assert tuned("constant", 0.00177828, 0.01) == 11553 > enough == 6970  # behind even the rounds proved enough
    assert tuned("inverse-sqrt", 0.001, 10.0) == 96


@pytest.mark.parametrize("steps", [0, 10])
@pytest.mark.parametrize("kind", ["constant", "inverse-sqrt"])
def test_on_a_fixed_pull_fedprox_and_fedavg_have_fedmlss_slope(kind, steps):
    problem, epsilons = TwoClientPull(0.1), np.array([0.1, 0.05, 0.02, 0.01])
    rounds = [
        tune(lambda s, most, e=e: pull_rounds(problem, s, steps, most, e), kind, experiments._grid(-4, 1), e, 5000)[0] for e in epsilons
    ]
    slope = np.polyfit(np.log(epsilons), np.log(rounds), 1)[0]
    assert -1.1 < slope < -0.9
    assert rounds[-1] < 654 * 0.6  # and fewer rounds than FedMLS


@pytest.mark.parametrize("epsilon", [0.1, 0.05, 0.02])
def test_nesterovs_instance_takes_fedavg_one_round_of_n_local_steps(epsilon):
    problem = NesterovWorst.for_epsilon(epsilon)
    assert problem.num_clients == 1 and experiments.nesterov_case(epsilon).problem.num_clients == 1
    run = simulate(problem, FedAvg(), 1, local_solver=GradientSteps(problem.dim, 0.5625 / math.sqrt(problem.dim)))
    assert run.metrics["objective"][1, 0] - problem.least_value(1.0) <= epsilon


def test_the_figures_do_not_claim_more_than_that(written):
    _, data = written
    texts = [figures_rates.SUMMARY["pull"], *figures_rates._TITLES["pull"], *figures_rates._TITLES["nesterov"]]
    assert all("made for each" in t for t in (texts[0], texts[1], texts[3])) and "one client" in texts[4]
    for figure in (figures_rates.draw(data), figures_rates.draw_summary(data)):
        shown = " ".join(t.get_text() for t in figure.texts)
        assert "tuned subgradient steps h/√t need fewer" in " ".join(shown.split()) and "everywhere" not in shown
