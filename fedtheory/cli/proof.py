"""`fedtheory proof`: a theorem's proof, step by step on one run, and where the slack of its bound is lost."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from fedtheory.cli.common import (
    block,
    check_out,
    emit,
    find_statement,
    in_file,
    in_words,
    out_console,
    progress,
    save,
    slug,
    statements_in,
    wrote,
)
from fedtheory.cli.options import refuse_given
from fedtheory.cli.replay import find_witness
from fedtheory.cli.request import CommandRequest
from fedtheory.errors import InvalidInput
from fedtheory.report.stacked import plain_table

if TYPE_CHECKING:
    from fedtheory.theory.judge.proof_report import Walk

__all__ = ["list_proofs", "prove"]

WIDTH = 110  # columns, on a terminal that has more
STYLES = {"violated": "bold red", "inconclusive": "yellow", "holds": "green"}


def list_proofs(as_json: bool, out: Path | None) -> int:
    """The theorems whose proofs can be walked, with their forms and how many steps each has."""
    from fedtheory.theory.judge.proof_trace import proofs_of
    from fedtheory.theory.judge.registry import about_of, get, papers

    first: dict[str, int] = {}
    for p in proofs_of():
        first.setdefault(p.theorem, len(first))
    rows: list[dict[str, Any]] = [
        {
            "theorem": p.theorem, "form": p.form, "rules": list(p.rules),
            "steps": [s.label for s in p.steps], "weighed": p.weighed, "note": p.note,
        }
        for p in sorted(proofs_of(), key=lambda p: (first[p.theorem], p.form != "repaired"))
    ]
    save(out, "proofs", rows)
    if as_json:
        emit(rows)
        return 0
    table = plain_table(("theorem", "form", "rule", "steps"), right=(3,))
    for row in rows:
        table.add_row(
            in_words(get(row["theorem"])), row["form"],
            ", ".join(r for r in row["rules"] if r != "any"), str(len(row["steps"])),
        )
    console = out_console()
    console.print(table)
    console.print()
    block("`fedtheory proof THEOREM` walks the repaired proof, then the printed one; --form walks one alone.", style="dim")
    for paper in [p for p in papers() if not p.proofs]:
        runs = next((s for s in paper.statements if about_of(s).example is not None), None)
        one = f", or `fedtheory verify {runs.id}`" if runs is not None else ""
        none = f"{paper.title} has no theorem with a proof in steps"
        block(f"{none}: `fedtheory verify {paper.id}/` judges its statements{one}", style="dim")
    return 0


def prove(
    name: str, problem_name: str | None, options: Mapping[str, Any], participants: int | None,
    how: Mapping[str, Any], seed: int, show: Mapping[str, Any], as_json: bool, out: Path | None,
) -> int:
    """Walk a proof; 1 where a step breaks that is on record as holding, or where the weights do not add up.

    Parameters
    ----------
    how : rounds, scenarios, mode
    show : form, witness, round, details, figure
    """
    theorem = _theorem(name)
    on_problem = problem_name is not None or options.get("data") is not None
    if show["witness"] is not None and on_problem:
        raise InvalidInput(
            f"--witness {show['witness']}: not with --problem or --data, as a witness is an instance of its own"
        )
    if show["figure"] is not None:
        _check_figure(show["figure"])
    if on_problem:
        walks = [_on_problem(theorem, problem_name, options, participants, how, seed, show["form"] or "repaired")]
    else:
        given = {**options, "rule": None, "participants": participants, **how, "mode": None if how["mode"] == "auto" else how["mode"]}
        refuse_given(given, "only with a problem", "fedtheory proof theorem-3.1 --problem diabetes")
        walks = _on_witness(theorem, show)
    for walk in walks:
        if show["round"] is not None and not 1 <= show["round"] <= walk.horizon:
            raise InvalidInput(f"--round {show['round']}: the run has the rounds 1 to {walk.horizon}")
    results = [_told(walk, seed, show["round"], bool(show["details"])) for walk in walks]
    stem = ("proof", theorem.id.split("/")[-1])
    written = [save(out, slug(*stem, walk.proof.form), result) for walk, result in zip(walks, results, strict=True)]
    files = [path for path in written if path]
    if show["figure"] is not None:
        for walk, result in [w for w in zip(walks, results, strict=True) if w[0] is walks[0] or w[0].proof.weighed]:
            files += _draw(walk, show["figure"], result, "" if walk is walks[0] else f"-{slug(walk.proof.form)}")
    if as_json:
        emit({**results[0], **{result["form"]: result for result in results[1:]}})
    else:
        _show_all(walks, show, files)
    return int(any(_unexpected(walk) or not walk.adds_up for walk in walks))


def _on_problem(
    theorem: Any, problem_name: str | None, options: Mapping[str, Any], participants: int | None,
    how: Mapping[str, Any], seed: int, form: str,
) -> Walk:
    from fedtheory.theory.judge.proof_trace import proofs_of, walk
    from fedtheory.theory.judge.registry import setting_of

    proofs_of(theorem.id, form)
    request = CommandRequest.about(theorem, options, participants, problem_name, seed, how)
    with progress("certifying the optimum"):
        prepared = setting_of(theorem).prepare(theorem, request)
    with progress("walking the proof"):
        return walk(theorem.id, prepared.problem, prepared.algorithm, form=form, **request.how(prepared))


def _on_witness(theorem: Any, show: Mapping[str, Any]) -> list[Walk]:
    """The repaired proof and then the printed one, on the same run; only one where a form or a witness is named."""
    from fedtheory.theory.judge.proof_trace import proofs_of, walk_witness

    proofs = proofs_of(theorem.id)
    walked = {p.form for p in proofs}
    witness = None if show["witness"] is None else find_witness(show["witness"])
    forms = [str(form) for form in ("repaired", "printed") if form in walked] or [proofs[0].form]
    forms = [show["form"]] if show["form"] else forms if witness is None else forms[-1:]
    with progress("walking the proof in fractions"):
        return [walk_witness(theorem.id, witness, form=form, rule=show["rule"] or "") for form in forms]


def _unexpected(walk: Walk) -> list[Any]:
    """Steps that break here and are on record as holding."""
    from fedtheory.theory.judge.registry import get

    found = []
    for tally in walk.broken:
        step = tally.step
        if step.statement and step.form:
            verdicts = get(step.statement).form(step.form).established
            if verdicts.get(walk.rule, verdicts.get("any", "open")) == "holds":
                found.append(tally)
    return found


def _theorem(name: str) -> Any:
    """Find a statement by its name; of a file alone the only one that has a proof."""
    file, own = in_file(name)
    if file is not None and not own:
        ids = {proof.theorem for paper in statements_in(file) for proof in paper.proofs}
        name = f"{file}::{ids.pop().partition('/')[2]}" if len(ids) == 1 else name
    return find_statement(name)


def _told(walk: Walk, seed: int, at: int | None, details: bool) -> dict[str, Any]:
    from fedtheory.provenance import provenance

    more = {"rows": walk.rows(at)} if at is not None or details else {}
    return {**walk.data(), **more, "provenance": provenance(seed)}


def _check_figure(path: Path) -> None:
    if path.suffix not in ("", ".png", ".pdf", ".svg"):
        raise InvalidInput(f"--figure {path}: write it as NAME.png, NAME.pdf or NAME.svg")
    check_out(path.parent)


def _draw(walk: Walk, path: Path, result: dict[str, Any], ending: str = "") -> list[Path]:
    """The waterfall, and beside it the data that it is drawn from; ``ending`` is put to the file's name."""
    from fedtheory.plotting.style import save as save_figure
    from fedtheory.provenance import write_json

    figure = walk.waterfall()
    formats = (path.suffix[1:],) if path.suffix else ("png", "pdf")
    stem = path.with_suffix("") if path.suffix else path
    stem = stem.with_name(stem.name + ending)
    return [*save_figure(figure, stem, formats=formats), write_json(stem.with_suffix(".json"), result)]


