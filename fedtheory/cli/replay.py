"""`fedtheory replay`: a witness rerun in fractions."""

from __future__ import annotations

import difflib
from contextlib import nullcontext, suppress
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fedtheory.cli.common import (
    emit,
    facts,
    find_statement,
    note,
    out_console,
    progress,
    save,
    shipped_witnesses,
    with_ours,
)
from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability, UnknownName

if TYPE_CHECKING:
    from fedtheory.theory.judge.substitution import Part
    from fedtheory.theory.judge.witness import Witness

__all__ = ["find_witness", "replay"]


def find_witness(name: str) -> Witness:
    """A witness file, or a shipped one: of that name, with or without its paper, or a statement's.

    Of a statement it is the first of the printed form, else of any.
    """
    from fedtheory.theory.judge.registry import all_statements
    from fedtheory.theory.judge.replay import load

    path = Path(name)
    if path.exists() or path.suffix == ".json":
        return load(path)
    shipped = {w.name: w for w in shipped_witnesses()}
    if name in shipped:
        return shipped[name]
    if not shipped:
        raise FedTheoryError(f"{name}: no such file, and no witnesses are shipped under that name")
    of_papers = [w for w in shipped.values() if w.name.removeprefix(f"{w.statement.partition('/')[0]}-") == name]
    if len(of_papers) == 1:
        return of_papers[0]
    several = sum(s.id.partition("/")[2] == name.lower() for s in all_statements()) > 1  # then papers are to be named
    with nullcontext() if several else suppress(UnknownName):
        return _of_statement(find_statement(name), list(shipped.values()))
    close = difflib.get_close_matches(name, shipped, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(close)}?" if close else "see `fedtheory list witnesses`"
    raise UnknownName(f"unknown file or witness {name!r}: {hint}")


def _of_statement(statement: Any, shipped: list[Witness]) -> Witness:
    """The first witness of the printed form, else of any; stderr tells how many more there are."""
    from fedtheory.report.tables import rule_rank

    found = [w for w in shipped if w.statement == statement.id]
    if not found:
        raise InvalidInput(f"{statement.id} has no witness: none of its forms is on record as violated by one that is shipped")
    form = None if statement.as_printed is None else statement.as_printed.name
    chosen = min(found, key=lambda w: (w.form != form, rule_rank(w.rule, w.statement)))
    if len(found) > 1:
        more = f"{chosen.name}, one of {len(found)} witnesses of {statement.id}: `fedtheory explain {statement.id}` names all"
        note(more)
    return chosen


def _replay_proof(path: Path, as_json: bool, paper: Path | None, proof: Path | None) -> None:
    """Check the certificate of a statement in fractions, and say what it proves."""
    from fedtheory.cli.worst_case import checked
    from fedtheory.theory.judge.registry import get, load_file, paper_of
    from fedtheory.theory.studies.certificates import load, source_of, told_of, verify, write_proofs

    found = load(path)
    id = str(found.question.get("statement"))
    if paper is not None:
        load_file(paper)
    try:
        papers: Any = with_ours(lambda: paper_of(get(id)))
        statement = papers.authored[id.partition("/")[2]]
    except UnknownName as error:
        raise UnknownName(f"{error}; where it is from a Python file, name that as well: --paper FILE.py") from error
    try:
        with progress("checking the proof"):
            verify(found, statement)
    except FedTheoryError as error:
        raise type(error)(f"{path}: not proved: {error}") from error
    files = [] if proof is None else write_proofs(proof, found, statement)
    told = {"question": dict(found.question), "verdict": "proved", "mode": "proved", "parts": len(found.parts)}
    told["files"] = [str(file) for file in files]
    words, told["follows"] = told_of(found, statement)
    if as_json:
        emit(told)
        return
    console = out_console()
    console.print(Text(f"{id} [{found.question['form']}]: proved for {words}", "bold"), soft_wrap=True)
    if told["follows"]:
        console.print(f"So {told['follows']}.", soft_wrap=True)
    if found.question.get("source") != source_of(statement):
        console.print("The statement's file is not the one that the certificate was made with; it is proved for this one.")
    for i, (multipliers, factors) in enumerate(found.parts, 1):
        of = f"inequality {i} of {len(found.parts)}: " if len(found.parts) > 1 else ""
        console.print(of + checked(multipliers, factors))
    if files:
        console.print(f"The proof to read: {', '.join(map(str, files))}", soft_wrap=True)


