"""Witness files: the shipped ones replay, changed or broken ones are refused; the search finds what is there, and only that."""

import json
from dataclasses import asdict, replace
from fractions import Fraction

import numpy as np
import pytest

from fedtheory.errors import DataFileError, InvalidInput, UnknownName
from fedtheory.rational import simplest_between
from fedtheory.theorems import all_statements, get
from fedtheory.theorems.fedelasticnet.exact_witness import DiagonalWitness, read_version_1
from fedtheory.theory.judge import replay as witnesses
from fedtheory.theory.judge.check import RELATIVE_TOLERANCE, worst_sides
from fedtheory.theory.judge.registry import paper, setting_of
from fedtheory.theory.judge.search import Target
from fedtheory.theory.judge.statement import Sides, le
from fedtheory.theory.judge.witness import FORMAT, VERSION_1

BUILTIN = witnesses.builtin_witnesses("fedelasticnet")
SHIPPED = [DiagonalWitness.from_witness(w) for w in BUILTIN if w.kind in ("round", "run")]
STALL = DiagonalWitness(  # L(x) = x^2/2 from x = 1 with lambda_1 = 1: nothing ever moves, and (11) with sign(0) = 0 reads 1 = 0
    "fedelasticnet/eq-11", "printed", "sign", [["1"]], [["0"]], "1", "28", 1, ["1"], cohorts=[], lhs="1", rhs="0"
)


def rerun(witness):
    return witnesses.replay(witness.witness() if isinstance(witness, DiagonalWitness) else witness)


@pytest.mark.parametrize("witness", SHIPPED, ids=lambda w: w.witness().name)
def test_shipped_witnesses_replay(witness):
    check = rerun(witness)
    assert (check.verdict, check.mode) == ("violated", "rational")
    assert get(witness.statement).form(witness.form).established[witness.rule] == "violated"
    assert Fraction(witness.lhs) > Fraction(witness.rhs)
    _, lhs, rhs, scale = witnesses.exact_check(witness.witness())
    assert (lhs - rhs) / scale > Fraction(1, 10_000)
    assert len(witness.h) <= 4 and len(witness.h[0]) <= 8


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


@pytest.mark.parametrize("witness", SHIPPED, ids=lambda w: w.witness().name)
def test_one_changed_number_is_noticed(witness):
    longer = replace(witness, lambda2=str(Fraction(witness.lambda2) * Fraction(1001, 1000)))
    with pytest.raises(InvalidInput, match=r"changed after"):
        rerun(replace(witness, lhs=str(Fraction(witness.lhs) + 1)))
    try:
        rerun(longer)
    except InvalidInput as error:
        assert "changed after" in str(error) or "holds here" in str(error)
    else:  # where lambda_2 does not enter (nothing moves), the claim stays true
        assert witnesses.exact_check(longer.witness())[1:3] == (Fraction(witness.lhs), Fraction(witness.rhs))


def test_data_that_do_not_violate_are_refused():
    assert rerun(STALL).verdict == "violated"
    with pytest.raises(InvalidInput, match="not a witness"):
        rerun(replace(STALL, x0=["0"]))
    with pytest.raises(InvalidInput, match="changed after it was found"):
        rerun(replace(STALL, lhs="2"))
    with pytest.raises(InvalidInput, match="not a witness"):
        rerun(replace(STALL, form="repaired"))


def test_assumptions_are_part_of_the_claim():
    b6 = replace(STALL, statement="fedelasticnet/theorem-b6", lambda2="50")
    found, *_ = witnesses.exact_check(b6.witness())
    assert found.verdict == "violated"
    with pytest.raises(InvalidInput, match="lambda_2/beta > 27 is not met"):
        rerun(replace(b6, lambda2="27"))
    with pytest.raises(InvalidInput, match="some client's loss is not convex"):
        rerun(replace(STALL, h=[["-1"]]))
    with pytest.raises(InvalidInput, match="not claimed for the"):
        rerun(replace(STALL, statement="fedelasticnet/theorem-a", form="repaired", cohorts=None, T=1))
    with pytest.raises(InvalidInput, match="cohort_size = 2 of 1 clients"):
        rerun(replace(STALL, P=2))
    with pytest.raises(InvalidInput, match=r"before = .*the clients are 0 to 0"):
        rerun(replace(STALL, cohorts=[[1]]))
    with pytest.raises(InvalidInput, match="not both"):
        rerun(replace(STALL, cohorts=None))
    with pytest.raises(InvalidInput, match="rounds = 0: the statement is declared for 1 to 400"):
        rerun(replace(STALL, statement="fedelasticnet/theorem-3.1", lambda2="50"))
    with pytest.raises(InvalidInput, match="has no sides to compare"):
        rerun(replace(STALL, statement="fedelasticnet/constants"))
    for wrong in (replace(STALL, statement="fedelasticnet/eq-111"), replace(STALL, form="as printed")):
        with pytest.raises(UnknownName, match="did you mean"):
            rerun(wrong)


