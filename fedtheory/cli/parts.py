"""What `solve`, `run` and `verify STATEMENT` share: the problem, the cohorts, and how facts are laid out."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from fedtheory.cli.options import PROBLEM_OPTIONS, hyperparameters, refuse_foreign
from fedtheory.errors import InvalidInput

__all__ = ["about_problem", "facts", "problem_of", "refuse_for_fedmls", "refuse_no_participants", "sampling_of", "slug", "solver_rows"]


def problem_of(name: str | None, options: dict[str, Any], seed: int) -> Any:
    from fedtheory.cli.problems import build

    return build(name, {p.name: options.get(p.name) for p in PROBLEM_OPTIONS}, seed)


def slug(*parts: str) -> str:
    return "-".join("".join(c if c.isalnum() or c in ".-" else "-" for c in p) for p in parts)


def facts(rows: list[tuple[str, Any]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(str(value)))
    return table


def about_problem(problem: Any) -> dict[str, Any]:
    return {
        "name": problem.name,
        "class": type(problem).__name__,
        "clients": problem.num_clients,
        "dimension": problem.dim,
        "samples": [int(n) for n in problem.sample_counts],
        "partition": getattr(problem, "partition", None),
    }


def refuse_no_participants(participants: int | None, problem: Any) -> None:
    """Raise `InvalidInput`, by the option's name, for a cohort of no clients."""
    if participants is not None and participants < 1:
        raise InvalidInput(f"--participants {participants}: it must be an integer from 1 to m = {problem.num_clients}")


def sampling_of(participants: int | None, problem: Any) -> Any:
    from fedtheory.participation.cohorts import Full, Uniform

    refuse_no_participants(participants, problem)
    law = Full() if participants is None else Uniform(participants)
    law.check(problem.num_clients)
    return law


def refuse_for_fedmls(options: dict[str, Any], participants: int | None, problem: Any) -> None:
    """Options of other methods, and cohorts, mean nothing to FedMLS."""
    foreign = [name for name in (*hyperparameters(), "l2_over_beta") if options.get(name) is not None]
    refuse_foreign("fedmls", [name for name in foreign if name not in ("rounds", "epsilon")])
    if participants is not None and participants != problem.num_clients:
        n = problem.num_clients
        raise InvalidInput(f"--participants {participants}: FedMLS needs all N = {n} clients in every round; leave it out")


def solver_rows(optimum: Any) -> list[tuple[str, Any]]:
    """cvxpy's own value next to the polished one, and what it solved."""
    d, rows = optimum.details, []
    if optimum.solver_value is not None:
        off = optimum.solver_value - optimum.value
        which = f"{abs(off):.2g} {'above' if off > 0 else 'below'} the polished value" if off else "the polished value"
        rows.append(("value by cvxpy", f"{optimum.solver_value:.15g} ({which}), {d['conic']}"))
    if d.get("conic_form"):
        time = f", {d['conic_seconds']:.2g} s" if optimum.solver_value is not None else ""
        rows.append(("cone programme", f"{d['conic_form']}{time}"))
    return rows
