"""Put the declarations of a statement of a file into words: its method, local work, sampling, problems, and
the quantities that it speaks of."""

from __future__ import annotations

import ast
import dataclasses
import dis
import inspect
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import CodeType
from typing import Any

from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.theory.rounds.declare import (
    Above,
    Among,
    GradientSteps,
    Method,
    Upto,
    Words,
    hyperparameters,
)
from fedtheory.theory.rounds.quantities import told_quantities

__all__ = ["as_written", "declared", "scope", "symbols"]


def declared(statement: Any) -> dict[str, str]:
    """Give what an `AuthoredStatement` is about: {what: in words}."""
    local, sampling, (least, most) = statement.local, statement.sampling, statement.rounds
    work = str(local)
    if isinstance(local, GradientSteps):
        work = f"{work}, lr = {as_written(local.lr)}"
    everyone = "all clients" if isinstance(sampling, Full) else str(sampling)
    out = {
        "method": _method(statement.about),
        "local work": work,
        "sampling": "uniform cohorts of every size P" if sampling is Uniform else everyone,
        "problems": str(statement.problems),
    }
    if statement.rules:
        out["rules"] = ", ".join(_rule(*pair) for pair in statement.rules.items())
    if free := [name for name, axes in statement.states.items() if isinstance(axes, str)]:
        out["state before"] = f"any {' and '.join(free)}, besides those of runs"
    span = str(least) if least == most else f"{least} to {most}"
    if statement.over == "run":
        out["horizon"] = f"T = {span}"
        if statement.starts > 1:
            out["start"] = f"one of up to {statement.starts} points, equally likely"
    elif statement.over == "round" and most:
        out["round"] = f"after {span} others"
    return out


def _rule(rule: str, changes: Mapping[str, Any]) -> str:
    sets = [f"{k} = {as_written(v)}" for k, v in changes.items() if v != rule]
    return f"{rule} ({', '.join(sets)})" if sets else rule


def scope(statement: Any) -> str:
    """One round, runs of so many rounds, or a fixed point; and the law of the cohorts, if any."""
    least, most = statement.rounds
    rounds = f"{least} to {most} rounds" if least < most else f"{most} round{'s' * (most != 1)}"
    words = {
        "run": f"a run of {rounds}",
        "round": f"one round after {rounds}" if most else "the first round",
    }
    law = (
        "cohorts of every size, drawn uniformly"
        if statement.sampling is Uniform
        else f"cohorts by {statement.sampling}"
    )
    return words.get(statement.over, "a fixed point of the method") + (
        "" if isinstance(statement.sampling, Full) else f", {law}"
    )


def symbols(statement: Any) -> dict[str, str]:
    """The quantities that the statement's function takes by name, and what they are."""
    used, known = set(_names(inspect.unwrap(statement.function).__code__)), told_quantities(statement.over)
    found = {name: words for name, words in known.items() if name in used}
    own = found.pop("method", "") and hyperparameters(statement.about)
    return found | {
        f"method.{name}": f"the hyperparameter {name} of the method"
        for name in own
        if f"method.{name}" in used
    }


def _method(about: Any) -> str:
    if not isinstance(about, Method):
        own = dataclasses.fields(about) if dataclasses.is_dataclass(about) else ()
        changed = [f"{f.name} = {getattr(about, f.name)}" for f in own if f.init and getattr(about, f.name) != f.default]
        return f"{type(about).__name__}({', '.join(changed)})"
    given = ", ".join(f"{k} = {as_written(v)}" for k, v in about.hyperparameters.items())
    return f"{about.cls.__name__}({given})"


def as_written(value: Any) -> str:
    """A hyperparameter in words: a number, a function of the constants as its source has it, or what it varies over."""
    if isinstance(value, Upto):
        return f"every number in (0, {as_written(value.limit)}]"
    if isinstance(value, Above):
        return f"every number above {as_written(value.limit)}"
    if isinstance(value, Among):
        return f"each of {', '.join(map(str, value.choices))}"
    if isinstance(value, Words):
        return " or ".join(value)
    if callable(value):
        return _source(value) or "a function of the constants"
    return str(value) if isinstance(value, int | float | str | Fraction) else repr(value)


def _source(function: Callable[..., Any]) -> str:
    """'1/beta' of ``lambda c: 1 / c.beta``; '' where the source does not say it plainly."""
    code = getattr(function, "__code__", None)
    if code is None:
        return ""
    try:
        tree = ast.parse(Path(code.co_filename).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return ""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda) and n.lineno == code.co_firstlineno]
    texts = {ast.unparse(n.body): n for n in found if n.args.args and _same(n, code)}
    if len(texts) != 1:
        return ""
    [(text, node)] = texts.items()
    return text.replace(f"{node.args.args[0].arg}.", "")


def _same(node: ast.Lambda, code: CodeType) -> bool:
    """True if a lambda of the source is the one of this code."""
    made = compile(ast.Expression(node), "", "eval")
    inner = next(c for c in made.co_consts if isinstance(c, CodeType))
    return (inner.co_code, inner.co_names) == (code.co_code, code.co_names) and inner.co_consts[:1] == code.co_consts[:1]


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function loads; of q.method.mu they are method and method.mu."""
    before = ""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            yield f"method.{step.argval}" if before == "method" else step.argval
        before = str(step.argval)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
