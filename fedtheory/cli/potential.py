"""`fedtheory worst-case --lyapunov`: the best constants of a one-round bound, beside those that are printed."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from fedtheory.cli.common import emit, out_console, progress
from fedtheory.cli.options import given_values
from fedtheory.cli.worst_case import exact, in_file_names, method_of, plain, tell_proof, written
from fedtheory.errors import InvalidInput

__all__ = ["free", "lyapunov", "refuse"]

NUMBERS = ("rho", "kappa_0", "kappa", "c")
FLAGS = {"ratio": "--l2-over-beta", "B": "--dissimilarity", "step": "--step", "mu": "--mu"}
SHORT = 12  # characters of a fraction that is shown as it is
OF_RUNS = "that is about values after some rounds, and --lyapunov about one; leave it out"


def lyapunov(
    method: str, clients: int, participants: int | None, local_steps: int,
    given: Mapping[str, str | None], options: Mapping[str, str | None], refused: Mapping[str, Any],
    as_json: bool, out: Path | None,
) -> None:
    """Compute, prove, print, and write the certificate.

    ``given``: smoothness, strong_convexity, rho, kappa_0 and c as written; ``options``: of the method; ``refused``: what the
    user gave that only values after some rounds have.
    """
    from fedtheory.worst_cases.potentials import BISECTIONS, one_round
    from fedtheory.worst_cases.rounds import ROUNDS

    for flag, value in refused.items():
        raise InvalidInput(f"{flag} {value} with --lyapunov: {OF_RUNS}")
    if method not in ROUNDS:
        raise InvalidInput(f"--lyapunov: potentials are of {', '.join(ROUNDS)}, not of {method}")
    has = ROUNDS[method].options
    for name, text in options.items():
        if text is not None and name not in has:
            raise InvalidInput(f"{FLAGS.get(name, f'--{name}')} {text}: no option of {method} with --lyapunov, which has {_flags(has)}")
    if "ratio" in has and options.get("ratio") is None:
        raise InvalidInput("--lyapunov: lambda_2/beta is needed: add --l2-over-beta 2")
    asked: dict[str, Any] = {
        name: exact(f"--{name.replace('_', '-')}", text) for name, text in given.items()
        if text is not None and text != "least"
    } | {name: exact(FLAGS[name], text) for name, text in options.items() if text is not None}
    if given.get("rho") == "least":
        asked["rho"] = "least"
    least = asked.get("rho") == "least"
    with progress("least rho" if least else "constants", BISECTIONS if least else None) as bar:
        found = one_round(method, clients=clients, participants=participants, local_steps=local_steps, advance=bar, **asked)
    path = written(found, out, _name(found.question, least))
    told = _told(found, least) | {"certificate": None if path is None else str(path)}
    emit(told) if as_json else _show(told, found, path)


def free(
    method: str, clients: int, participants: int | None, local_steps: int,
    given: Mapping[str, str | None], options: Mapping[str, Any], refused: Mapping[str, Any],
    as_json: bool, out: Path | None,
) -> None:
    """Compute the best quadratic potential, prove, print, and write the certificate."""
    from fedtheory.worst_cases.classes import Losses
    from fedtheory.worst_cases.quadratic_potentials import BISECTIONS, answer, potential_question

    for flag, text in refused.items():
        raise InvalidInput(f"{flag} {text} with --free: the best quadratic potential has no such number; leave it out")
    cls = method_of(method)
    if cls.nonsmooth:
        raise InvalidInput(f"--free: {method} is about losses with bounded subgradients, and a least rho about smooth ones")
    numbers = {name: exact(f"--{name.replace('_', '-')}", text) for name, text in given.items() if text is not None}
    losses = Losses(numbers.get("smoothness", Fraction(1)), numbers.get("strong_convexity", Fraction(1, 10)))
    chosen = given_values(options.get("given")) or {}
    chosen |= {n: exact(f"--{n}", text) for n, text in options.items() if n != "given" and text is not None}
    q = potential_question(cls, chosen, local_steps, losses, clients, participants)
    named: dict[str, Any] = {**q.subject.options, "K": q.subject.local_steps or 1, "mu": losses.strong_convexity}
    named |= {"N": clients, "P": q.participants}
    of = "".join(f"-{n}{_short(v)}" for n, v in named.items())
    with progress("least rho", 2 * BISECTIONS) as bar:
        found = answer(q, bar)
        path = written(found, out, f"{in_file_names(method, q.subject.name)}-quadratic{of}")
    told = {
        "method": q.subject.name, "clients": clients, "participants": q.participants, "status": "proved",
        "rho": float(found.rho), "rho_exact": str(found.rho), "solver": found.best, "at_least": found.below,
        "c": float(found.c), "c_exact": str(found.c), "value": str(found.value),
        "potential": {block: {f"{f}, {g}": str(x) for (f, g), x in of.items()} for block, of in found.matrices.items()},
        "asked": plain(q.asked), "certificate": None if path is None else str(path),
    }  # fmt: skip
    emit(told) if as_json else _show_free(told, found, path, method)


def _show_free(told: dict[str, Any], found: Any, path: Path | None, method: str) -> None:
    console, q = out_console(), found.question
    options = ", ".join(f"{n} = {v}" for n, v in q.subject.options.items())
    steps = f", K = {q.subject.local_steps}" if q.subject.local_steps else ""
    who = "any number of clients, who all take part" if found.any_number else f"{q.participants} of {q.clients} clients"
    console.print(Text(f"{told['method']}: {who}{steps}{', ' * bool(options)}{options}", "bold"), soft_wrap=True)
    console.print(f"losses of smoothness {q.losses.smoothness} and strong convexity {q.losses.strong_convexity}", soft_wrap=True)
    noise = " + c zeta^2, zeta^2 = mean ||grad f_k(x*)||^2" if found.c else ""
    console.print(Text(f"E V+ <= rho V{noise}, V >= ||x - x*||^2", "cyan"), soft_wrap=True)
    table = Table("the best quadratic V", "rho", *["c"] * bool(found.c))
    table.add_row("proved here", f"{told['rho']:.6f}", *[_number(told["c"])] * bool(found.c))
    table.add_row("least, by the solver", f"{found.best:.6f}", *[""] * bool(found.c))
    table.add_row("none is below, by equal parabolas", f"{found.below:.6f}", *[""] * bool(found.c))
    console.print(table)
    console.print(f"V = {_written(found)}", soft_wrap=True)
    console.print("Its coefficients are fractions, here to twelve digits where long; the certificate and --json have them whole.")
    if 0 < found.rho < 1:
        floor = " down to the noise" if found.c else ""
        console.print(f"So E V falls like {told['rho']:.6g}^T{floor}: to a tenth in {_rounds(told['rho'])} rounds.")
    tell_proof(path, method)


def _exactly(x: Fraction) -> str:
    """A fraction as it is where that is short, else to twelve digits."""
    return str(x) if len(str(x)) <= SHORT else f"{float(x):.12g}"


def _written(found: Any) -> str:
    """V as a sum: of the means over the clients, and of the deviations from them, each less what it is at the optimum."""
    parts, at_x = [], found.at_x
    for block, of in found.matrices.items():
        for (f, g), x in of.items():
            f, g = ("grad F(x)" if n == at_x else n.removesuffix("'") for n in (f, g))
            what = f"||{f}||^2" if f == g else f"<{f}, {g}>"
            parts.append(f"{_exactly(x)} {what}" if block == "mean" else f"{_exactly(x)} mean ({what} of deviations)")
    if found.value:
        parts.append(f"{_exactly(found.value)} (F(x) - F*)")
    return " + ".join(parts).replace("+ -", "- ")


def refuse(of_one_round: Mapping[str, Any]) -> None:
    """Options of one round where values after some rounds are asked."""
    for flag, text in of_one_round.items():
        if text is not None:
            raise InvalidInput(f"{flag}{f' {text}' * (text is not True)}: that is about one round; add --lyapunov")


def _flags(names: Any) -> str:
    return ", ".join(FLAGS[name] for name in names)


def _name(question: Any, least: bool) -> str:
    """The file's name."""
    q, plain = question, {"feddyn": "l2", "fedelasticnet-dyn": "l2"}
    numbers = {plain.get(q.method, name) if name == "ratio" else name: x for name, x in q.options.items()}
    if q.smoothness != 1:
        numbers["L"] = q.smoothness
    if q.strong_convexity != 0:
        numbers["sc"] = q.strong_convexity
    if q.rho != 1:
        numbers["rho"] = q.rho
    numbers |= q.fixed
    steps = f"-K{q.local_steps}" if q.local_steps != 1 else ""
    middle = "".join(f"-{'least-rho' if name == 'rho' and least else f'{name}-{_short(x)}'}" for name, x in numbers.items())
    return f"{q.method}{steps}{middle}-N{q.clients}-P{q.participants}"


