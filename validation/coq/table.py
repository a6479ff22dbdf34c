"""Worst cases that Coq accepts, as a table.

    python validation/coq/table.py [--out results/coq]

The theorems' files, with the library and `Print Assumptions` of each, are left in the folder; the
table goes to theorems.md beside this script, which docs/checked_by_coq.md shows.
"""

from __future__ import annotations

import argparse
import resource
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

from fedtheory.cli.worst_case import method_of
from fedtheory.provenance import write_atomic
from fedtheory.worst_cases import Losses, certificate, worst_case
from fedtheory.worst_cases.coq.check import (
    AXIOMS,
    checked,
    compiled,
    definitions_lines,
    library,
    version,
    write,
)
from fedtheory.worst_cases.coq.export import theorem
from fedtheory.worst_cases.coq.text import text_of

HERE = Path(__file__).resolve().parent
OWN = f"{HERE.parents[1] / 'examples' / 'own_method.py'}:RelaxedAveraging"
STEP = {"step": Fraction(1, 4)}
STRONG = Losses(strong_convexity=Fraction(1, 10))
CASES: list[tuple[str, int, int, str, dict[str, Any]]] = [
    *(("fedavg", K, T, "gap", STEP) for K, T in ((1, 1), (2, 1), (2, 2), (4, 2), (1, 10))),
    *(("scaffold", K, T, "gap", STEP) for K, T in ((1, 1), (2, 1), (2, 2), (3, 2))),
    *(("feddyn", 1, T, "gap", {"alpha": 1}) for T in (1, 2, 4)),
    ("feddyn", 2, 2, "gap", STEP | {"alpha": 1}),
    ("fedprox", 1, 2, "gap", {"mu": 1}),
    ("fedgate", 2, 2, "gap", STEP),
    ("vrl-sgd", 2, 2, "gap", STEP),
    ("mime", 2, 2, "gap", STEP),
    (OWN, 2, 2, "gap", STEP | {"alpha": Fraction(1, 2)}),
    ("fedavg", 2, 2, "distance", STEP | {"losses": STRONG}),
    ("scaffold", 2, 2, "distance", STEP | {"losses": STRONG}),
    ("fedavg", 2, 2, "gradient", STEP),
    ("fedavg", 2, 3, "best-gap", STEP),
    ("subgradient", 1, 4, "best-gap", {"step": Fraction(1, 2)}),
    ("fedmls", 1, 4, "gap", {}),
]
HEAD = """| theorem | bound | points | file | Coq |
|---|---|---|---|---|
"""


def seconds() -> float:
    """Processor time of Coq so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def row(case: tuple[str, int, int, str, dict[str, Any]], folder: Path) -> str:
    """A theorem's line of the table, once Coq has accepted it."""
    name, K, T, criterion, given = case
    cls = method_of(name) if ":" in name else None
    found = certificate(
        worst_case(cls or name, local_steps=K, rounds=T, criterion=criterion, **given)
    )
    of = theorem(found, cls)
    strong = "_strong" * ("losses" in given)
    path = folder / f"{of.name}{strong}.v"
    text = text_of(of, path.name)
    write(path, text)
    before = seconds()
    answer = checked(text)
    took = seconds() - before
    if not answer.accepted:
        raise SystemExit(f"{path}: refused at {answer.said}")
    write_atomic(path.with_suffix(".assumptions"), "".join(f"{axiom}\n" for axiom in answer.axioms))
    print(f"{path.name}: {took:.1f} s", flush=True)
    options = ", ".join(f"{n} {x}" for n, x in of.question.subject.options.items())
    subject = of.question.subject
    steps = f", K = {subject.local_steps}" if subject.local_steps else ""
    steps = steps or ", exact local solves" * ("step" not in subject.options)
    told = f"{subject.name}, {options}{steps}, T = {T}"
    mu = ", mu = L/10" * bool(strong)
    size = f"{len(text) / 1000:.1f} kB"
    what = f"| {told}{mu} | {of.in_words} | {len(of.places)} |"
    return f"{what} `{path.name}`, {size} | {took:.1f} s |\n"


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/coq"))
    folder, begun = parser.parse_args().out, time.monotonic()
    if version() is None:
        raise SystemExit("coqc is not installed: apt install coq")
    compiled(library())
    of_library = seconds()
    rows = "".join(row(case, folder) for case in CASES)
    axioms = ", ".join(f"`{axiom}`" for axiom in sorted(AXIOMS))
    told = (
        f"Made by `python validation/coq/table.py` with Coq {version()}: {len(CASES)} theorems, "
        "with the seconds of one core that each takes. The library takes "
        f"{of_library:.0f} s before them, once. "
        f"`Print Assumptions` of each names {axioms}, or fewer of these, on which "
        "Coq's real numbers rest, and nothing else. `definitions.v` has "
        f"{definitions_lines()} lines.\n\n"
    )
    print(
        write_atomic(HERE / "theorems.md", told + HEAD + rows), f"{time.monotonic() - begun:.0f} s"
    )


if __name__ == "__main__":
    main()
