"""`fedtheory worst-case --lyapunov`: the best quadratic potential of a method."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from fedtheory.cli.common import emit, out_console, progress
from fedtheory.cli.options import given_values
from fedtheory.cli.worst_case import (
    exact,
    grouped,
    hash_of,
    in_file_names,
    method_of,
    plain,
    tell_proof,
    told_groups,
    written,
)
from fedtheory.errors import InvalidInput
from fedtheory.worst_cases.groups import Groups

__all__ = ["lyapunov"]


def lyapunov(
    method: str, clients: int | None, participants: int | None, local_steps: int,
    given: Mapping[str, str | None], options: Mapping[str, Any], refused: Mapping[str, Any],
    as_json: bool, out: Path | None,
) -> None:
    """Compute the best quadratic potential, prove, print, and write the certificate."""
    from fedtheory.worst_cases.classes import Losses
    from fedtheory.worst_cases.quadratic_potentials import BISECTIONS, answer, potential_question

    for flag, text in refused.items():
        raise InvalidInput(f"{flag} {text} with --lyapunov: the best quadratic potential has no such number; leave it out")
    cls = method_of(method)
    if cls.nonsmooth:
        raise InvalidInput(f"--lyapunov: {method} is about losses with bounded subgradients, and a least rho about smooth ones")
    numbers = {name: exact(f"--{name.replace('_', '-')}", text) for name, text in given.items() if text is not None}
    of_class = Losses(numbers.get("smoothness", Fraction(1)), numbers.get("strong_convexity", Fraction(1, 10)))
    losses = grouped(options.get("group") or (), cls.nonsmooth, numbers) or of_class
    chosen = given_values(options.get("given")) or {}
    chosen |= {n: exact(f"--{n}", text) for n, text in options.items() if n not in ("given", "group") and text is not None}
    q = potential_question(cls, chosen, local_steps, losses, clients, participants)
    groups = q.asked.get("groups")
    named: dict[str, Any] = {**q.subject.options, "K": q.subject.local_steps or 1}
    named |= {"groups": hash_of(groups)} if groups else {"mu": q.losses.strong_convexity}
    named |= {"N": q.clients, "P": q.participants}
    of = "".join(f"-{n}{_short(v)}" for n, v in named.items())
    with progress("least rho", 2 * BISECTIONS) as bar:
        found = answer(q, bar)
        path = written(found, out, f"{in_file_names(method, q.subject.name)}-quadratic{of}")
    told = {
        "method": q.subject.name, "clients": q.clients, "participants": q.participants, "status": "proved",
        "rho": float(found.rho), "rho_exact": str(found.rho), "solver": found.best, "at_least": found.below,
        "c": float(found.c), "c_exact": str(found.c), "value": str(found.value),
        "potential": {block: {f"{f}, {g}": str(x) for (f, g), x in of.items()} for block, of in found.matrices.items()},
        "stands_for": plain(q.system(found.valued).stands), "asked": plain(q.asked), "certificate": None if path is None else str(path),
    }  # fmt: skip
    emit(told) if as_json else _show(told, found, path, method)


def _show(told: dict[str, Any], found: Any, path: Path | None, method: str) -> None:
    console, q = out_console(), found.question
    options = ", ".join(f"{n} = {v}" for n, v in q.subject.options.items())
    steps = f", K = {q.subject.local_steps}" if q.subject.local_steps else ""
    who = "any number of clients, who all take part" if found.any_number else f"{q.participants} of {q.clients} clients"
    console.print(Text(f"{told['method']}: {who}{steps}{', ' * bool(options)}{options}", "bold"), soft_wrap=True)
    one = f"losses of smoothness {q.losses.smoothness} and strong convexity {q.losses.strong_convexity}"
    for line in told_groups(told["asked"], found.any_number) or [one]:
        console.print(line, soft_wrap=True)
    noise = " + c zeta^2, zeta^2 = mean ||grad f_k(x*)||^2" if found.c else ""
    console.print(Text(f"E V+ <= rho V{noise}, V >= ||x - x*||^2", "cyan"), soft_wrap=True)
    table = Table("the best quadratic V", "rho", *["c"] * bool(found.c))
    table.add_row("proved here", f"{told['rho']:.6f}", *[_number(told["c"])] * bool(found.c))
    table.add_row("least, by the solver", f"{found.best:.6f}", *[""] * bool(found.c))
    of = "parabolas, in each group equal ones" if isinstance(q.losses, Groups) else "equal parabolas"
    table.add_row(f"no rho is below, by {of}", f"{found.below:.6f}", *[""] * bool(found.c))
    console.print(table)
    V, vectors = found.written
    console.print(f"V = {V}", soft_wrap=True)
    console.print(f"{vectors}.", soft_wrap=True)
    console.print("Its coefficients are fractions, here to twelve digits where long; the certificate and --json have them whole.")
    if 0 < found.rho < 1:
        floor = " down to the noise" if found.c else ""
        console.print(f"So E V falls like {told['rho']:.6g}^T{floor}: to a tenth in {_rounds(told['rho'])} rounds.")
    tell_proof(path, found, method)


def _short(number: Any) -> str:
    return str(number).replace("/", "_")


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def _rounds(rho: float) -> int:
    from math import ceil, log

    return ceil(log(10) / -log(rho))
