"""`fedtheory verify`: one statement, the whole campaign, what it records, refuses and keeps when interrupted."""

import json
import sys
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest
from command_line import call, instead, only_these

from fedtheory.cli import campaign as verifying
from fedtheory.theorems import get
from fedtheory.theory.judge import campaign
from fedtheory.theory.judge.case import Plan
from fedtheory.theory.judge.registry import setting_of
from fedtheory.theory.judge.statement import Statement

ONLY = ("fedelasticnet/eq-17", "fedelasticnet/eq-28", "fedelasticnet/lemma-b2", "fedelasticnet/eq-41-chain")


def shared(rule, fails=()):
    """The first instance of what is about one round under a rule, on which these forms fail."""
    statements = [get(name) for name in ONLY[:3]]
    setting = setting_of(ONLY[0]).part(statements[0])
    for instance in setting.instances(Plan(scale=0.5)):
        if (instance.kind, instance.rule) == ("eq-11", rule):
            found = {(c.statement, c.form) for c in setting.check(instance, statements) if c.verdict == "violated"}
            if found >= {*fails}:
                return instance
    raise AssertionError(f"no instance on which {fails} fail")


FAILS = (("fedelasticnet/eq-28", "printed"), ("fedelasticnet/lemma-b2", "literal"))
TASKS = [campaign.Task("fedelasticnet", i) for i in (shared("sign", FAILS), shared("true-gradient"))]


@pytest.fixture
def small(monkeypatch):
    """A campaign of two instances, four statements and no figures, in this process."""
    monkeypatch.setattr(campaign, "plan", lambda *a, **k: TASKS)
    only_these(monkeypatch, *map(get, ONLY))
    monkeypatch.setattr(verifying, "shipped_witnesses", list)
    no_figures = SimpleNamespace(draw_all=lambda *args, **options: [])
    monkeypatch.setitem(sys.modules, "fedtheory.report.figures", no_figures)


# --- verify ---------------------------------------------------------------------------------------
def test_verify_one_statement(tmp_path):
    args = ("verify", "eq-28", "--problem", "quadratic", "-P", 2, "--l1", 1, "--l2-over-beta", 100, "--out", tmp_path)
    result = json.loads(call(*args, "--json").stdout)
    verdicts = {c["form"]: c["verdict"] for c in result["checks"]}
    assert verdicts == {"printed": "violated", "repaired": "holds"}
    assert result["as_recorded"]
    assert json.loads((tmp_path / "verify-eq-28-quadratic.json").read_text())["verdict"] == "holds"
    assert "violated" in call(*args).stdout


def test_verify_one_statement_against_the_record(monkeypatch):
    statement = get("fedelasticnet/eq-28")
    wrong = replace(statement, forms=tuple(replace(f, established={"sign": "holds"}) for f in statement.forms))
    instead(monkeypatch, wrong)
    result = call("verify", "eq-28", "-P", 2, "--l1", 1, "--l2-over-beta", 100, code=1)
    assert "on record as holding" in result.stdout


def test_forms_that_fail_elsewhere_come_with_their_witness():
    text = call("verify", "theorem-3.1", "--problem", "diabetes", "-P", 2).stdout
    name = "fedelasticnet-theorem-3.1-c-0-not-squared-sign"
    assert f"C_0 not squared: {name}\n" in text and "repaired: " not in text
    assert "Not violated here, or not applicable, but on record as violated" in " ".join(text.split())
    assert "left - right" in call("replay", name).stdout
    text = call("verify", "fedmls/theorem-1", "--problem", "lad", "--epsilon", 0.5).stdout
    assert "printed: fedmls-theorem-1-joint-g\n" in text and "arithmetic: fedtheory replay" not in text


def test_campaign_writes_everything_and_succeeds(small, tmp_path):
    result = json.loads(call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, "--json").stdout)
    stored = json.loads((tmp_path / "campaign.json").read_text())
    assert stored["checked"] == stored["instances"] == len(TASKS)
    assert stored["ok"] and stored["complete"] and result["exit_code"] == 0
    assert {r["statement"] for r in stored["rows"]} == set(ONLY)
    assert stored["provenance"]["versions"]["numpy"] and stored["memory_mib"]["main"] > 0
    assert all(r["instances"] for r in stored["rows"])
    assert "</html>" in (tmp_path / "report.html").read_text()
    assert "eq-28" in (tmp_path / "report.md").read_text()
    assert not list(tmp_path.glob(".*")), "temporary files left behind"


