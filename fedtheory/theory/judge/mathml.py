"""LaTeX as MathML, which a browser and a notebook show without anything else, and what is left open
in LaTeX."""

from __future__ import annotations

import re
from functools import cache

__all__ = ["to_mathml", "unbalanced"]

_OPENS = {"}": "{", "\\right": "\\left", "\\end": "\\begin"}
_PAIRS = re.compile(
    r"\\(?:left|right)(?![a-zA-Z])|\\(?:begin|end)\s*\{([^{}]*)\}|\\.|[{}]", re.DOTALL
)


@cache
def unbalanced(latex: str) -> str:
    r"""Name a brace, `\left` or `\begin` of a formula that has no partner; '' where all have
    one."""
    open: list[tuple[str, str, int]] = []
    for found in _PAIRS.finditer(latex):
        name = found.group().partition("{")[0].strip() or found.group()
        if name in _OPENS.values():
            open.append((name, found.group(1) or "", found.start()))
        elif name in _OPENS:
            if not open or open[-1][:2] != (_OPENS[name], found.group(1) or ""):
                return _place(latex, found.group(), found.start(), f"closes no {_OPENS[name]}")
            open.pop()
    return _place(latex, open[-1][0], open[-1][2], "is not closed") if open else ""


def _place(latex: str, token: str, at: int, what: str) -> str:
    start = max(0, at - 12)
    near = f"{'...' * (start > 0)}{latex[start : at + 12]}{'...' * (at + 12 < len(latex))}"
    return f"{token!r} at character {at + 1} of its formula {what}, in {near!r}".replace(
        "\\\\", "\\"
    )


@cache
def to_mathml(latex: str) -> str:
    """A <math> element of display style."""
    from latex2mathml.converter import convert

    # latex2mathml does not know '\|' after a size,
    latex = re.sub(r"\\[Bb]igg?[lr]?\\\|", r"\\|", latex)
    # nor '\arg' before another operator
    latex = re.sub(r"\\arg\s*\\(min|max)(?![a-z])", r"\\arg\1", latex)
    return convert(latex, display="block")
