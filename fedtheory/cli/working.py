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
from fedtheory.cli.options import PROBLEM_OPTIONS, hyperparameters, make_algorithm, refuse_foreign
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


def _optimum_rows(optimum: Any, gradient: str) -> list[tuple[str, Any]]:
    x = optimum.x
    shown = np.array2string(x if x.size <= 8 else x[:8], precision=6, separator=", ", max_line_width=10_000)
    return [
        ("optimal value", f"{optimum.value:.15g} (rounded up)"),
        ("proven lower bound", f"{optimum.lower_bound:.15g}"),
        ("relative gap", f"{optimum.gap:.3g}"),
        (gradient, f"{optimum.kkt_residual:.3g} at most"),
        ("certificate", optimum.certificate),
        ("found by", optimum.solver),
        ("x*", shown if x.size <= 8 else f"{shown[:-1]}, ...] ({x.size} numbers; all with --json)"),
    ]


def _partition_rows(problem: Any) -> list[tuple[str, Any]]:
    part = getattr(problem, "partition", None)
    return [("partition", f"{part['name']}, sha256 {part['sha256'][:12]}...")] if part else []


def _solve_on_ball(problem: Any, radius: float | None, gap: float, seed: int, as_json: bool, out: Path | None) -> None:
    from fedtheory.cli.on_ball import choose_radius, facts_on_ball
    from fedtheory.provenance import provenance

    with progress("certifying the optimum"):
        radius, radius_from = choose_radius(problem, radius)
        optimum = problem.optimum_on_ball(radius, gap)
    result = {
        "problem": _about_problem(problem),
        "radius": radius,
        "radius_from": radius_from,
        "optimum": asdict(optimum),
        "constants": {
            "lipschitz": problem.lipschitz(radius),
            "lipschitz_exact": problem.lipschitz_exact(radius),
            "lipschitz_rms": problem.lipschitz_rms(radius),
            "mu_k": problem.strong_convexity(),
        },
        "provenance": provenance(seed),
    }
    path = save(out, _slug("solve", problem.name), result)
    if as_json:
        emit(result)
        return
    console = out_console()
    console.print(f"[bold]{problem.name}[/bold]: {type(problem).__name__}, N = {problem.num_clients} clients, d = {problem.dim}")
    rows = _optimum_rows(optimum, "KKT residual") + facts_on_ball(problem, optimum, radius, radius_from)
    console.print(_facts(rows + _partition_rows(problem)))
    if path:
        console.print(f"wrote {path}")


def solve(
    name: str | None, options: dict[str, Any], gap: float | None, seed: int, as_json: bool, out: Path | None
) -> None:
    """Print, and write on request, the certified optimum; on a ball where there is a radius or no smoothness."""
    from fedtheory.cli.on_ball import is_smooth
    from fedtheory.provenance import provenance

    problem = _problem(name, options, seed)
    if options.get("radius") is not None or not is_smooth(problem):
        _solve_on_ball(problem, options.get("radius"), 1e-9 if gap is None else gap, seed, as_json, out)
        return
    gap = 1e-12 if gap is None else gap
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
    rows = [
        *_optimum_rows(optimum, "||gradient|| at x*"),
        ("beta = max beta_k", f"{c.beta:.10g}{exact}; clients {spread}"),
        ("beta, mu of F", f"{c.beta_joint:.10g}, {c.mu:.10g}"),
        ("dissimilarity at x*", f"{c.dissimilarity_sq:.10g} (weighted mean of ||grad f_k(x*)||^2)"),
    ]
    console.print(_facts(rows + _partition_rows(problem)))
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
    from fedtheory.cli.on_ball import is_smooth

    flags = {
        "steps": "--local-steps", "lr": "--local-lr", "batch": "--batch-size", "epochs": "--epochs",
        "decay": "--lr-decay", "l1": "--local-l1",
    }  # fmt: skip
    own = {"fedmls": "sliding", "subgradient": "none"}.get(algorithm.name)  # methods with local steps of their own
    if own and o["name"] is not None:
        raise InvalidInput(f"--local-solver {o['name']}: {algorithm.name} has local steps of its own; leave the option out")
    smooth = is_smooth(problem)
    kind = own or o["name"] or ("exact" if smooth else "gradient")
    takes = {"exact": (), "none": (), "sliding": ("batch",), "gradient": ("steps", "lr", "decay", "l1"), "sgd": tuple(flags)}[kind]
    for key, flag in flags.items():
        if o[key] is not None and key not in takes:
            raise InvalidInput(f"{flag} does not apply to {algorithm.name if own else f'--local-solver {kind}'}")
    if kind in ("exact", "none"):
        return local.Exact()
    if kind == "sliding":
        return local.SubgradientSliding(batch_size=o["batch"])
    if o["lr"] is None and not smooth:
        raise InvalidInput(f"{problem.name} has no smoothness constant to take a step size from: give one with --local-lr")
    penalty = next((float(getattr(algorithm, name)) for name in ("l2", "mu", "alpha") if hasattr(algorithm, name)), 0.0)
    lr = o["lr"] if o["lr"] is not None else 1 / (float(problem.beta_k.max()) + penalty)
    common = {"decay": 1.0 if o["decay"] is None else o["decay"], "l1": o["l1"] or "subgradient"}
    if kind == "gradient":
        return local.GradientSteps(5 if o["steps"] is None else o["steps"], lr, **common)
    steps = 5 if o["steps"] is None and o["epochs"] is None else o["steps"]
    return local.SGD(10 if o["batch"] is None else o["batch"], lr, epochs=o["epochs"], steps=steps, **common)


