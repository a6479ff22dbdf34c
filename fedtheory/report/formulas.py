"""LaTeX as MathML (for the report) and as one line of Unicode (for the terminal).

`to_mathml` and `to_text` raise what they meet in LaTeX that is none. What people wrote is shown by
`shown`, which never does: broken LaTeX stands there as it was written, and `unread` says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from fedtheory.theory.judge.mathml import to_mathml

__all__ = ["converted", "shown", "to_mathml", "to_text", "unread", "warnings_of"]

_NAMESPACE = "{http://www.w3.org/1998/Math/MathML}"
_SUPERSCRIPTS = dict(zip("0123456789+-−=()AaBbdeiknmtTx'′", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁼⁽⁾ᴬᵃᴮᵇᵈᵉⁱᵏⁿᵐᵗᵀˣ′′", strict=True))
_SUBSCRIPTS = dict(zip("0123456789+-−=()aeijkmnpstx", "₀₁₂₃₄₅₆₇₈₉₊₋₋₌₍₎ₐₑᵢⱼₖₘₙₚₛₜₓ", strict=True))
_DOUBLE = {"E": "𝔼", "R": "ℝ", "P": "ℙ"}
_TOGETHER = "\ue000"  # for a space at which no line may end, while others are put right
_RELATIONS = set("=≤≥<>⇒→∈≔≠≈")
_BRACKETS = set("([{|‖⟨⌊⌈")
_ACCENTS = {"~": "\u0303", "˜": "\u0303", "¯": "\u0304", "‾": "\u0304", "―": "\u0304", "^": "\u0302", "ˆ": "\u0302"}


@cache
def to_text(latex: str) -> str:
    r"""One line of Unicode: '\tfrac1m\sum_k\|\theta_k^t\|^2' becomes '(1/m)∑ₖ‖θₖᵗ‖²'; no line ends
    within a case of several."""
    return _known().get(latex) or converted(latex)


@cache
def _known() -> dict[str, str]:
    """LaTeX -> what `converted` makes of it, of the papers' formulas (`make formulas`)."""
    found: dict[str, str] = json.loads(Path(__file__).with_name("formulas.json").read_text(encoding="utf-8"))
    return found


def converted(latex: str) -> str:
    """Make what `to_text` gives, by way of MathML."""
    root = ElementTree.fromstring(to_mathml(latex))
    text = _render(root)
    shown = re.sub(r" +([,;.)\]])", r"\1", re.sub(r"\s+", " ", text)).replace(": =", " :=").strip()
    return shown.replace(_TOGETHER, "\xa0")


@cache
def unread(latex: str) -> str:
    """Why a formula cannot be read, in words; '' where it can, or where there is none."""
    control = re.search(r"[\x07\x08\x0b\x0c]|\t(?=frac|ext|heta|imes|au|ilde|op\b)", latex)
    if control:
        return "it has a control character, as of '\\f' or '\\t': write r'...' before its backslashes"
    try:
        to_text(latex) if latex.strip() else ""
    except Exception as error:  # latex2mathml's own, or what it meets in a formula that is none
        return f"it is no LaTeX that can be read ({type(error).__name__})"
    return ""


def shown(form: Any, title: str) -> str:
    """A form's formula as one line of Unicode: broken LaTeX as it stands, and without any its note,
    or the statement's title."""
    if not form.latex.strip():
        return f"(no LaTeX is given, and none follows from the code) {form.note or title}"
    return _as_it_stands(form.latex) if unread(form.latex) else to_text(form.latex)


def warnings_of(statement: Any, source: str = "") -> list[str]:
    """One line for each form whose LaTeX cannot be read: the place, and why."""
    place = f"{source}, " if source else ""
    return [
        f"{place}{statement.id} [{f.name}]: its formula is shown as it stands, {why}: "
        f"{_as_it_stands(f.latex)}"
        for f in statement.forms if (why := unread(f.latex))
    ]


def _as_it_stands(latex: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in latex)


def _children(node: ElementTree.Element) -> list[str]:
    return [_render(child) for child in node]


