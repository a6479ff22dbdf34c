"""`fedtheory verify STATEMENT` and `replay`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.text import Text

from fedtheory.cli.common import emit, error_line, out_console, progress, save
from fedtheory.cli.explain import find_statement, shipped_witnesses
from fedtheory.cli.options import make_algorithm
from fedtheory.cli.participation import LOCAL_OPTIONS, refuse_participation
from fedtheory.cli.parts import about_problem, facts, problem_of, refuse_for_fedmls, sampling_of, slug
from fedtheory.errors import FedTheoryError, InvalidInput, UnknownName
from fedtheory.report.tables import paper_of

LOCAL = tuple(p.name for p in LOCAL_OPTIONS)

__all__ = ["refuse_with_statement", "refuse_without_statement", "replay", "verify_one"]


def refuse_without_statement(options: dict[str, Any]) -> None:
    """Options of one statement mean nothing to the whole campaign."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        flags = ", ".join(f"--{n.replace('_', '-')}" for n in given)
        raise InvalidInput(f"{flags}: only with a statement, as in `fedtheory verify theorem-3.1 {flags.split(',')[0]} ...`")


def refuse_with_statement(name: str, given: dict[str, bool]) -> None:
    """Options of the whole campaign mean nothing to one statement."""
    flags = ", ".join(f"--{n.replace('_', '-')}" for n, is_given in given.items() if is_given)
    if flags:
        raise InvalidInput(f"{flags}: only without a statement, for the whole campaign; leave it out, or leave {name} out")


@contextmanager
def _nothing_yet(how_far: Any = "") -> Iterator[None]:
    """Within it nothing is decided: an interrupt says so, and exits with 130."""
    try:
        yield
    except KeyboardInterrupt:
        error_line(f"interrupted{how_far}: nothing is decided yet, nothing was written")
        raise typer.Exit(130) from None


def verify_one(
    name: str,
    problem_name: str | None,
    options: dict[str, Any],
    participants: int | None,
    how: dict[str, Any],
    seed: int,
    as_json: bool,
    out: Path | None,
) -> int:
    """Check a statement on a problem; 1 when a form is violated that is on record as holding, 130 when interrupted."""
    from fedtheory.cli.ball import start_of
    from fedtheory.cli.time_limit import ScenarioClock

    statement = find_statement(name)
    for key in ("rounds", "scenarios"):
        if how[key] is not None and how[key] < 1:
            raise InvalidInput(f"--{key} {how[key]}: it must be an integer >= 1")
    about_fedmls, about_efl = statement.scope == "fedmls", statement.scope == "efl"
    if about_efl:
        from fedtheory.cli.checking_efl import refuse_without_problem

        refuse_without_problem(statement, problem_name or options.get("data"))
    default = "lad" if about_fedmls else "quadratic"
    problem = problem_of(problem_name or (None if options.get("data") else default), options, seed)
    x0 = start_of(options.get("start"), problem.dim)
    if about_fedmls:
        return _verify_fedmls(statement, problem, options, participants, x0, how, seed, as_json, out)
    if about_efl:
        from fedtheory.cli.checking_efl import checks_of

        with _nothing_yet(), progress("checking"):
            checks, head, details = checks_of(statement, problem, options, participants, x0, how, seed)
        return _tell_checks(statement, problem, checks, details, head, seed, as_json, out)
    refuse_participation(options, f"statements about {paper_of(statement.id).name}", "leave it out", LOCAL)
    if options.get("noise") is not None:
        raise InvalidInput("--noise is for statements about FedMLS and EFL")
    sampling = sampling_of(participants, problem)
    with _nothing_yet(), progress("certifying the optimum"):
        problem.optimum()
    chosen = {**options, "allow_long": None}
    first = statement.scope == "fixed-point"  # about Algorithm 1, where lambda_2 need not be far above beta
    if chosen.get("l1") is None:
        chosen["l1"] = 0.1
    if chosen.get("l2") is None and chosen.get("l2_over_beta") is None:
        chosen["l2_over_beta"] = 1.0 if first else 30.0
    if first:
        chosen["aggregation"] = "cohort"
    algorithm = make_algorithm("fedelasticnet-prox" if first else "fedelasticnet-dyn", problem, chosen)
    rounds = how["rounds"] or 50
    finished: list[Any] = []  # the checks after every stage of Monte Carlo
    stopped = ""
    with progress("checking", rounds * how["scenarios"] if statement.scope == "run" else None) as advance:
        clock = ScenarioClock(rounds, bool(options.get("allow_long")), advance)
        more = {"sampling": sampling, "x0": x0, "seed": seed, "on_progress": clock, "on_stage": finished.append, **how}
        with _nothing_yet(clock):
            try:
                checks = statement.verify(problem, algorithm, **more)
            except KeyboardInterrupt:
                if not finished:
                    raise
                checks, stopped = finished[-1], f"interrupted{clock}"
    beta = float(problem.beta_k.max())
    head = (
        f"{problem.name}: m = {problem.num_clients}, "
        f"P = {participants or problem.num_clients}, d = {problem.dim}, lambda_1 = {algorithm.l1:g}, "
        f"lambda_2 = {algorithm.l2:.6g} = {algorithm.l2 / beta:.6g} beta, "
        + ("Algorithm 1" if first else f"{algorithm.rule} rule")
    )
    heads = [head]
    if used := max((c.scenarios or 0 for c in checks), default=0):
        heads.append(f"Monte Carlo: {used:,} of at most {how['scenarios']:,} scenarios {'were judged' if stopped else 'decided'}")
    details = {"algorithm": {"name": algorithm.name, **asdict(algorithm)}, "sampling": repr(sampling)}
    return _tell_checks(statement, problem, checks, details, heads, seed, as_json, out, stopped)


