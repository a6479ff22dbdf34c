"""Claims of EFL's figures are in their data."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedtheory.algorithms import FedElasticNetProx
from fedtheory.errors import UnknownName
from fedtheory.local import GradientSteps, InverseTime
from fedtheory.messages import Threshold
from fedtheory.participation.cohorts import Uniform
from fedtheory.plotting.figure import restored
from fedtheory.plotting.style import house_style, save
from fedtheory.problems import Quadratic, random_logistic
from fedtheory.provenance import write_json
from fedtheory.report.figures import Effort, draw_all, figures_of
from fedtheory.simulation.simulate import simulate
from fedtheory.store.result_store import ResultStore
from fedtheory.theorems.efl.table_1_world import STRONGLY_CONVEX, rounds
from fedtheory.theory.judge.registry import papers
from paper_figures.efl import bits as figure_of_bits
from paper_figures.efl import (
    compressed_convergence,
    learning_rate_after_shift,
    scheme_limit,
    table_1,
    theorem_1,
    theorem_1_worst,
    theorem_2,
)
from paper_figures.efl.bits import COMPRESSORS, EFL_NAME, L1_VALUES, SparseWire, net, verdict
from paper_figures.efl.learning_rate_after_shift import Restarted


@pytest.fixture(scope="module")
def bounds():
    return theorem_1.compute(rounds=120, departed_rounds=9000)


@pytest.fixture(scope="module")
def bias():
    return scheme_limit.compute(rounds=120, scenarios=60)


# --- Theorem 1 ------------------------------------------------------------------------------------
def test_the_repaired_bound_is_above_the_exact_error_in_every_panel(bounds):
    drawn = [p for p in bounds["panels"] if "undefined" not in p]
    assert len(bounds["panels"]) == 12 and len(drawn) == 11
    for p in drawn:
        assert (p["repaired"] >= p["measured"]).all() and (p["measured"] > 0).all()
        # what the picture says: the printed bound is crossed after the departure, and in no other panel
        assert (p["printed"] < p["measured"]).any() == (p["regime"] == "departure")


def test_after_the_departure_the_error_is_the_distance_of_the_optima(bounds):
    """f = (w - 1)^2/2 stays, (w + 1)^2/2 leaves: the model goes from 0 to 1."""
    for p in bounds["panels"]:
        if p["regime"] == "departure" and "undefined" not in p:
            assert p["measured"][-1] == pytest.approx(1, rel=1e-3)


def test_corrected_scheme_of_a_departed_client_is_left_out(bounds):
    (p,) = [p for p in bounds["panels"] if "undefined" in p]
    assert (p["regime"], p["scheme"]) == ("departure", "C-corrected")


# --- limits ---------------------------------------------------------------------------------------
TWO = Quadratic(np.ones((2, 1, 1)), [[1.0], [-1.0]])


@pytest.mark.parametrize(
    ("scheme", "second", "expected"),
    [
        ("A", [0, 0.5, 0.5], 1 / 2),
        ("B", [0, 1, 0], 1 / 3),
        ("C", [0.5, 0, 0.5], 1 / 3),
        ("C", [0, 1, 0], 0),
        ("C-corrected", [0.5, 0, 0.5], 0),
    ],
)
def test_limits_by_hand(scheme, second, expected):
    """f_1 = (w - 1)^2/2 always makes both steps, f_2 = (w + 1)^2/2 goes by ``second``: (q_1 - q_2)/(q_1 + q_2), q = E[p s]."""
    law = np.array([[0, 0, 1], second], dtype=float)
    assert scheme_limit.limit(TWO, scheme, law) == pytest.approx([expected], abs=1e-12)


def test_laws_are_equal_without_unevenness():
    assert np.ptp(scheme_limit.uneven_laws(0.0), axis=0).max() == 0
    for c in (0.0, 0.5, 1.0):
        law = scheme_limit.uneven_laws(c)
        assert (law >= 0).all() and law.sum(axis=1) == pytest.approx(1)
    assert (np.diff(scheme_limit.uneven_laws(1.0)[:, 0]) > 0).all()


def test_bias_needs_different_data_and_uneven_participation(bias):
    for scheme in ("A", "B", "C"):
        assert bias[scheme]["data"][0] == pytest.approx(0, abs=1e-12)
        assert bias[scheme]["participation"][0] == pytest.approx(0, abs=1e-12)
        assert (np.diff(bias[scheme]["data"]) > 0).all() and (np.diff(bias[scheme]["participation"]) > 0).all()
    assert bias["A"]["data"][-1] > bias["B"]["data"][-1] > bias["C"]["data"][-1] > 0.5
    assert max(bias["C-corrected"]["data"].max(), bias["C-corrected"]["participation"].max()) < 1e-12


def test_runs_end_where_the_formula_says(bias):
    at = np.searchsorted(bias["levels"], bias["measured_levels"])
    for scheme in theorem_1.SCHEMES:
        assert bias[scheme]["data_measured"] == pytest.approx(bias[scheme]["data"][at], abs=0.05)
        assert bias[scheme]["participation_measured"][0] == pytest.approx(bias[scheme]["participation"][10], abs=0.05)
    assert bias["A"]["data_measured"][-1] > bias["B"]["data_measured"][-1] > bias["C"]["data_measured"][-1]


# --- Table 1 --------------------------------------------------------------------------------------
def test_map_of_table_1():
    data = table_1.compute(grid=41)
    mine = data["rows"].index("EFL")
    accurate, convex = data["epsilon"] <= 1, data["delta"] <= 1
    for which in data["smallest"]:
        assert not (which[np.ix_(convex, accurate)] == mine).any()
        assert which[-1, -1] == mine  # and the rest of the plane is not empty


def test_the_map_of_the_smallest_row():
    G, delta = np.logspace(-2, 2, 41)[:, None], np.logspace(-2, 2, 41)
    where = table_1.smallest(G, 1.0, 0.1, 10, 0.1, delta)
    names = np.array(STRONGLY_CONVEX)[where]
    assert set(names.ravel()) == {"SCAFFOLD", "MIME", "EFL"}
    assert not ((names == "EFL") & ((G < 0.9 - 1e-9) | (delta < 10 - 1e-9))).any()
    assert (names[(G > 0.91) & (delta > 10.01)] == "EFL").all()


def test_the_smallest_row_is_the_smallest():
    L, G, mu, S, root = 2.5, np.array([0.1, 3.0, 9.0]), 0.5, 4.0, 0.25
    for delta in (0.2, 30.0, 400.0):
        rows = np.stack([rounds(row, G, L, mu, S, root, delta) + 0 * G for row in STRONGLY_CONVEX])
        assert list(table_1.smallest(G, L, mu, S, root, delta)) == [int(np.argmin(rows[:, i])) for i in range(3)]


# --- compression ----------------------------------------------------------------------------------
def test_only_the_consistent_residuals_lose_their_bias():
    data = compressed_convergence.compute(rounds=200, scenarios=2)
    end = {name: {k: float(v[-10:].mean()) for k, v in c.items()} for name, c in data["curves"].items()}
    biased = [name for name in end if name not in ("no compression", "consistent")]
    assert len(biased) == 4
    for name in biased:
        assert end[name]["constant"] > 3 * end["consistent"]["constant"]
        assert end[name]["decaying"] > 1.5 * end["consistent"]["decaying"]


# --- bits -----------------------------------------------------------------------------------------
def _elastic_net_run(l1, sparse, rounds=6):
    problem = random_logistic(6, 12, samples=10, seed=1)
    solver = GradientSteps(3, 0.3 / problem.constants().beta, l1="prox")
    messages = []

    def see(t, old, new, clients):
        sparse.count(t, old, new, clients)
        messages.append((clients.sent[0][0], new.x - old.x, clients.cohort.members[0]))

    method = FedElasticNetProx(l1, 0.5, "cohort")
    run = simulate(problem, method, rounds, None, Uniform(3), 1, 4, solver, ("bits",), on_round=see)
    return run.metrics["bits"][1:, 0], messages


def test_sparse_wire_of_dense_messages_is_the_dense_wire():
    sparse = SparseWire([])
    dense, _ = _elastic_net_run(0.0, sparse)
    assert np.array_equal(np.stack(sparse.bits)[:, 0], dense)


def test_sparse_wire_counts_encodings_and_catch_up():
    """By hand: each message's encoding or a dense one, and for every participant what was sent since it was last there."""
    sparse, code, full = SparseWire([]), Threshold(0.0), 64 * 12
    dense, messages = _elastic_net_run(0.03, sparse)
    owed, total, expected = np.full(6, full), 0, []
    for sent, step, members in messages:
        total += sum(min(code.encode(m).bits, full) for m in sent) + int(owed[members].sum())
        owed[members] = 0
        owed = np.minimum(owed + code.encode(step[0]).bits, full)
        expected.append(total)
    assert np.array_equal(np.stack(sparse.bits)[:, 0], expected)
    assert expected[-1] < dense[-1]  # the instance has zeros to save


