"""`fedtheory solve`, `run`, `verify STATEMENT` and `replay`."""

from __future__ import annotations

import difflib
from dataclasses import asdict, fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from fedtheory.cli.catalogue import find_statement, shipped_witnesses
from fedtheory.cli.common import emit, out_console, progress, save
from fedtheory.cli.options import PROBLEM_OPTIONS, make_algorithm
from fedtheory.errors import FedTheoryError, InvalidInput, UnknownName

__all__ = ["refuse_without_statement", "replay", "run", "solve", "verify_one"]

RUN_METRICS = {  # and their column titles
    "suboptimality": "F(x) - F*",
    "gradient_norm": "||grad F||",
    "distance": "||x - x*||",
    "nonzeros": "nonzeros",
    "entropy": "bits/entry",
}


def _problem(name: str | None, options: dict[str, Any], seed: int) -> Any:
    from fedtheory.cli.named import build

    return build(name, {p.name: options.get(p.name) for p in PROBLEM_OPTIONS}, seed)


def _slug(*parts: str) -> str:
    return "-".join("".join(c if c.isalnum() or c in ".-" else "-" for c in p) for p in parts)


def _facts(rows: list[tuple[str, Any]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, Text(str(value)))
    return table


def _about_problem(problem: Any) -> dict[str, Any]:
    return {
        "name": problem.name,
        "class": type(problem).__name__,
        "clients": problem.num_clients,
        "dimension": problem.dim,
        "samples": [int(n) for n in problem.sample_counts],
        "partition": getattr(problem, "partition", None),
    }


def solve(name: str | None, options: dict[str, Any], gap: float, seed: int, as_json: bool, out: Path | None) -> None:
    """Print, and write on request, the certified optimum."""
    from fedtheory.provenance import provenance

    problem = _problem(name, options, seed)
    with progress("certifying the optimum"):
        optimum = problem.optimum(gap)
    c = problem.constants()
    constants = {
        "beta": c.beta,
        "beta_joint": c.beta_joint,
        "mu": c.mu,
        "beta_k": c.beta_k,
        "mu_k": c.mu_k,
        "beta_k_exact": problem.smoothness_exact(),
        "dissimilarity_sq": c.dissimilarity_sq,
    }
    result = {
        "problem": _about_problem(problem),
        "optimum": asdict(optimum),
        "constants": constants,
        "provenance": provenance(seed),
    }
    path = save(out, _slug("solve", problem.name), result)
    if as_json:
        emit(result)
        return
    exact = "" if problem.smoothness_exact().all() else " (an upper bound)"
    console = out_console()
    console.print(f"[bold]{problem.name}[/bold]: {type(problem).__name__}, m = {problem.num_clients} clients, d = {problem.dim}")
    spread = f"{c.beta_k.min():.6g} to {c.beta_k.max():.6g}"
    x = optimum.x
    shown = np.array2string(x if x.size <= 8 else x[:8], precision=6, separator=", ", max_line_width=10_000)
    rows = [
        ("optimal value", f"{optimum.value:.15g} (rounded up)"),
        ("proven lower bound", f"{optimum.lower_bound:.15g}"),
        ("relative gap", f"{optimum.gap:.3g}"),
        ("||gradient|| at x*", f"{optimum.kkt_residual:.3g} at most"),
        ("certificate", optimum.certificate),
        ("found by", optimum.solver),
        ("x*", shown if x.size <= 8 else f"{shown[:-1]}, ...] ({x.size} numbers; all with --json)"),
        ("beta = max beta_k", f"{c.beta:.10g}{exact}; clients {spread}"),
        ("beta, mu of F", f"{c.beta_joint:.10g}, {c.mu:.10g}"),
        ("dissimilarity at x*", f"{c.dissimilarity_sq:.10g} (weighted mean of ||grad f_k(x*)||^2)"),
    ]
    if getattr(problem, "partition", None):
        rows.append(("partition", f"{problem.partition['name']}, sha256 {problem.partition['sha256'][:12]}..."))
    console.print(_facts(rows))
    if path:
        console.print(f"wrote {path}")


def _sampling(participants: int | None, problem: Any) -> Any:
    from fedtheory.cohorts import Full, Uniform

    law = Full() if participants is None else Uniform(participants)
    law.check(problem.num_clients)
    return law


def _solver(o: dict[str, Any], problem: Any, algorithm: Any) -> Any:
    """The local solver that the options name; without --local-lr its step size is 1/(beta + curvature of the penalty)."""
    from fedtheory import local

    flags = {
        "steps": "--local-steps", "lr": "--local-lr", "batch": "--batch-size", "epochs": "--epochs",
        "decay": "--lr-decay", "l1": "--local-l1",
    }  # fmt: skip
    takes = {"exact": (), "gradient": ("steps", "lr", "decay", "l1"), "sgd": tuple(flags)}[o["name"]]
    for key, flag in flags.items():
        if o[key] is not None and key not in takes:
            raise InvalidInput(f"{flag} does not apply to --local-solver {o['name']}")
    if o["name"] == "exact":
        return local.Exact()
    penalty = next((float(getattr(algorithm, name)) for name in ("l2", "mu", "alpha") if hasattr(algorithm, name)), 0.0)
    lr = o["lr"] if o["lr"] is not None else 1 / (float(problem.beta_k.max()) + penalty)
    common = {"decay": 1.0 if o["decay"] is None else o["decay"], "l1": o["l1"] or "subgradient"}
    if o["name"] == "gradient":
        return local.GradientSteps(5 if o["steps"] is None else o["steps"], lr, **common)
    steps = 5 if o["steps"] is None and o["epochs"] is None else o["steps"]
    return local.SGD(10 if o["batch"] is None else o["batch"], lr, epochs=o["epochs"], steps=steps, **common)


def run(
    method: str,
    name: str | None,
    options: dict[str, Any],
    rounds: int,
    participants: int | None,
    scenarios: int,
    solver_options: dict[str, Any],
    figures: bool,
    seed: int,
    as_json: bool,
    out: Path,
) -> None:
    """Run a method on a problem."""
    from fedtheory import algorithms
    from fedtheory.simulation import METRICS, simulate

    algorithms.get(method)  # an unknown method is told before a problem is built
    problem = _problem(name, options, seed)
    if "rounds" in {f.name for f in fields(algorithms.get(method))}:
        options["rounds"] = rounds
    algorithm = make_algorithm(method, problem, options)
    sampling, solver = _sampling(participants, problem), _solver(solver_options, problem, algorithm)
    with progress("certifying the optimum"):
        problem.optimum()
    with progress("rounds", rounds) as advance:
        trajectory = simulate(
            problem,
            algorithm,
            rounds,
            sampling=sampling,
            scenarios=scenarios,
            seed=seed,
            local_solver=solver,
            record=tuple(RUN_METRICS),
            on_round=lambda *_: advance(),
            in_place=True,
        )
    result = {
        "method": algorithm.name,
        "source": algorithm.source,
        "hyperparameters": asdict(algorithm),
        "problem": _about_problem(problem),
        "sampling": repr(sampling),
        "local_solver": repr(solver),
        "rounds": rounds,
        "scenarios": scenarios,
        "metrics": trajectory.metrics,
        "final_x": trajectory.x,
        "provenance": trajectory.provenance,
    }
    stem = _slug("run", algorithm.name, problem.name)
    files = [save(out, stem, result)]
    if figures:
        from fedtheory.report.curves import draw_curves

        with progress("drawing"):
            files += draw_curves(trajectory, out / stem, f"{algorithm.name} on {problem.name}")
    if as_json:
        emit({**result, "files": files})
        return
    console = out_console()
    settings = ", ".join(f"{k} = {v:.6g}" if isinstance(v, float) else f"{k} = {v}" for k, v in asdict(algorithm).items())
    console.print(
        f"[bold]{algorithm.name}[/bold] ({algorithm.source}) on [bold]{problem.name}[/bold]: m = {problem.num_clients}, "
        f"P = {participants or problem.num_clients}, d = {problem.dim}, {settings}; local solver {solver}"
    )
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column("round", justify="right")
    for title in RUN_METRICS.values():
        table.add_column(title, justify="right")
    for t in sorted({0, rounds, *(int(r) for r in np.geomspace(1, rounds, min(rounds, 10)).round())}):
        cells = [f"{trajectory.metrics[m][t].mean():.4g}" if t or m not in ("nonzeros", "entropy") else "" for m in RUN_METRICS]
        table.add_row(str(t), *cells)
    console.print(table)
    over = f"means over {scenarios} scenarios; " if scenarios > 1 else ""
    console.print(f"{over}nonzeros: {METRICS['nonzeros']}; bits/entry: {METRICS['entropy']}", style="dim")
    console.print("wrote " + ", ".join(str(f) for f in files))


def refuse_without_statement(options: dict[str, Any]) -> None:
    """Options of one statement mean nothing to the whole campaign."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        flags = ", ".join(f"--{n.replace('_', '-')}" for n in given)
        raise InvalidInput(f"{flags}: only with a statement, as in `fedtheory verify theorem-3.1 {flags.split(',')[0]} ...`")


def verify_one(
    name: str,
    problem_name: str | None,
    options: dict[str, Any],
    participants: int | None,
    how: dict[str, Any],
    seed: int,
    as_json: bool,
    out: Path | None,
) -> int:
    """Check a statement on a problem; 1 when a form is violated that is on record as holding."""
    from fedtheory.provenance import provenance
    from fedtheory.report.tables import check_table

    statement = find_statement(name)
    problem = _problem(problem_name or (None if options.get("data") else "quadratic"), options, seed)
    sampling = _sampling(participants, problem)
    with progress("certifying the optimum"):
        problem.optimum()
    chosen = dict(options)
    first = statement.scope == "fixed-point"  # about Algorithm 1, where lambda_2 need not be far above beta
    if chosen.get("l1") is None:
        chosen["l1"] = 0.1
    if chosen.get("l2") is None and chosen.get("l2_over_beta") is None:
        chosen["l2_over_beta"] = 1.0 if first else 30.0
    if first:
        chosen["aggregation"] = "cohort"
    algorithm = make_algorithm("fedelasticnet-prox" if first else "fedelasticnet-dyn", problem, chosen)
    with progress("checking"):
        checks = statement.verify(problem, algorithm, sampling=sampling, seed=seed, **how)
    unexpected = [
        c
        for c in checks
        if c.verdict == "violated" and statement.form(c.form).established.get(c.rule, "open") == "holds"
    ]
    result = {
        "statement": statement.id,
        "problem": _about_problem(problem),
        "algorithm": {"name": algorithm.name, **asdict(algorithm)},
        "sampling": repr(sampling),
        "verdict": checks.verdict,
        "checks": [asdict(c) for c in checks],
        "as_recorded": not unexpected,
        "provenance": provenance(seed),
    }
    path = save(out, _slug("verify", statement.id.split("/")[-1], problem.name), result)
    if as_json:
        emit(result)
        return int(bool(unexpected))
    console = out_console()
    beta = float(problem.beta_k.max())
    console.print(
        f"[bold]{statement.id}[/bold]: {statement.title}\n{problem.name}: m = {problem.num_clients}, "
        f"P = {participants or problem.num_clients}, d = {problem.dim}, lambda_1 = {algorithm.l1:g}, "
        f"lambda_2 = {algorithm.l2:.6g} = {algorithm.l2 / beta:.6g} beta, "
        + ("Algorithm 1\n" if first else f"{algorithm.rule} rule\n")
    )
    console.print(check_table(checks))
    if any(c.verdict == "holds" and statement.form(c.form).established.get(c.rule) == "violated" for c in checks):
        note = "A form on record as violated fails somewhere, not everywhere: `fedtheory explain` names a witness."
        console.print(f"\n{note}", style="dim")
    for c in unexpected:
        console.print(f"\n{c.form}: violated, though it is on record as holding", style="bold red")
    if path:
        console.print(f"wrote {path}")
    return int(bool(unexpected))


def replay(name: str, as_json: bool, out: Path | None) -> None:
    """Rerun a witness exactly."""
    from fedtheory import witness as witnesses

    path = Path(name)
    if path.exists() or path.suffix == ".json":
        witness = witnesses.load(path)
    else:
        shipped = {w.name: w for w in shipped_witnesses()}
        if name not in shipped:
            if not shipped:
                raise FedTheoryError(f"{name}: no such file, and no witnesses are shipped under that name")
            close = difflib.get_close_matches(name, shipped, n=3, cutoff=0.4)
            hint = f"did you mean {' or '.join(close)}?" if close else "see `fedtheory list witnesses`"
            raise UnknownName(f"unknown file or witness {name!r}: {hint}")
        witness = shipped[name]
    check = witnesses.replay(witness)  # raises unless the file proves what it claims
    mls = isinstance(witness, witnesses.MLSWitness)
    lhs, rhs = (Fraction(v) for v in (witness.lhs, witness.rhs)) if mls else witnesses.exact_check(witness)[1:3]
    result = {
        "statement": witness.statement,
        "form": witness.form,
        "rule": witness.rule,
        "verdict": check.verdict,
        "mode": check.mode,
        "lhs": str(lhs),
        "rhs": str(rhs),
        "excess": str(lhs - rhs),
        "witness": {k: v for k, v in asdict(witness).items() if k not in ("provenance", "found_by")},
    }
    save(out, f"replay-{witness.name}", result)
    if as_json:
        emit(result)
        return
    from fedtheory.report.formulas import to_text
    from fedtheory.theorems import get

    console = out_console()
    console.print(Text(str(witness), "bold"))
    console.print(Text(to_text(get(witness.statement).form(witness.form).latex), "cyan"))
    rows: list[tuple[str, Any]] = _mls_facts(witness) if mls else _elastic_facts(witness)
    rows += [
        ("left side", f"{lhs}   = {float(lhs):.12g}"),
        ("right side", f"{rhs}   = {float(rhs):.12g}"),
        ("left - right", f"{lhs - rhs}   = {float(lhs - rhs):.6g} > 0"),
    ]
    console.print(_facts(rows))
    console.print(f"{check.verdict}, in exact rational arithmetic", style="bold red")


def _mls_facts(witness: Any) -> list[tuple[str, Any]]:
    from fedtheory.theorems.fedmls_rational import VARIANTS

    pieces = [list(zip(a, b, strict=True)) for a, b in zip(witness.slopes, witness.offsets, strict=True)]
    clients = [" or ".join(f"{p} x + {q}" for p, q in lines) for lines in pieces]
    alike = len(set(clients)) == 1 and len(clients) > 1
    shown = [("every client", clients[0])] if alike else [(f"client {k}", c) for k, c in enumerate(clients)]
    return [
        ("reading", VARIANTS[witness.variant]),
        ("losses", "f_i(x) = the largest of"),
        *shown,
        ("lambda, D, R, K", f"{witness.lam}, {witness.D}, {witness.radius}, {witness.rounds}"),
        ("start", witness.x0),
    ]


def _elastic_facts(witness: Any) -> list[tuple[str, Any]]:
    m, d = len(witness.h), len(witness.x0)
    rows: list[tuple[str, Any]] = [
        ("losses", "L_k(x) = sum_i h_ki (x_i - c_ki)^2 / 2" if d > 1 else "L_k(x) = h_k (x - c_k)^2 / 2"),
        *((f"client {k}", f"h = {', '.join(witness.h[k])}; c = {', '.join(witness.c[k])}") for k in range(m)),
        ("lambda_1, lambda_2", f"{witness.lambda1}, {witness.lambda2}"),
        ("start", ", ".join(witness.x0)),
    ]
    if witness.cohorts:
        rows.append(("cohorts before", "; ".join(str([int(k) for k in c]) for c in witness.cohorts)))
    return rows