def _verify_fedmls(
    statement: Any,
    problem: Any,
    options: dict[str, Any],
    participants: int | None,
    x0: np.ndarray,
    how: dict[str, Any],
    seed: int,
    as_json: bool,
    out: Path | None,
) -> int:
    """A statement about FedMLS: exact subgradients, or noisy ones with --noise."""
    from fedtheory.cli.ball import make_fedmls

    refuse_for_fedmls(options, participants, problem)
    refuse_participation(options, "statements about FedMLS", "leave it out", LOCAL)
    if how["mode"] != "auto":
        raise InvalidInput(f"--mode {how['mode']}: a run of FedMLS is exact without --noise, and Monte Carlo with it; leave it out")
    rounds = how["rounds"]
    if rounds is None:  # Theorem 2 is about the printed K, which is at least K_min
        rounds = "printed" if any("printed" in f.requires for f in statement.forms) else "fewest"
    with _nothing_yet(), progress("certifying the optimum"):
        made = make_fedmls(problem, options, x0, rounds)
    with _nothing_yet(), progress("checking"):
        checks = statement.verify(problem, made.algorithm, x0=x0, seed=seed, scenarios=how["scenarios"])
    rule = "noisy" if made.algorithm.noise_std else "exact"
    head = [f"{problem.name}: N = {problem.num_clients}, d = {problem.dim}, {rule} subgradients", facts(made.rows(skip_last=False))]
    return _tell_checks(statement, problem, checks, {"algorithm": made.to_json(skip_last=False)}, head, seed, as_json, out)


def _tell_checks(
    statement: Any,
    problem: Any,
    checks: Any,
    details: dict[str, Any],
    head: list[Any],
    seed: int,
    as_json: bool,
    out: Path | None,
    stopped: str = "",
) -> int:
    """Write and print the checks; 1 when a form is violated that is on record as holding, 130 when it was stopped."""
    from fedtheory.cli.wording import here
    from fedtheory.provenance import provenance
    from fedtheory.report.tables import check_table

    for i, check in enumerate(checks):
        checks[i] = replace(check, reason=here(check.reason))
    unexpected = [
        c
        for c in checks
        if c.verdict == "violated" and statement.form(c.form).established.get(c.rule, "open") == "holds"
    ]
    result = {
        "statement": statement.id,
        "problem": about_problem(problem),
        **details,
        "verdict": checks.verdict,
        "checks": [asdict(c) for c in checks],
        "as_recorded": not unexpected,
        "complete": not stopped,
        "provenance": provenance(seed),
    }
    code = 130 if stopped else int(bool(unexpected))
    path = save(out, slug("verify", statement.id.split("/")[-1], problem.name), result)
    if stopped:
        error_line(f"incomplete: {stopped}; the verdicts are those of the stages before, 'inconclusive' is not final")
    if as_json:
        emit(result)
        return code
    console = out_console()
    console.print(Text(f"{statement.id}: {statement.title}", "bold"))
    for part in head:
        console.print(part)
    console.print()
    console.print(check_table(checks, console.width))
    if elsewhere := _fails_elsewhere(statement, checks):
        note = (
            "Not violated here, or not applicable, but on record as violated: such a form fails on some instance. "
            "`fedtheory replay NAME` reruns it:"
        )
        console.print(f"\n{note}", style="dim")
        for form, name in elsewhere:
            console.print(f"  {form}: {name}", style="dim", soft_wrap=True)
    for c in unexpected:
        console.print(f"\n{c.form}: violated, though it is on record as holding", style="bold red")
    if path:
        console.print(f"wrote {path}")
    return code


def _fails_elsewhere(statement: Any, checks: Any) -> list[tuple[str, str]]:
    """(form, witness) of the forms that are on record as violated and are not violated here, or not applicable here."""
    shipped: dict[tuple[str, str], str] = {}
    for w in shipped_witnesses():
        if w.statement == statement.id:
            shipped.setdefault((w.form, w.rule), w.name)
    found = [
        (c.form, shipped.get((c.form, c.rule)))
        for c in checks
        if c.verdict != "violated" and statement.form(c.form).established.get(c.rule) == "violated"
    ]
    return [(form, name) for form, name in found if name]


