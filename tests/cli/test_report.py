"""`fedtheory report`, and `verify --instance`: a saved campaign as a page, and an instance of it built again by its name."""

import json

from campaign_rows import record_of, recorded_rows
from command_line import call, refused

from fedtheory.provenance import write_json

STATEMENT = "elastic-aggregation/sign"


def saved_campaign(folder):
    rows = recorded_rows([STATEMENT])
    return write_json(folder / "campaign.json", record_of(rows))


def test_the_help_shows_how():
    text = call("report", "--help-all").stdout
    assert "CAMPAIGN.json" in text and "--out" in text and "results/mine/campaign.json" in text
    assert "--instance" in call("verify", "--help-all").stdout


def test_the_page_is_written_beside_the_campaign_or_elsewhere(tmp_path):
    file = saved_campaign(tmp_path)
    text = call("report", file).stdout
    assert "report.html" in text and "no figures lie in" in text
    page = (tmp_path / "report.html").read_text()
    assert 'id="elastic-aggregation-sign"' in page and (tmp_path / "report.md").exists()
    assert json.loads(call("report", file, "--out", tmp_path / "there", "--json").stdout)["figures"] == 0
    assert 'id="elastic-aggregation-sign"' in (tmp_path / "there/report.html").read_text()


def test_a_file_that_is_no_campaign_leaves_no_page(tmp_path):
    assert "no such file" in refused("report", tmp_path / "campaign.json")
    file = saved_campaign(tmp_path)
    file.write_text(file.read_text()[:500])
    assert "not JSON, or truncated" in refused("report", file)
    file.write_text("[]")
    assert "must be an object" in refused("report", file)
    assert not (tmp_path / "report.html").exists()


def test_an_instance_is_what_it_was_in_the_campaign(tmp_path):
    """The check by name is the one that the campaign's own task gives."""
    from fedtheory.theorems import get
    from fedtheory.theory.judge import campaign
    from fedtheory.theory.judge.registry import paper

    task = next(t for t in campaign.plan(0, 0.1, long=False, only=[paper("elastic-aggregation")]) if "aggregation:" in t.instance.name)
    expected = {(c.form, c.verdict, c.slack) for c in task() if c.statement == STATEMENT}
    args = ("verify", STATEMENT, "--instance", task.instance.name, "--quick", "--out", tmp_path)
    result = json.loads(call(*args, "--json").stdout)
    assert {(c["form"], c["verdict"], c["slack"]) for c in result["checks"]} == expected and expected
    assert result["instance"] == task.instance.name and result["as_recorded"]
    text = " ".join(call(*args).stdout.split())
    assert task.instance.name in text and "✗ violated" in text and get(STATEMENT).title in text


def test_an_instance_that_is_none_is_refused_with_names():
    assert "only with a statement" in refused("verify", "--instance", "x")
    assert "--problem: not with --instance" in refused("verify", STATEMENT, "--instance", "x", "--problem", "diabetes")
    told = refused("verify", STATEMENT, "--instance", "aggregation: N=3 d=1 seed=99999", "--quick")
    assert "unknown instance" in told and "seed=99999'" in told and "did you mean 'aggregation: " in told and "--scale" in told
