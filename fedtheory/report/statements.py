"""One statement as a page shows it: what is printed, what stands, on what evidence, and everything below its fold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from fedtheory.report.evidence import how, search_text, told_witness, worst_instance
from fedtheory.report.headlines import state_of
from fedtheory.report.tables import (
    MARKS,
    NO_FORM,
    instance_text,
    short,
    shown_rule,
    tightness_text,
    verdict_text,
    worst_case_text,
)
from fedtheory.report.typeset import formula_html, prose_html, prose_text
from fedtheory.theory.judge.registry import RegisteredPaper, about_of, get, paper_of, rule_words
from fedtheory.theory.judge.statement import KNOWN, WORDINGS

if TYPE_CHECKING:
    from fedtheory.report.tables import Line
    from fedtheory.theory.judge.campaign import Row
    from fedtheory.theory.judge.statement import Form, Statement
    from fedtheory.theory.judge.witness import Witness

__all__ = ["CLASSES", "Context", "anchor", "shown_statement"]

CLASSES = {"holds": "holds", "violated": "violated", "inconclusive": "inconclusive", "not applicable": "na"}
_WORDED = {"in words": "as said in words", "algorithm": "as the algorithm is printed"}
READINGS = 2  # formulas above the fold of a statement that has neither a printed nor a repaired form


@dataclass(frozen=True)
class Context:
    """The context that all statements of a page share.

    Attributes
    ----------
    rows : statement -> its rows
    witnesses : name -> witness
    named : summary of a witness -> its name
    links : id of a statement on the page -> its address
    """

    rows: Mapping[str, Sequence[Row]]
    record: Mapping[str, Any]
    witnesses: Mapping[str, Witness]
    named: Mapping[str, str]
    links: Mapping[str, str]
    findings: Mapping[str, Any] = field(default_factory=dict)

    def prose(self, text: str) -> Markup:
        """A note with its symbols and links."""
        return prose_html(text, self.links)


def anchor(statement: str) -> str:
    """The id of a statement's part of the page."""
    return statement.replace("/", "-").replace(" ", "-")


def shown_statement(line: Line, context: Context) -> dict[str, Any]:
    """Everything that the template says of a statement."""
    statement, rows = get(line.statement), context.rows[line.statement]
    above = _above(line, statement)
    shown = line.shown
    return {
        "id": statement.id, "anchor": anchor(statement.id), "short": short(statement.id),
        "mark": line.mark, "title": prose_html(statement.title),
        "source": context.prose(statement.source), "state": state_of(line),
        "ok": all(r.ok for r in rows),
        "verdicts": [_chip(label, rows_of) for label, _, rows_of in above],
        "formulas": [
            (label, formula_html(form, statement.title), _conditions(form, context))
            for label, form, _ in above
        ],
        "known": KNOWN[line.known] if line.known else "", "evidence": how(r for _, _, rows_of in above for r in rows_of),
        "instances": line.instances,
        "tightness": tightness_text(shown), "worst_case": worst_case_text(shown),
        "worst_case_at": "" if shown is None else prose_html(shown.worst_case_at),
        "assumptions": [context.prose(a) for a in _assumptions(statement)],
        "symbols": [(prose_html(k), v) for k, v in about_of(statement).symbols.items()],
        "proofs": _proofs(statement, context),
        "forms": [
            _form(f, statement, rows, context, [form for _, form, _ in above])
            for f in statement.forms
        ],
        "witnesses": _witnesses(rows, context), "worst": _worst(rows, context),
        "findings": context.findings.get(statement.id, []), "text": _searched(line, statement),
    }


def _assumptions(statement: Statement) -> tuple[str, ...]:
    return (statement.assumptions,) if isinstance(statement.assumptions, str) else tuple(statement.assumptions)


def _above(line: Line, statement: Statement) -> list[tuple[str, Form, Sequence[Row]]]:
    """(label, form, rows) of what stands above the fold: as printed and as repaired, else the first
    of the statement's own forms."""
    out: list[tuple[str, Form, Sequence[Row]]] = []
    if line.printed is not None:
        form = statement.form(line.printed.form)
        out.append((_WORDED.get(form.wording, "as printed"), form, [line.printed]))
    if line.repaired:
        ours = "as repaired" if line.printed is not None or statement.kind != "sharpened" else "what holds"
        out.append((ours, statement.form(line.repaired[0].form), line.repaired))
    if not out:
        for form in statement.forms[:READINGS]:
            rows = [r for r in line.others if r.form == form.name]
            out.append((form.name, form, [row] if (row := shown_rule(rows)) is not None else []))
    return out


def _chip(label: str, rows: Sequence[Row]) -> dict[str, Any]:
    if not rows:
        return {"label": label, "text": NO_FORM, "class": "na", "ok": True}
    ok = all(r.ok for r in rows)
    worst = next(v for v in ("violated", "inconclusive", "holds", "not applicable") if any(r.verdict == v for r in rows))
    return {"label": label, "text": verdict_text(rows), "class": CLASSES[worst], "ok": ok}