def test_the_headline_follows_the_data():
    never, inf = [float("inf")] * 2, float("inf")
    nothing = {f"{n}, feedback": never for n in COMPRESSORS} | {net(v): never for v in L1_VALUES}
    fed = {**nothing, "scaled sign, feedback": [1.0, 1.0], net(0.0): [1.0, 1.0]}
    assert "no λ₁ > 0" in verdict(fed, 0.01)  # with λ₁ = 0 it is no elastic net
    assert "no compressor" in verdict({**nothing, net(0.03): [1.0, 1.0]}, 0.01)
    both = {**nothing, "scaled sign, feedback": [1.0, 1.0], net(0.03): [4.0, 4.0], net(0.0): [0.1, 0.1]}
    assert verdict(both, 0.01).startswith("To 0.01, FedAvg with scaled sign") and "4 times" in verdict(both, 0.01)
    other = {**both, net(0.03): [0.5, 0.5]}
    assert verdict(other, 0.01).startswith("To 0.01, FedElasticNet at its best λ₁ > 0 (0.03) needs 2.0 times")
    half = {**both, "scaled sign, feedback": [1.0, inf, inf]}  # of three seeds one gets there
    assert "no compressor" in verdict(half, 0.01)


def test_bits_of_every_method():
    data = figure_of_bits.compute(rounds=12, target=0.2, scenarios=2)
    names = set(data["curves"])
    assert len(names) == 2 * len(COMPRESSORS) + len(L1_VALUES) + 2
    for name, curve in data["curves"].items():
        assert (np.diff(curve["bits"]) > 0).all(), name
        hit = (curve["error"] <= 0.2).any(axis=0)
        assert np.isfinite(data["needed"][name]).tolist() == hit.tolist()
    needed = {name: np.median(v) for name, v in data["needed"].items()}
    # u and v: four dense vectors of floats a client and round, against an ST message both ways
    assert needed[EFL_NAME] > 10 * needed["ST, q = 0.1, feedback"]
    with house_style():
        figure = figure_of_bits.draw(data)
    assert isinstance(figure, Figure)
    curves = next(ax for ax in figure.axes if ax.get_title("left") == "compressors with error feedback")
    looks = [(ln.get_color(), ln.get_linestyle(), ln.get_marker()) for ln in curves.lines if ln.get_label()[0] != "_"]
    assert len({*looks}) == len(looks) == len(figure_of_bits.CURVES) + 4, "two curves look the same"


