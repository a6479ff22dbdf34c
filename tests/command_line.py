"""Commands as the tests of the command line call them."""

from __future__ import annotations

from typer.testing import CliRunner

from fedtheory.cli import app

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