def _is_word(node: ElementTree.Element) -> bool:
    """True if it is an operator named by letters, such as log, or lim with what is below it."""
    while _tag(node) in ("msub", "msup", "msubsup", "munder", "munderover"):
        node = node[0]
    return _tag(node) in ("mi", "mo") and len(name := _leaf(node).replace(" ", "")) > 1 and name.isalpha()


def _row(node: ElementTree.Element) -> str:
    out, after_word = "", False
    for child in node:
        piece, word = _render(child), _is_word(child)
        if (after_word and piece[:1] not in _BRACKETS) or (word and out and (out[-1].isalnum() or out[-1] in ")]}")):
            out += " "
        after_word = word
        if _tag(child) == "mo":
            before = out.rstrip()
            if piece in _RELATIONS or (piece in "+−" and before and before[-1] not in "([{=≤≥<>⇒,+−⟨"):
                piece = f" {piece} "
            elif piece in ",;":
                piece += " "
        if _tag(child) == "mtable" and out.endswith("{"):
            piece += "}"  # a case distinction
        out += f"{piece} " if piece.startswith("arg") and len(piece) > 3 else piece
    return out


def _outside_brackets(text: str) -> str:
    """Return the part of a text that stands in no bracket."""
    depth, out = 0, ""
    for c in text:
        depth += (c in "([{⟨⌊⌈") - (c in ")]}⟩⌋⌉")
        out += c if depth == 0 else ""
    return out


def _fraction(node: ElementTree.Element) -> str:
    over, under = _children(node)
    if node.get("linethickness") == "0":  # a binomial coefficient, which has its brackets
        return f"{over} choose {under}"
    if re.search(r"[+−= ]", _outside_brackets(over)):
        over = f"({over})"
    if len(re.sub(r"[\u0300-\u036f₀-₉ₐ-ₜ⁰-ⁿ²³¹′']", "", under)) > 1 and not under.isdigit():
        under = f"({under})"
    return f"({over}/{under})"


def _script(text: str, table: dict[str, str], mark: str) -> str:
    text = text.replace(" ", "")
    if all(c in table for c in text):
        return "".join(table[c] for c in text)
    return mark + (text if len(text) == 1 else "{" + text + "}")


def _scripts(node: ElementTree.Element) -> str:
    base, *marks = _children(node)
    tag = _tag(node)
    if tag in ("mover", "munder") and marks[0] in _ACCENTS:
        return base + _ACCENTS[marks[0]]
    sub = marks[0] if tag in ("msub", "msubsup", "munder", "munderover") else None
    sup = marks[-1] if tag in ("msup", "msubsup", "mover", "munderover") else None
    out = base
    if sub is not None:
        out += _script(sub, _SUBSCRIPTS, "_")
    if sup is not None:
        out += _script(sup, _SUPERSCRIPTS, "^")
    return out


def _root(node: ElementTree.Element) -> str:
    inside = "".join(_children(node))
    return f"√{inside}" if re.fullmatch(r"\d+|\w", inside) else f"√({inside})"


def _table(node: ElementTree.Element) -> str:
    """Its rows, with '; ' between two of them; a row is kept together."""
    rows = (" ".join(_render(cell).strip() for cell in row) for row in node)
    return "; ".join(re.sub(r"\s+", _TOGETHER, row.strip()) for row in rows)


def _leaf(node: ElementTree.Element) -> str:
    text = node.text or ""
    variant = node.get("mathvariant", "")
    if variant == "double-struck":
        return _DOUBLE.get(text, text)
    if variant == "script" and text == "P":
        return "𝒫"
    return {"-": "−", "∗": "*", "‾": "¯"}.get(text, text).replace("\xa0", " ")


def _tag(node: ElementTree.Element) -> str:
    return node.tag.removeprefix(_NAMESPACE)


_RENDER: dict[str, Callable[[ElementTree.Element], str]] = {
    "mfrac": _fraction,
    "mtable": _table,
    "msqrt": _root,
    **dict.fromkeys(("msub", "msup", "msubsup", "mover", "munder", "munderover"), _scripts),
    **dict.fromkeys(("mi", "mo", "mn", "mtext"), _leaf),
    "mspace": lambda node: " ",
}


def _render(node: ElementTree.Element) -> str:
    return _RENDER.get(_tag(node), _row)(node)
