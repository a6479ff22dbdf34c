"""`fedtheory rates`: rounds to epsilon, their slopes, and where they cross."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from fedtheory.cli.common import emit, out_console, progress, save
from fedtheory.errors import FedTheoryError, InvalidInput

__all__ = ["parse_epsilons", "rates"]


def parse_epsilons(text: str | None) -> list[float] | None:
    """'0.1,0.03,0.01,0.003' as numbers."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.replace(";", ",").split(",") if part.strip()]
    except ValueError as error:
        raise InvalidInput(f"--epsilons {text}: {error}; write numbers with commas, as in 0.1,0.03,0.01,0.003") from error


def _number(value: float) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "never"
    return f"{value:.0f}" if value < 1e5 else f"{value:.1e}".replace("e+0", "e").replace("e+", "e")


def _tables(data: dict[str, Any], what: str) -> Any:
    """One table for each instance: at most five epsilons as columns, the slope, and its verdict."""
    every = data["epsilons"]
    pick = sorted({round(i * (len(every) - 1) / min(4, len(every) - 1)) for i in range(min(5, len(every)))})
    shown = [every[i] for i in pick]
    for name, title in data["instances"].items():
        rows = [s for s in data["series"] if s["instance"] == name]
        if what == "local_steps":
            rows = [s for s in rows if any(math.isfinite(v) for v in s["local_steps"])]
        table = Table(title=Text(title, "bold"), title_justify="left", box=None, header_style="bold", pad_edge=False, padding=(0, 1))
        table.add_column("method")
        for epsilon in shown:
            table.add_column(f"{epsilon:.3g}", justify="right", no_wrap=True)
        if what == "rounds":
            table.add_column("slope (95 %)", no_wrap=True)
            table.add_column("verdict", no_wrap=True)
        for s in rows:
            at = dict(zip(s["epsilons"], s[what], strict=True))
            cells = [_number(at[e]) if e in at else "" for e in shown]
            if what == "rounds":
                fit = s["fit"]
                cells += ["", ""] if fit is None else [f"{fit['slope']:.2f} [{fit['low']:.2f}, {fit['high']:.2f}]", fit["verdict"]]
            label = Text(s["method"], "bold" if s["method"] == "FedMLS" else "")
            label.append(f" ({s['role']})" if s["role"] != "measured" else "", "dim")
            if what == "rounds":
                label.append(f"\n  {s['schedule']}", "dim")
            else:
                label.append(f", {s['schedule'].split(';')[0]}", "dim")
            table.add_row(label, *cells)
        yield table


def _crossing(c: dict[str, Any]) -> str:
    other = f"{c['other']} ({c['schedule'].split(';')[0]})"
    if c["at"]:
        return f"crosses {other} at eps = {', '.join(f'{e:.2g}' for e in c['at'])}; at eps = {c['smallest_epsilon']:g} ahead: {c['ahead_at_smallest']}"
    who = c["ahead_at_smallest"]
    verb = "ahead of" if who == "FedMLS" else "level with" if who == "equal" else "behind"
    return f"{verb} {other} from eps = {c['largest_epsilon']:g} to {c['smallest_epsilon']:g}: no crossover"


def rates(epsilons: str | None, quick: bool, figures: bool, seed: int, as_json: bool, out: Path) -> None:
    """Measure, print, draw and write."""
    from fedtheory.provenance import provenance
    from fedtheory.rates import experiments

    chosen = parse_epsilons(epsilons)
    total = experiments.steps(chosen, quick)
    with progress("rounds to epsilon", total) as advance:
        data = experiments.compute(chosen, quick, seed, progress=lambda name: advance())
    result = {**data, "provenance": provenance(seed)}
    files = [save(out, "rates", result)]
    if figures:
        from fedtheory.report import figures_rates
        from fedtheory.report.style import house_style
        from fedtheory.report.style import save as save_figure

        try:
            with house_style(), progress("drawing"):
                files += save_figure(figures_rates.draw(data), out / "rates", dpi=130)
        except OSError as error:
            raise FedTheoryError(f"--out {out}: cannot be written to ({error.strerror}): name another folder") from error
    if as_json:
        emit({**result, "files": files})
        return
    console = out_console()
    console.print(Text("Rounds to epsilon: the first round with F(x) - F* <= epsilon\n", "bold"))
    for table in _tables(data, "rounds"):
        console.print(table)
        console.print()
    console.print(Text("Local steps of one client until then (nothing where local problems are solved exactly)\n", "bold"))
    for table in _tables(data, "local_steps"):
        console.print(table)
        console.print()
    console.print(Text("Where FedMLS, as measured, changes places with the others (rounds)\n", "bold"))
    for c in data["crossovers"]:
        console.print(Text(f"{c['instance']}: FedMLS {_crossing(c)}"))
    notes = [f"{s['instance']}, {s['method']}: {n}" for s in data["series"] for n in s["notes"]]
    if notes:
        console.print()
        console.print(Text("Left out\n", "bold"))
        for note in notes:
            console.print(Text(note))
    console.print()
    console.print(Text(
        "Slope -1 is rounds ~ 1/eps, -2 is 1/eps^2. The verdict is what a one-sided t-test at 5 % leaves of the two; 'better than 1/eps' "
        "when the whole interval is above -0.75. A tuned step is the best of its grid for each eps, last iterate, first round below eps.",
        "dim",
    ))  # fmt: skip
    console.print("wrote " + ", ".join(str(f) for f in files))
