"""`fedtheory verify STATEMENT`: one statement on a problem of the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.cells import cell_len
from rich.text import Text

from fedtheory.cli.central import refuse_set_options
from fedtheory.cli.common import (
    about_problem,
    check_out,
    emit,
    err_console,
    error_line,
    facts,
    find_statement,
    in_words,
    not_as_recorded,
    out_console,
    progress,
    save,
    shipped_witnesses,
    slug,
    writing,
    wrote,
)
from fedtheory.cli.request import CommandRequest
from fedtheory.errors import FedTheoryError, InvalidInput

if TYPE_CHECKING:
    from fedtheory.store.resumable import CachedSteps
    from fedtheory.theory.judge.checks import Checks
    from fedtheory.theory.judge.request import Prepared
    from fedtheory.theory.judge.statement import Statement

OTHER_PICTURES = (".svg", ".eps", ".ps", ".jpg", ".jpeg", ".gif", ".webp", ".tif", ".tiff")  # not written: FILE.png and FILE.pdf are
ROUNDS = 50  # of a statement about runs, where nothing else is said; a clock is set by them

__all__ = ["verify_one"]


@contextmanager
def _nothing_yet(kept: CachedSteps, how_far: Any = "") -> Iterator[None]:
    """Within it nothing is decided: an interrupt says so, and exits with 130. What is wrong with
    the case leaves nothing behind."""
    try:
        yield
    except KeyboardInterrupt:
        error_line(f"interrupted{how_far}: nothing is decided yet, nothing was written{_goes_on(kept)}")
        raise typer.Exit(130) from None
    except FedTheoryError:
        kept.remove()
        raise


def _goes_on(kept: CachedSteps) -> str:
    return f"; the same command goes on from {kept.path}" if kept.written else ""


def _refuse(statement: Statement, why: str | None) -> None:
    """Raise `InvalidInput` for a statement that takes no problem, and say what to do instead."""
    from fedtheory.theory.judge.registry import paper_of

    if why is None:
        return
    if statement.kind == "claim":
        raise InvalidInput(
            f"{statement.id} is a claim that cannot be proved or refuted here, so there is nothing to run: "
            f"`fedtheory explain {statement.id}` says what is missing"
            + (f", and `{statement.shown_by}` measures what it is about" if statement.shown_by else "")
        )
    found = shipped_witnesses(statement)
    replay = f"; `fedtheory replay {found[0].name}` reruns a counterexample" if found else ""
    paper = paper_of(statement)
    judges = f"{in_words(statement)}` judges it on" if paper.file else f"{paper.id}/` judges it with the rest of its paper on"
    raise InvalidInput(f"{statement.id}: {why}; `fedtheory verify {judges} instances of its own{replay}")


def verify_one(
    name: str, problem_name: str | None, options: dict[str, Any], participants: int | None,
    how: dict[str, Any], seed: int, as_json: bool, out: Path | None,
) -> int:
    """Check a statement on a problem; 1 when a form is violated that is on record as holding, 130
    when interrupted.

    Parameters
    ----------
    how : rounds, scenarios (None: the setting's) and mode; figure: where to draw, '' for a name of
        ours, None for no picture; and look: its size, and whether it has a title
    """
    from fedtheory.theory.judge.registry import setting_of

    statement = find_statement(name)
    how = dict(how)
    figure, look = how.pop("figure", None), how.pop("look", {})
    setting = setting_of(statement)
    told = setting.about(statement)
    _refuse(statement, told.refusal)
    if "X" not in told.takes:
        refuse_set_options(statement.id, options)
    folder = check_out(options.get("keep"))
    request = CommandRequest.about(statement, {**options, "keep": None}, participants, problem_name, seed, how)
    drawn = None if figure is None else _named(figure, out)
    with _resumable(statement, name, request, out) as kept:
        with _nothing_yet(kept), progress("certifying the optimum"):
            prepared = setting.prepare(statement, request)
        named = slug("verify", statement.id.split("/")[-1], prepared.problem.name)
        stem = None if figure is None else drawn or (out or Path("results")) / named
        checks, stopped = _judge(statement, prepared, request, kept)
        pictures, why_none = ([], None) if stem is None else _draw(checks, prepared, request, stem, stopped, look)
        code = _tell(statement, prepared, checks, request, as_json, out, stopped, pictures)
        if folder is not None and not stopped and why_none is None:
            _keep(statement, prepared, request, folder)
        if not stopped:
            kept.remove()
    if why_none is not None:
        raise why_none
    return code


def _resumable(
    statement: Statement, name: str, request: CommandRequest, out: Path | None
) -> AbstractContextManager[CachedSteps]:
    """Keep the steps of this command; keep none for a package whose code may change unseen."""
    from fedtheory.cli.resumable import resumable
    from fedtheory.theory.judge.registry import content_of, paper_of

    code = content_of(paper_of(statement))
    asked = {f.name: getattr(request, f.name) for f in fields(request) if f.name not in ("options", "made")}
    stem = slug("verify", statement.id.split("/")[-1])
    return resumable(out, stem, {**request.options, **asked, "name": name}, code)


def _named(figure: str, out: Path | None) -> Path | None:
    """The file of --figure without its suffix, in a folder that takes files; None if unnamed."""
    from fedtheory.cli.common import must_take_files
    from fedtheory.plotting.saved import stem_of

    if not figure:
        must_take_files(out or Path("results"))
        return None
    stem = stem_of(figure)
    if stem.name in ("", ".."):
        raise InvalidInput(f"--figure {figure}: name a file, as in --figure {figure.rstrip('/')}/mine.png")
    if stem.suffix.lower() in OTHER_PICTURES:
        raise InvalidInput(f"--figure {figure}: a PNG, a PDF and a CSV are written; name it {stem.with_suffix('.png')}")
    must_take_files(stem.parent, f"--figure {figure}: the folder")
    return stem


def _draw(
    checks: Checks, prepared: Prepared, request: CommandRequest, stem: Path, stopped: str, look: Mapping[str, Any]
) -> tuple[list[Path], InvalidInput | None]:
    """The picture and its data; or, where there is nothing to draw, why not. Without --rounds it
    goes on beyond what was judged."""
    from fedtheory.cli.common import as_typed
    from fedtheory.plotting.saved import write
    from fedtheory.provenance import provenance
    from fedtheory.theory.judge.comparison import ROUNDS as ROUNDS_DRAWN

    setup = next((part for part in prepared.head if isinstance(part, str)), checks.setup)
    rounds = ROUNDS_DRAWN if request.rounds is None and not stopped else None
    with progress("drawing") as advance:
        try:
            setup += f" ({stopped})" * bool(stopped)
            try:
                data = checks.compared(setup=setup, rounds=rounds, tell=advance.say)
            except KeyboardInterrupt:  # the verdicts are there: what was judged is drawn
                data = checks.compared(setup=setup, rounds=None)
        except InvalidInput as error:
            return [], InvalidInput(f"--figure: {error}")
        with writing(stem.parent):
            return write(data, stem, {"command": as_typed(), "provenance": provenance()}, **look)[0], None


def _keep(statement: Statement, prepared: Prepared, request: CommandRequest, folder: Path) -> None:
    """Write every form judged in fractions as a witness file that says if it holds or fails."""
    from fedtheory.theory.judge import replay
    from fedtheory.theory.judge.verify import keep

    kept, why = [], ""
    for form in statement.forms:
        try:
            case = keep(statement, prepared.problem, prepared.algorithm, form.name, **request.how(prepared))
        except FedTheoryError as error:
            why = str(error)
            continue
        kept.append(replay.save(case, folder / f"{case.name}.json"))
    if not kept:
        raise InvalidInput(f"--keep {folder}: no form of {statement.id} is judged in fractions here ({why})")
    err_console().print(f"kept {', '.join(p.name for p in kept)} in {folder}: `fedtheory replay FILE` reruns them")


def _judge(statement: Statement, prepared: Prepared, request: CommandRequest, kept: CachedSteps) -> tuple[Checks, str]:
    """The checks, and how far they came where an interrupt stopped them after a stage of runs."""
    from fedtheory.cli.time_limit import ScenarioClock

    more = request.how(prepared)
    finished: list[Checks] = []  # the checks after every stage of Monte Carlo
    rounds = more["rounds"] or ROUNDS
    with progress("checking", rounds * more["scenarios"] if prepared.staged else None) as advance:
        clock: Any = ""
        if prepared.staged:
            clock = ScenarioClock(rounds, bool(request.options.get("allow_long")), advance, kept.begun)
            more |= {"on_progress": clock, "on_stage": finished.append}
        with _nothing_yet(kept, clock):
            try:
                return statement.verify(prepared.problem, prepared.algorithm, **more), ""
            except KeyboardInterrupt:
                if not finished:
                    raise
                return finished[-1], f"interrupted{clock}{_goes_on(kept)}"


def _tell(
    statement: Statement, prepared: Prepared, checks: Checks, request: CommandRequest,
    as_json: bool, out: Path | None, stopped: str, pictures: list[Path],
) -> int:
    """Write and print the checks; 1 when a form is violated that is on record as holding, 130 when it was stopped."""
    from fedtheory.cli.wording import here
    from fedtheory.provenance import provenance

    rows = prepared.facts(checks)  # first, as it takes them out of the checks
    for i, check in enumerate(checks):
        checks[i] = replace(check, reason=here(check.reason))
    unexpected = not_as_recorded(statement, checks)
    result = {
        "statement": statement.id,
        "problem": about_problem(prepared.problem),
        **prepared.details,
        "verdict": checks.verdict,
        "sentence": checks.sentence,
        "checks": [asdict(replace(c, series=None)) for c in checks],
        "as_recorded": not unexpected,
        "complete": not stopped,
        **({"files": pictures} if pictures else {}),
        "provenance": provenance(request.seed),
    }
    code = 130 if stopped else int(bool(unexpected))
    path = save(out, slug("verify", statement.id.split("/")[-1], prepared.problem.name), result)
    if stopped:
        error_line(f"incomplete: {stopped}; the verdicts are those of the stages before, 'inconclusive' is not final")
    if as_json:
        emit(result)
        return code
    head: list[Any] = [*prepared.head, *([facts(rows)] if rows else [])]
    used = max((c.scenarios or 0 for c in checks), default=0)
    if prepared.staged and used:
        most = prepared.options.get("scenarios", request.scenarios)
        sure = next((f", each form by itself at {100 * c.confidence:.6g} %" for c in checks if c.confidence), "")
        head.append(f"Monte Carlo: {used:,} of at most {most:,} scenarios {'were judged' if stopped else 'decided'}{sure}")
    head += _horizons(checks)
    _show(statement, head, checks, unexpected, [*([path] if path else []), *pictures])
    return code


def _horizons(checks: Checks) -> list[str]:
    """'judged at T = 1 to 5': the horizons that were compared, where the entries are such; a longer run may be tighter."""
    seen: dict[str, list[int]] = {}
    for series in (c.series for c in checks if c.series is not None and c.series.at is not None):
        seen.setdefault(series.horizon, []).extend(map(int, series.at))  # type: ignore[arg-type]
    words = [f"{name} = {min(at)}" + f" to {max(at)}" * (max(at) > min(at)) for name, at in seen.items() if at]
    return [f"judged at {', '.join(words)}"] if words else []


def _show(statement: Statement, head: list[Any], checks: Checks, unexpected: list[Any], files: list[Path]) -> None:
    from fedtheory.report.tables import check_table

    console = out_console()
    console.print(Text(f"{statement.id}: {statement.title}", "bold"))
    for part in head:
        console.print(part)
    console.print()
    console.print(Text(checks.sentence))
    console.print()
    console.print(check_table(checks, console.width, checks.reasons_told))
    if elsewhere := _fails_elsewhere(statement, checks):
        note = (
            "Not violated here, or not applicable, but on record as violated: such a form fails on "
            "some instance. `fedtheory replay NAME` reruns it:"
        )
        console.print(f"\n{note}", style="dim")
        for form, name in elsewhere:
            gap = " " if cell_len(f"  {form}: {name}") <= console.width else "\n    "
            console.print(f"  {form}:{gap}{name}", style="dim", soft_wrap=True)
    for c in unexpected:
        console.print(f"\n{c.form}: violated, though it is on record as holding", style="bold red")
    wrote(files)


def _fails_elsewhere(statement: Statement, checks: Checks) -> list[tuple[str, str]]:
    """(form, witness) of the forms that are on record as violated and are not violated here, or not applicable here."""
    shipped: dict[tuple[str, str], str] = {}
    for w in shipped_witnesses(statement):
        shipped.setdefault((w.form, w.rule), w.name)
    found = [
        (c.form, shipped.get((c.form, c.rule)))
        for c in checks
        if c.verdict != "violated" and statement.form(c.form).established.get(c.rule) == "violated"
    ]
    return [(form, name) for form, name in found if name]