# --- what people read -----------------------------------------------------------------------------
def _show_all(walks: list[Walk], show: Mapping[str, Any], written: list[Path]) -> None:
    """A screen a walk, and below them which other forms there are and what was written."""
    console = out_console()
    for number, walk in enumerate(walks):
        if number:
            console.print()
            console.print(Text("-" * min(console.width, WIDTH), "dim"))
            run = "the same run" if walk.instance == walks[0].instance else "a run of its own"
            block(f"The {walk.proof.form} proof, on {run}")
        _show(walk, show, console)
    seen = [walk.proof.form for walk in walks]
    others = [f for f in dict.fromkeys(p.form for p in _proofs(walks[0])) if f not in seen]
    if others or len(walks) > 1:
        walked = " walks one alone" if len(walks) > 1 else " walks another"
        named = f"{', or another' if len(walks) > 1 else ''}: {'; '.join(others)}" if others else ""
        block(f"--form{walked}{named}. --round and --details put the numbers in, --figure draws.", style="dim")
    wrote(written)


def _show(walk: Walk, show: Mapping[str, Any], console: Any) -> None:
    from fedtheory.theory.judge.registry import get, rule_words

    block(walk.headline, style="bold")
    rule = "" if walk.rule == "any" else f", {rule_words(walk.rule, walk.proof.theorem)}"
    block(f"{get(walk.proof.theorem).source} [{walk.proof.form}{rule}]; {walk.instance}", style="dim")
    console.print()
    for line in _waterfall(walk, min(console.width, WIDTH)):
        console.print(line, soft_wrap=True)
    console.print(_table(walk))
    bound = {"holds": "holds", "violated": "fails"}.get(walk.check.verdict, "is not settled")
    sign, slack = (">", "") if bound == "fails" else ("<=", f", slack {float(walk.slack):.5g}")
    console.print(f"\nThe bound {bound}: {float(walk.lhs):.5g} {sign} {float(walk.rhs):.5g}{slack}")
    alone = "The steps have no weights: each is judged by itself, and there is no waterfall."
    block(_sum_in_words(walk) if walk.proof.weighed else alone, style="dim")
    if walk.proof.note:
        block(f"{walk.proof.note[0].upper()}{walk.proof.note[1:]}.", style="dim")
    if held := walk.held_here():
        names = ", ".join(t.step.label for t in held)
        block(
            f"Holding on this run, on record as violated: {names}; `fedtheory replay` reruns where each fails.", style="dim"
        )
        first, last = walk.tallies[0].step, [t.step for t in walk.broken if t.step.over == "end"]
        if walk.check.verdict == "violated" and held[0].step is first and last:
            block(
                f"The proof is wrong from its first line ({first.label}, on other runs), and what "
                f"falsifies the theorem on this run is the last ({last[-1].label})."
            )
    if show["round"] is not None or show["details"]:
        _show_rows(walk, show["round"], console)


