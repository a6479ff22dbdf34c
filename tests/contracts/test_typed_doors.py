"""Doors that hand on what they are given show all of it: an editor, `help` and mypy see each parameter with its default."""

from __future__ import annotations

import ast
import inspect
import textwrap

import pytest
from cases import each
from repository import ROOT

from fedtheory import theory
from fedtheory.testing import assert_statement, audit_algorithm, check_algorithm
from fedtheory.theory.judge import Checks, Statement
from fedtheory.theory.judge.own_run import bound, check_run
from fedtheory.theory.judge.proof_trace import walk
from fedtheory.theory.judge.verify import Options, keep, verify

HANDED_ON = [  # a door, what it forwards to, and the parameters of that which the door gives itself
    (Checks.plot, Checks.compared, {"checks"}),
    (check_algorithm, audit_algorithm, set()),
    (assert_statement, check_run, {"run", "forms"}),
]
DOORS = [
    *(door for door, *_ in HANDED_ON), *(to for _, to, _ in HANDED_ON),
    verify, bound, theory.study, theory.verify, walk, keep,
]  # fmt: skip


def name(door) -> str:
    return f"{door.__module__}.{door.__qualname__}"


@each("door", DOORS)
def test_no_door_takes_what_it_does_not_name(door):
    for parameter in inspect.signature(door).parameters.values():
        assert parameter.kind is not inspect.Parameter.VAR_POSITIONAL
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD or parameter.annotation == "Unpack[Options]"
    assert "parameters" in (inspect.getdoc(door) or "").lower()


@pytest.mark.parametrize(("door", "to", "own"), HANDED_ON, ids=lambda v: name(v) if callable(v) else "")
def test_a_door_has_the_parameters_of_what_it_forwards_to(door, to, own):
    shown, taken = (dict(inspect.signature(f).parameters) for f in (door, to))
    assert set(taken) - set(shown) <= own, "what the door leaves out it gives itself"
    for parameter in (taken[n] for n in taken.keys() & shown.keys()):
        own_default = {inspect.Parameter.empty: None, "": None}.get(parameter.default, parameter.default)
        assert shown[parameter.name].default in (parameter.default, own_default), parameter.name


def test_what_is_handed_on_has_the_names_and_types_of_verify():
    taken = inspect.signature(verify).parameters
    options = Options.__annotations__
    assert set(options) == set(taken) - {"statement", "problem", "algorithm", "forms"}
    for name, kind in options.items():
        assert kind.__forward_arg__ == taken[name].annotation


def test_a_door_hands_on_every_parameter_that_it_shows():
    """Its body names each one."""
    for door in (Checks.plot, check_algorithm, assert_statement):
        (function,) = ast.parse(textwrap.dedent(inspect.getsource(door))).body
        used = {node.id for node in ast.walk(ast.Module(function.body, [])) if isinstance(node, ast.Name)}
        assert set(inspect.signature(door).parameters) <= used, door


def test_a_statement_has_the_doors_themselves():
    """Nothing is said of them twice; mypy knows what they give."""
    assert Statement.verify is verify and Statement.bound is bound
    annotations = Statement.verify.__annotations__
    assert annotations["return"] == "Checks" and Statement.bound.__annotations__["return"] == "Bound"
    assert "Statement.verify" in (ROOT / ".importlinter").read_text()
