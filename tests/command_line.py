"""Commands as the tests of the command line call them."""

from __future__ import annotations

from typer.testing import CliRunner

from fedtheory.cli import app
from fedtheory.theory.judge import registry

runner = CliRunner()


def call(*args, code=0):
    """The result of a command, which must end with this exit code."""
    result = runner.invoke(app, [str(a) for a in args])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    return result


def refused(*args):
    """stderr of a command that must end with exit code 2, one line, and nothing on stdout."""
    result = call(*args, code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1 and "Traceback" not in result.stderr
    return result.stderr


def only_these(monkeypatch, *statements):
    """The registry has these statements only (of one paper, possibly changed ones), and no reviews, whose answers name others."""
    paper = registry.paper_of(statements[0]).only(*statements)
    shown = paper.shown
    paper.shown = lambda what: () if what == "reviews" else shown(what)
    monkeypatch.setattr(registry, "_PAPERS", {paper.id: paper})
    monkeypatch.setattr(registry, "_STATEMENTS", {s.id: s for s in statements})


def instead(monkeypatch, changed):
    """The registry has this statement in place of the one of its id."""
    paper = registry.paper(changed.paper)
    others = tuple(changed if s.id == changed.id else s for s in paper.statements)
    monkeypatch.setitem(registry._PAPERS, paper.id, paper.only(*others))
    monkeypatch.setitem(registry._STATEMENTS, changed.id, changed)
