"""Formulas and notes for a page: MathML in pieces between which a line may break, and prose whose symbols are typeset.

A browser breaks no line inside a formula. So a formula is handed over as several, cut before its relations and sums, and the
page's width decides where its lines end.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from functools import cache
from typing import Any
from xml.etree import ElementTree

from markupsafe import Markup, escape

from fedtheory.report.formulas import shown, to_mathml, unread

__all__ = ["formula_html", "formula_pieces", "prose_html", "prose_text"]

_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
_RELATIONS = set("=≤≥<>⇒→∈≔≠≈≪≫≺≻⪯⇔⟺⟹∝∼")
_SUMS = set("+-−±")
_OPENING, _CLOSING, _EITHER = set("([{⟨⌊⌈"), set(")]}⟩⌋⌉"), set("‖|∥")
_LONG = 26.0  # letters wide: a longer piece is cut inside its brackets, too
_KEPT = {
    "mathvariant", "stretchy", "fence", "displaystyle", "scriptlevel", "width", "form", "separator",
    "accent", "minsize", "maxsize", "columnalign", "movablelimits", "linethickness",
}


def formula_html(form: Any, title: str) -> Markup:
    """A form's formula; broken LaTeX as it stands; without any its note, or the title."""
    if form.latex.strip() and not unread(form.latex):
        parts = (Markup("<wbr>").join(part) for part in formula_pieces(form.latex))
        return Markup(" ").join(Markup('<span class="part">{}</span>').format(part) for part in parts)
    words = escape(shown(form, title))
    return Markup("<code>{}</code>").format(words) if form.latex.strip() else Markup("<em>{}</em>").format(words)


@cache
def formula_pieces(latex: str) -> tuple[tuple[Markup, ...], ...]:
    """<math> elements that make the formula one after the other; a line may end after each.

    Those between two wide gaps are a part by themselves: a side condition, or what a letter stands for.
    """
    ElementTree.register_namespace("", _NAMESPACE)
    root = ElementTree.fromstring(to_mathml(latex))
    for node in root.iter():
        node.text = _lettered(node)
        for name in [n for n in node.attrib if n not in _KEPT]:
            del node.attrib[name]
    parts = []
    for part in _parts(_inside(root)):
        pieces = [p for short in _cut(part, 0) for p in (_cut(short, 9) if sum(map(_width, short)) > _LONG else [short])]
        parts.append(tuple(_as_math(piece, not n) for n, piece in enumerate(pieces)))
    return tuple(parts)


def _lettered(node: ElementTree.Element) -> str | None:
    """A letter of another alphabet, which browsers know by its code point only."""
    names = {"double-struck": "DOUBLE-STRUCK", "script": "SCRIPT"}
    letter = node.text
    if letter is None or len(letter) != 1 or node.get("mathvariant") not in names:
        return letter
    kind, case = names[node.attrib.pop("mathvariant")], "CAPITAL" if letter.isupper() else "SMALL"
    for name in (f"MATHEMATICAL {kind} {case} {letter.upper()}", f"{kind} {case} {letter.upper()}"):
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    return letter


def _inside(root: ElementTree.Element) -> list[ElementTree.Element]:
    """Return what stands in a row, where the row is all that there is, or the last of it."""
    nodes = list(root)
    while nodes and _tag(nodes[-1]) in ("mrow", "mstyle") and (len(nodes) == 1 or _tag(nodes[-1]) == "mstyle") and len(nodes[-1]) > 0:
        if len(nodes) > 1 and len(nodes[-1]) == 1 and _tag(nodes[-1][0]) != "mrow":
            break
        nodes = [*nodes[:-1], *nodes[-1]]
    return nodes


def _parts(nodes: list[ElementTree.Element]) -> list[list[ElementTree.Element]]:
    """A row cut at its wide gaps, and where there is room after a comma; in no bracket."""
    parts: list[list[ElementTree.Element]] = [[]]
    depth = 0
    for node in nodes:
        text = _sign(node)
        depth = max(0, depth + (text in _OPENING and len(text) == 1) - (text in _CLOSING and len(text) == 1))
        after = _sign(parts[-1][-1]) in (",", ";") if parts[-1] else False
        if depth == 0 and (_is_wide(node) or (after and _is_space(node))):
            parts.append([])
        else:
            parts[-1].append(node)
    return [part for part in parts if part]


def _is_wide(node: ElementTree.Element) -> bool:
    return _tag(node) == "mspace" and node.get("width", "") in ("1em", "2em")


