"""What `make verify` may take, part by part, beside what it took: the budget is `verify_budget.json`.

    python validation/timings/verify_budget.py [results/campaign.json] [--measured]

Without a campaign it prints the budget and what was measured last. With one it prints that campaign's seconds, and ends with 1 where it
of it took longer than the budget; ``--measured`` keeps them in the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

FILE = Path(__file__).with_suffix(".json")


def rows(budget: dict[str, Any], measured: dict[str, float]) -> list[tuple[str, float | None, float | None]]:
    """(part, its budget, what it took), all parts and then the whole."""
    parts = [p for p in dict.fromkeys([*budget["parts"], *measured]) if p != "all"]
    return [(p, (budget["parts"] | {"all": budget["all"]}).get(p), measured.get(p)) for p in (*parts, "all")]


def of_campaign(path: Path) -> dict[str, float]:
    """The seconds of a campaign's parts, what lies between them, and all of it."""
    record = json.loads(path.read_text(encoding="utf-8"))
    parts = record["part_seconds"]
    return {**parts, "the rest": round(record["seconds"] - sum(parts.values()), 2), "all": round(record["seconds"], 2)}


def main(
    campaign: Annotated[Path | None, typer.Argument(help="What `make verify` wrote.")] = None,
    measured: Annotated[bool, typer.Option("--measured", help="Keep its seconds as those measured last.")] = False,
) -> None:
    """Print the budget of `make verify`."""
    budget = json.loads(FILE.read_text(encoding="utf-8"))
    found = budget["measured"] if campaign is None else of_campaign(campaign)
    print(f"budget of `make verify` on {budget['cores']} cores, seconds")
    for part, allowed, took in rows(budget, found):
        print(f"  {part:12} {'' if allowed is None else f'{allowed:6.0f}':>6}  took {'' if took is None else f'{took:6.1f}':>6}")
    if measured and campaign is not None:
        from fedtheory.provenance import write_json

        write_json(FILE, {**budget, "measured": found})
    if campaign is not None and found["all"] > budget["all"]:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