def test_assumptions_are_asked_for_at_their_limits():
    run = replace(STALL, statement="fedelasticnet/theorem-3.1", form="no floor", cohorts=None, T=1)
    with pytest.raises(InvalidInput, match=r"method\.l1: the distance 0 from the limit is not above 0"):
        rerun(replace(STALL, lambda1="0"))
    least = get(run.statement).form("no floor").limits["lambda_2/beta"]
    with pytest.raises(InvalidInput, match=f"lambda_2/beta > {least:.6g} is not met"):
        rerun(replace(run, lambda2=str(Fraction(least))))
    for cohorts in ("0", [0]):
        with pytest.raises(InvalidInput, match=r"before = .* expected a list of lists of client numbers"):
            rerun(replace(STALL, cohorts=cohorts))
    for T in (1, 400, 401, 0, True, 1.0):
        again = replace(run, T=T, lambda2="28", h=[["1"]], x0=["0"])
        if T in (1, 400) and type(T) is int:
            assert witnesses.exact_check(again.witness())[0].mode == "rational"
        else:
            with pytest.raises(InvalidInput, match=f"rounds = {T}"):
                rerun(again)


def test_merged_clients_will_do_where_no_model_is_anchored_at_theta_k():
    merged = DiagonalWitness(
        "fedelasticnet/theorem-3.1", "sign(0) = 0", "true-gradient", [["1"]], [["0"]], "1", "64", 1, ["1"], copies=[3], T=2
    )
    check, lhs, _, _ = witnesses.exact_check(merged.witness())
    written_out = replace(merged, h=[["1"]] * 3, c=[["0"]] * 3, copies=None)
    assert check.mode == "rational" and lhs == witnesses.exact_check(written_out.witness())[1]


def test_a_run_is_judged_at_its_last_horizon():
    sides = Sides(*(np.array([[n], [n + 1], [n + 2]]) for n in (1, 4, 7)), "<=")
    last = sides.at_the_end()
    assert [a.tolist() for a in (last.lhs, last.rhs, last.scale)] == [[[3]], [[6]], [[9]]] and last.relation == "<="


def test_arbitrary_states_keep_h_the_mean_of_what_is_stored():
    state = {"theta": ["1"], "stored": [["1"], ["-1"]], "local": [["0"], ["0"]]}
    witness = replace(STALL, h=[["1"], ["1"]], c=[["0"], ["0"]], lambda1="3", cohorts=None, state=state)
    check, lhs, _, _ = witnesses.exact_check(witness.witness())
    assert check.verdict == "violated" and lhs == 2 and not witness.reachable  # client 2: |1 - (-1)| <= lambda_1
    with pytest.raises(InvalidInput, match="expected"):
        rerun(replace(witness, state={**state, "theta": ["1", "2"]}))
    for name in ("stored", "local"):
        with pytest.raises(InvalidInput, match=r"the statement is about {'stored': \(2, 1\), 'local': \(2, 1\)}"):
            rerun(replace(witness, state={**state, name: [["1"]]}))
    with pytest.raises(InvalidInput, match="fields"):
        rerun(replace(witness, state={"theta": ["1"]}))
    statement = get(witness.statement)
    other = replace(witness, state={**state, "stored": [["1"], ["2"]]}).witness()
    view = setting_of(witness.statement).exact_view(statement, statement.form(witness.form), other)
    assert view.state.h.tolist() == [[[Fraction(3, 2)]]] and view.state.stored.tolist() == [[[[1], [2]]]]


