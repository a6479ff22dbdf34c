"""The library's errors in the command line's words.

`allow_long=True` is --allow-long there, and `lr = 0.0` is --local-lr 0.0. An option is named only where
the command, the problem and the method that were asked for take it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from fedtheory.errors import InvalidInput

__all__ = ["check_digits", "here", "in_cli_words", "options_of", "running"]

_running: list[tuple[Any, Mapping[str, Any]]] = []

# options that the library has another word for; of several the one with the reported value is meant
ALIASES = {
    "num_clients": ("clients",), "share": ("held_out",), "lr": ("local_lr",),
    "decay": ("lr_decay",), "steps": ("local_steps",), "alpha": ("alpha_dirichlet",),
    "epsilon": ("for_epsilon",), "tau": ("server_tau",), "momentum": ("local_momentum",),
}
SOLVERS = {"GradientSteps": "gradient", "SGD": "sgd", "Exact": "exact", "LocalSGD": "local-sgd", "Momentum": "momentum", "Adam": "adam"}
# what to do, in the library's words and in those of an option that must be there
PHRASES = (
    ("set ridge > 0", "ridge", "set --ridge above 0"),
    ("add a ridge above that size", "ridge", "set --ridge above that size"),
    ("or a ridge", "ridge", "or set --ridge above 0"),
    ("add a ridge", "ridge", "set --ridge above 0"),
    ("raise lambda_2", "l2", "raise --l2 or --l2-over-beta"),
    ("lower the step size", "local_lr", "lower --local-lr"),
    ("raise scenarios", "scenarios", "raise --scenarios"),
    ("fewer scenarios", "scenarios", "fewer --scenarios"),
    ("fewer rounds", "rounds", "fewer --rounds"),
    ("lower the budget", "budget", "lower --budget"),
    ("begin it within fedtheory.limits.unlimited()", "allow_long", "pass --allow-long to begin it"),
    ("make the run longer", "rounds", "raise --rounds"),
    ("fewer clients", "clients", "fewer --clients"),
    ("fewer classes a client", "classes", "fewer --classes a client"),
    ("a larger epsilon", "epsilon", "a larger --epsilon"),
    ("pass a larger max_steps to go on", "allow_long", "pass --allow-long to go on"),
    ("a larger gap", "gap", "a larger --gap"),
    ("start elsewhere", "start", "start elsewhere (--start)"),
    ("enlarge the radius", "radius", "enlarge --radius"),
    ("give the radius", "radius", "give one with --radius"),
    ("start inside it", "start", "start inside it (--start)"),
    ("leave out the radius", "radius", "leave out --radius"),
    ("leave out the sampling", "participants", "leave out --participants"),
    ("or use Monte Carlo", "mode", "or use --mode monte-carlo"),
    ("by Monte Carlo", "mode", "by Monte Carlo (--mode monte-carlo)"),
    ("choose a first-order local solver", "local_solver", "use --local-solver gradient"),
    ("choose full gradient steps", "local_solver", "use --local-solver gradient"),
    ("instead of epochs", "epochs", "instead of --epochs"),
)  # fmt: skip
# ways out that the command line does not have
ABSENT = (
    (r",? or raise lambda_2(?: where the method has one)?", "l2"),
    (r"raise max_gib or ", "max_gib"),
)
_VALUE = r"(?:'[^']*'|-?\d[\d.e+-]*|-?inf|nan|None|True|False)"
_NAME = re.compile(r"('\w[^']* [^' ]+=[^']*')")  # of an instance: 'away: N=4 d=2 T=2 seed=0' is a name, not advice
_ONE_SOLVER = rf"(?:{'|'.join(SOLVERS)})(?:\(E, lr\))?(?![\w(.])"
_SOLVERS = re.compile(rf"\buse (?P<names>{_ONE_SOLVER}(?:(?:,? or |, ){_ONE_SOLVER})*)")


def options_of(command: Any, given: Mapping[str, Any]) -> dict[str, str]:
    """The options {name: flag} of a command that apply to the problem and the method given."""
    from fedtheory.cli.options import PROBLEM_OPTIONS, hyperparameters, taken_by
    from fedtheory.cli.problems import PROBLEMS

    flags = {p.name: [o for o in p.opts if o.startswith("--")] for p in command.params}
    left = {name: found[0] for name, found in flags.items() if found}
    named = PROBLEMS.get(given.get("problem") or "")
    if named is not None:
        every = {*(p.name for p in PROBLEM_OPTIONS)} - {"held_out", "max_conic_entries"}
        left = {n: f for n, f in left.items() if n not in every or n in named.takes}
    method = given.get("method")
    if isinstance(method, str):
        foreign = {*hyperparameters()} - {*taken_by(method), "allow_long", "rounds"}
        left = {n: f for n, f in left.items() if n not in foreign}
    if given.get("l2_over_beta") is not None and "l2" in left:
        left["l2"] = "--l2-over-beta, which makes --l2"
    return left


@contextmanager
def running(command: Any, given: Mapping[str, Any]) -> Iterator[None]:
    """Within it, `here` speaks for this command."""
    _running.append((command, given))
    try:
        yield
    finally:
        _running.pop()


def here(text: str) -> str:
    """`in_cli_words` of the command that is running."""
    return in_cli_words(text, options_of(*_running[-1]), _running[-1][1]) if _running else text


def in_cli_words(text: str, options: Mapping[str, str], given: Mapping[str, Any] | None = None) -> str:
    """The message with the names of options {name: flag} for the library's; given: their values."""

    of_statement = [str(one).partition("=")[0] for one in (given or {}).get("given") or ()]

    def flag(name: str, value: str) -> str | None:
        if name in of_statement:
            return None
        known = [n for n in (name, *ALIASES.get(name, ())) if n in options]
        as_given = [n for n in known if _same((given or {}).get(n), value)]
        return options[(as_given or known)[0]] if known else None

    def reported(match: re.Match[str]) -> str:
        value = match["value"].strip("'")
        if match["name"] in of_statement:
            return f"{match['before']}--given {match['name']}={value}"
        found = flag(match["name"], value)
        return match[0] if found is None else f"{match['before']}{found} {value}"

    def keyword(match: re.Match[str]) -> str:
        value = match["value"].strip("'")
        found = flag(match["name"], value)
        if found is None:
            return match[0]
        if value == "None":
            return f"leave {found} out"
        word = found if value in ("True", "...") else "--no-" + found[2:] if value == "False" else f"{found} {value}"
        return f"{match['verb']}{word}"

    def solvers(match: re.Match[str]) -> str:
        *others, last = (SOLVERS[name] for name in re.findall(r"[A-Z]\w+", match["names"]))
        return f"use --local-solver {', '.join(others)}{' or ' * bool(others)}{last}"

    pair = rf"(?P<before>^|, )(?P<name>\w+)(?: = | is )(?P<value>{_VALUE})(?![\w.])"
    head, colon, rest = text.partition(":")
    text = re.sub(pair, reported, head) + colon + rest
    if "participants" in options:
        text = re.sub(r"^cohort size P = (\d+)", rf"{options['participants']} \1", text)
    if "local_solver" in options:
        head, colon, rest = text.partition(": ")
        rest = re.sub(r"fedtheory\.local\.LocalSGD\(steps=(\d+), \.\.\.\)", r"LocalSGD --local-steps \1", rest)
        text = head + colon + _SOLVERS.sub(solvers, rest)
    argument = re.compile(rf"(?P<verb>(?:use |pass |give )?)(?<![(\w])(?P<name>\w+)=(?P<value>{_VALUE}|\.\.\.)")
    told = (piece if is_call else [argument.sub(keyword, p) if n % 2 == 0 else p for n, p in enumerate(_NAME.split(piece))]
            for piece, is_call in _calls(text))  # fmt: skip
    text = "".join("".join(piece) for piece in told)
    for words, name in ABSENT:
        if name not in options:
            text = re.sub(words, "", text)
    text = text.replace(", or None for", ", or leave it out for") if text.startswith("--") else text
    text = re.sub(r",? or pass (?!--)\w+=.*$", "", text)
    for words, name, instead in PHRASES:
        if name in options and options[name] not in text:
            text = text.replace(words, instead)
    return text