def _short(number: Any) -> str:
    return str(number).replace("/", "_")


def _told(found: Any, least: bool) -> dict[str, Any]:
    """Return what --json prints."""
    q = found.question
    exact = {name: getattr(found, name) for name in NUMBERS}
    return {
        "method": q.method, "clients": q.clients, "participants": q.participants,
        "status": "proved", **{name: float(x) for name, x in exact.items()},
        **{f"{name}_exact": str(x) for name, x in exact.items()},
        "sought": "rho" if least else "kappa_0" if q.goal == "kappa_0" else "c",
        "solver": found.best, "beside": _beside(q),
        "asked": plain(q.written),
    }


def _beside(question: Any) -> list[dict[str, Any]]:
    """List what is printed or proved elsewhere of the same round: source, numbers, and 'outside'.
    'outside' says why a row claims nothing of this round; None where it does."""
    from fedtheory.worst_cases.literature import printed

    rows = _of_fedelasticnet(question) if "ratio" in question.options else printed(question)
    return [
        {
            "source": row.source, "outside": row.outside,
            **{n: None if row.outside or n not in row.numbers else float(row.numbers[n]) for n in NUMBERS},
        }
        for row in rows
    ]  # fmt: skip


def _of_fedelasticnet(question: Any) -> list[Any]:
    """The theorems on FedElasticNet, and FedDyn's closed form; all of them are about convex losses, rho = 1."""
    from fedtheory.theorems.fedelasticnet import notation
    from fedtheory.theorems.fedelasticnet.quantities import ElasticConstants
    from fedtheory.worst_cases.literature import Printed
    from fedtheory.worst_cases.potentials import feddyn_kappas

    ratio, N, P = float(question.options["ratio"]), question.clients, question.participants
    constants = ElasticConstants(N, P, 1.0, 0.0, ratio)
    of = {
        "FedElasticNet, Theorem 3.1, printed": (lambda: constants.printed, notation.PRINTED_THRESHOLD),
        "FedElasticNet, Theorem 3.1, repaired": (lambda: constants.printed, notation.REPAIRED_THRESHOLD),
        "its Theorem B, the sign rule with a floor": (lambda: constants.theorem_b, notation.THEOREM_B_THRESHOLD),
        "its Theorem A": (lambda: constants.theorem_a, notation.THEOREM_A_THRESHOLD),
        "its Theorem E": (lambda: constants.theorem_e, notation.THEOREM_E_THRESHOLD),
    }
    rows = []
    for source, (numbers, limit) in of.items():
        if ratio > limit:
            _, kappa, kappa_0 = numbers()
            rows.append(Printed(source, {"rho": 1, "kappa_0": kappa_0, "kappa": kappa}))
        else:  # its constants need not exist there: at lambda_2 = 5 beta those printed divide by 0
            rows.append(Printed(source, {}, f"lambda_2 > {limit:.5g} beta"))
    if question.method == "feddyn":
        rows.append(Printed("closed form, proved for all N, P, lambda_2", {"rho": 1, "kappa_0": feddyn_kappas(ratio, N, P)}))
    return rows


