"""`fedtheory rates`: rounds to epsilon, their slopes, and where they cross."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from fedtheory.cli.common import check_out, emit, err_console, out_console, progress, save, writing, wrote
from fedtheory.cli.resumable import result_store_at
from fedtheory.errors import InvalidInput
from fedtheory.report.stacked import plain_table
from fedtheory.untrusted import decimal

__all__ = ["parse_epsilons", "rates"]


def parse_epsilons(text: str | None) -> list[float] | None:
    """'0.1,0.03,0.01,0.003' as numbers."""
    if text is None:
        return None
    try:
        return [decimal(part) for part in text.replace(";", ",").split(",") if part.strip()]
    except ValueError as error:
        raise InvalidInput(f"--epsilons {text}: {error}; write numbers with commas, as in 0.1,0.03,0.01,0.003") from error


def _number(value: float) -> str:
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "never"
    return f"{value:.0f}" if value < 1e5 else f"{value:.1e}".replace("e+0", "e").replace("e+", "e")


def _table(data: dict[str, Any], rows: list[dict[str, Any]], what: str, width: int) -> Table:
    """Methods against as many epsilons as the terminal has room for, with slope and verdict."""
    every, room = data["epsilons"], max(2, min(9, (width - 71) // 8))
    picks = {round(i * (len(every) - 1) / (room - 1)) for i in range(room)}
    shown = [e for i, e in enumerate(every) if i in picks]
    headings = ("eps =", *(f"{epsilon:.3g}" for epsilon in shown), "slope (95 %)", "verdict")
    table = plain_table(headings, right=range(1, 1 + len(shown)), whole=range(len(headings)))
    for s in rows:
        at, fit = dict(zip(s["epsilons"], s[what], strict=True)), s["fit" if what == "rounds" else "fit_local"]
        cells = [_number(at[e]) if e in at else "" for e in shown]
        cells += ["", ""] if fit is None else [f"{fit['slope']:.2f} [{fit['low']:.2f}, {fit['high']:.2f}]", ""]
        if fit is not None and what == "rounds":
            cells[-1] = fit["verdict"]
        table.add_row(Text(s["label"], "bold" if s["label"] == "FedMLS" else ""), *cells)
    return table


def _print_instance(console: Any, data: dict[str, Any], name: str, title: str) -> None:
    every = [s for s in data["series"] if s["instance"] == name]
    best = [s for s in data["best"] if s["instance"] == name]
    parts = {s["method"] for s in best}
    rows = [s for s in every if s["method"] not in parts] + [{**s, "label": f"{s['label']}, best"} for s in best]
    console.print(Text(title, "bold underline"))
    console.print(Text("Rounds to eps", "bold"))
    console.print(_table(data, rows, "rounds", console.width))
    console.print(Text("Rounds to eps, every schedule", "bold"))
    console.print(_table(data, [s for s in every if s["method"] in parts], "rounds", console.width))
    stepping = [s for s in rows if any(math.isfinite(v) for v in s["local_steps"])]
    console.print(Text("Local steps of one client to eps", "bold"))
    console.print(_table(data, stepping, "local_steps", console.width))
    console.print(Text("Against FedMLS, in rounds", "bold"))
    for c in data["crossovers"]:
        if c["instance"] == name and c["other"] not in ("FedMLS", "FedMLS, exact"):
            console.print(Text(_crossing(c)))
    for s in every:
        for note in s["notes"]:
            console.print(Text(f"{s['label']}: {note}", "yellow"))
    console.print()


def _print_rules(console: Any, data: dict[str, Any]) -> None:
    """Print how every method was set, once for all instances."""
    console.print(Text("Schedules", "bold"))
    rules = dict.fromkeys((s["label"], s["schedule"]) for s in data["series"])
    for label, rule in rules:
        console.print(Text(f"{label}: {rule}", "dim"))
    console.print()


def _crossing(c: dict[str, Any]) -> str:
    ours = c["ours"]
    span = f"from eps = {c['largest_epsilon']:g} to {c['smallest_epsilon']:g}"
    if c["at"]:
        return (
            f"{ours} and {c['other']}: crossover at eps = {', '.join(f'{e:.2g}' for e in c['at'])}; {c['ahead_at_largest']} ahead at "
            f"{c['largest_epsilon']:g}, {c['ahead_at_smallest']} at {c['smallest_epsilon']:g}"
        )
    if c["role"] == "lower bound" and c["ahead_at_smallest"] != ours:
        return f"{c['other']}: a lower bound, {ours} stays above it {span}"
    return f"{ours} and {c['other']}: no crossover, {c['ahead_at_smallest']} ahead {span}"


def rates(
    epsilons: str | None, quick: bool, figures: bool, seed: int, as_json: bool, out: Path,
    workers: int, engine: tuple[str, str | None],
) -> int:
    """Measure, print, draw and write; the exit code. Interrupted, what is finished is written,
    without figures; killed, it is kept."""
    from fedtheory.parallel import stop_workers, use_engine
    from fedtheory.provenance import provenance
    from paper_figures.fedmls.rates import experiments

    chosen = parse_epsilons(epsilons)
    total = len(experiments.parts(chosen, quick))
    check_out(out)
    with use_engine(*engine, workers), result_store_at(out / "rates.cells.sqlite") as cells:
        with progress("rounds to epsilon", total) as advance:

            def measured(name: str) -> None:
                advance(known=cells.recalled)

            data = experiments.compute(chosen, quick, seed, progress=measured, workers=workers, cells=cells)
        stop_workers()
        if data["complete"]:
            cells.remove()
    result = {**data, "provenance": provenance(seed)}
    files = [save(out, "rates", result)]
    code = 0 if data["complete"] else 130
    if code:
        err_console().print("interrupted: writing what is finished, without figures", style="yellow")
    if figures and not code:
        from fedtheory.plotting.style import house_style
        from fedtheory.plotting.style import save as save_figure
        from paper_figures.fedmls.rates import drawing

        with writing(out), house_style(), progress("drawing"):
            files += save_figure(drawing.draw(data), out / "rates", dpi=130)
    if as_json:
        emit({**result, "files": files})
        return code
    console = out_console()
    for name, title in data["instances"].items():
        _print_instance(console, data, name, title)
    _print_rules(console, data)
    console.print(Text(
        "Slope -1 is rounds ~ 1/eps, -2 is 1/eps^2. The verdict is what a one-sided t-test at 5 % leaves of the two; "
        "'better than 1/eps' when the whole interval is above -0.75, 'between the two' when it is inside (-1.9, -1.1). "
        "Counted: the first round with F(x) - F* <= eps, of the last iterate. Every method is tuned by one rule: the same grid of 33 "
        "values for its step, FedProx's 1/mu, FedDyn's 1/alpha, FedMLS's lambda, and 33 holds, where a step is held; the fewest rounds "
        "for each eps, within 2/eps^2 rounds. 'best' is the best schedule, and for FedAvg 10 or 100 local steps. 'exact': local "
        "problems are solved exactly. FedMLS without a word has lambda = eps/G^2, as Theorem 2 says.",
        "dim",
    ))  # fmt: skip
    wrote(files)
    return code