# --- shifts ---------------------------------------------------------------------------------------
def test_schedule_starts_again():
    schedule = InverseTime(1.0, 2.0)
    again = Restarted(schedule, 5)
    assert [again(t) for t in range(1, 8)] == [schedule(t) for t in (1, 2, 3, 4, 1, 2, 3)]


def test_shift():
    data = learning_rate_after_shift.compute(rounds=200, scenarios=20)
    far, near, stale = data["far"], data["near"], data["stale"]
    assert far["shift"] > 0.5 > 0.1 > near["shift"] > 0
    before = slice(data["at"] - 1)
    for panel, keys in ((far, ("continue", "restart")), (near, ("continue", "restart")), (stale, ("remove", "stale"))):
        first, second = (panel[key]["old"]["middle"] for key in keys)
        assert np.array_equal(first[before], second[before])  # the same run up to the shift
        assert all((panel[key]["new"]["low"] <= panel[key]["new"]["high"]).all() for key in keys)
    later = data["at"] + 20
    new = {(p, key): data[p][key]["new"]["middle"] for p, key in (("far", "restart"), ("far", "continue"), ("near", "restart"),
           ("near", "continue"), ("stale", "remove"), ("stale", "stale"))}  # fmt: skip
    assert new["far", "restart"][later] < new["far", "continue"][later] / 2
    assert new["near", "restart"][later] > new["near", "continue"][later]
    assert new["stale", "remove"][-1] < new["stale", "stale"][-1] / 3
    left = far["continue"]["old"]["middle"]
    assert left[-1] > 3 * left[data["at"] - 1]  # it does leave the old optimum