def run(
    method: str,
    name: str | None,
    options: dict[str, Any],
    rounds: int | None,
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
    from fedtheory.cli.on_ball import choose_radius, in_cli_words, is_smooth, make_fedmls, start_of, with_theory_step
    from fedtheory.simulation import METRICS, simulate

    cls = algorithms.get(method)  # an unknown method is told before a problem is built
    problem = _problem(name, options, seed)
    x0, made, radius = start_of(options.get("start"), problem.dim), None, None
    if cls.name == "fedmls":
        _refuse_for_fedmls(options, participants, problem)
        with progress("certifying the optimum"):
            made = make_fedmls(problem, options, x0, rounds or "fewest", solver_options["batch"])
        algorithm, rounds, radius = made.algorithm, int(made.algorithm.rounds), made.radius
    else:
        if options.get("noise") is not None:
            raise InvalidInput(f"--noise is for fedmls, not for {method}")
        chosen = dict(options)
        rounds = 100 if rounds is None else rounds
        if not is_smooth(problem):
            with progress("certifying the optimum"):
                radius, radius_from = choose_radius(problem, chosen.get("radius"), x0)
            # a method without a ball of its own is only compared with the optimum there
            chosen["radius"] = radius if "radius" in {f.name for f in fields(cls)} else None
            if cls.name == "subgradient" and chosen.get("step") is None:
                chosen = with_theory_step(problem, chosen, x0, rounds)
        algorithm = make_algorithm(method, problem, chosen)
    sampling, solver = _sampling(participants, problem), _solver(solver_options, problem, algorithm)
    with progress("certifying the optimum"):
        optimum = problem.optimum() if radius is None else problem.optimum_on_ball(radius)
    titles = RUN_METRICS if radius is None else {k: v for k, v in RUN_METRICS.items() if k != "gradient_norm"}
    points = [np.broadcast_to(x0, (scenarios, problem.dim))] if radius is not None else []

    def after_round(t: int, old: Any, new: Any, clients: Any) -> None:
        if radius is not None:
            points.append(np.array(new.x))
        advance()

    with progress("rounds", rounds) as advance:
        try:
            trajectory = simulate(
                problem,
                algorithm,
                rounds,
                x0,
                sampling=sampling,
                scenarios=scenarios,
                seed=seed,
                local_solver=solver,
                record=tuple(titles) if radius is None else ("objective", "nonzeros", "entropy"),
                on_round=after_round,
                in_place=True,
            )
        except InvalidInput as error:
            raise in_cli_words(error) from error
    if radius is not None:  # measured against the optimum on the ball
        m, moved = trajectory.metrics, np.stack(points) - optimum.x
        suboptimality, distance = m["objective"] - optimum.value, np.linalg.norm(moved, axis=-1)
        trajectory.metrics = {"suboptimality": suboptimality, "distance": distance, **{k: m[k] for k in ("nonzeros", "entropy")}}
    result = {
        "method": algorithm.name,
        "source": algorithm.source,
        "hyperparameters": asdict(algorithm),
        "optimum": asdict(optimum),
        **({} if radius is None else {"radius": radius}),
        **({} if made is None else {"fedmls": made.to_json(made.algorithm.skip_last)}),
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
    head = f"[bold]{algorithm.name}[/bold] ({algorithm.source}) on [bold]{problem.name}[/bold]: "
    if made is not None:
        console.print(head + f"N = {problem.num_clients}, d = {problem.dim}")
        console.print(_facts(made.rows(made.algorithm.skip_last)))
    else:
        sizes = f"m = {problem.num_clients}, P = {participants or problem.num_clients}, d = {problem.dim}"
        trains = "" if algorithm.name == "subgradient" else f"; local solver {solver}"
        console.print(head + f"{sizes}{settings and ', '}{settings}{trains}")
        if radius is not None:
            console.print(f"F* is the optimum on the ball of radius {radius:g} ({radius_from})")
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    table.add_column("round", justify="right")
    for title in titles.values():
        table.add_column(title, justify="right")
    for t in sorted({0, rounds, *(int(r) for r in np.geomspace(1, rounds, min(rounds, 10)).round())}):
        cells = [f"{trajectory.metrics[m][t].mean():.4g}" if t or m not in ("nonzeros", "entropy") else "" for m in titles]
        table.add_row(str(t), *cells)
    console.print(table)
    over = f"means over {scenarios} scenarios; " if scenarios > 1 else ""
    console.print(f"{over}nonzeros: {METRICS['nonzeros']}; bits/entry: {METRICS['entropy']}", style="dim")
    console.print("wrote " + ", ".join(str(f) for f in files))


def _refuse_for_fedmls(options: dict[str, Any], participants: int | None, problem: Any) -> None:
    """Options of other methods, and cohorts, mean nothing to FedMLS."""
    foreign = [name for name in (*hyperparameters(), "l2_over_beta") if options.get(name) is not None]
    refuse_foreign("fedmls", [name for name in foreign if name not in ("rounds", "epsilon")])
    if participants is not None and participants != problem.num_clients:
        n = problem.num_clients
        raise InvalidInput(f"--participants {participants}: FedMLS needs all N = {n} clients in every round; leave it out")


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
    from fedtheory.cli.on_ball import start_of

    statement = find_statement(name)
    about_fedmls = statement.id.startswith("fedmls/")
    default = "lad" if about_fedmls else "quadratic"
    problem = _problem(problem_name or (None if options.get("data") else default), options, seed)
    x0 = start_of(options.get("start"), problem.dim)
    if about_fedmls:
        return _verify_fedmls(statement, problem, options, participants, x0, how, seed, as_json, out)
    if options.get("noise") is not None:
        raise InvalidInput("--noise is for statements about FedMLS")
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
        checks = statement.verify(problem, algorithm, sampling=sampling, x0=x0, seed=seed, **how)
    beta = float(problem.beta_k.max())
    head = (
        f"{problem.name}: m = {problem.num_clients}, "
        f"P = {participants or problem.num_clients}, d = {problem.dim}, lambda_1 = {algorithm.l1:g}, "
        f"lambda_2 = {algorithm.l2:.6g} = {algorithm.l2 / beta:.6g} beta, "
        + ("Algorithm 1" if first else f"{algorithm.rule} rule")
    )
    details = {"algorithm": {"name": algorithm.name, **asdict(algorithm)}, "sampling": repr(sampling)}
    return _tell_checks(statement, problem, checks, details, [head], seed, as_json, out)


def _verify_fedmls(
    statement: Any,
    problem: Any,
    options: dict[str, Any],
    participants: int | None,
    x0: np.ndarray,
    how: dict[str, Any],
    seed: int,
    as_json: bool,
    out: Path | None,
) -> int:
    """A statement about FedMLS: exact subgradients, or noisy ones with --noise."""
    from fedtheory.cli.on_ball import in_cli_words, make_fedmls

    _refuse_for_fedmls(options, participants, problem)
    if how["mode"] != "auto":
        raise InvalidInput(f"--mode {how['mode']}: a run of FedMLS is exact without --noise, and Monte Carlo with it; leave it out")
    rounds = how["rounds"]
    if rounds is None:  # Theorem 2 is about the printed K, which is enough for the fewest as well
        rounds = "printed" if any("printed" in f.requires for f in statement.forms) else "fewest"
    with progress("certifying the optimum"):
        made = make_fedmls(problem, options, x0, rounds)
    with progress("checking"):
        try:
            checks = statement.verify(problem, made.algorithm, x0=x0, seed=seed, scenarios=how["scenarios"])
        except InvalidInput as error:
            raise in_cli_words(error) from error
    rule = "noisy" if made.algorithm.noise_std else "exact"
    head = [f"{problem.name}: N = {problem.num_clients}, d = {problem.dim}, {rule} subgradients", _facts(made.rows(skip_last=False))]
    return _tell_checks(statement, problem, checks, {"algorithm": made.to_json(skip_last=False)}, head, seed, as_json, out)


def _tell_checks(
    statement: Any,
    problem: Any,
    checks: Any,
    details: dict[str, Any],
    head: list[Any],
    seed: int,
    as_json: bool,
    out: Path | None,
) -> int:
    """Write and print the checks; 1 when a form is violated that is on record as holding."""
    from fedtheory.provenance import provenance
    from fedtheory.report.tables import check_table

    unexpected = [
        c
        for c in checks
        if c.verdict == "violated" and statement.form(c.form).established.get(c.rule, "open") == "holds"
    ]
    result = {
        "statement": statement.id,
        "problem": _about_problem(problem),
        **details,
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
    console.print(Text(f"{statement.id}: {statement.title}", "bold"))
    for part in head:
        console.print(part)
    console.print()
    console.print(check_table(checks, console.width))
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
