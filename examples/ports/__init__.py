"""Minimal ports of federated methods, each with one mistake that a public repository had, and the line that puts it right.

The code is ours, written from the behaviour that a report describes; nothing is copied. Each function is what
`fedtheory.testing.check_algorithm` takes. A line that is wrong ends with ``# right: `` and the line that stands there in `repaired`:

    from examples.ports import fedprox, repaired
    from fedtheory.testing import check_algorithm

    check_algorithm(repaired(fedprox.flower_2210), "fedprox")  # passes
    check_algorithm(fedprox.flower_2210, "fedprox")  # fails: the norm of the penalty is not squared

`examples.ports.reports.REPORTS` has them all with where they were reported, and docs/audit.md what the audit says of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["repaired"]

MARK = "# right: "


def repaired(port: Callable[..., Any]) -> Callable[..., Any]:
    """The same function with each marked line as it should be.

    Raises
    ------
    ValueError
        No line of it is marked.
    """
    lines, marked = inspect.getsource(port).splitlines(), 0
    for i, line in enumerate(lines):
        if MARK in line:
            indent = line[: len(line) - len(line.lstrip())]
            lines[i], marked = indent + line.split(MARK, 1)[1], marked + 1
    if not marked:
        raise ValueError(f"{port.__name__} has no line with {MARK!r}")
    found = dict(port.__globals__)
    exec(compile("\n".join(lines), f"<{port.__name__}, repaired>", "exec"), found)
    return found[port.__name__]
