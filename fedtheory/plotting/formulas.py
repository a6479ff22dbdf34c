"""LaTeX as matplotlib draws it, and the left side of a formula for an axis."""

from __future__ import annotations

import re

__all__ = ["formula", "left_side"]

MATHTEXT = (  # LaTeX that matplotlib does not know -> what it knows
    (r"\\le", r"\leq"), (r"\\ge", r"\geq"), (r"\\ne", r"\neq"), (r"\\[bB]igg?[lrm]?", ""), (r"\\operatorname", r"\mathrm"),
    (r"\\lVert", r"\|"), (r"\\rVert", r"\|"), (r"\\mathbb\s*E", r"\mathbb{E}"),
)  # fmt: skip
CONDITIONS = (r"\Rightarrow", r"\Longrightarrow", r"\iff", ":")
RELATIONS = ("<", "=", r"\le", r"\leq")


def formula(latex: str, room: float = 6.0) -> str:
    """A formula as matplotlib draws it, '$...$'; '' where it cannot, where there is none, or where
    it is wider than ``room`` inches."""
    from matplotlib.mathtext import MathTextParser

    piece = r"(\{(?:[^{}]|\{[^{}]*\})*\}|\\[a-zA-Z]+|[^\s{}\\])"

    def braced(match: re.Match[str]) -> str:
        return r"\frac" + "".join(v if v.startswith("{") else f"{{{v}}}" for v in match.groups())

    text = re.sub(rf"\\[td]?frac\s*{piece}\s*{piece}", braced, " ".join(latex.split()))
    for theirs, ours in MATHTEXT:
        text = re.sub(theirs + "(?![a-zA-Z])", ours.replace("\\", r"\\"), text)
    try:
        width = MathTextParser("path").parse(f"${text}$").width / 72  # at ten points
    except (ValueError, RuntimeError):
        return ""
    return f"${text}$" if text and width <= room else ""


def left_side(latex: str, room: float = 6.0) -> str:
    """The left side of a formula, without what it is claimed under, '$...$'; '' where there is
    none, or it cannot be drawn."""
    depth, start = 0, 0
    ends: list[int] = []
    for found in re.finditer(r"\\[a-zA-Z]+|[{}<=]|\\ |\\.|:", latex):
        token = found.group()
        depth += {"{": 1, "}": -1}.get(token, 0)
        if depth == 0 and token in CONDITIONS:
            start, ends = found.end(), []
        elif depth == 0 and token in RELATIONS:
            ends.append(found.start())
    claim = re.sub(r"\\textstyle|\\text\{[^{}]*: ?\}", "", latex[start : ends[0]]) if ends else ""  # not under which rule
    return formula(re.sub(r"^(\\[ ,;]|\s)+", "", claim), room)