def _waterfall(walk: Walk, width: int) -> list[Text]:
    """The waterfall in characters: what is measured, a bar for what each part of the proof adds, and the bound."""
    if not walk.proof.weighed:
        return []
    broken = {t.step.part_of or t.step.label for t in walk.broken}
    at, bars = float(walk.lhs), [("measured", 0.0, float(walk.lhs), f"{float(walk.lhs):.3g}", "")]
    for label, lost in walk.parts():
        end = at + float(lost)
        share = f"  ({_percent(float(lost) / float(walk.slack))})" if walk.slack > 0 else ""
        bars.append((label, at, end, f"{float(lost):+.3g}{share}", "bold red" if label in broken else ""))
        at = end
    bars.append(("the bound", 0.0, float(walk.rhs), f"{float(walk.rhs):.3g}", "bold"))
    ends = [value for _, *both, _, _ in bars for value in both]
    low, high = min(ends), max(ends)
    names, room = max(len(b[0]) for b in bars), max(len(b[3]) for b in bars)
    columns = max(8, width - names - room - 5)

    def place(value: float) -> int:
        return round((value - low) / (high - low) * columns) if high > low else 0

    out = []
    for label, start, end, told, style in bars:
        first, last = sorted((place(start), place(end)))
        bar = "█" * (last - first) or "▏"
        out.append(Text(f"{label:{names}}  {' ' * first}{bar}  {told}", style))
    return [*out, Text("")]


def _proofs(walk: Walk) -> list[Any]:
    from fedtheory.theory.judge.proof_trace import proofs_of

    return proofs_of(walk.proof.theorem)


def _sum_in_words(walk: Walk) -> str:
    if not walk.adds_up:
        return f"The weights leave {float(walk.unexplained):.3g} of the slack unexplained: they are not those of this proof."
    how = "exactly, in fractions" if isinstance(walk.unexplained, int | Fraction) else "to rounding"
    return (
        f"'lost' is what a step adds to the slack over all rounds; together they are the slack, {how}. "
        "lhs and rhs are of the round named."
    )


def _table(walk: Walk) -> Table:
    headings = ("step", "verdict", "worst in", "lhs", "rhs", "lost", "share")
    table = plain_table(headings, right=range(3, 7), whole=range(1, 7))
    part = ""
    for row in walk.steps():
        if row["part_of"] and row["part_of"] != part:
            lost = dict(walk.parts()).get(row["part_of"])
            share = None if lost is None or not walk.slack > 0 else float(lost) / float(walk.slack)
            table.add_row(row["part_of"], "", "", "", "", _short(lost), _percent(share), style="bold")
        part = row["part_of"]
        table.add_row(
            Text(("  " if part else "") + row["step"]),
            Text(row["verdict"], STYLES.get(row["verdict"], "")), row["worst"], _short(row["lhs"]),
            _short(row["rhs"]), "" if row["lost"] is None else _short(row["lost"]),
            _percent(row["share"]),
        )
    return table


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share + 0.0:.1f} %".replace("-0.0 %", "0.0 %")


def _short(value: Any) -> str:
    if value is None:
        return ""
    number = float(value)
    return f"{number:.3g}" if abs(number) < 1e5 else f"{number:.2e}"


def _show_rows(walk: Walk, at: int | None, console: Any) -> None:
    """Each step's formula, and below it the numbers of each round asked for."""
    from fedtheory.report.formulas import to_text, unread

    def line(latex: str, indent: int, style: str = "") -> None:
        text = to_text(latex) if latex and not unread(latex) else latex
        block(text, indent, 2, style)

    words = {t.step.label: t.step.words for t in walk.tallies}
    seen = ""
    for row in walk.rows(at):
        if row["step"] != seen:
            seen = row["step"]
            console.print()
            block(f"{seen}: {words[seen]}", style="bold")
            line(row["formula"], 2, "cyan")
        where = "at the end" if row["round"] is None else f"round {row['round']}"
        console.print(Text(f"  {where}: {row['verdict']}, slack {row['slack']:.4g}", STYLES.get(row["verdict"], "")))
        if row["numbers"]:
            line(row["numbers"], 4)
            total = f"{row['lhs']:.4g} {'<=' if row['verdict'] != 'violated' else 'against'} {row['rhs']:.4g}"
            console.print(Text(f"    that is {total}", "dim"))
