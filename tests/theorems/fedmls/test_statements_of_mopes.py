"""The statements about MOPES, MOLES, the exact proximal step, Moreau's envelope and the orders: they hold on their battery, their
mutants are rejected, what is violated has a witness, and the search comes back empty."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedtheory import theorems
from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.errors import InvalidInput
from fedtheory.local import Exact, ExactProx, SubgradientSliding
from fedtheory.theorems.fedmls import lines
from fedtheory.theorems.fedmls.conventional_rounds import ConventionalView
from fedtheory.theorems.fedmls.exact_prox_world import ProxView
from fedtheory.theorems.fedmls.mopes_is_fedmls import SameView
from fedtheory.theorems.fedmls.mopes_world import MopesView
from fedtheory.theorems.fedmls.moreau_envelope import EnvelopeView
from fedtheory.theorems.fedmls.orders import OrdersView
from fedtheory.theory.judge import DataInstance, Plan
from fedtheory.theory.judge.check import judge_view
from fedtheory.theory.judge.registry import about_of, setting_of
from fedtheory.theory.judge.replay import builtin_witnesses, replay

WORLDS = (ProxView, MopesView, SameView, EnvelopeView, OrdersView, ConventionalView)
BUILDERS = {world.kind: world.from_data for world in WORLDS}
STATEMENTS = [s for s in theorems.all_statements("fedmls/") if s.scope not in ("fedmls", "algebra")]
FORMS = [(s, f) for s in STATEMENTS for f in s.forms if f.sides is not None]
SHIPPED = [w for w in builtin_witnesses("fedmls") if w.kind in BUILDERS]
SETTING = setting_of("fedmls/mopes-bound")


def battery(seed=0, scale=1.0):
    """Return what a campaign has of every world."""
    return [i for world in WORLDS for i in world.runs(Plan(seed=seed, scale=scale))]


def in_fractions(seed=0, scale=1.0):
    return [i for i in battery(seed, scale) if isinstance(i, DataInstance)]


def name_of(value):
    return getattr(value, "id", getattr(value, "name", ""))


@pytest.fixture(scope="module")
def views():
    return [(i, i.view()) for i in battery()]


@pytest.mark.parametrize(("statement", "form"), FORMS, ids=name_of)
def test_forms_are_as_on_record_and_their_mutants_are_rejected(statement, form, views):
    met = {rule: set() for rule in form.established}
    rejected = {m.name: False for m in form.mutants}
    for instance, view in views:
        if instance.kind != form.kind or view.applies(form) or view.rule not in form.established:
            continue
        met[view.rule].add(judge_view(statement, form, view, instance.name).verdict)
        for mutant in form.mutants:
            rejected[mutant.name] |= judge_view(statement, form, view, instance.name, sides=mutant.sides).verdict == "violated"
    for rule, verdict in form.established.items():
        if verdict == "holds":
            assert met[rule] == {"holds"}
            assert form.mutants and all(rejected.values()), rejected
        else:
            assert (statement.id, form.name, rule) in {(w.statement, w.form, w.rule) for w in SHIPPED}


@pytest.mark.parametrize("witness", SHIPPED, ids=lambda w: w.name)
def test_shipped_witnesses_replay(witness):
    check = replay(witness)
    assert (check.verdict, check.mode) == ("violated", "rational")
    assert theorems.get(witness.statement).form(witness.form).established[witness.rule] == "violated"
    with pytest.raises(InvalidInput, match="changed after"):
        replay(replace(witness, lhs=str(Fraction(witness.lhs) + 1)))
    assert witness.statement in SETTING.summary(witness) and SETTING.facts(witness)[0] == ("instance", witness.kind)


def test_a_search_refutes_nothing_that_is_on_record_as_holding():
    found = [r for kind in BUILDERS for r in SETTING.run_search((kind,), STATEMENTS, 160, 3)]
    holding = {(s.id, f.name) for s, f in FORMS if "holds" in f.established.values()}
    met = {(r.statement, r.form) for r in found if r.evaluations}
    assert met == holding - {(s.id, f.name) for s, f in FORMS if s.id in ("fedmls/moles-bound", "fedmls/moles-calls")}
    assert all(r.empty for r in found)


@pytest.mark.parametrize("form", ["the same minimiser", "line 14 as printed"])
def test_a_search_finds_what_is_false(form):
    statement = next(s for s, f in FORMS if f.name == form)
    found = SETTING.search(statement, statement.form(form), "any", 60, 1)
    assert found.witness is not None and replay(found.witness).verdict == "violated"


def test_jobs_of_a_search_cover_every_kind():
    assert {j[0] for j in SETTING.searches(theorems.all_statements("fedmls/"))} == {"lines", *BUILDERS}


@pytest.mark.parametrize(
    "instance", [i for i in in_fractions() if i.kind == "mopes"][:12], ids=lambda i: i.name
)
def test_the_run_in_fractions_is_the_library_s(instance):
    """MOPES of the library on the same interval, in floats."""
    from fedtheory.central import MOPES, Box
    from fedtheory.problems.nonsmooth import MaxAffine

    d = {k: Fraction(v) for k, v in instance.data.items() if isinstance(v, str) and k != "local"}
    low, high = sorted((d["low"], d["high"]))
    if instance.data["local"] != "sliding" or not low <= d["x0"] <= high:
        pytest.skip("the library's MOPES takes steps, from a point of X")
    slopes, offsets = ([float(Fraction(v)) for v in instance.data[k][0]] for k in ("slopes", "offsets"))
    problem = MaxAffine(np.array(slopes)[None, :, None], np.array([offsets]))
    view = instance.view()
    method = MOPES(float(d["lam"]), float(d["D"]), instance.data["rounds"], float(view.G_sq) ** 0.5, radius=2.0)
    assert method.local_steps() == lines.Run((), d["lam"], d["D"], low, high, Fraction(2), d["x0"], method.rounds, view.G_sq).steps
    run = method.run(problem, Box(1, float(low), float(high)), np.array([float(d["x0"])]))
    F = max(p * float(run.x[0]) + q for p, q in zip(slopes, offsets, strict=True))
    clients = [[(Fraction(p), Fraction(q)) for p, q in zip(instance.data["slopes"][0], instance.data["offsets"][0], strict=True)]]
    least, _ = lines.least_on(clients, low, high, d["x0"])
    assert F - float(least) == pytest.approx(float(view.excess[0, 0]), abs=1e-12)


@pytest.mark.parametrize("rounds", ["printed", "fewest"])
def test_the_counts_are_fedmls_s(rounds):
    """sum T_k of the method that `fedmls_parameters` makes, and of the view."""
    view = OrdersView.from_data({"reach": "5/2", "sigma": "1/2", "rounds": rounds})
    method = FedMLS(Fraction(1), Fraction(25, 4), view.K, 9.0, Fraction(1), Fraction(1, 2))
    assert view.total == method.total_steps(skip_last=False) and view.product == Fraction(25, 4)
    assert view.K == {"printed": 22, "fewest": 15}[rounds]  # sqrt(72) 5/2 = 21.2, and 15 * 16 = 240 >= 225 > 14 * 15


@pytest.mark.parametrize(
    ("kind", "change", "says"),
    [
        ("prox", {"radius": "1/2"}, "outside the ball"), ("prox", {"lam": "0"}, "lam = 0"), ("prox", {"rounds": 0}, "rounds = 0"),
        ("prox", {"offsets": [["0", "1"]]}, "as many offsets as slopes"),
        ("mopes", {"low": "3"}, "must lie in"), ("mopes", {"local": "none"}, "local = 'none'"), ("mopes", {"D": "1/10000"}, "larger D"),
        ("mopes", {"slopes": [["0"]]}, "constant"), ("same", {"rounds": 31}, "rounds = "
        "31"), ("envelope", {"u": [["1"]]}, "first slope"),
        ("conventional", {"method": "sgd"}, "use subgradient"), ("conventional", {"local": 2}, "has local = 1"),
        ("conventional", {"method": "fedprox"}, "slope = 1/2: it must be > 1/2"),
        ("orders", {"reach": "1/100"}, "larger reach"),
        ("orders", {"sigma": "-1"}, "sigma = -1.* must be >= 0"),
        ("orders", {"reach": "10000"}, "must be <= 1000/3"),
    ],
)  # fmt: skip
def test_data_of_no_instance_are_refused(kind, change, says):
    one = {"slopes": [["-1"]], "offsets": [["0"]], "lam": "1", "radius": "1", "x0": "1", "rounds": 3}
    given = {
        "prox": one, "same": one | {"D": "4"}, "mopes": one | {"D": "4", "low": "-1", "high": "1"},
        "envelope": {"lam": "1", "u": [["-1"]], "slopes": [[["1"], ["-9"]]], "drops": [["0", "1"]]},
        "orders": {"reach": "1", "sigma": "0", "rounds": "printed"},
        "conventional": {
            "method": "subgradient", "n": 3, "mu": "1/2", "step": "1", "rounds": 2,
            "shallow": "1", "slope": "1/2", "second": "1", "first": "1",
        },
    }[kind]  # fmt: skip
    assert BUILDERS[kind](given) is not None
    with pytest.raises(InvalidInput, match=says):
        BUILDERS[kind]({**given, **change})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"drops": [["0", "-1"], ["0"]]}, "no drop may be below 0"), ({"drops": [["0"], ["0"]]}, "as many drops as slopes"),
        ({"star": ["0", "2"]}, "largest at star"), ({"multipliers": [["1/2", "1/2"], ["1"]]}, "largest at star"),
        ({"slopes": [[["1", "0"], ["0", "1"]], [["-1", "1"]]]}, "first slope"),
        ({"u": [["-1", "0"], ["1", "1"]], "slopes": [[["1", "0"], ["0", "1"]], [["-1", "-1"]]]}, "add up to 0"),
    ],
)
def test_certificates_that_fail_are_refused(change, says):
    """max(x + 1, y) and 1 - x: at (0, -2) the first pieces are largest, and their slopes cancel."""
    given = {
        "lam": "1", "u": [["-1", "0"], ["1", "0"]], "slopes": [[["1", "0"], ["0", "1"]], [["-1", "0"]]], "drops": [["0", "0"], ["0"]],
        "star": ["0", "-2"], "multipliers": [["1", "0"], ["1"]],
    }  # fmt: skip
    view = EnvelopeView.from_data(given)
    assert (view.psi_star, view.F_star, view.F_at, view.G_sq) == (Fraction(1, 2), 1, 1, 1)
    with pytest.raises(InvalidInput, match=says):
        EnvelopeView.from_data({**given, **change})


@pytest.mark.parametrize("seed", [0, 5])
def test_every_form_has_an_instance_in_the_smallest_battery(seed):
    met = set()
    for instance in in_fractions(seed, 0.01):
        view = instance.view()
        met |= {(s.id, f.name) for s, f in FORMS if f.kind == instance.kind and view.applies(f) is None}
    linear = {(s.id, f.name) for s, f in FORMS if s.id.startswith("fedmls/moles")}  # in floats
    assert {(s.id, f.name) for s, f in FORMS if "holds" in f.established.values()} - met == linear


@pytest.mark.parametrize("statement", ["exact-prox", "mopes-bound", "theorem-2-orders"])
def test_local_work_that_stands_for_the_methods_own_is_taken(statement):
    """A run's default solver, `Exact`, and sliding itself; another one is refused with the reason."""
    s = theorems.get(f"fedmls/{statement}")
    work = about_of(s).work
    assert work is not None and {SubgradientSliding, ExactProx, Exact} == set(work.solvers)
    assert "the method's local work is its own" in work.about