def _calls(text: str) -> Iterator[tuple[str, bool]]:
    """The text in pieces, and whether each is the arguments of Name(...), which are a value as
    Python writes it, not advice."""
    begin = at = depth = 0
    for at, c in enumerate(text):
        if c == "(" and (depth or text[at - 1 : at].isalnum() or text[at - 1 : at] == "_"):
            if not depth:
                yield text[begin:at], False
                begin = at
            depth += 1
        elif c == ")" and depth:
            depth -= 1
            if not depth:
                yield text[begin : at + 1], True
                begin = at + 1
    yield text[begin:], depth > 0


def _same(given: Any, value: str) -> bool:
    """True if an option was given this value."""
    try:
        return given is not None and (str(given) == value or float(given) == float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def _overflows(text: str) -> bool:
    """True if digits make a number that floats have infinity for."""
    try:
        return text.strip("+-")[:1] in set("0123456789.") and math.isinf(float(text))
    except ValueError:
        return False


def _type_of(param: Any) -> str:
    """The type of an option in words: its annotation, or 'integer' from a Typer that keeps none."""
    told = getattr(param, "type_descriptor", None)
    return str(param.type.name) if told is None else str(told.annotation)


def check_digits(params: Sequence[Any], args: Sequence[str]) -> None:
    """Raise `InvalidInput` for a number that is written otherwise than in the digits 0 to 9: Python would read 1_0 as 10."""
    kinds = {flag: _type_of(p) for p in params for flag in p.opts if flag.startswith("-")}
    for word, after in zip(args, [*args[1:], ""]):
        flag, equals, value = word.partition("=")
        if word[:1] == "-" != word[1:2] and len(word) > 2:  # -T10
            flag, equals, value = word[:2], "=", word[2:]
        value = value if equals else after
        number = re.search(r"\b(int|float)", kinds.get(flag, ""))
        if number and value and (not value.isascii() or "_" in value or len(value) > 100):
            raise InvalidInput(f"{flag} {value[:40]!r}: write a number in the digits 0 to 9, at most 100 of them")
        if number and number[0] == "float" and _overflows(value):
            raise InvalidInput(f"{flag} {value}: too large for a number here; the largest is about 1.8e308")
