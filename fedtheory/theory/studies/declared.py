"""What a statement of a file declares, in words: its method, local work, sampling and problems."""

from __future__ import annotations

import dataclasses
import dis
import inspect
import linecache
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from types import CodeType
from typing import Any

from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.theory.rounds import declare
from fedtheory.theory.rounds.declare import Above, Among, GradientSteps, Method, Upto, Words
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
    round_ = f"one round after {rounds}" if most else "the first round"
    words = {"run": f"a run of {rounds}", "round": round_}
    over = words.get(statement.over, "a fixed point of the method")
    if isinstance(statement.sampling, Full):
        return over
    if statement.sampling is Uniform:
        return f"{over}, cohorts of every size, drawn uniformly"
    return f"{over}, cohorts by {statement.sampling}"


def symbols(statement: Any) -> dict[str, str]:
    """The quantities that the statement's function takes by name, and what they are."""
    used, known = (
        set(_names(inspect.unwrap(statement.function).__code__)), told_quantities(statement.over)
    )
    found = {name: words for name, words in known.items() if name in used}
    own = found.pop("method", "") and declare.hyperparameters(statement.about)
    of_method = {f"method.{name}": f"the hyperparameter {name} of the method" for name in own}
    return found | {name: words for name, words in of_method.items() if name in used}


def _method(about: Any) -> str:
    if not isinstance(about, Method):
        own = dataclasses.fields(about) if dataclasses.is_dataclass(about) else ()
        changed = [
            f"{f.name} = {getattr(about, f.name)}" for f in own
            if f.init and getattr(about, f.name) != f.default
        ]
        return f"{type(about).__name__}({', '.join(changed)})"
    given = ", ".join(f"{k} = {as_written(v)}" for k, v in about.hyperparameters.items())
    wrapped = "".join(f", {k} = {v}" for k, v in (about.wrapped or {}).items())
    return f"{about.cls.__name__}({given})" + (f", compressed{wrapped}" if wrapped else "")


def as_written(value: Any) -> str:
    """A hyperparameter in words: a number, a function of the constants as its source has it, or
    what it varies over."""
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
    """'1 / beta' of ``lambda c: 1 / c.beta``; '' of what is no lambda, or has no source."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_name != "<lambda>" or not code.co_argcount:
        return ""
    known = [p for p in code.co_positions() if None not in p and p[3]]
    lines = linecache.getlines(code.co_filename)
    if not known or not lines:
        return ""
    first, left = min((line, column) for line, _, column, _ in known)
    last, right = max((line, column) for _, line, _, column in known)
    written = "".join(lines[first - 1 : last]).encode()
    text = written[left : len(written) - len(lines[last - 1].encode()) + right].decode()
    return " ".join(text.split()).replace(f"{code.co_varnames[0]}.", "")


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
