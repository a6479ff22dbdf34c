"""Worst cases that Coq accepts, as a table.

    python validation/coq/table.py [--out results/coq]

The theorems' files, with the library and `Print Assumptions` of each, are left in the folder; the
table goes to theorems.md beside this script, which docs/checked_by_coq.md shows.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from fedtheory.cli.worst_case import method_of
from fedtheory.provenance import write_atomic
from fedtheory.worst_cases import Losses, certificate, quadratic_potential, worst_case
from fedtheory.worst_cases.coq.check import (
    AXIOMS,
    LIBRARY,
    checked,
    compiled,
    definitions_lines,
    version,
    write,
)
from fedtheory.worst_cases.coq.export import theorem
from fedtheory.worst_cases.coq.methods import words
from fedtheory.worst_cases.coq.rates import rate
from fedtheory.worst_cases.coq.text import rate_of, text_of

HERE = Path(__file__).resolve().parent
OWN = f"{HERE.parents[1] / 'examples' / 'own_method.py'}:RelaxedAveraging"
STEP = {"step": Fraction(1, 4)}
STRONG = Losses(strong_convexity=Fraction(1, 10))
CASES: list[tuple[str, int, int, str, dict[str, Any]]] = [
    *(("fedavg", K, T, "gap", STEP) for K, T in ((1, 1), (2, 1), (2, 2), (4, 2), (1, 10), (8, 4))),
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
    ("fedelasticnet-dyn", 1, 3, "gap", {"l1": Fraction(1, 10), "l2": 2}),
    ("fedavg", 2, 1, "distance", STEP | {"clients": 4, "participants": 2}),
    ("scaffold", 2, 1, "distance", STEP | {"clients": 6, "participants": 2}),
    ("subgradient", 1, 4, "best-gap", {"step": Fraction(1, 2)}),
    ("fedmls", 1, 4, "gap", {}),
]
RATES: list[tuple[str, dict[str, Any]]] = [
    *(("feddyn", {"alpha": Fraction(a)}) for a in ("1/4", "1/2", "1", "2", "4")),
    *(("scaffold", STEP | {"local_steps": K}) for K in (1, 2, 3)),
    *(("scaffold", {"step": Fraction(h), "local_steps": 2}) for h in ("1/8", "1/2")),
]
HEAD = """| theorem | bound | told by | points | file | Coq |
|---|---|---|---|---|---|
"""
HEAD_BY_HAND = """
Written by hand are theorems with every number as a variable, in `validation/coq`:

| theorems | about | file | Coq |
|---|---|---|---|
"""
THEOREMS = re.compile(r"From Theorems Require (?:Import|Export) ([\w ]+)\.")


def seconds() -> float:
    """Processor time of Coq so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def accepted(path: Path, text: str) -> float:
    """Write a theorem and have Coq check it; the seconds that it took."""
    write(path, text)
    before = seconds()
    answer = checked(text)
    took = seconds() - before
    if not answer.accepted:
        raise SystemExit(f"{path}: refused at {answer.said}")
    write_atomic(path.with_suffix(".assumptions"), "".join(f"{axiom}\n" for axiom in answer.axioms))
    print(f"{path.name}: {took:.1f} s", flush=True)
    return took


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
    took = accepted(path, text)
    options = ", ".join(f"{n} {x}" for n, x in of.question.subject.options.items())
    subject = of.question.subject
    steps = f", K = {subject.local_steps}" if subject.local_steps else ""
    steps = steps or ", exact local solves" * ("step" not in subject.options)
    told = f"{subject.name}, {options}{steps}, T = {T}"
    mu = ", mu = L/10" * bool(strong)
    mu += f", spread <= {of.spread}" if of.spread else ""
    size = f"{len(text) / 1000:.1f} kB"
    told_by = f"`{defined}`" if (defined := words(of).defined) else "equations"
    what = f"| {told}{mu} | {of.in_words} | {told_by} | {len(of.points)} |"
    return f"{what} `{path.name}`, {size} | {took:.1f} s |\n"


def rate_row(name: str, options: dict[str, Any], folder: Path) -> str:
    """A rate's line of the table, once Coq has accepted it."""
    found = certificate(quadratic_potential(name, **options))
    of = rate(found)
    numbers = "_".join(str(x).replace("/", "_") for x in options.values())
    path = folder / f"{name}_rate_{numbers}.v"
    text = rate_of(of, path.name)
    took = accepted(path, text)
    told = ", ".join(f"{'K' if n == 'local_steps' else n} = {x}" for n, x in options.items())
    bound = f"distance <= {float(found.claim['rho']):.6f}^T (...) for every T"
    size = f"{len(text) / 1000:.1f} kB"
    what = f"| {name}, {told}, mu = L/10 | {bound} | `{of.defined}` | {len(of.rows)} |"
    return f"{what} `{path.name}`, {size} | {took:.1f} s |\n"


def by_hand() -> Iterator[str]:
    """A line for each file of theorems that are written by hand, once Coq has accepted it."""
    files = {file.stem: file.read_text() for file in HERE.glob("*.v")}
    folder, _ = compiled()
    done: list[str] = []
    while left := [name for name in sorted(files) if name not in done]:
        for name in left:
            text, of = files[name], [arg for n in (LIBRARY, "Theorems") for arg in ("-Q", n, n)]
            if {n for names in THEOREMS.findall(text) for n in names.split()} <= {*done}:
                path = write_atomic(folder / "Theorems" / f"{name}.v", text)
                before = seconds()
                said = subprocess.run(
                    ["coqc", "-q", *of, path],
                    cwd=folder,
                    check=True,
                    capture_output=True,
                    text=True,
                ).stdout
                if (
                    more := {line.split()[0] for line in said.splitlines() if line[:1].strip()}
                    - AXIOMS
                    - {"Axioms:"}
                ):
                    raise SystemExit(f"{name}.v rests on {', '.join(sorted(more))}")
                done.append(name)
                proved = ", ".join(f"`{n}`" for n in re.findall(r"Print Assumptions (\w+)\.", text))
                about = " ".join(
                    text.removeprefix("(** ").partition("*)")[0].partition("\n\n")[0].split()
                )
                print(f"{name}.v: {seconds() - before:.1f} s", flush=True)
                if proved:
                    yield f"| {proved} | {about} | `{name}.v` | {seconds() - before:.1f} s |\n"


def main() -> None:
    """Make the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/coq"))
    folder, begun = parser.parse_args().out, time.monotonic()
    if version() is None:
        raise SystemExit("coqc is not installed: apt install coq")
    with tempfile.TemporaryDirectory(prefix="fedtheory-coq-") as new:  # whatever is compiled already
        os.environ["XDG_CACHE_HOME"] = new
        compiled()
        of_library = seconds()
        rows = "".join(row(case, folder) for case in CASES)
        rows += "".join(rate_row(*case, folder) for case in RATES)
        others = "".join(by_hand())
    axioms = ", ".join(f"`{axiom}`" for axiom in sorted(AXIOMS))
    told = (
        f"Made by `python validation/coq/table.py` with Coq {version()}: {len(CASES) + len(RATES)} theorems, "
        "with the seconds of one core that each takes. The library takes "
        f"{of_library:.0f} s before them, once. "
        f"`Print Assumptions` of each names {axioms}, or fewer of these, on which "
        "Coq's real numbers rest, and nothing else. `definitions.v` has "
        f"{definitions_lines()} lines.\n\n"
    )
    print(
        write_atomic(HERE / "theorems.md", told + HEAD + rows + HEAD_BY_HAND + others),
        f"{time.monotonic() - begun:.0f} s",
    )


if __name__ == "__main__":
    main()
