"""The measured rates: the proved bounds, tuning, the searches for K and lambda, the figures, and the command."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from fedtheory.cli import app
from fedtheory.errors import InvalidInput
from fedtheory.problems import ArjevaniShamir, MaximumAndChain, TwoClientPull
from paper_figures.fedmls.rates import drawing, experiments, instances
from paper_figures.fedmls.rates.competitors import Schedule, Trials, tune
from paper_figures.fedmls.rates.series import Series, best_of, crossovers

KINDS = ["constant", "inverse-sqrt", "hold-and-cut"]


# --- proved bounds --------------------------------------------------------------------------------
@pytest.mark.parametrize("epsilon", [0.1, 0.03, 0.01])
def test_no_constant_step_of_fedprox_beats_its_lower_bound(epsilon):
    # c_1 - x_1 >= min(c_1, h) at all times, so F <= epsilon needs h <= sqrt(2) epsilon (h < c_1), while x_2 walks 2 epsilon h a
    # round and must come within 1/2 of c = 1: at least 1/(4 sqrt(2) epsilon^2) rounds
    trials, least = Trials(TwoClientPull(epsilon), 0.0, epsilon, 4.0), 1 / (4 * math.sqrt(2) * epsilon**2)
    found = [trials.fedprox(Schedule("constant", h), 3 * math.ceil(least)) for h in np.geomspace(1e-4, 1e4, 400)]
    assert math.isfinite(min(found))
    assert least <= min(found) <= 2.2 * least


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_beats_the_lower_bounds(kind):
    for epsilon in (0.05, 0.03):
        for case in (instances.chain_case(epsilon), instances.split_case(epsilon)):
            problem, trials = case.problem, case.trials(epsilon)
            d, found = problem.length + 2, {"subgradient": [], "any": []}
            for h in np.geomspace(1e-3, 100, 40):
                schedule = Schedule(kind, h, 12)
                found["subgradient"].append(trials.fedavg(schedule, 600, 1))
                found["any"] += [trials.fedavg(schedule, 600, 30), trials.fedprox(schedule, 600)]
                found["any"] += [trials.feddyn(schedule, 600), trials.fedmls_exact(schedule, 600)]
            assert math.isfinite(min(found["any"])) and min(found["any"]) >= d
            if isinstance(problem, MaximumAndChain):
                assert min(found["subgradient"]) >= problem.share


# --- tuning ---------------------------------------------------------------------------------------
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


def test_a_hold_beyond_the_best_is_tried_once():
    held = []

    def run(schedule, limit):
        held.append(schedule.hold)
        return 20.0 if schedule.hold == 8 else math.inf

    rounds, schedule = tune(run, "hold-and-cut", [1.0], 1.0, 1000, experiments.HOLDS)
    assert (rounds, schedule.hold) == (20, 8)
    assert held == [0, 1, 2, 3, 4, 6, 8, 11, 16, 23]


def test_every_hyperparameter_has_a_grid_of_the_same_size():
    assert len(experiments.STEPS) == len(experiments.HOLDS) == len(set(experiments.HOLDS)) == 33
    assert {m.kind for m in experiments.METHODS} == set(KINDS)
    for name in {m.name for m in experiments.METHODS}:
        assert name.endswith(("exact", "Dyn")) or {m.kind for m in experiments.METHODS if m.name == name} == set(KINDS)


def test_the_smallest_k_reaches_and_the_one_before_does_not():
    case = instances.chain_case(0.05)
    every = {k: case.gap(0.05, k) <= 0.05 for k in range(1, 80)}
    for guess in (2, 18, 37, 75):
        K, _ = experiments.smallest_rounds(case, 0.05, guess, 60.0)
        assert every[int(K)] and not every[int(K) - 1]
    K, why = experiments.smallest_rounds(case, 0.05, 10, 1e-9)
    assert math.isnan(K) and "local steps a client" in why


def test_the_tuned_lambda_is_the_best_within_the_budget():
    case, epsilon = instances.chain_case(0.05), 0.05
    known = int(experiments.smallest_rounds(case, epsilon, 20, 60.0)[0])
    most = experiments.BUDGET * case.fedmls(epsilon, known).total_steps()
    best, lam, left_out = experiments.tuned_lambda(case, epsilon, known)
    assert best < known and case.gap(epsilon, int(best), lam) <= epsilon
    assert case.with_lambda(epsilon, int(best), lam).total_steps() <= most
    assert not all(case.gap(epsilon, k, lam) <= epsilon for k in range(math.floor(best / 1.02) - 1, int(best)))
    affordable = [v for v in experiments.STEPS if case.with_lambda(epsilon, int(best), v).total_steps() <= most]
    assert lam in affordable and 0 < left_out <= len(experiments.STEPS) - len(affordable)
    alone = [experiments.smallest_rounds(case, epsilon, known, math.inf, 0.02, v)[0] for v in affordable if v >= lam / 100]
    assert best <= 1.1 * min(alone)  # bisection takes K for monotone


def series(label, rounds, instance="pull", role="measured"):
    s = Series(instance, label, label, role, "some step")
    for epsilon, r in zip((0.1, 0.05, 0.02, 0.01), rounds, strict=True):
        s.add(epsilon, r, 2 * r, "so")
    return s


def test_the_best_of_several_at_every_epsilon():
    best = best_of("both", [series("a", [3, 9, 20, 90]), series("b", [5, 7, math.inf, 80])])
    assert best.rounds == [3, 7, 20, 80] and best.local_steps == [6, 14, 40, 160] and best.label == "both"
    assert best.details == ["a: so", "b: so", "a: so", "b: so"]
    for bad in ([], [series("a", [1] * 4), series("b", [1] * 4, "lad")]):
        with pytest.raises(InvalidInput, match="measured on the same instance"):
            best_of("none", bad)


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
    given = ["rates", "--quick", "--epsilons", "0.06,0.05,0.04,0.032", "--workers", "1", "--json"]
    result = CliRunner().invoke(app, [*given, "--out", str(out)])
    assert result.exit_code == 0, result.output
    return out, json.loads(result.stdout)


def test_the_command_measures_what_theory_says(written):
    out, data = written
    rows = {(s["instance"], s["label"]): s for s in data["series"]}
    assert list(data["instances"]) == list(experiments.INSTANCES)
    for instance in experiments.INSTANCES:
        least = dict(zip(*(rows[instance, "FedMLS, K_min"][k] for k in ("epsilons", "rounds")), strict=True))
        for label in ("FedMLS", "FedMLS, tuned", "FedMLS, exact"):
            s = rows[instance, label]
            assert s["rounds"] and all(r <= least[e] for e, r in zip(s["epsilons"], s["rounds"], strict=True))  # Theorem 1
        if instance != "split":
            assert rows[instance, "FedMLS"]["fit"]["verdict"] == "1/eps", instance
    for label in ("FedProx, constant", "FedProx, 1/sqrt(t)", "FedAvg 10, constant", "FedAvg 10, 1/sqrt(t)", "FedAvg 100, constant"):
        assert rows["pull", label]["fit"]["verdict"] == "1/eps^2", label
    assert rows["pull", "FedProx, held, cut"]["fit"]["verdict"] == "better than 1/eps"
    for instance in ("chain", "split"):
        bound = rows[instance, "any method at all"]["rounds"]
        for s in data["series"]:
            if s["instance"] == instance and s["role"] == "measured":
                assert (np.array(s["rounds"]) >= bound[: len(s["rounds"])]).all(), s["label"]
    span = np.array(rows["split", "one subgradient a round"]["rounds"])
    assert all((np.array(rows["split", f"subgradient, {k}"]["rounds"]) >= span).all() for k in ("constant", "1/sqrt(t)", "held, cut"))
    assert (np.array(rows["split", "FedMLS, exact"]["rounds"]) < span).all()
    assert {"commit", "seed"} <= set(data["provenance"])
    assert {p.name for p in out.iterdir()} == {"rates.json", "rates.png", "rates.pdf"}


def test_the_best_are_the_best_of_the_schedules(written):
    _, data = written
    assert len(data["best"]) == 3 * len(experiments.INSTANCES)
    for b in data["best"]:
        parts = [s for s in data["series"] if (s["instance"], s["method"]) == (b["instance"], b["method"])]
        for epsilon, rounds in zip(b["epsilons"], b["rounds"], strict=True):
            assert rounds == min(s["rounds"][s["epsilons"].index(epsilon)] for s in parts if epsilon in s["epsilons"])


def test_the_figures_show_what_was_measured(written):
    _, data = written
    figure = drawing.draw(data)
    for ax, instance in zip(figure.axes, experiments.INSTANCES, strict=False):
        texts = [t.get_text() for t in ax.texts]
        for s in (*data["series"], *data["best"]):
            if s["instance"] == instance and s["label"] in drawing._LOOKS and s["role"] == "measured" and s["fit"]:
                slope = f"{drawing._LOOKS[s['label']][0]}  {s['fit']['slope']:.2f} ±".replace("-", "\N{MINUS SIGN}")
                assert any(t.startswith(slope) for t in texts), s["label"]
    bounds = [t.get_text() for ax in figure.axes for t in ax.texts if "≥" in t.get_text()]
    assert {"any method ≥ 1/(2√2 ε) − 2", "any method ≥ 1/(4ε) − 2", "one subgradient ≥ 1/(4ε²) − 1"} <= set(bounds)
    small = drawing.draw_summary(data)
    assert small.get_figwidth() <= 10 and len(small.axes) == 2
    # letters are at least as large, for the width of the picture, as 8 points are in one of 10 inches
    assert min(t.get_fontsize() for ax in small.axes for t in ax.texts) >= 0.8 * small.get_figwidth()


@pytest.mark.parametrize("epsilon", [0.05, 0.02, 0.0071])
def test_the_bounds_in_the_figure_are_those_of_the_instances(epsilon):
    split = MaximumAndChain.for_epsilon(epsilon)
    assert split.length + 2 >= 1 / (4 * epsilon) - 2 and split.share >= 1 / (4 * epsilon**2) - 1
    assert ArjevaniShamir.for_epsilon(epsilon).dim >= 1 / (2 * math.sqrt(2) * epsilon) - 2


def test_the_headline_follows_the_crossovers():
    def data(left, right, dyn):
        rows = [("split", left), ("lad", right)]
        found = [(i, o, ahead) for i, ahead in rows for o in ("FedProx", "FedAvg", "subgradient")]
        found += [(i, "FedDyn, exact", dyn) for i, _ in rows]
        return {"crossovers": [{"instance": i, "other": o, "ours": "FedMLS, exact", "ahead_at_smallest": a} for i, o, a in found]}

    def claim(*ahead):
        return drawing._claim(data(*ahead), ("split", "lad"), {"split": "the left", "lad": "the right"})

    ours = "FedMLS, exact"
    assert "on the left only, of FedDyn on none" in claim(ours, "FedProx", "FedDyn, exact")
    assert "on the left and the right, of FedDyn on the left and the right" in claim(ours, ours, ours)
    assert "nowhere" in claim("FedAvg", "FedProx", "FedDyn, exact")


def test_progress_is_counted_right(monkeypatch):
    monkeypatch.setattr(experiments, "smallest_rounds", lambda *a, **k: (math.nan, "not run"))
    monkeypatch.setattr(experiments, "tune", lambda *a, **k: (math.inf, None))
    ticks, epsilons = [], [0.2, 0.15, 0.12, 0.1]
    experiments.compute(epsilons, progress=ticks.append)
    assert len(ticks) == len(experiments.parts(epsilons))


def test_an_interrupt_keeps_what_is_finished(monkeypatch, tmp_path):
    monkeypatch.setattr(experiments, "smallest_rounds", lambda *a, **k: (math.nan, "not run"))
    monkeypatch.setattr(experiments, "tune", lambda *a, **k: (math.inf, None))

    def interrupted(epsilon):
        raise KeyboardInterrupt

    monkeypatch.setattr(instances, "chain_case", interrupted)
    monkeypatch.setattr(experiments, "_cases", experiments._cases.__wrapped__)  # none is kept for later tests
    args = ["rates", "--quick", "--epsilons", "0.2,0.15,0.12,0.1", "--workers", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, args)
    assert result.exit_code == 130 and "interrupted" in result.stderr
    stored = json.loads((tmp_path / "rates.json").read_text())
    assert stored["complete"] is False and list(stored["instances"]) == ["pull", "fixed-pull"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rates.cells.sqlite", "rates.json"]
    monkeypatch.setattr(instances, "pull_case", interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiments.compute([0.2, 0.15, 0.12, 0.1], quick=True)


def test_the_command_refuses_bad_accuracies():
    result = CliRunner().invoke(app, ["rates", "--epsilons", "0.2,0.1"])
    assert result.exit_code == 2 and "2 different epsilons" in " ".join(result.output.split())
    result = CliRunner().invoke(app, ["rates", "--epsilons", "0.2,x"])
    assert result.exit_code == 2 and "write numbers with commas" in " ".join(result.output.split())