@pytest.mark.parametrize("details", [(), ("--details",)])
def test_campaign_prints_one_table(small, tmp_path, details):
    text = " ".join(call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, *details).stdout.split())
    assert "✗ violated" in text and "verdicts are the recorded ones" in text and "peak memory" in text
    assert ("true-gr." in text) == bool(details)


def test_campaign_fails_on_a_verdict_that_is_not_the_recorded_one(small, monkeypatch, tmp_path):
    statement = get("fedelasticnet/eq-28")
    forms = tuple(replace(f, established={**f.established, "sign": "holds"}) for f in statement.forms)
    instead(monkeypatch, replace(statement, forms=forms))
    result = call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, code=1)
    assert "(!)" in result.stdout
    assert "fedelasticnet/eq-28 [printed, sign rule]: violated, on record as holds" in result.stderr
    assert not json.loads((tmp_path / "campaign.json").read_text())["ok"]
    assert "not the recorded ones" in (tmp_path / "report.html").read_text()


def test_what_is_open_does_not_fail(small, monkeypatch, tmp_path):
    statement = get("fedelasticnet/eq-28")
    forms = tuple(replace(f, established=dict.fromkeys(f.established, "open")) for f in statement.forms)
    instead(monkeypatch, replace(statement, forms=forms))
    call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0)
    found = json.loads((tmp_path / "campaign.json").read_text())
    still = [r for r in found["rows"] if r["statement"] == statement.id]
    assert found["ok"] and {r["established"] for r in still} == {"open"} and "violated" in {r["verdict"] for r in still}


def test_a_form_without_an_instance_fails_a_whole_campaign_and_is_left_out_of_a_small_one(small, monkeypatch, tmp_path):
    statement = get("fedelasticnet/eq-28")
    forms = tuple(replace(f, established={**f.established, "elsewhere": "holds"}) for f in statement.forms)
    instead(monkeypatch, replace(statement, forms=forms))
    whole = call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, code=1)
    assert "not applicable, on record as holds" in whole.stderr
    few = " ".join(call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, "--scale", 0.5).stdout.split())
    assert f"{len(forms)} forms met no instance that they are about in so small a campaign" in few


def test_an_interrupted_campaign_keeps_what_it_has(small, monkeypatch, tmp_path):
    @contextmanager
    def interrupted(what, total=None):
        def advance(steps=1, known=False):
            if what == "instances":
                raise KeyboardInterrupt

        yield advance

    monkeypatch.setattr(verifying, "progress", interrupted)
    result = call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, code=130)
    stored = json.loads((tmp_path / "campaign.json").read_text())
    assert stored["complete"] is False and stored["ok"] is False
    assert stored["checked"] == 1, "the first instance was checked before the interrupt"
    assert "interrupted" in result.stderr and "incomplete" in result.stderr
    assert "Incomplete" in (tmp_path / "report.html").read_text()


def test_an_interrupted_search_keeps_the_searches_that_were_finished(small, monkeypatch, tmp_path):
    of = {"statement": "fedelasticnet/eq-28", "form": "repaired", "rule": "sign", "best_instance": {"m": 2}, "evaluations": 5}
    seen = []

    def search(task):
        seen.append(task)
        if len(seen) == 3:
            raise KeyboardInterrupt
        return [{**of, "found": len(seen) == 2}]

    jobs = [("round",), ("run",), ("motion",)]
    monkeypatch.setattr("fedtheory.theory.judge.setting.Joined.searches", lambda *_: jobs)
    monkeypatch.setattr("fedtheory.theory.judge.campaign.search_told", search)
    result = call("verify", "--out", tmp_path, "--workers", 1, "--budget", 5, code=130)
    stored = json.loads((tmp_path / "campaign.json").read_text())
    assert [s["found"] for s in stored["searches"]] == [False, True] and not stored["complete"]
    assert "counterexample to fedelasticnet/eq-28 [repaired, sign rule]" in result.stderr
    assert "before all searches were finished" in result.stderr
    assert stored["checked"] == stored["instances"], "the instances were through"
    monkeypatch.setattr("fedtheory.theory.judge.campaign.checks_told", lambda task: pytest.fail("an instance was judged twice"))
    result = call("verify", "--out", tmp_path, "--workers", 1, "--budget", 5, code=1)
    done = json.loads((tmp_path / "campaign.json").read_text())
    assert len(done["searches"]) == len(seen) - 1, "two were found again, the third one was begun twice"
    assert "going on from" in result.stderr and not list(tmp_path.glob("*sqlite*"))