def _show(told: dict[str, Any], found: Any, path: Path | None) -> None:
    from fedtheory.worst_cases.rounds import ROUNDS

    console, q, kind = out_console(), found.question, ROUNDS[told["method"]]
    options = ", ".join(f"{'lambda_2/beta' if name == 'ratio' else name} = {x}" for name, x in q.options.items())
    steps = f", K = {q.local_steps}" if kind.local_steps else ""
    least = "curvature of at least" if q.strong_convexity < 0 else "strong convexity"
    losses = f"losses of smoothness {q.smoothness} and {least} {q.strong_convexity}"
    console.print(Text(f"{kind.about}: N = {q.clients}, P = {q.participants}{steps}, {options}", "bold"), soft_wrap=True)
    console.print(losses if "ratio" not in q.options else losses.replace("smoothness 1", "smoothness beta = 1"))
    console.print(Text(",\n".join(kind.says(q.options)), "cyan"), soft_wrap=True)
    columns = [name for name in NUMBERS if name in ("rho", "kappa_0") or told[name] or any(row[name] for row in told["beside"])]
    outside = ["asks, and is not met"] if any(row["outside"] for row in told["beside"]) else []
    table = Table("constants", *columns, *outside)
    for row in told["beside"]:
        shown = ("-" if row["outside"] else _number(row[name]) for name in columns)
        table.add_row(row["source"], *shown, *([row["outside"]] if outside else []))
    table.add_row("proved here", *(_number(told[name]) for name in columns))
    table.add_row("best, by the solver", *(_number(told["solver"]) if name == told["sought"] else "" for name in columns))
    console.print(table)
    console.print(_follows(told), soft_wrap=True)
    tell_proof(path)


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def _follows(told: dict[str, Any]) -> str:
    """Say what the inequality means for a run."""
    if told["method"] == "fedprox":
        mean = f"{_number(1 / told['kappa_0'])} (F(x_0) - F*)/T"
        return f"So the mean of ||grad F||^2 over T rounds is at most {mean} where B bounds the gradients in each."
    if told["rho"] > 1:
        return "With rho > 1 the bound on V grows from round to round: it says nothing of many rounds."
    if told["rho"] < 1:
        floor = f", up to a floor of {_number(told['c'] / (1 - told['rho']))} times the noise" if told["c"] > 0 else ""
        return f"So E V falls like {told['rho']:.7g}^T{floor}: to a tenth in {_rounds(told['rho'])} rounds."
    if told["method"] == "fedelasticnet-dyn":
        return "The last term is not shown to vanish: a bound, not convergence."
    if told["kappa_0"] <= 0:
        return "With rho = 1 and kappa_0 = 0 this bounds V, and no more."
    floor = f" + {_number(told['c'] / told['kappa_0'])} times the noise" if told["c"] > 0 else ""
    what = "R(gamma) - R*" if told["method"] == "feddyn" else "D"
    return f"So E of {what}, averaged over T rounds, is at most {_number(1 / told['kappa_0'])} V_0/T{floor}."


def _rounds(rho: float) -> int:
    from math import ceil, log

    return ceil(log(10) / -log(rho))
