"""The pages' words on statements and papers, as Markdown made from the record."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

from formulas import broken

from fedtheory.errors import UnknownName

__all__ = ["anchor", "headline", "markdown", "table"]

_BADGES = {"holds": "success", "violated": "danger", "open": "warning"}


def anchor(statement: str) -> str:
    """Return the anchor of a statement on the page of all statements."""
    return "statement-" + re.sub(r"[^a-z0-9]+", "-", statement.lower())


def typeset(words: str) -> str:
    """A sentence of a note as Markdown whose symbols are typeset as the report does it."""
    from fedtheory.report.typeset import prose_html

    parts = re.split(r"(<[^>]*>)", str(prose_html(words)).replace("&#34;", '"').replace("&#39;", "'"))
    return "".join(part if n % 2 else _plain(part) for n, part in enumerate(parts))


def _sentence(words: str) -> str:
    """The same with a capital letter, where it begins with a word and not with a symbol."""
    first = words.partition(" ")[0]
    return typeset(words[:1].upper() + words[1:] if re.fullmatch(r"[a-z][a-z-]*", first) and typeset(first) == first else words)


def _plain(text: str) -> str:
    """Text whose signs Markdown takes for nothing else."""
    return re.sub(r"([\\*_\[\]<>|$`~#])", r"\\\1", text)


@cache
def _witnesses() -> dict[tuple[str, str], list[Any]]:
    from fedtheory.theory.judge.replay import builtin_witnesses

    found: dict[tuple[str, str], list[Any]] = {}
    for w in builtin_witnesses():
        found.setdefault((w.statement, w.form), []).append(w)
    return found


def markdown(name: str, forms: Sequence[str] = (), rule: str = "", witness: bool = False, brief: bool = False) -> list[str]:
    """The lines that the directive `statement` stands for.

    Raises
    ------
    UnknownName
        No such statement, or no such form of it.
    """
    from fedtheory.theory.judge.registry import get

    statement = get(name)
    known = {f.name: f for f in statement.forms}
    missing = [f for f in forms if f not in known]
    if missing:
        raise UnknownName(f"{statement.id} has no form {', '.join(map(repr, missing))}: it has {', '.join(known)}")
    shown = [known[f] for f in forms] or [f for n, f in enumerate(statement.forms) if n == 0 or f.name == "repaired"]
    folded = [f for f in statement.forms if f not in shown]
    lines = [f"**{_sentence(statement.title)}** ({typeset(statement.source)})", ""]
    for f in shown:
        lines += [*_form(statement, f, rule, witness, brief), ""]
    if folded and not brief:
        lines += [f"::::{{dropdown}} {len(folded)} other form{'s' if len(folded) > 1 else ''}, and what is assumed"]
        for f in folded:
            lines += [*_form(statement, f, "", False), ""]
        lines += [*(f"- {typeset(a)}" for a in statement.assumptions), "", "::::"]
    lines += ["", "```console", f"$ fedtheory explain {statement.id}", "```"]
    return lines


def _form(statement: Any, form: Any, rule: str, numbers: bool, brief: bool = False) -> Iterator[str]:
    from fedtheory.theory.judge.registry import rule_words
    from fedtheory.theory.judge.statement import WORDINGS

    recorded = {r: v for r, v in form.established.items() if not rule or r in (rule, "any")} or form.established
    verdicts = " ".join(
        f"{{bdg-{_BADGES[v]}}}`{v}{'' if r == 'any' else f' ({rule_words(r, statement.id)})'}`" for r, v in recorded.items()
    )
    yield f"{{.form}}\n**{_plain(form.name)}** {verdicts}"
    yield ""
    if form.wording:
        yield f"*{_plain(WORDINGS[form.wording])}*"
        yield ""
    if form.latex.strip() and not brief:
        for latex in form.latex.split(r"\text{; ") if r"\text{; " in form.latex else [form.latex]:
            yield from ("```{math}", broken(latex), "```", "")
    if form.conditions:
        yield f"Only where: {typeset('; '.join(form.conditions))}."
        yield ""
    if form.note:
        yield _sentence(form.note) + "."
        yield ""
    if form.evidence and not brief:
        yield f"*{typeset(form.evidence)}.*"
        yield ""
    if form.worst is not None and not brief:
        yield (
            f"Of all problems of the class ({typeset(form.worst.at)}) the worst comes to {float(form.worst.share()):.3g} "
            "of this bound: proved in fractions."
        )
        yield ""
    witnesses = [w for w in _witnesses().get((statement.id, form.name), ()) if w.verdict == "violated"]
    witnesses = [w for w in witnesses if not rule or w.rule in (rule, "any")] or witnesses
    if witnesses and numbers:
        yield from _facts(witnesses[0])
    if witnesses:
        yield from ("```console", *(f"$ fedtheory replay {w.name}" for w in witnesses), "```")


def _facts(witness: Any) -> Iterator[str]:
    """The numbers of a witness, and both of its sides."""
    from fedtheory.report.headlines import sizes
    from fedtheory.theory.judge.registry import setting_of

    lhs, rhs = Fraction(witness.lhs), Fraction(witness.rhs)
    rows = [*setting_of(witness.statement).facts(witness), ("left side", _number(lhs)), ("right side", _number(rhs))]
    yield from ("", f"| A witness | {typeset(sizes(witness))} |", "|---|---|")
    for name, value in rows:
        yield f"| {typeset(str(name))} | {typeset(' '.join(str(value).split()))} |"
    yield ""


def _number(x: Fraction) -> str:
    text = str(x)
    return text if len(text) <= 12 else f"{float(x):.6g}" + (f" = {text}" if len(text) <= 40 else "")


def headline(paper: str) -> list[str]:
    """Say in a sentence what is found of a paper, and count its statements, as the report does."""
    from fedtheory.report import headlines
    from fedtheory.report.tables import lines
    from fedtheory.theory.judge.registry import paper as paper_named

    known, witnesses = paper_named(paper), {w.name: w for found in _witnesses().values() for w in found}
    rows = _rows(known)
    told = headlines.sentence(known, lines(rows), rows, witnesses)
    return [typeset(told), "", *headlines.counts_markdown(headlines.counts(lines(rows)))]


def _rows(paper: Any) -> list[Any]:
    """The rows of a campaign that found what is on record, with the shipped witnesses."""
    from fedtheory.theory.judge.campaign import summarise
    from fedtheory.theory.judge.check import Check

    checks, files = [], []
    for s in paper.statements:
        for f in s.forms:
            checks += [Check(s.id, f.name, r, "holds" if v == "open" else v, "exact") for r, v in f.established.items()]
            found = [w for w in _witnesses().get((s.id, f.name), ()) if w.verdict == "violated"]
            files += [(w.name, Check(s.id, f.name, w.rule, "violated", "rational")) for w in found]
    return summarise(checks, files, paper.statements)


def table(paper: str) -> list[str]:
    """All statements of a paper with the verdicts on record, as a Markdown table."""
    from fedtheory.theory.judge.registry import paper as paper_named

    rows = []
    for s in paper_named(paper).statements:
        forms = s.as_printed, next((f for f in s.forms if f.name == "repaired"), None)
        cells = ["" if f is None else _verdicts(f) for f in forms]
        mark = "°" if forms[0] is not None and forms[0].wording else ""
        rows.append(f"| [`{s.id.partition('/')[2]}`](#{anchor(s.id)}){mark} | {typeset(s.title)} | {' | '.join(cells)} |")
    return ["| statement | about | as the paper has it | repaired |", "|---|---|---|---|", *rows]


def _verdicts(form: Any) -> str:
    verdicts = set(form.established.values())
    if len(verdicts) == 1:
        return f"{{bdg-{_BADGES[v]}}}`{v}`" if (v := verdicts.pop()) else ""
    return " ".join(f"{{bdg-{_BADGES[v]}}}`{v}` ({_plain(r)})" for r, v in form.established.items())