def replay(
    name: str, as_json: bool, out: Path | None, paper: Path | None = None, method: str | None = None,
    criterion: str | None = None, proof: Path | None = None, coq: Path | None = None,
) -> None:  # fmt: skip
    """Rerun a witness exactly, or check a certificate; ``paper``: the Python file of the statement,
    where that is not installed; ``method``, ``criterion``: FILE.py:NAME that a certificate is about."""
    from fedtheory.cli.worst_case import check_files, criterion_of, method_of, own_options, replay_certificate
    from fedtheory.worst_cases.certificates import is_certificate, table_of
    from fedtheory.worst_cases.certificates import read as read_certificate

    if is_certificate(Path(name)):
        if table_of(read_certificate(Path(name)), "question", name).get("kind") == "statement":
            if coq is not None:
                raise MissingCapability(f"--coq {coq}: {name} is a certificate of a statement, and Coq has those of `worst-case`")
            _replay_proof(Path(name), as_json, paper, proof)
        else:
            replay_certificate(Path(name), as_json, method, criterion, proof, coq)
        return
    from fedtheory.worst_cases.below import read

    reached = read(Path(name))
    if reached is not None:
        from fedtheory.cli.worst_function import replay_instance

        for option, file in (("proof", proof), ("coq", coq)):
            if file is not None:
                raise InvalidInput(
                    f"--{option} {file}: {name} holds the losses of a worst case, not a proof; name the "
                    "certificate that `worst-case` wrote"
                )
        own = None if method is None else method_of(method), None if criterion is None else criterion_of(criterion)
        check_files(Path(name), reached[0], *own)
        replay_instance(Path(name), *reached, as_json, *own)
        return
    if Path(name).suffix == ".json" and not Path(name).exists():
        find_witness(name)  # which says so
    for option, file in (("proof", proof), ("coq", coq)):
        if file is not None:
            raise InvalidInput(f"--{option} {file}: {name} is no certificate; leave it out, or name a file that `worst-case` wrote")
    if method is not None or criterion is not None:
        given = own_options(method or "", criterion or "").strip()
        raise InvalidInput(f"{given}: {name} is no certificate of `worst-case`, and no losses of one; leave it out")
    from fedtheory.theory.judge import replay as exact
    from fedtheory.theory.judge.registry import load_file, papers

    if paper is not None:
        load_file(paper)
    witness = find_witness(name)
    try:
        check = with_ours(lambda: exact.replay(witness))  # raises unless the file proves its claim
    except UnknownName as error:
        if paper is not None or witness.statement.partition("/")[0] in [p.id for p in papers()]:
            raise
        raise UnknownName(f"{error}; where it is from a Python file, name that as well: --paper FILE.py") from error
    lhs, rhs = (Fraction(v) for v in check.where["exact"]) if "exact" in check.where else exact.exact_check(witness)[1:3]
    terms, constants = _adds_up(witness, lhs, rhs)
    result = {
        "statement": witness.statement,
        "form": witness.form,
        "rule": witness.rule,
        "verdict": check.verdict,
        "mode": check.mode,
        "lhs": str(lhs),
        "rhs": str(rhs),
        "excess": str(lhs - rhs),
        **({"sides": check.where["sides"]} if "sides" in check.where else {}),
        "terms": [{"latex": t.latex, "value": str(t.value)} for t in terms],
        "constants": dict(constants),
        "witness": {k: v for k, v in asdict(witness).items() if k not in ("provenance", "found_by")},
    }
    save(out, f"replay-{witness.name}", result)
    if as_json:
        emit(result)
    else:
        _show(witness, check, lhs, rhs, terms, constants)


def _adds_up(witness: Witness, lhs: Fraction, rhs: Fraction) -> tuple[list[Part], list[tuple[str, str]]]:
    """The terms of the right side, and (name, value) of the constants: those in the terms, else
    those that the view prints."""
    from fedtheory.errors import InvalidInput
    from fedtheory.rational import brief
    from fedtheory.report.formulas import to_text
    from fedtheory.theory.judge.registry import get, setting_of
    from fedtheory.theory.judge.substitution import right_side

    statement = get(witness.statement)
    form = statement.form(witness.form)
    try:
        view = setting_of(statement).exact_view(statement, form, witness)
    except InvalidInput:  # a kind that is judged without a view
        return [], []
    terms, inside = right_side(form, view, lhs, rhs)
    terms = terms if len(terms) > 1 else []
    if inside:
        return terms, [(to_text(c.latex), brief(c.value)) for c in inside]
    printed: dict[str, Any] = dict(getattr(view, "printed_constants", dict)())
    printed |= constants if isinstance(constants := printed.get("constants"), dict) else {}
    return terms, [
        (name, brief(v) if isinstance(v, Fraction) else f"{v:.6g}")
        for name, v in printed.items()
        if isinstance(v, int | float | Fraction) and not isinstance(v, bool)
    ]


def _show(
    witness: Witness, check: Any, lhs: Fraction, rhs: Fraction, terms: list[Part], constants: list[tuple[str, str]]
) -> None:
    from fedtheory.rational import brief
    from fedtheory.report.formulas import shown
    from fedtheory.theory.judge.registry import get, setting_of

    console, setting = out_console(), setting_of(witness.statement)
    console.print(Text(setting.summary(witness), "bold"))
    statement = get(witness.statement)
    console.print(Text(shown(statement.form(witness.form), statement.title), "cyan"))
    sign = ">" if lhs > rhs else "<" if lhs < rhs else "="
    gap, name = lhs - rhs, "left - right"
    if "sides" in check.where:  # of an equation, which is judged by how far its sides are apart
        (lhs, rhs), name = (Fraction(v) for v in check.where["sides"]), "|left - right|"
    rows = [
        *setting.facts(witness),
        ("left side", f"{brief(lhs)}   = {float(lhs):.12g}"),
        *([("constants", ", ".join(f"{name} = {value}" for name, value in constants))] if constants else []),
        *((f"  term {n}", f"{brief(t.value)}   = {float(t.value):.6g}{_formula(t)}") for n, t in enumerate(terms, start=1)),
        ("right side", f"{brief(rhs)}   = {float(rhs):.12g}{', the sum' if terms else ''}"),
        (name, f"{brief(gap)}   = {float(gap):.6g}{f' {sign} 0' if gap else ''}"),
    ]
    console.print(facts(rows))
    style = "bold red" if check.verdict == "violated" else "bold green"
    console.print(f"{check.verdict}, in exact rational arithmetic", style=style)


def _formula(term: Part) -> str:
    from fedtheory.report.formulas import to_text

    return f"   = {to_text(term.latex)}" if term.latex else ""
