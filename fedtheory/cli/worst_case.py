"""`fedtheory worst-case`: what a method can end with at worst, with a proof in fractions; and the check of such a proof."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from fedtheory.cli.common import emit, out_console, progress, writing
from fedtheory.cli.worst_function import check_instance, show_instance, write_instance
from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.untrusted import ratio

__all__ = ["exact", "plain", "replay_certificate", "tell_proof", "worst_case", "written"]

PARSED_DIGITS = 60


def exact(name: str, text: str) -> Fraction:
    """An option's number as it is written: '1/3', '0.1', '2'."""
    try:
        if len(text) > PARSED_DIGITS or "e" in text.lower():
            raise ValueError
        return ratio(text)
    except (ValueError, ZeroDivisionError):
        raise InvalidInput(f"{name} {text}: write a number such as 2, 0.25 or 1/3") from None


def written(found: Any, out: Path | None, name: str) -> Path | None:
    """The certificate's file, once it is checked; None where no folder is given."""
    from fedtheory.worst_cases import certificates as files

    proof = files.certificate(found)
    files.verify(proof)
    if out is None:
        return None
    with writing(out):
        return files.write(out / f"{name}.json", proof)


def worst_case(
    method: str, clients: int, participants: int | None, local_steps: int, rounds: int,
    criterion: str, numbers: dict[str, str | None], options: dict[str, str | None], as_json: bool,
    out: Path | None, instance: Path | None = None,
) -> None:
    """Compute, prove, print, and write the certificate; with ``instance`` the worst losses, too."""
    participants = clients if participants is None else participants
    if participants > clients or participants < 1:
        raise InvalidInput(f"--participants {participants} of --clients {clients}: at least 1 and at most all take part")
    if instance is not None:
        check_instance(instance, False, method, clients)
    found = _rounds(method, clients, participants, local_steps, rounds, criterion, numbers, options)
    path = written(found, out, _name(found.asked))
    told = _told(found, clients, participants) | {"certificate": None if path is None else str(path)}
    if instance is not None:
        told |= {"instance": write_instance(found, instance)}
    if as_json:
        emit(told)
        return
    _show(told, found)
    tell_proof(path)
    if instance is not None:
        show_instance(told["instance"])


def _rounds(
    method: str, clients: int, participants: int, local_steps: int, rounds: int, criterion: str,
    numbers: dict[str, str | None], options: dict[str, str | None],
) -> Any:
    from fedtheory.worst_cases.bounds import worst_case as compute
    from fedtheory.worst_cases.classes import Losses
    from fedtheory.worst_cases.methods import METHODS

    if method == "efl":
        raise InvalidInput("efl: its constants of one round are computed: add --lyapunov")
    if method not in METHODS:
        raise InvalidInput(f"unknown method {method!r}: there are {', '.join(METHODS)}")
    given = {name: exact(f"--{name.replace('_', '-')}", text) for name, text in numbers.items() if text is not None}
    extra = {name: exact(f"--{name}", text) for name, text in options.items() if text is not None}
    smooth = METHODS[method].smooth
    if not smooth and {"smoothness", "strong_convexity", "heterogeneity"} & set(given):
        raise InvalidInput(f"{method}: its losses are convex with gradients of at most --lipschitz, and nothing else is asked")
    if smooth and "lipschitz" in given:
        raise InvalidInput(f"--lipschitz: of the losses of {method} the --smoothness is given instead")
    losses = Losses(
        given.pop("smoothness", Fraction(1)) if smooth else None,
        given.pop("strong_convexity", Fraction(0)),
        None if smooth else given.pop("lipschitz", Fraction(1)),
    )
    with progress("worst case") as bar:
        return compute(
            method, local_steps=local_steps, rounds=rounds, criterion=criterion, losses=losses,
            clients=clients, participants=participants, announce=bar.say, **given, **extra,
        )


def _name(question: Any) -> str:
    """The file's name."""
    numbers = {"L": question["smoothness"], "sc": question["strong convexity"],
               "G": question["lipschitz"], **question["options"], "zeta": question["heterogeneity"],
               "R": question["distance"]}
    if question["participants"] < question["clients"] or question["clients"] == 1:
        numbers |= {"N": question["clients"], "P": question["participants"]}
    given = "".join(f"-{name}{str(number).replace('/', '_')}" for name, number in numbers.items() if number is not None)
    return f"{question['method']}-K{question['local steps']}-T{question['rounds']}-{question['criterion']}{given}"


def _told(found: Any, clients: int, participants: int) -> dict[str, Any]:
    """Return what --json prints."""
    common = {"method": found.asked["method"], "clients": clients, "participants": participants, "status": "proved"}
    numbers = found.solution.numbers
    grows = {name: float(numbers[name]) for name in ("start", "heterogeneity") if name in numbers}
    return common | {
        "bound": float(found.bound), "bound_exact": str(found.bound), "solver": found.best,
        "grows_with": grows, "asked": plain(found.asked),
    }