def test_interrupting_the_figures_keeps_the_verdicts(small, monkeypatch, tmp_path):
    def draw_all(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "fedtheory.report.figures", SimpleNamespace(draw_all=draw_all))
    call("verify", "--out", tmp_path, "--workers", 1, "--budget", 0, code=130)
    assert json.loads((tmp_path / "campaign.json").read_text())["complete"] is True
    assert (tmp_path / "report.html").exists()


def test_a_shipped_witness_that_does_not_replay_fails_the_campaign(small, monkeypatch, tmp_path):
    from fedtheory.theory.judge.replay import builtin_witnesses

    good = next(w for w in builtin_witnesses("fedelasticnet") if w.statement == "fedelasticnet/eq-28")
    monkeypatch.setattr(verifying, "shipped_witnesses", lambda: [good])
    args = ("verify", "--out", tmp_path, "--workers", 1, "--budget", 0)
    assert any(line.split()[-1:] == ["yes"] for line in call(*args).stdout.splitlines())
    monkeypatch.setattr(verifying, "shipped_witnesses", lambda: [replace(good, rhs="0")])
    assert f"the witness {good.name} does not replay" in call(*args, code=1).stderr


def test_a_counterexample_to_a_repair_fails_the_campaign(small, monkeypatch, tmp_path):
    of = {"statement": "fedelasticnet/eq-28", "form": "repaired", "rule": "sign"}
    found = [{**of, "found": True, "best_instance": {"m": 2}, "evaluations": 5}]
    monkeypatch.setattr(verifying, "_search", lambda *a: (found, True))
    result = call("verify", "--out", tmp_path, "--workers", 1, "--budget", 5, code=1)
    assert "counterexample to fedelasticnet/eq-28 [repaired, sign rule]" in result.stderr


THEOREM = ("verify", "theorem-3.1", "--problem", "quadratic", "-P", 2, "--rounds", 4, "--mode", "monte-carlo", "--scenarios", 4)


@pytest.mark.parametrize("finished", [0, 1])
def test_an_interrupted_statement_keeps_the_stages_that_were_finished(finished, monkeypatch, tmp_path):
    from fedtheory.theory.rounds import method_setting, on_problem

    real, calls = method_setting.run, []
    monkeypatch.setattr(on_problem, "FIRST", 2)

    def interrupted(*args, on_round=None, **options):
        if on_round is None:
            return real(*args, **options)
        calls.append(options["first"])

        def after(t, count):
            on_round(t, count)
            if len(calls) > finished and t == 2:
                raise KeyboardInterrupt

        return real(*args, on_round=after, **options)

    monkeypatch.setattr(method_setting, "run", interrupted)
    result = call(*THEOREM, "--out", tmp_path, code=130)
    written = list(tmp_path.glob("*.json"))
    if not finished:
        assert result.stderr.endswith("interrupted after about 1 of 2 scenarios: nothing is decided yet, nothing was written\n")
        assert result.stdout == "" and not written
        return
    stored = json.loads(written[0].read_text())
    assert stored["complete"] is False
    assert {c["scenarios"] for c in stored["checks"] if c["scenarios"]} == {2}
    assert "2 of at most 4 scenarios were judged" in result.stdout and "wrote" in result.stdout
    assert "incomplete: interrupted after about 3 of 4 scenarios" in result.stderr


@pytest.mark.parametrize("args", [("eq-28", "-P", 2), ("fedmls/theorem-1", "--problem", "lad", "--epsilon", 0.5)])
def test_an_interrupt_before_any_verdict_says_so(args, monkeypatch, tmp_path):
    def verify(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Statement, "verify", verify)
    result = call("verify", *args, "--out", tmp_path, code=130)
    assert result.stderr == "error: interrupted: nothing is decided yet, nothing was written\n" and not list(tmp_path.iterdir())
