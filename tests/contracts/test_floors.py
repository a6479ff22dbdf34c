"""The floors that the linter holds and the ones that a contributor reads about are those of the package as it is."""

from __future__ import annotations

import re
from configparser import ConfigParser
from pathlib import Path

import fedtheory

PACKAGE = Path(fedtheory.__file__).parent
ROOT = PACKAGE.parent


def rooms() -> set[str]:
    """The modules and packages directly in `fedtheory`."""
    return {p.stem for p in PACKAGE.glob("*.py") if p.stem != "__init__"} | {p.parent.name for p in PACKAGE.glob("*/__init__.py")}


def contracts() -> dict[str, dict[str, str]]:
    config = ConfigParser()
    config.read(ROOT / ".importlinter")
    return {name.rpartition(":")[2]: dict(config[name]) for name in config.sections() if ":contract:" in name}


def floors(contract: str) -> list[set[str]]:
    """The parts of each floor, the highest first."""
    return [set(re.findall(r"\w+", line)) for line in contracts()[contract]["layers"].split("\n") if line]


def test_every_part_of_the_package_is_on_a_floor():
    named = [part for contract in ("upper-floors", "lower-floors") for floor in floors(contract) for part in floor]
    twice = {part for part in named if named.count(part) > 1}
    assert rooms() == set(named)
    assert twice == {"simulation"}, "the two contracts meet there, and nowhere else"


def test_every_part_is_searched_for_circles():
    lower, upper = (contracts()[f"{half}-circles"] for half in ("lower", "upper"))
    assert set(lower["ancestors"].split()) == set(upper["skip_descendants"].split())
    assert upper["ancestors"].split() == ["fedtheory"]


def test_every_papers_room_is_independent():
    found = {f"fedtheory.theorems.{p.parent.name}" for p in (PACKAGE / "theorems").glob("*/__init__.py")}
    assert set(contracts()["rooms"]["modules"].split()) == found


def test_every_papers_figures_know_its_own_room_only():
    figures = ROOT / "paper_figures"
    papers = {p.parent.name for p in figures.glob("*/figures.py")}
    assert set(contracts()["figures"]["modules"].split()) == {f"paper_figures.{p}" for p in papers}
    for paper in papers:
        text = "".join(file.read_text() for file in (figures / paper).rglob("*.py"))
        assert set(re.findall(r"fedtheory\.theorems\.(\w+)", text)) <= {paper}


def test_the_floors_that_contributors_read_about_are_these():
    table = (ROOT / "CONTRIBUTING.md").read_text().split("## The floors")[1].split("\n\n`")[0]
    rows = [re.findall(r"`(\w+)`", line) for line in table.split("\n") if re.match(r"\| \d+ \|", line)]
    height = {part: n for n, row in enumerate(reversed(rows)) for part in row}
    assert set(height) == rooms() - {"__main__"}
    for contract in ("upper-floors", "lower-floors"):
        order = [height[part] for floor in reversed(floors(contract)) for part in sorted(floor) if part in height]
        assert order == sorted(order), contract


def test_the_core_names_no_paper_method_or_problem():
    """In code and comments alike."""
    from fedtheory import algorithms, problems
    from fedtheory.theory.judge import papers

    named = {p.id for p in papers()} | {p.title for p in papers()} | {"MOPES"}
    named |= {name for name in algorithms.__all__ if isinstance(getattr(algorithms, name), type)} - {"Algorithm"}
    named |= {name for name in problems.__all__ if isinstance(getattr(problems, name), type)} - {"Problem", "Constants"}
    word = re.compile(r"(?<![\w-])(" + "|".join(map(re.escape, named)) + r")(?![\w-])")
    found = [
        f"{file.name}:{number}: {hit.group()}"
        for file in sorted((ROOT / "fedtheory/theory/judge").glob("*.py"))
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if (hit := word.search(line))
    ]
    assert found == []
