"""Minimal ports of federated methods, each with one mistake that a public repository had, and the line that puts it right.

The code is ours, written from the behaviour that a report describes; nothing is copied. Each function is what
`fedtheory.testing.check_algorithm` takes. A line that is wrong ends with ``# right: `` and the line that stands there in
`repaired`; where many reports are about one method, it stands once as it should be, and each port says its lines
(`with_lines`):

    from examples.ports import fedprox, repaired
    from fedtheory.testing import check_algorithm

    check_algorithm(repaired(fedprox.flower_2210), "fedprox")  # passes
    check_algorithm(fedprox.flower_2210, "fedprox")  # fails: the norm of the penalty is not squared

`examples.ports.reports.REPORTS` has them all with where they were reported, and docs/audit.md what the audit says of them.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["repaired", "with_lines"]

MARK = "# right: "


def with_lines(
    right: Callable[..., Any], lines: Mapping[str, str]
) -> Callable[[Callable[[], None]], Callable[..., Any]]:
    """Make a port of a function that is right: the one below has another line for each of these.

    The decorated function is empty: it gives the name and says what is wrong.

    Raises
    ------
    ValueError
        A line that the function does not have once.
    """

    def made(port: Callable[[], None]) -> Callable[..., Any]:
        source = inspect.getsource(right).replace(f"def {right.__name__}(", f"def {port.__name__}(", 1)
        for good, wrong in lines.items():
            if source.count(f" {good}\n") != 1:
                raise ValueError(f"{right.__name__} does not have the line {good!r} once")
            indent = source[: source.index(f" {good}\n") + 1].rpartition("\n")[2]
            source = source.replace(f"{indent}{good}\n", textwrap.indent(wrong, indent) + "\n")
        found = _compiled(port, source, "port")
        found.__doc__, found.right = port.__doc__, right  # type: ignore[attr-defined]
        return found

    return made


def _compiled(port: Callable[..., Any], source: str, what: str) -> Callable[..., Any]:
    """The function of that source, which sees what the port's module has."""
    found = dict(port.__globals__)
    exec(compile(source, f"<{port.__name__}, {what}>", "exec"), found)
    return found[port.__name__]


def repaired(port: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with each wrong line as it should be.

    Raises
    ------
    ValueError
        No line of it is marked.
    """
    if hasattr(port, "right"):
        return port.right
    lines, marked = inspect.getsource(port).splitlines(), 0
    for i, line in enumerate(lines):
        if MARK in line:
            indent = line[: len(line) - len(line.lstrip())]
            lines[i], marked = indent + line.split(MARK, 1)[1], marked + 1
    if not marked:
        raise ValueError(f"{port.__name__} has no line with {MARK!r}")
    return _compiled(port, "\n".join(lines), "repaired")
