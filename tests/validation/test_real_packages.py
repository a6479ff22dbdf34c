"""The table of audits of installed packages: it is what the kept results say, and the script refuses what it does not know."""

import json
import sys

import pytest
from repository import ROOT
from typer.testing import CliRunner

FOLDER = ROOT / "validation" / "audits"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import real_packages

    return real_packages


def app_of(script):
    import typer

    app = typer.Typer()
    app.command()(script.main)
    return app


def test_the_page_is_what_the_kept_results_say(script):
    kept = json.loads((FOLDER / "real_packages.json").read_text())
    page = (FOLDER / "real_packages.md").read_text()
    again = script.table(kept["rows"], "python validation/audits/real_packages.py", kept["provenance"]["python"])
    assert again == page
    assert {r["package"] for r in kept["rows"]} == set(script.PACKAGES)
    for row in kept["rows"]:
        failed = [c for c in row["checks"] if c["verdict"] in ("fail", "not run")]
        assert row["passed"] == (not failed) and not [c for c in failed if c["verdict"] == "not run"]
        assert row["versions"][row["package"]] == row["version"]


def test_help_and_an_unknown_package(script, tmp_path):
    run = CliRunner().invoke(app_of(script), ["--help"])
    assert run.exit_code == 0 and "--package" in run.output
    run = CliRunner().invoke(app_of(script), ["--package", "plato", "--out", str(tmp_path / "a")])
    assert run.exit_code == 2 and not list(tmp_path.iterdir())


def test_without_any_of_the_packages_it_says_so_and_with_kept_rows_keeps_them(script, tmp_path, monkeypatch):
    monkeypatch.setattr(script, "has", lambda package: False)
    out = tmp_path / "table"
    assert CliRunner().invoke(app_of(script), ["--out", str(out)]).exit_code == 2
    assert not list(tmp_path.iterdir())
    kept = (FOLDER / "real_packages.json").read_text()
    out.with_suffix(".json").write_text(kept)
    assert CliRunner().invoke(app_of(script), ["--out", str(out)]).exit_code == 0
    assert json.loads(out.with_suffix(".json").read_text())["rows"] == json.loads(kept)["rows"]
    assert "fedlab 1.3.0" in out.with_suffix(".md").read_text()


def test_an_adapter_of_a_case_is_audited_and_told(script, tmp_path, monkeypatch):
    import numpy as np

    def halved(start, clients, cohorts, learning_rate, local_steps):
        raise ValueError("not today")

    case = script.Case("numpy", "a case", "fedavg", halved, "a note", "a remark")
    monkeypatch.setattr(script, "PACKAGES", {"numpy": (lambda: iter([case]),)})
    out = tmp_path / "table"
    run = CliRunner().invoke(app_of(script), ["--out", str(out)])
    assert run.exit_code == 0, run.output
    text = out.with_suffix(".md").read_text()
    assert f"## numpy {np.__version__}" in text and "| a case, a note | fedavg |" in text and "1. a remark" in text
    assert "real_packages" in sys.modules
