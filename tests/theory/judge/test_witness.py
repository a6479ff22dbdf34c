"""Witness files: the shipped ones replay, changed or broken ones are refused; the search finds what is there, and only that."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from fedtheory.errors import DataFileError, InvalidInput, UnknownName
from fedtheory.rational import simplest_between
from fedtheory.theorems import all_statements, get
from fedtheory.theorems.fedelasticnet.merged_clients import MergedClients
from fedtheory.theory.judge import replay as witnesses
from fedtheory.theory.judge.check import RELATIVE_TOLERANCE, worst_sides
from fedtheory.theory.judge.registry import paper, setting_of
from fedtheory.theory.judge.search import Target
from fedtheory.theory.judge.statement import Sides, le
from fedtheory.theory.judge.witness import FORMAT
from tests.theorems.fedelasticnet.runs import SHIPPED, changed, witness_of

BUILTIN = witnesses.builtin_witnesses("fedelasticnet")
STALL = witness_of(  # L(x) = x^2/2 from x = 1 with lambda_1 = 1: nothing ever moves, and (11) with sign(0) = 0 reads 1 = 0
    "fedelasticnet/eq-11", "printed", "sign", [["1"]], [["0"]], 1, 28, 1, ["1"], lhs="1", rhs="0"
)
FROM_A_STATE = "fedelasticnet/eq-11", "printed", "sign", [["1"], ["1"]], [["0"], ["0"]], 3, 28, 1, ["1"]
rerun = witnesses.replay


@pytest.mark.parametrize("witness", SHIPPED, ids=lambda w: w.name)
def test_shipped_witnesses_replay(witness):
    check = rerun(witness)
    assert (check.verdict, check.mode) == ("violated", "rational")
    assert get(witness.statement).form(witness.form).established[witness.rule] == "violated"
    assert Fraction(witness.lhs) > Fraction(witness.rhs)
    _, lhs, rhs, scale = witnesses.exact_check(witness)
    assert (lhs - rhs) / scale > Fraction(1, 10_000)
    if witness.kind != MergedClients.kind:
        losses = {str(pair) for pair in zip(witness.data["h"], witness.data["c"], strict=True)}
        assert len(losses) <= 4 and len(witness.data["h"][0]) <= 8


def test_every_form_on_record_as_violated_has_a_witness():
    have = {(w.statement, w.form, w.rule) for w in BUILTIN}
    want = {
        (s.id, f.name, rule)
        for s in all_statements("fedelasticnet/")
        if s.scope in ("round", "run", "motion", "standstill")
        for f in s.forms
        for rule, verdict in f.established.items()
        if verdict == "violated"
    }
    assert want - have == set()


@pytest.mark.parametrize("witness", SHIPPED, ids=lambda w: w.name)
def test_one_changed_number_is_noticed(witness):
    data = witness.data.get("drawn", witness.data)
    [name] = {"lambda2", "method.l2"} & set(data)
    data = {**data, name: str(Fraction(data[name]) * Fraction(1001, 1000))}
    longer = replace(witness, data={**witness.data, "drawn": data} if "drawn" in witness.data else data)
    with pytest.raises(InvalidInput, match=r"changed after"):
        rerun(replace(witness, lhs=str(Fraction(witness.lhs) + 1)))
    try:
        rerun(longer)
    except InvalidInput as error:
        assert "changed after" in str(error) or "holds here" in str(error)
    else:  # where lambda_2 does not enter (nothing moves), the claim stays true
        assert witnesses.exact_check(longer)[1:3] == (Fraction(witness.lhs), Fraction(witness.rhs))


def test_data_that_do_not_violate_are_refused():
    assert rerun(STALL).verdict == "violated"
    with pytest.raises(InvalidInput, match="not a witness"):
        rerun(changed(STALL, start=["0"]))
    with pytest.raises(InvalidInput, match="changed after it was found"):
        rerun(replace(STALL, lhs="2"))
    with pytest.raises(InvalidInput, match="not a witness"):
        rerun(replace(STALL, form="repaired"))


def of(name, form="printed", **data):
    """The stalled instance as a witness of another statement."""
    return changed(replace(STALL, statement=f"fedelasticnet/{name}", kind=name, form=form), **data)


def test_assumptions_are_part_of_the_claim():
    b6 = of("theorem-b6", l2="50")
    found, *_ = witnesses.exact_check(b6)
    assert found.verdict == "violated"
    with pytest.raises(InvalidInput, match="lambda_2/beta > 27 is not met"):
        rerun(changed(b6, l2="27"))
    with pytest.raises(InvalidInput, match="some client's loss is not convex"):
        rerun(changed(STALL, h=[["-1"]]))
    with pytest.raises(InvalidInput, match="not claimed for the"):
        rerun(of("theorem-a", "repaired", rounds=1))
    with pytest.raises(InvalidInput, match="cohort_size = 2 of 1 clients"):
        rerun(changed(STALL, cohort_size=2))
    with pytest.raises(InvalidInput, match=r"before = .*the clients are 0 to 0"):
        rerun(changed(STALL, rounds=1, before=[[1]]))
    with pytest.raises(InvalidInput, match="rounds = 0: the statement is declared for 1 to 400"):
        rerun(of("theorem-3.1", l2="50"))
    with pytest.raises(InvalidInput, match="has no sides to compare"):
        rerun(of("constants"))
    for wrong in (replace(STALL, statement="fedelasticnet/eq-111"), replace(STALL, form="as printed")):
        with pytest.raises(UnknownName, match="did you mean"):
            rerun(wrong)


def test_assumptions_are_asked_for_at_their_limits():
    run = of("theorem-3.1", "no floor", rounds=1)
    with pytest.raises(InvalidInput, match=r"method\.l1: the distance 0 from the limit is not above 0"):
        rerun(changed(STALL, l1="0"))
    least = get(run.statement).form("no floor").limits["lambda_2/beta"]
    with pytest.raises(InvalidInput, match=f"lambda_2/beta > {least:.6g} is not met"):
        rerun(changed(run, l2=str(Fraction(least))))
    for cohorts in ("0", [0]):
        with pytest.raises(InvalidInput, match=r"before = .* expected a list of lists of client numbers"):
            rerun(changed(STALL, before=cohorts))
    for T in (1, 400, 401, 0, True, 1.0):
        again = changed(run, rounds=T, start=["0"])
        if T in (1, 400) and type(T) is int:
            assert witnesses.exact_check(again)[0].mode == "rational"
        else:
            with pytest.raises(InvalidInput, match=f"rounds = {T}"):
                rerun(again)


def test_a_run_is_judged_at_its_last_horizon():
    sides = Sides(*(np.array([[n], [n + 1], [n + 2]]) for n in (1, 4, 7)), "<=")
    last = sides.at_the_end()
    assert [a.tolist() for a in (last.lhs, last.rhs, last.scale)] == [[[3]], [[6]], [[9]]] and last.relation == "<="


def test_arbitrary_states_keep_h_the_mean_of_what_is_stored():
    state = {"stored": [["1"], ["-1"]], "local": [["0"], ["0"]]}
    witness = witness_of(*FROM_A_STATE, state=state)
    check, lhs, _, _ = witnesses.exact_check(witness)
    assert check.verdict == "violated" and lhs == 2  # client 2: |1 - (-1)| <= lambda_1
    with pytest.raises(InvalidInput, match="expected"):
        rerun(changed(witness, start=["1", "2"]))
    for wrong in ({**state, "stored": [["1"]]}, {**state, "local": [["1"]]}, {"stored": state["stored"]}):
        with pytest.raises(InvalidInput, match=r"the statement is about {'stored': \(2, 1\), 'local': \(2, 1\)}"):
            rerun(changed(witness, state=wrong))
    with pytest.raises(InvalidInput, match=r"state .* after 1 rounds: the statement is about"):
        rerun(changed(witness, rounds=1))
    statement = get(witness.statement)
    other = changed(witness, state={**state, "stored": [["1"], ["2"]]})
    view = setting_of(witness.statement).exact_view(statement, statement.form(witness.form), other)
    assert view.state.h.tolist() == [[[Fraction(3, 2)]]] and view.state.stored.tolist() == [[[[1], [2]]]]


def test_a_horizon_is_not_taken_for_cohorts():
    """Of a round, as many cohorts lie before it as it says, where not everybody takes part."""
    some = witness_of(*FROM_A_STATE, rounds=2)
    for before in ([[0]], [[0], [1], [0]], [[0, 1], [0, 1]]):
        with pytest.raises(InvalidInput, match=r"before = .*: not 2 cohorts of "):
            rerun(changed(some, before=before))


def test_files_round_trip(tmp_path):
    path = witnesses.save(STALL, tmp_path / "stall.json")
    assert witnesses.load(path) == STALL and json.loads(path.read_text())["format"] == FORMAT
    assert rerun(path).verdict == "violated"


@pytest.mark.parametrize("witness", SHIPPED, ids=lambda w: w.name)
def test_shipped_files_are_as_they_are_written(witness, tmp_path):
    assert witnesses.load(witnesses.save(witness, tmp_path / "again.json")) == witness


def test_a_witness_is_of_the_kind_that_its_form_is_judged_on():
    with pytest.raises(InvalidInput, match=r"is judged on instances of kind 'eq-11', not 'theorem-3\.1'"):
        rerun(replace(STALL, kind="theorem-3.1"))
    with pytest.raises(InvalidInput, match="kind = 'round': use one of eq-11, "):
        rerun(replace(STALL, kind="round"))
    about = paper("fedelasticnet").setting
    assert about.summary(STALL) == (
        "fedelasticnet/eq-11 [printed]: f1 = x²/2, start 1, P = 1, method.l1 = 1 (above 0), method.l2 = 28 (above 0)"
    )
    assert {("h", "1"), ("c", "0")} <= set(about.facts(STALL))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"lambda3": "1"}, "unknown lambda3, missing none"),
        ({"h": None}, "unknown none, missing h"),
        ({"drawn": {"method.l1": 1.0, "method.l2": "28"}}, "drawn: write fractions as strings"),
        ({"drawn": {"method.l1": "1"}}, r"drawn \['method.l1'\]: the statement varies \['method.l1', 'method.l2'\]"),
        ({"h": "1"}, r"shapes .*expected \(N, d\), \(N,\), \(d,\)"),
        ({"h": [["1"], ["1"]]}, r"shapes .*expected \(N, d\), \(N,\), \(d,\)"),
        ({"weights": ["2"]}, r"weights \['2'\]: they must be >= 0 and sum to 1"),
    ],
)  # fmt: skip
def test_malformed_data_are_refused(data, message):
    told = {k: v for k, v in {**STALL.data, **data}.items() if v is not None}
    with pytest.raises(InvalidInput, match=message):
        rerun(replace(STALL, data=told))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "not JSON, or truncated"),
        (lambda text: "", "not JSON"),
        (lambda text: "[1, 2]", "not a witness file"),
        (lambda text: text.replace("version 2", "version 1"), f'is \'fedtheory witness, version 1\' and must be "{FORMAT}"; take a'),
        (lambda text: text.replace('"lhs"', '"lsh"'), "missing: lhs; unknown: lsh"),
        (lambda text: text.replace('"rhs": "0"', '"rhs": 0'), "rhs is 0; write it as a string"),
        (lambda text: json.dumps({**json.loads(text), "data": []}), "write it as an object"),
    ],
)
def test_broken_files_are_refused(tmp_path, damage, message):
    path = witnesses.save(STALL, tmp_path / "w.json")
    path.write_text(damage(path.read_text()))
    with pytest.raises(DataFileError, match=message):
        witnesses.load(path)


def test_missing_and_binary_files_are_refused(tmp_path):
    with pytest.raises(DataFileError, match="no such file"):
        witnesses.load(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(DataFileError, match="cannot be read"):
        witnesses.load(tmp_path / "b.json")
    with pytest.raises(InvalidInput, match="numbers are written as fractions"):
        rerun(changed(STALL, start=["one"]))
    with pytest.raises(InvalidInput, match="numbers are written as fractions"):
        rerun(changed(STALL, start=["1/0"]))


def searched(id, name, rule, budget, seed=0):
    statement = get(id)
    return setting_of(id).search(statement, statement.form(name), rule, budget, seed)


def test_the_search_finds_and_proves_a_printed_mistake():
    result = searched("fedelasticnet/lemma-b4", "printed", "sign", 200, seed=2)
    assert result.witness is not None and not result.empty
    assert rerun(result.witness).verdict == "violated"
    h = result.witness.data["h"]
    assert len(h) * len(h[0]) <= 2


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("fedelasticnet/lemma-b5", "sign"),
        ("fedelasticnet/lemma-no-l1-floor", "true-gradient"),
        ("fedelasticnet/theorem-a-step", "true-gradient"),
        ("fedelasticnet/theorem-b-step", "sign"),
        ("fedelasticnet/theorem-3.1", "sign"),
        ("fedelasticnet/theorem-a", "true-gradient"),
        ("fedelasticnet/theorem-b", "sign"),
    ],
)
def test_the_search_finds_planted_mistakes_and_nothing_else(statement, rule):
    """All mutants of the form are found on the instances on which the form itself comes back empty."""
    about = get(statement)
    form = next(f for f in about.forms if f.established.get(rule) == "holds" and f.mutants)
    budget = 400 if about.scope == "run" else 150
    targets = [Target(about, form, rule, sides) for sides in (form.sides, *(m.sides for m in form.mutants))]
    itself, *found = setting_of(statement).of_kind(form.kind).explore(form.kind, targets, budget, 1)
    assert itself.empty and itself.evaluations >= 20 and min(r.best for r in found) > 100 * RELATIVE_TOLERANCE


def test_the_same_seed_gives_the_same_result():
    first, again, other = (searched("fedelasticnet/lemma-b5", "printed", "sign", 40, seed) for seed in (3, 3, 4))
    assert (first.best, first.tightness, first.evaluations) == (again.best, again.tightness, again.evaluations)
    assert first.best != other.best or first.tightness != other.tightness
    assert 0 < first.evaluations <= 160


def test_search_refuses_what_cannot_be_searched():
    with pytest.raises(InvalidInput, match="nothing to search"):
        searched("fedelasticnet/constants", "printed", "any", 10)
    with pytest.raises(InvalidInput, match="not claimed"):
        searched("fedelasticnet/theorem-a", "repaired", "sign", 10)
    with pytest.raises(InvalidInput, match="budget"):
        searched("fedelasticnet/lemma-b5", "printed", "sign", 0)


def test_simplest_fractions():
    for low, high, expected in (("3/10", "2/5", "1/3"), ("31/10", "32/10", "16/5"), ("1/2", "1/2", "1/2"), ("9/10", "11/10", "1")):
        assert simplest_between(Fraction(low), Fraction(high)) == Fraction(expected)


def of_concentration(delta, **more):
    [found] = [w for w in BUILTIN if w.kind == "signs" and w.data["groups"] == 8 and "copies" not in w.data][:1]
    return replace(found, data={**found.data, "delta": delta}, **more)


def test_a_witness_that_would_take_long_is_given_up(monkeypatch):
    """Each of its numbers may be read; what is made of them has no end."""
    monkeypatch.setattr(witnesses, "MOST_SECONDS", 0.3)
    with pytest.raises(InvalidInput, match=r"judging fedelasticnet/concentration .* took more than 0\.3 seconds: take a"):
        rerun(of_concentration("9" * 800 + "/" + "7" * 799))


def test_sides_that_cannot_be_written_are_refused(monkeypatch):
    statement = BUILTIN[0]
    for side in (Fraction(10**5000 + 1, 7), Fraction(10**400), Fraction(1, 10**5000)):
        found = witnesses.exact_check(statement)
        monkeypatch.setattr(witnesses, "exact_check", lambda w, of, side=side, found=found: (found[0], side, found[2], found[3]))
        with pytest.raises(InvalidInput, match=r"its left side is .*too long to be told"):
            rerun(replace(statement, lhs="", rhs=""))
        monkeypatch.undo()


def test_a_check_of_a_witness_can_be_written():
    """Whatever constants its view shows, also in fractions."""
    for witness in witnesses.builtin_witnesses("fedmls"):
        check = witnesses.exact_check(witness)[0]
        assert json.loads(json.dumps(check.to_json()))["verdict"] == witness.verdict


def test_a_claim_is_of_a_place_where_the_form_fails():
    """Of several places any that fails; one that does not shows nothing of the others."""
    lhs, rhs = (np.array([Fraction(v) for v in row], dtype=object) for row in ((3, 1, 2), (1, 2, 1)))
    sides = le(lhs, rhs)
    assert worst_sides(sides)[:2] == (3, 1)
    for claimed, shown in ((("2", "1"), (2, 1)), (("1", "2"), (3, 1)), (("9", "1"), (3, 1))):
        assert worst_sides(sides, claimed)[:2] == shown
