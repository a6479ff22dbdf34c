"""A study in words: of each statement its forms with their verdicts, then what was found of them, the most interesting first."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.rational import brief
from fedtheory.theory.judge.summary import ratio_text
from fedtheory.theory.rounds.declare import Among
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.reads import read_there
from fedtheory.theory.studies.counterexamples import instance_of, sides_told, told
from fedtheory.theory.studies.declared import scope

__all__ = ["findings", "proof_told", "renderables", "table"]


def table(study: Any) -> str:
    """The study as text, 120 columns wide."""
    from rich.console import Console

    buffer = io.StringIO()
    Console(file=buffer, width=120, color_system=None, force_jupyter=False).print(study)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()).rstrip()


def renderables(study: Any) -> Iterator[Any]:
    """Statement by statement: title, table of the forms, findings."""
    from rich.table import Table
    from rich.text import Text

    for n, one in enumerate(study.studies):
        if n:
            yield Text()
        yield Text(f"{one.statement.name}: {one.statement.title}", "bold")
        yield Text(_searched(one), "dim")
        if one.in_floats_only:
            yield Text(f"in floats only: {one.in_floats_only}", "dim")
        yield Text()
        yield _forms(one)
        yield Text()
        found = Table.grid(padding=(0, 2, 0, 0))
        found.add_column(style="bold", no_wrap=True)
        found.add_column()
        before = ""
        for label, words in _found(one):
            found.add_row(label if label != before else "", Text(words))
            before = label
        yield found


def _searched(one: Any) -> str:
    """Say what was looked at: the class of problems, the horizons, the law of the cohorts, how many instances the search tried (which
    are judged only where they are nearest to a violation), and how large they were at most, where the class is larger."""
    problems, words = one.statement.problems, [str(one.statement.problems), scope(one.statement)]
    words.append(f"{one.search.tried:,} instances tried in the search")
    most = (problems.clients[1], problems.dimension[1])
    if any(seen < declared for seen, declared in zip(one.search.largest, most, strict=True)):
        words.append("up to N = {}, d = {}".format(*one.search.largest))
    return "; ".join(words)


def findings(one: Any) -> list[tuple[str, str]]:
    """(label, words) of what was found of a statement, what was looked at first."""
    floats = [("in floats only", one.in_floats_only)] * bool(one.in_floats_only)
    return [("searched", _searched(one)), *floats, *_found(one)]


def _forms(one: Any) -> Any:
    from rich.table import Table
    from rich.text import Text

    styles = {"holds": "green", "violated": "red", "inconclusive": "yellow"}
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("form", min_width=max(len(word) for row in one.rows for word in row.form.split()))
    for title in ("verdict", "on record", "proved", "violated\n/ judged", "lhs/rhs\nup to", "how"):
        grid.add_column(title, no_wrap=True)
    for row in one.rows:
        ratio = row.tightness_worst
        attained = any(t.attained for t in one.tightness if t.form == row.form)
        tight = ratio_text(ratio, 4).partition(" (")[0] if np.isfinite(ratio) else "–"
        tight = "~1" if tight == "1" and not attained else tight
        verdict = Text(row.verdict if row.ok else f"{row.verdict} (!)", styles.get(row.verdict, ""))
        grid.add_row(
            Text(row.form), verdict, row.established, row.known if row.claim == "holds" else "–",
            f"{row.violations} / {row.instances}", tight, ", ".join(m for m in row.modes if m != "proved"),
        )
    return grid


def _found(one: Any) -> Iterator[tuple[str, str]]:
    """(label, words): what is refuted, how tight the rest is, how far its constants go, what it needs, and its mutants."""
    standing = [name for name in one.statement.forms if name not in one.counterexamples]
    several, setting = len(standing) > 1, one.setting

    def of(form: str) -> str:
        return f"{form}: " if several else ""

    for form, example in one.counterexamples.items():
        label = "free" if one.statement.free_constants(form) else "refuted"
        yield label, f"{form}: {told(setting, example)}: {sides_told(setting, example)}"
        read = read_there(setting, form, instance_of(example))
        if read:
            yield "there", "; ".join(f"{name} {value}" if name == "worst at" else f"{name} = {value}" for name, value in read.items())
        for name in _varied(one.statement):
            yield "violations", f"{form}: {name}: {', '.join(_by_value(one, form, name))}"
    refuted = [form for form in one.counterexamples if form in one.unproved]
    yield from (("free", f"{form}: not proved with other values: {one.unproved[form]}") for form in refuted)
    for form, proof in one.proofs.items():
        yield from proof_told(form, proof, [])
    for form in dict.fromkeys(form for form, _ in one.best):
        yield from proof_told(form, None, [b for f, b in one.best if f == form])
    labels = {"violated": "refuted", "not applicable": "not judged", "inconclusive": "undecided", "holds": "says nothing"}
    for row in one.rows:
        if row.note:
            label = "free" if row.claim != row.verdict else labels[row.verdict]
            yield label, f"{row.form}: {row.note}"
    for t in one.tightness:
        if t.form in standing and (t.attained or np.isfinite(t.ratio)):
            yield "tightness", f"{t.form}: {'attained' if t.attained else t.up_to} on {t.instance}"
    yield from (("holds", words) for words in _held(one))
    none: dict[str, list[str]] = {}
    for name in one.statement.forms:
        none.setdefault(one.no_ratio(name), []).append(name)
    yield from (("tightness", f"{', '.join(names)}: no lhs/rhs is shown: {why}") for why, names in none.items() if why)
    for need in one.constants:
        yield "constant", of(need.form) + need.words
    yield from _grouped(one.assumptions, several)
    for m in one.mutants:
        label = "rejected" if m.rejected else "undecided" if m.searched else "not rejected"
        by = f": by {m.by}" if m.by else "" if m.rejected else f": {m.fate}"
        yield label, f"{of(m.form)}{m.mutant}{by}"


def _held(one: Any) -> Iterator[str]:
    """Say what it means that forms hold: how often they were judged, and where a proof may stand."""
    rows = [
        row for row in one.rows
        if row.verdict == "holds" and row.form in one.statement.forms and not (row.form in one.proofs and one.proofs[row.form].whole)
    ]  # fmt: skip
    for row in rows:
        proof = one.statement.forms[row.form].proof
        judged = f"no violation was found on {row.instances} instance{'s' * (row.instances != 1)} judged"
        if row.form in one.proofs:
            yield f"{row.form}: beyond what is proved {judged}"
            continue
        walked = (
            "a form may cite one, proof=..., and docs/proofs.md has how a theorem about a run is "
            "proved from it"
        )
        if one.statement.over == "run":
            walked = "`fedtheory proof` walks one that the file says (docs/proofs.md)"
        why = f". Not proved for all losses: {one.unproved[row.form]}" if row.form in one.unproved else ""
        yield f"{row.form}: {judged}" + (f"; cited as its proof: {proof}" if proof else f", which is no proof: {walked}") + why


def proof_told(form: str, proof: Any, best: Sequence[Any]) -> list[tuple[str, str]]:
    """(label, words) of a form's proof, if there is one, and of the best values of its constants."""
    told = [] if proof is None else [("proved", f"{form}: for {proof.told}" + f". So {proof.follows}" * bool(proof.follows))]
    others = ", with the other constants as they stand" * (len(best) > 1)
    return told + [("best", f"{form}: {_best(one)}{others}") for one in best]