def _is_space(node: ElementTree.Element) -> bool:
    return _tag(node) == "mspace" or (_tag(node) == "mtext" and not (node.text or "").strip())


def _cut(nodes: list[ElementTree.Element], deepest: int) -> list[list[ElementTree.Element]]:
    """A row cut before its relations, sums and (in brackets) big operators; ``deepest``: in how many brackets."""
    pieces: list[list[ElementTree.Element]] = [[]]
    depth, within = 0, False  # of brackets that open and close, and between norm bars
    for node in nodes:
        text, last = _sign(node), _sign(pieces[-1][-1]) if pieces[-1] else ""
        if depth + within <= deepest and pieces[-1]:
            operator = text in _RELATIONS or (text in _SUMS and last not in _RELATIONS | _SUMS | _OPENING | {",", ";"})
            if (operator and _tag(node) == "mo") or (deepest and text == "∑" and len(pieces[-1]) > 3):
                pieces.append([])
        if text in _OPENING and len(text) == 1:
            depth += 1
        elif text in _CLOSING and len(text) == 1:
            depth = max(0, depth - 1)
        elif text in _EITHER and len(text) == 1:
            within = not within
        pieces[-1].append(node)
    return pieces


def _sign(node: ElementTree.Element) -> str:
    """The operator that a node is, without its scripts; '' for anything else."""
    while _tag(node) in ("msub", "msup", "msubsup", "munder", "mover", "munderover") and len(node):
        node = node[0]
    return (node.text or "").strip() if _tag(node) == "mo" else ""


def _width(node: ElementTree.Element) -> float:
    """Return how many letters wide a node is, about."""
    tag, parts = _tag(node), [_width(child) for child in node]
    if tag == "mfrac" or tag in ("munder", "mover", "munderover"):
        return max(parts, default=0.0)
    if tag in ("msub", "msup", "msubsup"):
        return parts[0] + 0.7 * max(parts[1:], default=0.0)
    if tag == "mspace":
        return 1.0
    return sum(parts) + len((node.text or "").strip()) + 0.6 * (tag == "mo")


def _as_math(piece: list[ElementTree.Element], first: bool) -> Markup:
    math = ElementTree.Element(f"{{{_NAMESPACE}}}math", {"displaystyle": "true"})
    sign = _sign(piece[0])
    if sign in _SUMS | _RELATIONS and len(piece) > 1 and _tag(piece[0]) == "mo" and not first:
        space = "0.22em" if sign in _SUMS else "0.28em"
        piece[0].attrib |= {"form": "infix", "lspace": space, "rspace": space}
    math.extend(piece)
    text = ElementTree.tostring(math, encoding="unicode")
    return Markup(text.replace(f' xmlns="{_NAMESPACE}"', ""))


def _tag(node: ElementTree.Element) -> str:
    return node.tag.rpartition("}")[2]


# --- prose ----------------------------------------------------------------------------------------
_GREEK = dict(
    zip(
        "alpha beta gamma delta epsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi chi psi omega "
        "Gamma Delta Theta Lambda Sigma Phi Psi Omega".split(),
        "αβγδεζηθκλμνξπρστφχψωΓΔΘΛΣΦΨΩ",
        strict=True,
    )
)
_WORDS = {"sum": "∑", "max": "max", "min": "min", "lim": "lim", "sup": "sup", "inf": "inf", "argmin": "argmin", "prod": "∏"}
_ACCENTS = {"tilde": "\u0303", "hat": "\u0302", "bar": "\u0304"}
_NAME = "|".join(sorted([*_GREEK, *_WORDS], key=len, reverse=True))
_SCRIPT = r"(?:[_^](?:\{[^{}]*\}|\*|[A-Za-z]+(?![A-Za-z])|\d+))"
_SYMBOL = re.compile(
    r"(?P<code>`[^`]+`)"
    r"|(?P<grad>(?<![\w/.-])grad\b ?(?=[A-Za-z(]))"
    r"|(?P<root>\bsqrt(?= ?[\d(\w]) ?)|(?<=[)\]|])(?P<closed>" + _SCRIPT + r"+)"
    r"|(?P<before>(?<![\w/.-])(?:hat|bar) )?(?<![\w.\\-])(?:(?P<name>" + _NAME + r")(?P<digits>\d+(?![\w.]))?|(?P<letter>[A-Za-z]))"
    r"(?P<accent>(?:_|-)(?:tilde|hat|bar)|~)?(?P<scripts>" + _SCRIPT + r"*)(?P<star>\*(?![\w*]))?(?P<prime>'(?![\w']))?(?![\w/(]*\.py)"
    r"|(?P<sign><=|>=|\|\||(?<=[\w)\]}*'|]) - (?=[\w(|]))"
)
_CALLED = re.compile(r"\b(?:[Tt]heorems?|[Ll]emmas?|[Tt]ables?|[Aa]lgorithms?|[Ss]chemes?|[Aa]ppendix|[Cc]orollary) $")
_LETTERS = {"a", "A", "I"}  # words of English, unless they carry something
_SIGNS = {"<=": "≤", ">=": "≥", "||": "‖", " - ": " − "}