def replay(name: str, as_json: bool, out: Path | None) -> None:
    """Rerun a witness exactly."""
    from fedtheory.verification import witness as witnesses

    path = Path(name)
    if path.exists() or path.suffix == ".json":
        witness = witnesses.load(path)
    else:
        shipped = {w.name: w for w in shipped_witnesses()}
        if name not in shipped:
            if not shipped:
                raise FedTheoryError(f"{name}: no such file, and no witnesses are shipped under that name")
            close = difflib.get_close_matches(name, shipped, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(close)}?" if close else "see `fedtheory list witnesses`"
            raise UnknownName(f"unknown file or witness {name!r}: {hint}")
        witness = shipped[name]
    check = witnesses.replay(witness)  # raises unless the file proves what it claims
    elastic = isinstance(witness, witnesses.Witness)
    lhs, rhs = witnesses.exact_check(witness)[1:3] if elastic else (Fraction(v) for v in check.where["exact"])
    result = {
        "statement": witness.statement,
        "form": witness.form,
        "rule": witness.rule,
        "verdict": check.verdict,
        "mode": check.mode,
        "lhs": str(lhs),
        "rhs": str(rhs),
        "excess": str(lhs - rhs),
        "witness": {k: v for k, v in asdict(witness).items() if k not in ("provenance", "found_by")},
    }
    save(out, f"replay-{witness.name}", result)
    if as_json:
        emit(result)
        return
    from fedtheory.report.formulas import to_text
    from fedtheory.theorems import get

    console = out_console()
    console.print(Text(str(witness), "bold"))
    console.print(Text(to_text(get(witness.statement).form(witness.form).latex), "cyan"))
    about = _elastic_facts if elastic else _mls_facts if isinstance(witness, witnesses.MLSWitness) else _efl_facts
    rows: list[tuple[str, Any]] = about(witness)
    rows += [
        ("left side", f"{_digits(lhs)}   = {float(lhs):.12g}"),
        ("right side", f"{_digits(rhs)}   = {float(rhs):.12g}"),
        ("left - right", f"{_digits(lhs - rhs)}   = {float(lhs - rhs):.6g} > 0"),
    ]
    console.print(facts(rows))
    console.print(f"{check.verdict}, in exact rational arithmetic", style="bold red")


def _digits(x: Fraction) -> str:
    """The fraction, or how long it is (`--json` has every digit)."""
    if len(text := str(x)) <= 300:
        return text
    return f"a fraction of {len(str(abs(x.numerator)))} over {len(str(x.denominator))} digits"


def _mls_facts(witness: Any) -> list[tuple[str, Any]]:
    from fedtheory.theorems.fedmls.exact import VARIANTS

    pieces = [list(zip(a, b, strict=True)) for a, b in zip(witness.slopes, witness.offsets, strict=True)]
    clients = [" or ".join(f"{p} x + {q}" for p, q in lines) for lines in pieces]
    alike = len(set(clients)) == 1 and (len(clients) > 1 or witness.copies)
    named = [f"{c} clients each" if c > 1 else "1 client" for c in witness.copies] or [f"client {k}" for k in range(len(clients))]
    shown = [("every client", clients[0])] if alike else list(zip(named, clients, strict=True))
    return [
        ("reading", VARIANTS[witness.variant]),
        ("losses", "f_i(x) = the largest of"),
        *shown,
        ("lambda, D, R, K", f"{witness.lam}, {witness.D}, {witness.radius}, {witness.rounds}"),
        ("start", witness.x0),
    ]


def _efl_facts(witness: Any) -> list[tuple[str, Any]]:
    def shown(value: Any) -> str:
        if isinstance(value, dict):
            return "; ".join(f"{k} = {shown(v)}" for k, v in value.items())
        nested = isinstance(value, list) and any(isinstance(v, list) for v in value)
        return ("; " if nested else ", ").join(shown(v) for v in value) if isinstance(value, list) else str(value)

    rows: list[tuple[str, Any]] = [("instance", witness.kind)]
    if {"h", "c"} <= witness.data.keys():
        rows.append(("losses", "f_k(x) = sum_i h_ki (x_i - c_ki)^2 / 2, clients separated by semicolons"))
    return rows + [(name, shown(value)) for name, value in witness.data.items()]


def _elastic_facts(witness: Any) -> list[tuple[str, Any]]:
    m, d = len(witness.h), len(witness.h[0])
    points = witness.x0 if isinstance(witness.x0[0], list) else [witness.x0]
    alike = [f" ({n} identical)" if n > 1 else "" for n in witness.copies or [1] * m]
    rows: list[tuple[str, Any]] = [
        ("losses", "L_k(x) = sum_i h_ki (x_i - c_ki)^2 / 2" if d > 1 else "L_k(x) = h_k (x - c_k)^2 / 2"),
        *((f"client {k}{alike[k]}", f"h = {', '.join(witness.h[k])}; c = {', '.join(witness.c[k])}") for k in range(m)),
        ("lambda_1, lambda_2", f"{witness.lambda1}, {witness.lambda2}"),
        ("start" if len(points) == 1 else "equally likely starts", "; ".join(", ".join(p) for p in points)),
    ]
    if witness.cohorts:
        rows.append(("cohorts before", "; ".join(str([int(k) for k in c]) for c in witness.cohorts)))
    return rows