def _rule(row: Row) -> str:
    return "" if row.rule == "any" else rule_words(row.rule, row.statement)


def _form(form: Form, statement: Statement, rows: Sequence[Row], context: Context, above: Sequence[Form]) -> dict[str, Any]:
    judged = [r for r in rows if r.form == form.name]
    return {
        "name": form.name,
        "formula": None if form in above else formula_html(form, statement.title),
        "wording": WORDINGS.get(form.wording, ""), "note": context.prose(form.note),
        "conditions": _conditions(form, context), "evidence": context.prose(form.evidence),
        "rows": [
            {
                "rule": _rule(r) or "any", "verdict": _chip("", [r]), "established": r.established,
                "violated": f"{r.violations} / {r.instances}", "comparisons": f"{r.evaluations:,}",
                "tightness": tightness_text(r), "tightest": instance_text(r.tightest),
                "worst_case": worst_case_text(r), "worst_case_at": prose_html(r.worst_case_at),
                "known": r.known, "how": ", ".join(r.modes),
                "search": search_text(context.record["searches"], r.statement, r.form, r.rule),
            }
            for r in judged
        ],
    }


def _conditions(form: Form, context: Context) -> Markup:
    """The conditions of a form as one line; empty where it has none."""
    return Markup("; ").join(context.prose(c) for c in form.conditions)


def _witnesses(rows: Sequence[Row], context: Context) -> list[dict[str, Any]]:
    """The counterexamples to the forms of a statement, one a form and rule; the same instance for two rules stands once."""
    out: dict[Any, dict[str, Any]] = {}
    for row in rows:
        if not row.witness:
            continue
        witness = context.witnesses.get(row.witness)
        if witness is None:
            told: dict[str, Any] = {"name": row.witness, "form": row.form, "rules": [_rule(row)], "missing": True}
            told["command"] = f"fedtheory replay {row.witness}"
            out[row.witness] = told
            continue
        told = told_witness(row.witness, witness)
        key = (row.form, str(told["facts"]), told["lhs"], told["rhs"])
        if key in out:
            out[key]["rules"].append(_rule(row))
        else:
            typeset = {k: context.prose(told[k]) for k in ("summary", "found_by")}
            facts = [(prose_html(k), prose_html(v)) for k, v in told["facts"]]
            out[key] = {**told, **typeset, "facts": facts, "rules": [_rule(row)], "missing": False}
    return [{**told, "rules": ", ".join(r for r in told["rules"] if r)} for told in out.values()]


def _worst(rows: Sequence[Row], context: Context) -> list[dict[str, Any]]:
    """The instances on which forms are worst, each with those forms."""
    out: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        told = worst_instance(row, context.record["settings"], context.named)
        if told is None:
            continue
        where = {key: told[key] for key in ("instance", "command")}
        place = out.setdefault(tuple(where.values()), {**where, "forms": []})
        place["forms"].append({**told, "rule": _rule(row), "mark": MARKS[row.verdict], "class": CLASSES[row.verdict]})
    return list(out.values())


def _proofs(statement: Statement, context: Context) -> list[dict[str, Any]]:
    """The steps of the proofs that the paper brings of this theorem."""
    proofs = [p for p in getattr(paper_of(statement), "proofs", ()) if p.theorem in (statement.id, short(statement.id))]
    return [
        {
            "form": proof.form,
            "note": context.prose(proof.note),
            "command": f"fedtheory proof {statement.id}",
            "steps": [_step(step, paper_of(statement), context) for step in proof.steps],
        }
        for proof in proofs
    ]


def _step(step: Any, paper: RegisteredPaper, context: Context) -> dict[str, Any]:
    id = step.statement if "/" in step.statement else f"{paper.id}/{step.statement}"
    rows = [r for r in context.rows.get(id, ()) if r.form == step.form]
    form = get(id).form(step.form) if step.statement and step.form else None
    latex = step.formula or (form.latex if form is not None else "")
    return {
        "label": step.label,
        "words": context.prose(step.words),
        "href": context.links.get(id, "") if step.statement else "",
        "verdict": _chip("", rows) if rows else None,
        "formula": formula_html(_Shown(latex), step.words) if latex else None,
        "part_of": step.part_of,
    }


@dataclass(frozen=True)
class _Shown:
    """A formula that is no form's."""

    latex: str
    note: str = ""


def _searched(line: Line, statement: Statement) -> str:
    """Return the text of a statement that a search on the page looks at."""
    notes = [prose_text(f.note) for f in statement.forms]
    words: list[str] = [statement.id, statement.title, statement.source, *(f.name for f in statement.forms), *notes]
    return " ".join(words).lower()