def test_theorem_2():
    data = theorem_2.compute(points=9)
    leave, come = data["departure"], data["arrival"]
    assert (leave["repaired"] >= leave["true"]).all() and (leave["printed"] >= 4 * leave["true"] * (1 - 1e-12)).all()
    assert come["repaired"] == pytest.approx(come["true"], rel=1e-12)  # attained
    few = come["ratio"] <= 1
    assert (come["printed"][few] >= come["true"][few] * (1 - 1e-12)).all() and (come["printed"][~few] < come["true"][~few]).all()


# --- files ----------------------------------------------------------------------------------------
NAMES = [f"efl_{n}" for n in ("bound_vs_empirical", "bias", "plateaus", "bits", "shift", "theorem2", "worst_case", "table1")]


def test_all_of_a_verification_and_one_paper_s(tmp_path, monkeypatch):
    """Ask for the names of all figures, and of one paper's; their drawing is not at stake here."""
    known = {p.id: figures_of(p) for p in papers()}
    nothing = {"compute": lambda **_: {}, "draw": lambda _: Figure(), "caption": str}
    empty = {id: tuple(replace(f, **nothing) for f in found) for id, found in known.items()}
    monkeypatch.setattr("fedtheory.report.figures.figures_of", lambda p: empty[p.id])
    one: list[str] = []
    files = draw_all(tmp_path / "one", seed=2, progress=one.append, effort=Effort(dpi=20), papers=["efl"])
    assert one == NAMES
    assert sorted(p.name for p in files) == sorted(f"{n}.{e}" for n in one for e in ("png", "pdf", "json"))
    every: list[str] = []
    draw_all(tmp_path / "all", progress=every.append, effort=Effort(dpi=20))
    assert every == [f.name for found in known.values() for f in found] and set(every) > set(NAMES)
    assert {"bound_vs_empirical", "elastic_aggregation"} <= set(every) and len(set(every)) == len(every)
    with pytest.raises(UnknownName, match="elastic-aggregation"):
        draw_all(tmp_path, papers=["elastic-agregation"])


def test_figures_that_are_drawn_are_not_drawn_again_unless_a_file_is_gone(tmp_path, monkeypatch):
    """Draw what is left, as after a campaign that was killed while it drew."""
    drawn: list[str] = []

    def compute(name):
        return {"compute": lambda **_: drawn.append(name) or {}, "draw": lambda _: Figure(), "caption": str}

    known = {p.id: tuple(replace(f, **compute(f.name)) for f in figures_of(p)) for p in papers()}
    monkeypatch.setattr("fedtheory.report.figures.figures_of", lambda p: known[p.id])
    every = []
    for again in range(3):
        with ResultStore(tmp_path / "c.sqlite") as cells:
            every.append(draw_all(tmp_path, effort=Effort(dpi=20), papers=["efl"], cells=cells))
        if again == 1:
            (tmp_path / "efl_bias.png").write_bytes(b"another")
    assert drawn == [*NAMES, "efl_bias"] and every[0] == every[1] == every[2]


def test_figures_are_laid_out_and_their_data_written(tmp_path, bounds, bias):
    data = {
        theorem_1: bounds,
        scheme_limit: bias,
        table_1: table_1.compute(grid=11),
        compressed_convergence: compressed_convergence.compute(rounds=4, scenarios=1),
        learning_rate_after_shift: learning_rate_after_shift.compute(rounds=8, scenarios=2),
        theorem_2: theorem_2.compute(points=5),
    }
    for module, found in data.items():
        file = tmp_path / module.__name__
        with house_style(), warnings.catch_warnings():
            warnings.simplefilter("error")  # a layout that collapses, limits that do not fit a log axis
            (path,) = save(module.draw(found), file, 40, ("png",))
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 3000
        back = restored(json.loads(write_json(file.with_suffix(".json"), found).read_text()))
        with house_style():
            assert module.draw(back).axes  # from the data alone


def test_the_worst_case_lies_between_theorem_1_and_the_run():
    data = theorem_1_worst.compute(rounds=6, horizons={1: (1, 3), 2: (2,)})
    for p in data["panels"]:
        at = np.array(p["horizons"]) - 1
        assert (p["measured"][at] <= p["worst"]).all() and (p["worst"] <= p["bounds"]["sharpened"][at]).all()
        assert (p["bounds"]["sharpened"] <= p["bounds"]["repaired"]).all() and (p["worst"] < 3 * p["measured"][at]).all()
    assert len(theorem_1_worst.draw(data).axes) == 2
