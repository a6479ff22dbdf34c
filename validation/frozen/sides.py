"""Both sides of every form of the papers, as numbers that a change of the code must reproduce.

    python validation/frozen/sides.py make [--only fedmls/theorem-1]     writes sides.json.gz
    python validation/frozen/sides.py compare [--only fedmls]

A form's sides are kept under each rule on the first 20 instances of a campaign that judge it: as
fractions where rhs - lhs is least where the instance is one in fractions, else as means in floats,
which may differ by rounding. The sides on witnesses stand in the witness files, and those on worked
instances in worked_pairs.json.gz. `compare` says which forms are gone, new, or differ, and
ends with 1 if any do. The floats of FedMLS's nonsmooth runs are those of the kernels that OpenBLAS
takes for AVX-512: on another processor say OPENBLAS_CORETYPE=SkylakeX.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fedtheory.parallel import Progress, as_finished
from fedtheory.theory.judge import check as judged
from fedtheory.theory.judge.campaign import Task, plan
from fedtheory.theory.judge.registry import papers
from fedtheory.theory.judge.replay import builtin_witnesses, replay
from fedtheory.theory.judge.statement import Sides
from fedtheory.theory.rounds import judging as of_rounds
from fedtheory.theory.rounds.forms import reduced

FILE = Path(__file__).with_name("sides.json.gz")
MOST, SEED = 20, 0
CLOSE = 1e-6  # of the scale: by so much may the last bits of local solves grow over a run
Key = tuple[str, str, str]  # statement, form, rule
app = typer.Typer(add_completion=False)


def told(value: Fraction) -> str:
    """A fraction as text; of one too long to be kept its nearest float, and a hash of all of it."""
    if max(abs(value.numerator), value.denominator).bit_length() <= 600:
        return str(value)
    text = f"{value.numerator:x}/{value.denominator:x}"
    return f"{float(value)!r} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def number(value: str | float) -> float:
    """Read as a float what `told` wrote, or a float."""
    return float(Fraction(value.split()[0])) if isinstance(value, str) else value


def _least(sides: Sides) -> dict[str, Any]:
    """Both sides where rhs - lhs is least, of fractions.

    Of floats their means, the mean of their scale, and the least (rhs - lhs)/scale.
    """
    lhs, rhs, scale = (np.asarray(a).ravel() for a in (sides.lhs, sides.rhs, sides.scale))
    if lhs.dtype == object:
        at = min(range(len(lhs)), key=lambda i: rhs[i] - lhs[i])
        return {"lhs": told(Fraction(lhs[at])), "rhs": told(Fraction(rhs[at])), "count": len(lhs)}
    left, right, size = (np.asarray(a, dtype=float) for a in (lhs, rhs, scale))
    gap = float(((right - left) / np.maximum(size, np.finfo(float).tiny)).min())
    return {
        "lhs": float(left.mean()),
        "rhs": float(right.mean()),
        "scale": float(size.mean()),
        "gap": gap,
        "count": len(lhs),
    }


def sides_of(task: Task) -> list[tuple[Key, str, dict[str, Any]]]:
    """The two sides of every form on an instance, and the verdict."""

    def noting(judge: Any) -> Any:
        def noted(sides: Sides, *args: Any, **more: Any) -> Any:
            check = judge(sides, *args, **more)
            check.where["sides"] = _least(sides)
            return check

        return noted

    def of_terms(statement: Any, view: Any, name: str, *args: Any, **more: Any) -> Any:
        check = of_rounds_judged(statement, view, name, *args, **more)
        if check.verdict in ("holds", "violated"):  # an estimate of rounding is no part of the sides
            check.where["sides"] = _least(reduced(view, statement.on(view)[name]))
        return check

    usual, of_rounds_judged = (judged.judge, judged.judge_statistical), of_rounds.judged
    judged.judge, judged.judge_statistical = map(noting, usual)
    of_rounds.judged = of_terms
    try:
        return [
            ((c.statement, c.form, c.rule), c.instance, {"verdict": c.verdict, **c.where["sides"]})
            for c in task()
            if c.verdict in ("holds", "violated")
        ]
    finally:
        judged.judge, judged.judge_statistical = usual
        of_rounds.judged = of_rounds_judged


def collected(only: str, workers: int) -> dict[Key, dict[str, dict[str, Any]]]:
    """dict form -> dict instance -> its sides, of the first instances that judge it."""
    chosen = [p for p in papers() if p.id == only.partition("/")[0] or not only]
    tasks = plan(SEED, 0.5, long=False, only=chosen)
    told: dict[int, list[Any]] = {}
    with Progress(len(tasks), "judging") as bar:
        for done, (i, found) in enumerate(as_finished(sides_of, tasks, workers), 1):
            told[i] = found
            bar.update(done)
    out: dict[Key, dict[str, dict[str, Any]]] = {}
    for i in sorted(told):
        for key, instance, sides in (t for t in told[i] if t[0][0].startswith(only)):
            kept = out.setdefault(key, {})
            if len(kept) < MOST:
                kept[instance] = sides
    return out


def differences(was: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Name the differences between the sides on one instance, then and now."""
    if was["verdict"] != now["verdict"]:
        yield f"{now['verdict']}, was {was['verdict']}"
    for side in ("lhs", "rhs"):
        a, b = was[side], now[side]
        exact = isinstance(a, str) and isinstance(b, str)
        if exact and a != b:
            yield f"{side} is {b:.60}, was {a:.60}"
        elif not exact and not abs(number(a) - number(b)) <= CLOSE * max(
            was.get("scale", 0.0), 1e-300
        ):
            yield f"{side} is {b}, was {a}"
    if not abs(was.get("gap", 0.0) - now.get("gap", 0.0)) <= CLOSE:
        yield f"least (rhs - lhs)/scale is {now['gap']}, was {was['gap']}"