def prose_html(text: str, links: Mapping[str, str] | None = None) -> Markup:
    """A note as HTML: theta_tilde_k becomes a letter with its tilde and index, `code` stays code.

    Parameters
    ----------
    links : dict id of a statement -> address; where the text names one it is a link
    """
    parts, last = [], 0
    for match in _SYMBOL.finditer(text):
        typeset = _typeset(match)
        if typeset is None:
            continue
        parts += [_linked(text[last : match.start()], links), typeset]
        last = match.end()
    return Markup("").join([*parts, _linked(text[last:], links)])


def prose_text(text: str) -> str:
    """The same without its marks, for a search."""
    return str(prose_html(text).striptags())


def _linked(text: str, links: Mapping[str, str] | None) -> Markup:
    if not links or "/" not in text:
        return escape(text)
    parts = re.split(r"\b([a-z][\w-]*/[\w.-]*\w)", text)
    anchor = Markup('<a href="{}">{}</a>')
    return Markup("").join(anchor.format(links[p], p) if p in links else escape(p) for p in parts)


def _typeset(match: re.Match[str]) -> Markup | None:
    """A symbol as HTML; None for what is a word."""
    found = match.groupdict()
    if found["code"]:
        return Markup("<code>{}</code>").format(found["code"][1:-1])
    if found["grad"]:
        return Markup("∇")
    if found["sign"]:
        return escape(_SIGNS[found["sign"]])
    if found["root"]:
        return Markup("√")
    if found["closed"]:
        return _scripts(found["closed"])
    scripts, letter = found["scripts"] or "", found["letter"]
    if found["digits"] and found["name"] in _WORDS:
        return None
    scripts = f"_{found['digits']}{scripts}" if found["digits"] else scripts
    carries = scripts or found["accent"] or found["star"] or found["before"]
    after = match.string[match.end() : match.end() + 1]
    if letter and (not carries or (letter in _LETTERS and not (scripts or found["accent"]))):
        return _alone(match, letter)
    if found["name"] in _WORDS and not scripts:
        return None
    if after.isalnum() or (after == "_" and not scripts):
        return None
    accent = _ACCENTS["tilde"] if found["accent"] == "~" else _ACCENTS.get((found["accent"] or "")[1:], "")
    accent = accent or _ACCENTS.get((found["before"] or "").strip(), "")
    upright = found["name"] in _WORDS
    base = _GREEK.get(found["name"] or "", "") or _WORDS.get(found["name"] or "", "") or letter or ""
    html = escape(base + accent) if upright else Markup("<i>{}</i>").format(base + accent)
    return html + _scripts(scripts) + (Markup("<sup>*</sup>") if found["star"] else "") + ("′" if found["prime"] else "")


def _scripts(text: str) -> Markup:
    """'_k^{t-1}' below and above."""
    html = Markup("")
    for script in re.findall(_SCRIPT, text):
        tag = Markup("sub" if script[0] == "_" else "sup")
        inside = re.sub(r"(?<=\w)-(?=\w)", "−", script[1:].strip("{}"))
        html += Markup("<{0}>{1}</{0}>").format(tag, prose_html(inside))
    return html


def _alone(match: re.Match[str], letter: str) -> Markup | None:
    """A letter that carries nothing is a symbol, unless it is a word, or a part of one."""
    before, after = match.string[: match.start()][-1:], match.string[match.end() : match.end() + 1]
    if letter in _LETTERS or after.isalnum() or (after in "'’." and match.string[match.end() + 1 : match.end() + 2].isalpha()):
        return None
    if _CALLED.search(match.string[: match.start()]):  # Theorem E, scheme C
        return None
    if (before and before in "'’\"") or (after == "-" and letter.islower()) or len(match.group()) > 1:
        return None
    return Markup("<i>{}</i>").format(letter)
