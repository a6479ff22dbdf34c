"""Help on one method or statement: `run METHOD --help`, `verify STATEMENT --help`."""

from __future__ import annotations

import re
from typing import Any

from fedtheory.cli.help import Topic

__all__ = [
    "METHODS_OF_PAPERS", "OF_METHOD", "foreign_to", "method_topic", "own_options", "statement_topic",
    "worst_case_topic",
]

METHODS_OF_PAPERS = {  # whose hyperparameters `verify` and `proof` take
    "fedelasticnet": "fedelasticnet-dyn", "fedmls": "fedmls", "efl": "efl",
    "elastic-aggregation": "elastic-aggregation",
}  # fmt: skip
_STEPS = ("local_steps", "local_lr", "batch_size")
_SOLVED = ("local_solver", "local_steps", "local_lr")
_LOCAL = {  # by the local work of a method: what of it is on its page
    "": _SOLVED, "gradient": _SOLVED,
    "local-sgd": (*_STEPS, "lr_schedule", "inactive", "incomplete"),
    "sliding": ("batch_size",), "none": (),
}  # fmt: skip
_OF_SOLVERS = {*_SOLVED, "local_l1", "batch_size", "epochs", "lr_decay"}
_NOISE = "Noise of every subgradient (rms), in units of G (default 0)."
_EVERY = ("rounds", "participants")
_NOT_GIVEN = ("step", "rounds", "radius", "lipschitz", "allow_long")  # other options say these


def own_options(method: str) -> tuple[str, ...]:
    """A method's options: its hyperparameters, other words for them, the set of mopes and moles."""
    from fedtheory.central.plan import METHODS
    from fedtheory.cli.central import MINE, TAKES
    from fedtheory.cli.options import hyperparameters, taken_by

    if method in METHODS:
        found = [*(n for n in MINE if n != "allowance" or method == "moles"), *TAKES, "noise"]
        first: tuple[str, ...] = ("set", "epsilon", "noise")
    else:
        known = hyperparameters()
        found = sorted(taken_by(method), key=lambda n: n in known and method not in known[n].required)
        fedmls = method == "fedmls"
        first = ("epsilon", "noise") if fedmls else ("l1", "l2", "l2_over_beta", "epsilon")
    mine = dict.fromkeys((*(name for name in first if name in found), *found))
    return tuple(name for name in mine if name not in ("rounds", "allow_long"))


def foreign_to(method: str) -> frozenset[str]:
    """The options of `run` that a method refuses, whatever the problem and the local solver."""
    from fedtheory import algorithms
    from fedtheory.central.plan import METHODS
    from fedtheory.cli.central import MINE
    from fedtheory.cli.local_solvers import MEMORY_OPTIONS
    from fedtheory.cli.options import hyperparameters
    from fedtheory.cli.participation import PARTICIPATION_OPTIONS

    central = method in METHODS
    work = "sliding" if central else algorithms.get(method).local_work
    foreign = {*hyperparameters(), *MINE, "l2_over_beta", "epsilon"}
    if work in ("sliding", "none"):
        foreign |= {p.name for p in (*PARTICIPATION_OPTIONS, *MEMORY_OPTIONS)}
        foreign |= {"lr_schedule", "lr_delay", "noise"} | (_OF_SOLVERS - {*_LOCAL[work]})
    if work == "sliding":
        foreign |= {"participants"} | ({"scenarios"} if central else set())
    return frozenset(foreign - {*own_options(method), "rounds", "allow_long", "radius"})


def method_topic(method: str) -> Topic:
    """A method of `run`."""
    from fedtheory import algorithms
    from fedtheory.central.plan import METHODS
    from fedtheory.cli.list import about_method
    from fedtheory.cli.options import told_of

    central, row = method in METHODS, about_method(method)
    name = row["name"]
    own, work = own_options(name), "sliding" if central else algorithms.get(name).local_work
    foreign = foreign_to(name)
    words = told_of("fedmls" if central else name, own, row["options"])
    if "batch_size" in _LOCAL[work]:
        words["batch_size"] = "Samples of a mini-batch (default: all)."
    if "local_steps" in _LOCAL[work]:
        words["local_steps"] = f"Local steps in a round (default {algorithms.get(name).local_steps})."
    if "noise" in own:
        words["noise"] = _NOISE
    usual = ": what Theorem 2 needs" if name == "fedmls" else ": what the accuracy needs" if central else " 100"
    words["rounds"] = f"Rounds of communication (default{usual})."
    first = tuple(n for n in (*_LOCAL[work], *_EVERY) if n not in foreign)
    about = f"Run {name} on a problem ({row['source']})."
    return Topic(about, f"Options of {name}", own, first, foreign, words, _examples(name, row["options"]))


def _examples(method: str, options: dict[str, str]) -> tuple[str, ...]:
    """A run of the method with what it needs."""
    from fedtheory import algorithms
    from fedtheory.cli.options import example_of

    needed = (flag[2:].replace("-", "_") for flag, told in options.items() if told == "needed")
    given = " ".join(example_of(method, name) for name in needed)
    smooth = method in algorithms.names() and algorithms.get(method).local_work in ("", "gradient", "local-sgd")
    return (f"fedtheory run {method} {'diabetes' if smooth else 'lad'} {given}".strip(),)


