"""Mutation testing by mutmut: which small changes of the code does no test notice?

    make mutants PLACE=fedtheory/optimum/duality.py TESTS=tests/optimum
    make mutants PLACE=fedtheory/theorems/fedmls TESTS=tests/theorems/fedmls

The project is copied into a temporary folder, so that nothing here is touched; mutmut changes the copy of
PLACE, one small change at a time, and runs of TESTS those that reach it. The changes that survive are
written to results/mutants/PLACE.md, each with its difference, after Ctrl-C those that were tried. A file
takes minutes to an hour: mutmut first runs all of TESTS to see which of them reach which function.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedtheory.errors import InvalidInput
from fedtheory.provenance import provenance, write_atomic

ROOT = Path(__file__).resolve().parents[2]
console = Console()


def copy(to: Path) -> None:
    """Every file that git knows or would add."""
    said = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in said.stdout.splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def settings(place: str, tests: list[str], folders: list[str]) -> str:
    """mutmut's table of pyproject.toml."""
    pattern = place if place.endswith(".py") else f"{place.rstrip('/')}/*"
    lists = {"source_paths": ["fedtheory"], "only_mutate": [pattern], "also_copy": folders}
    lists["pytest_add_cli_args_test_selection"] = tests
    lines = [f"{name} = [{', '.join(repr(v) for v in values)}]" for name, values in lists.items()]
    return "\n".join(["", "[tool.mutmut]", *lines, "mutate_only_covered_lines = true", ""])


def mutmut(folder: Path, *args: str) -> str:
    """What one of its commands prints."""
    command = [sys.executable, "-m", "mutmut", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def run_all(folder: Path, workers: int) -> tuple[int, dict[str, str]]:
    """Its exit status, and mutant -> outcome.

    It ends too early where a test left a process behind, whose end it takes for one of its own; it is started again as long as
    that tries further mutants.
    """
    command, tried = [sys.executable, "-m", "mutmut", "run", "--max-children", str(workers)], -1
    while True:
        try:
            stopped = subprocess.run(command, cwd=folder, check=False).returncode
        except KeyboardInterrupt:
            stopped = 130
        said = mutmut(folder, "results", "--all", "true")
        outcomes = dict(re.findall(r"^\s*(\S+__mutmut_\d+): (.+)$", said, flags=re.M))
        so_far = sum(outcome != "not checked" for outcome in outcomes.values())
        if stopped in (0, 130) or so_far in (tried, len(outcomes)):
            return stopped, outcomes
        tried = so_far


def report(place: str, tests: list[str], outcomes: dict[str, str], differences: dict[str, str]) -> str:
    """Markdown: how many of each outcome, and every survivor."""
    counts = Counter(outcomes.values())
    told = ", ".join(f"{n} {outcome}" for outcome, n in sorted(counts.items())) or "none"
    head = [f"# Mutants of {place}", "", f"Tests: {' '.join(tests)}. Commit: {provenance(None, 'cpu')['commit']}.", "", f"{told}.", ""]
    for name, difference in differences.items():
        head += [f"## {name}", "", "```diff", difference.strip(), "```", ""]
    return "\n".join(head)


def main(
    place: Annotated[str, typer.Argument(help="file or folder of the package whose code is changed")],
    tests: Annotated[list[str], typer.Argument(help="what is run of each change: files or folders of tests")],
    out: Annotated[Path, typer.Option(help="folder of the report")] = ROOT / "results" / "mutants",
    workers: Annotated[int, typer.Option(min=1, help="processes")] = 2,
) -> None:
    """Change PLACE in small ways, and list the changes that no test of TESTS notices."""
    for name in (place, *tests):
        if not (ROOT / name).exists():
            raise InvalidInput(f"{name}: no such file or folder in {ROOT}: give paths from there, as in fedtheory/optimum")
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        folder = Path(scratch)
        copy(folder)
        beside = sorted({p.name for p in folder.iterdir()} - {"fedtheory", "pyproject.toml"})
        with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write(settings(place, tests, beside))
        stopped, outcomes = run_all(folder, workers)
        if not set(outcomes.values()) - {"not checked"}:
            console.print("no mutant was tried: see above what mutmut says", style="red")
            raise typer.Exit(stopped or 1)
        survivors = [name for name, outcome in outcomes.items() if outcome == "survived"]
        differences = {name: mutmut(folder, "show", name) for name in survivors}
        file = out / f"{place.strip('/').replace('/', '.').removesuffix('.py')}.md"
        out.mkdir(parents=True, exist_ok=True)
        write_atomic(file, report(place, tests, outcomes, differences))
    tried = sum(outcome != "not checked" for outcome in outcomes.values())
    console.print(f"{len(survivors)} of {tried} mutants survived ({len(outcomes)} there are): {file}")
    raise typer.Exit(130 if stopped == 130 else int(bool(survivors)))


if __name__ == "__main__":
    typer.run(main)