Workers = Annotated[int, typer.Option(min=1, help="Processes.")]
Only = Annotated[str, typer.Option(help="The beginning of statements' ids; default all.")]


def frozen() -> list[Any]:
    """Read statement, form, rule, instance and sides of all that is kept."""
    kept: list[Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return kept


@app.command()
def make(only: Only = "", workers: Workers = 2) -> None:
    """Write the sides as they are now; those of other statements stay."""
    found = collected(only, workers)
    others = [line for line in frozen() if not line[0].startswith(only)] if only else []
    told = [[*key, name, sides] for key, each in found.items() for name, sides in each.items()]
    told = sorted(others + told, key=lambda line: line[:3])
    text = "[\n" + ",\n".join(json.dumps(line) for line in told) + "\n]\n"
    FILE.write_bytes(gzip.compress(text.encode(), mtime=0))
    print(
        f"{len(found)} forms under their rules, {len(told):,} instances, {FILE.stat().st_size / 2**20:.1f} MiB"
    )


@app.command()
def compare(only: Only = "", workers: Workers = 2) -> None:
    """Judge again what was judged, replay the witnesses, and print what differs."""
    was: dict[Key, dict[str, dict[str, Any]]] = {}
    for statement, form, rule, name, sides in frozen():
        if statement.startswith(only):
            was.setdefault((statement, form, rule), {})[name] = sides
    now, wrong = collected(only, workers), 0
    for key in sorted({*was, *now}):
        old, new = was.get(key, {}), now.get(key, {})
        lines = [
            f"{name}: {d}"
            for name in old.keys() & new.keys()
            for d in differences(old[name], new[name])
        ]
        if old.keys() != new.keys():
            lines.append(
                f"judged on {len(new)} instances, was {len(old)}; gone: {sorted(old.keys() - new.keys())[:3]}"
            )
        wrong += bool(lines)
        for line in lines[:3]:
            print(f"{key[0]} [{key[1]}, {key[2]}] {line}")
    count = 0
    for known in papers():
        for witness in builtin_witnesses(known.id):
            if witness.statement.startswith(only):
                replay(witness)
                count += 1
    print(f"{len(was)} forms under their rules, {wrong} of them differ; {count} witnesses replayed")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    app()