def plain(value: Any) -> Any:
    """Fractions as texts, also inside of mappings."""
    if isinstance(value, Mapping):
        return {name: plain(x) for name, x in value.items()}
    return str(value) if isinstance(value, Fraction) else value


def tell_proof(path: Path | None) -> None:
    """Say where the certificate is, and how it is checked."""
    if path is not None:
        out_console().print(f"\nThe proof in fractions: {path}", soft_wrap=True)
        out_console().print(f"Check it without a solver: fedtheory replay {path}", soft_wrap=True)


def _show(told: dict[str, Any], found: Any) -> None:
    from fedtheory.worst_cases.bounds import CRITERIA
    from fedtheory.worst_cases.methods import METHODS

    console, asked, method = out_console(), told["asked"], METHODS[told["method"]]
    options = ", ".join(f"{name} = {_short(number)}" for name, number in asked["options"].items())
    losses = (
        f"convex losses, gradients of at most {asked['lipschitz']}"
        if asked["smoothness"] is None
        else f"losses of smoothness {asked['smoothness']} and strong convexity {asked['strong convexity']}"
    )
    steps = f"K = {asked['local steps']}, " if method.takes_steps(asked["options"]) else _sliding_steps(found.asked)
    console.print(Text(f"{told['method']}: T = {asked['rounds']}, {steps}{options}", "bold"))
    console.print(f"{method.about}.", soft_wrap=True)
    own = "" if asked["heterogeneity"] is None else f", root mean square of the clients' gradients at x* <= {asked['heterogeneity']}"
    console.print(f"{losses}; ||x_0 - x*|| <= {asked['distance']}{own}", soft_wrap=True)
    drawn = asked["participants"] < asked["clients"]
    all_alike = "one loss" if method.one_loss else "one client" if asked["clients"] == 1 else "any number of clients from 2 on"
    who = f"{asked['participants']} of {asked['clients']} clients" if drawn else all_alike
    what = CRITERIA[asked["criterion"]]
    if drawn:  # of the best gap it is the least expectation, not the expectation of the least
        what = what.replace("F(x_t)", "E F(x_t)") if asked["criterion"] == "best-gap" else f"E {what}"
    table = Table(f"{who}, any dimension", what)
    table.add_row("upper bound, by the solver" if method.relaxed else "worst case, by the solver", f"{told['solver']:.9g}")
    table.add_row("proved in fractions: at most", f"{told['bound']:.9g}")
    console.print(table)
    if method.relaxed:
        console.print(f"An upper bound on the worst case: {method.relaxed}.", soft_wrap=True)
    numbers = found.solution.numbers
    start, zeta = (float(numbers.get(name, 0)) for name in ("start", "heterogeneity"))
    if asked["distance"] == "0" or asked["heterogeneity"] == "0":
        return  # the multiplier of a number that is 0 is any large one
    more = "" if asked["heterogeneity"] is None else f" and by {zeta:.4g} with the mean square of the clients' gradients at x*"
    rest = ", and with G" if asked["lipschitz"] is not None else ""
    console.print(f"The bound grows by {start:.4g} with ||x_0 - x*||^2{more}{rest}.", soft_wrap=True)


def _sliding_steps(asked: Any) -> str:
    """T_k of FedMLS and MOPES, whose last round has none that matter."""
    from fedtheory.algorithms.fedmls import local_steps

    options, rounds = asked["options"], asked["rounds"]
    if "D" not in options or rounds < 2:
        return ""
    counts = [local_steps(k, options["lam"], options["D"], rounds, asked["lipschitz"]) for k in range(1, rounds)]
    return f"T_k = {', '.join(map(str, counts))}, "


def _short(number: str) -> str:
    return number if len(number) < 8 else f"{float(Fraction(number)):.6g}"


def replay_certificate(path: Path, as_json: bool) -> None:
    """Check a certificate file in fractions and say what it proves."""
    from fedtheory.worst_cases import certificates as files

    found = files.load(path)
    try:
        files.verify(found)
    except FedTheoryError as error:
        raise type(error)(f"{path}: not proved: {error}") from error
    told = {
        "question": dict(found.question), "verdict": "proved", "mode": "proved",
        "claim": {name: str(number) for name, number in found.claim.items()},
        "multipliers": len(found.multipliers),
    }
    if as_json:
        emit(told)
        return
    console = out_console()
    console.print(Text(", ".join(f"{name}: {value}" for name, value in found.question.items()), "bold"), soft_wrap=True)
    for name, number in found.claim.items():
        console.print(f"{name} = {number} = {float(number):.9g}", soft_wrap=True)
    sizes = " and ".join(f"{len(of.names)} x {len(of.names)}" for of in found.factors.values())
    console.print(f"proved: {len(found.multipliers)} multipliers, none negative; L D L' of matrices {sizes}, D >= 0; all in fractions")
