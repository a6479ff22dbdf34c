"""Formulas for narrow pages: a long one is broken before its relations, and before its terms where that is not enough."""

from __future__ import annotations

import re

__all__ = ["broken", "width"]

_RELATIONS = (r"\le", r"\ge", r"=", r"<", r">", r"\Rightarrow", r"\iff")
_TAIL = 3  # what is no longer, such as "= 0", stands behind what is before it
_NARROW = 31  # letters of a formula that fit a page of 400 pixels


def width(latex: str) -> int:
    """About how many letters wide a formula is: commands and braces count little, and of a fraction the wider half counts."""
    while True:
        shorter = re.sub(r"\\[td]?frac\{([^{}]*)\}\{([^{}]*)\}", lambda m: max(m[1], m[2], key=width), latex)
        if shorter == latex:
            break
        latex = shorter
    latex = re.sub(r"\\(mathbb|mathcal|mathrm|text|operatorname|tilde|bar|hat|big+[lr]?|Big+[lr]?|left|right|,|;|!|quad)", "", latex)
    return len(re.sub(r"[{}^_\\ ]", "", re.sub(r"\\[a-zA-Z]+", "x", latex)))


def _pieces(latex: str, breaks: tuple[str, ...]) -> list[str]:
    """The formula cut before every one of ``breaks`` that stands outside all brackets and groups."""
    cuts, depth, i = [0], 0, 0
    while i < len(latex):
        token = re.match(r"\\[a-zA-Z]+\s*|\\.|.", latex[i:], re.S)
        assert token is not None
        text = token[0]
        word = text.strip()
        if word in ("{", "(", "[", r"\{", r"\langle", r"\begin", r"\left", r"\lfloor", r"\lceil"):
            depth += 1
        elif word in ("}", ")", "]", r"\}", r"\rangle", r"\end", r"\right", r"\rfloor", r"\rceil"):
            depth -= 1
        elif depth == 0 and word in breaks and latex[:i].strip():
            if word not in ("+", "-") or not re.search(r"[\^_(=,<>]\s*$|\\[lg]e\s*$", latex[:i]):  # no sign of a number
                cuts.append(i)
        i += len(text)
    return [re.sub(r"(\s|\\ )+$", "", latex[a:b]).lstrip() for a, b in zip(cuts, [*cuts[1:], len(latex)], strict=True)]


def broken(latex: str) -> str:
    """A formula in rows that fit a narrow page, as far as its terms do; one that fits, or has rows already, as it stands.

    A case distinction stays together.
    """
    outside = re.sub(r"\\begin\{cases\}.*?\\end\{cases\}", "", latex, flags=re.S)
    if width(latex) <= _NARROW or r"\begin" in outside or r"\\" in outside:
        return latex
    rows: list[str] = []
    for part in _packed(_pieces(re.sub(r"([,;])\\ ", r"\1\\quad ", latex), (r"\quad", r"\qquad"))):
        part = re.sub(r"^\\q?quad\s*", "", part)
        pieces = [term for side in _pieces(part, _RELATIONS) for term in _pieces(side, ("+", "-"))]
        for n, row in enumerate(_packed(pieces)):
            rows.append(("" if not n else r"\qquad " if row[0] in "+-" else r"\quad ") + row)
    if len(rows) == 1:
        return latex
    return r"\begin{aligned}" + r"\\ ".join("&{}" + row for row in rows) + r"\end{aligned}"


def _packed(pieces: list[str]) -> list[str]:
    """As many pieces a row as fit."""
    rows = pieces[:1]
    for piece in pieces[1:]:
        if width(piece) > _TAIL and width(rows[-1] + piece) > _NARROW:
            rows.append(piece)
        else:
            rows[-1] = f"{rows[-1]} {piece}"
    return rows