def test_files_round_trip(tmp_path):
    path = witnesses.save(STALL.witness(), tmp_path / "stall.json")
    assert witnesses.load(path) == STALL.witness() and json.loads(path.read_text())["format"] == FORMAT
    assert DiagonalWitness.from_witness(witnesses.load(path)) == STALL
    assert rerun(path).verdict == "violated"


def version_1(w):
    """The text of a file as it was written before all papers had one format."""
    return json.dumps({"format": VERSION_1, **{k: v for k, v in asdict(w).items() if v is not None}}, indent=1)


@pytest.mark.parametrize("witness", SHIPPED, ids=lambda w: w.witness().name)
def test_files_of_version_1_are_read_for_ever(witness, tmp_path):
    path = tmp_path / "old.json"
    path.write_text(version_1(witness))
    assert witnesses.load(path) == witness.witness()
    assert witnesses.load(witnesses.save(witness.witness(), tmp_path / "new.json")) == witness.witness()


def test_a_witness_is_of_the_kind_that_its_form_is_judged_on():
    with pytest.raises(InvalidInput, match="is the horizon of a run"):
        rerun(replace(STALL, T=3))
    broken = STALL.witness()
    with pytest.raises(InvalidInput, match="missing: lambda1; unknown: lambda3"):
        rerun(replace(broken, data={"lambda3" if k == "lambda1" else k: v for k, v in broken.data.items()}))
    about = paper("fedelasticnet").setting
    assert about.summary(broken) == (
        "fedelasticnet/eq-11 [printed]: f1 = x²/2, start 1, P = 1, method.l1 = 1 (above 0), method.l2 = 28 (above 0)"
    )
    assert {("h", "1"), ("c", "0")} <= set(about.facts(broken))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[: len(text) // 2], "not JSON, or truncated"),
        (lambda text: "", "not JSON"),
        (lambda text: "[1, 2]", "not a witness file"),
        (lambda text: text.replace("version", "draft"), "not a witness file"),
        (lambda text: text.replace('"lambda1"', '"lambda3"'), "missing: lambda1; unknown: lambda3"),
        (lambda text: text.replace('"lambda1": "1"', '"lambda1": 1.0'), "write it as a string"),
        (lambda text: json.dumps({**json.loads(text), "h": "1"}), "expected a list"),
    ],
)
def test_broken_files_are_refused(tmp_path, damage, message):
    path = tmp_path / "w.json"
    path.write_text(damage(version_1(STALL)))
    with pytest.raises(DataFileError, match=message):
        witnesses.load(path)


def test_a_file_of_version_1_says_what_it_claims(tmp_path):
    """statement, form, rule, lhs and rhs, as texts; how it was found may be missing."""
    path, fields = tmp_path / "w.json", json.loads(version_1(STALL))
    for name in ("statement", "form", "rule", "lhs", "rhs"):
        path.write_text(json.dumps({k: v for k, v in fields.items() if k != name}))
        with pytest.raises(DataFileError, match=rf"wrong fields \(missing: {name}\)"):
            witnesses.load(path)
        path.write_text(json.dumps({**fields, name: 3}))
        with pytest.raises(DataFileError, match=f"{name} is 3; write it as a string"):
            witnesses.load(path)
    path.write_text(json.dumps({**fields, "lambda3": "1"}))
    with pytest.raises(DataFileError, match=r"wrong fields \(unknown: lambda3\)"):
        witnesses.load(path)
    path.write_text(json.dumps({k: v for k, v in fields.items() if k not in ("found_by", "provenance")}))
    assert witnesses.load(path) == STALL.witness() and STALL.witness().kind == "round"
    assert replace(STALL, cohorts=None, T=2).witness().kind == "run"
    assert read_version_1({"statement": "x"}, "x") is None


def test_missing_and_binary_files_are_refused(tmp_path):
    with pytest.raises(DataFileError, match="no such file"):
        witnesses.load(tmp_path / "none.json")
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(DataFileError, match="cannot be read"):
        witnesses.load(tmp_path / "b.json")
    with pytest.raises(InvalidInput, match="numbers are written as fractions"):
        rerun(replace(STALL, x0=["one"]))
    with pytest.raises(InvalidInput, match="numbers are written as fractions"):
        rerun(replace(STALL, x0=["1/0"]))


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