def statement_topic(command: str, text: str) -> Topic | None:
    """A statement of `verify` or `proof`, also FILE.py::NAME, whose file is run; None for a paper or a whole file.
    """
    from fedtheory.cli.app import ALL, SHARED
    from fedtheory.cli.common import find_statement, in_file
    from fedtheory.cli.list import about_method
    from fedtheory.cli.options import told_of
    from fedtheory.theory.judge.registry import about_of

    file, inside = in_file(text)
    if (file is not None and not inside) or text.endswith("/"):
        return None
    statement = find_statement(text)
    told = about_of(statement)
    method = METHODS_OF_PAPERS.get(statement.id.partition("/")[0], "")
    why_not, takes, refused = told.refusal, told.takes, told.refuses
    own = () if why_not else _of_statement(statement, method, "X" in takes)
    if command == "verify":
        own = tuple(name for name in own if name != "scale")  # there it is the campaign's
    defaults = about_method(method)["options"] if method else {}
    words = told_of(method, own, {k: v for k, v in defaults.items() if v != "needed"})
    if "noise" in own:
        words["noise"] = _NOISE
    words["problem"] = "A named problem, or a file NAME.json (`fedtheory list problems`)."
    if takes:
        meaning = f"`fedtheory explain {text}` says what they are"
        words["given"] = f"The statement's own numbers: {', '.join(takes)} ({meaning})."
    if file and statement.scope in ("round", "fixed-point"):
        words["rounds"] = "Rounds before the one that is judged."
    about = f"{command.capitalize()} {statement.id}: {statement.title.rstrip('.')}."
    if why_not:
        about += f" It does not run on a problem of yours: {why_not}."
    first: tuple[str, ...] = ("json", "out")
    shown: list[str] = []
    lines = [f"fedtheory verify {file or statement.id.partition('/')[0] + '/'}"]  # where it is judged
    if not why_not:
        example = told.example or ""
        flags = re.findall(r"--([a-z0-9-]+)", example) if command == "verify" else ()
        shown = [flag.replace("-", "_") for flag in flags]
        cohorts = method != "fedmls" and "participants" not in refused
        some = ["problem", *["clients"] * bool(file), *["participants"] * cohorts]
        first = (*some, *shown, *["given"] * bool(takes), *_FIRST_OF[command])
        lines = [f"fedtheory {command} {text} {example}".rstrip()]
    return Topic(
        about, f"Options of {method}", own, first,
        _foreign_to_statement(own) - {*shown} | {*refused}, words,
        (*lines, f"fedtheory explain {text}"), not_groups=(ALL, SHARED),
    )  # fmt: skip


_FIRST_OF = {"verify": ("rounds", "figure", "out"), "proof": ("form", "round", "details", "figure")}


def _of_statement(statement: Any, method: str, on_a_set: bool) -> tuple[str, ...]:
    """Hyperparameters of the paper's method; of mopes and moles the set and the accuracy."""
    from fedtheory.cli.central import MINE
    from fedtheory.cli.options import of_messages

    if not on_a_set:
        return tuple(n for n in own_options(method) if n != "noise_std" and not of_messages(method, n)) if method else ()
    moles = statement.id.partition("/")[2].startswith("moles")
    sets = (n for n in MINE if moles or n != "allowance")
    return (*sets, "epsilon", "lam", "D", "noise", "local_training")


def _foreign_to_statement(own: tuple[str, ...]) -> frozenset[str]:
    from fedtheory.cli.central import MINE
    from fedtheory.cli.options import hyperparameters

    every = {*hyperparameters(), *MINE, "l2_over_beta"}
    return frozenset(every - {*own, "allow_long", "rounds", "radius"})


OF_METHOD = {
    "mu": "Of FedProx: the factor of its proximal term (default L).",
    "alpha": "Of FedDyn: the factor of its proximal term (default L).",
    "l2": "Of FedElasticNet: lambda_2 (default 2 L).",
    "lam": "Of FedMLS and MOPES: lambda (default: best for the theorem).",
    "D": "Of FedMLS and MOPES: D~, which sets the local steps (default: exact solves).",
}


def worst_case_topic(method: str) -> Topic | None:
    """A method of `worst-case`; None for a class of one's own."""
    from dataclasses import fields

    from fedtheory.worst_cases.methods import OWN_WORK, class_of

    if ":" in method:
        return None
    cls = class_of(method)
    has, every = {f.name for f in fields(cls)}, set(OF_METHOD)
    own = tuple(n for n in ("step", *OF_METHOD) if n in has or (n == "step" and cls.local_work not in OWN_WORK))
    losses = ("lipschitz",) if cls.nonsmooth else ("smoothness", "strong_convexity", "heterogeneity")
    other = {"smoothness", "strong_convexity", "heterogeneity"} if cls.nonsmooth else set()
    foreign = ({"step", *every} - {*own}) | other | ({"participants"} if method in ("fedmls", "mopes") else set())
    foreign |= {"group"} if method == "mopes" else set()
    first = [
        "rounds", *(() if method == "mopes" else ("clients",)), "participants",
        *(() if cls.local_work in OWN_WORK else ("local_steps",)), "criterion", *losses,
        "distance", "lyapunov", "out",
    ]  # fmt: skip
    others = [f.name for f in fields(cls) if f.name not in (*OF_METHOD, *_NOT_GIVEN)]
    given = (
        f"Another setting of {method}: {', '.join(others)}; of any compressor contraction=1/2 "
        "(contraction_down of the server's), feedback=false."
    )
    about = (cls.__doc__ or "").partition("\n")[0].rstrip(".")
    return Topic(
        f"Bound what a method can end with at worst, with a proof in fractions. {about}.",
        f"Options of {method}", (*own, *["given"] * bool(others)), tuple(n for n in first if n not in foreign),
        frozenset(foreign), {"given": given} if others else {},
        (f"fedtheory worst-case {method} --rounds 2",),
    )  # fmt: skip