def _best(best: Any) -> str:
    """The best value of a constant, in words."""
    alone = "" if best.whole else " alone"
    chosen = [] if best.proof is None else [", ".join(f"{n} = {brief(v)}" for n, v in one.items()) for one in best.proof.chosen if one]
    with_these = f", with {' or '.join(dict.fromkeys(chosen))}" * bool(chosen)
    if best.exact:
        told = f"{best.constant} = {best.proved} is the best value for {best.words}{alone}"
        return f"{told}: it is proved with this one{with_these}, and by the solver none is better"
    seems = f" (recognised as {best.recognised}, not proved)" if best.recognised else ""
    told = f"the best {best.constant} for {best.words}{alone} is {best.best:.9g} by the solver{seems}"
    return f"{told}; proved with {float(best.proved):.9g}{with_these}"


def _varied(statement: Any) -> list[str]:
    """Name what is drawn `among` some numbers, and the rounds of runs of several lengths."""
    runs = statement.over == "run" and statement.rounds[0] < statement.rounds[1]
    families = MethodSetting.of(statement).open_numbers().items()
    return [name for name, v in families if isinstance(v, Among)] + ["rounds"] * runs


def _by_value(one: Any, form: str, name: str) -> list[str]:
    """'2: 5 of 11': of each value of a drawn number, on how many of the instances judged with it a form is violated."""
    counts: dict[Fraction, list[int]] = {}
    for c in one.checks:
        of_runs = name == "rounds"
        pattern = r", (\d+) rounds?\b" if of_runs else rf", {re.escape(name)} = ([\d/.-]+)"
        value = re.search(pattern, c.instance)
        if c.form == form and c.verdict in ("holds", "violated") and value:
            count = counts.setdefault(Fraction(value[1].rstrip(".")), [0, 0])
            count[0] += c.verdict == "violated"
            count[1] += 1
    return [f"{value}: {bad} of {judged}" for value, (bad, judged) in sorted(counts.items())]


def _grouped(assumptions: Iterable[Any], several: bool) -> Iterator[tuple[str, str]]:
    """(label, words) of assumptions, those needed first; forms of one finding together."""
    groups: dict[tuple[bool, str, str], list[str]] = {}
    for a in sorted(assumptions, key=lambda a: not a.needed):
        groups.setdefault((a.needed, a.assumption, a.words), []).append(a.form)
    for (needed, assumption, found), forms in groups.items():
        of = f" ({', '.join(forms)})" if several else ""
        yield "needed" if needed else "undecided", f"{assumption}{of}: {found}"
