"""Mutation testing by mutmut: which small changes of the code does no test notice?

    make mutants PLACE=fedtheory/optimum/duality.py TESTS=tests/optimum
    make mutants PLACE=fedtheory/theorems/fedmls TESTS=tests/theorems/fedmls

The project is copied into a temporary folder, so that nothing here is touched; mutmut changes the
copy of PLACE, one small change at a time, and runs of TESTS those that reach it. The changes that
survive are written to results/mutants/PLACE.md, each with its difference, after Ctrl-C those that
were tried. A file takes minutes to an hour: mutmut first runs all of TESTS to see which of them
reach which function.

mutmut leaves out functions with a decorator (properties, builders), lambdas outside functions, and
what Numba compiles. It forks after the modules are imported, so that a change of what runs at
import cannot be noticed there. The survivors among those functions are tried again, each in a
process of its own; with --afresh all survivors are, for what a cache keeps.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track

from fedtheory.errors import InvalidInput
from fedtheory.provenance import provenance, write_atomic
from fedtheory.store.result_store import SOURCES

ROOT = Path(__file__).resolve().parents[2]
IN_THE_COPY = """
import importlib, os, sys
from mutmut.configuration import config
config()
os.chdir("mutants")
sys.path.insert(0, os.getcwd())
"""
CALLS = """
for module in sys.argv[1:]:
    importlib.import_module(module)
from mutmut.state import state
print(*sorted(state()._stats))
"""
TESTED = """
import pytest
sys.exit(pytest.main(["--rootdir=.", "-x", "-q", *sys.argv[1:]]))
"""
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
    lists = {"source_paths": list(SOURCES), "only_mutate": [pattern], "also_copy": folders}
    lists["pytest_add_cli_args_test_selection"] = tests
    lines = [f"{name} = [{', '.join(repr(v) for v in values)}]" for name, values in lists.items()]
    return "\n".join(["", "[tool.mutmut]", *lines, "mutate_only_covered_lines = true", ""])


def mutmut(folder: Path, *args: str) -> str:
    """Run one of mutmut's commands and return what it prints."""
    command = [sys.executable, "-m", "mutmut", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout


def afresh(folder: Path, program: str, *args: str, mutant: str) -> subprocess.CompletedProcess[str]:
    """Run a program on the mutated copy of the project in a process of its own."""
    environment = {**os.environ, "MUTANT_UNDER_TEST": mutant, "PYTHONPATH": str(folder / "mutants")}
    command = [sys.executable, "-c", IN_THE_COPY + program, *args]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def called_at_import(folder: Path, place: str) -> set[str]:
    """The functions of PLACE that run while it is imported, as mutmut calls them."""
    files = [place] if place.endswith(".py") else sorted(str(f.relative_to(folder)) for f in (folder / place).rglob("*.py"))
    modules = [f.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for f in files]
    said = afresh(folder, CALLS, *modules, mutant="stats")
    return set(said.stdout.split())


def survive_afresh(folder: Path, names: list[str], tests: list[str], workers: int) -> set[str]:
    """Those of the mutants that the tests do not notice even where the change is there from the
    start."""
    if names and afresh(folder, TESTED, *tests, mutant="").returncode:
        console.print("the tests fail in a process of their own without any change: no survivor was tried again", style="red")
        return set(names)

    def survives(name: str) -> bool:
        return afresh(folder, TESTED, *tests, mutant=name).returncode == 0

    with ThreadPoolExecutor(workers) as pool:
        still = track(pool.map(survives, names), "survivors tried in a process of their own", total=len(names), console=console)
        return {name for name, lives in zip(names, still, strict=True) if lives}


def run_all(folder: Path, workers: int) -> tuple[int, dict[str, str]]:
    """Its exit status, and mutant -> outcome.

    It ends too early where a test left a process behind, whose end it takes for one of its own; it
    is started again as long as that tries further mutants.
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
    all_afresh: Annotated[bool, typer.Option("--afresh", help="try every survivor again in a process of its own")] = False,
) -> None:
    """Change PLACE in small ways, and list the changes that no test of TESTS notices."""
    for name in (place, *tests):
        if not (ROOT / name).exists():
            raise InvalidInput(f"{name}: no such file or folder in {ROOT}: give paths from there, as in fedtheory/optimum")
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        folder = Path(scratch)
        copy(folder)
        beside = sorted({p.name for p in folder.iterdir()} - {*SOURCES, "pyproject.toml"})
        with (folder / "pyproject.toml").open("a", encoding="utf-8") as file:
            file.write(settings(place, tests, beside))
        stopped, outcomes = run_all(folder, workers)
        if not set(outcomes.values()) - {"not checked"}:
            console.print("no mutant was tried: see above what mutmut says", style="red")
            raise typer.Exit(stopped or 1)
        survivors = [name for name, outcome in outcomes.items() if outcome == "survived"]
        early = survivors
        if not all_afresh:
            at_import = called_at_import(folder, place)
            early = [name for name in survivors if name.partition("__mutmut_")[0] in at_import]
        noticed = set(early) - survive_afresh(folder, early, tests, workers)
        outcomes |= dict.fromkeys(noticed, "killed in a process of its own")
        survivors = [name for name in survivors if name not in noticed]
        differences = {name: mutmut(folder, "show", name) for name in survivors}
        file = out / f"{place.strip('/').replace('/', '.').removesuffix('.py')}.md"
        out.mkdir(parents=True, exist_ok=True)
        write_atomic(file, report(place, tests, outcomes, differences))
    tried = sum(outcome != "not checked" for outcome in outcomes.values())
    console.print(f"{len(survivors)} of {tried} mutants survived ({len(outcomes)} there are): {file}")
    raise typer.Exit(130 if stopped == 130 else int(bool(survivors)))


if __name__ == "__main__":
    typer.run(main)
