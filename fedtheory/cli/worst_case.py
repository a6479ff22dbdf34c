"""`fedtheory worst-case`: what a method can end with at worst, with a proof in fractions; and the check of such a proof."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from fedtheory.cli.common import emit, out_console, progress, writing
from fedtheory.cli.options import given_values
from fedtheory.cli.worst_function import check_instance, check_losses, show_instance, write_instance
from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.limits import announce, must_end
from fedtheory.untrusted import ratio

if TYPE_CHECKING:
    from fedtheory.worst_cases.classes import Losses
    from fedtheory.worst_cases.groups import Group

__all__ = ["checked", "exact", "in_file_names", "method_of", "plain", "replay_certificate", "tell_proof", "worst_case", "written"]

PARSED_DIGITS = 60
GROUP = re.compile(r"\s*([^\s,:]+)(?:,?\s+(one|\d+)\s+clients?)?\s*:(.*)")
OF_A_GROUP = {"L": "smoothness", "mu": "strong_convexity", "G": "lipschitz"}
TRIED, TRIED_MORE = 0.025, 3.6e-6  # seconds of one inequality that is left out: alone, and times the square of their number


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

    proof, subject = files.certificate(found), getattr(found.question, "subject", None)
    own = getattr(found.question, "criterion", None)
    files.verify(proof, None if subject is None else type(subject.plain), None if isinstance(own, str) else own)
    if out is None:
        return None
    with writing(out):
        return files.write(out / f"{name}.json", proof)


def worst_case(
    method: str, clients: int | None, participants: int | None, local_steps: int, rounds: int,
    criterion: str, numbers: dict[str, str | None], options: dict[str, Any], as_json: bool,
    out: Path | None, instance: Path | None = None, fewest: bool = False,
) -> None:
    """Compute, prove, print, and write the certificate; with ``instance`` the worst losses, too.

    fewest : leave out the inequalities that can be left out
    """
    if clients is not None and participants is not None and not 1 <= participants <= clients:
        raise InvalidInput(f"--participants {participants} of --clients {clients}: at least 1 and at most all take part")
    if instance is not None:
        check_instance(instance, False, 2 if clients is None else clients)
    q = _question(method, clients, participants, local_steps, rounds, criterion, numbers, options)
    if instance is not None:
        check_losses(q)
    with progress("worst case") as bar:
        from fedtheory.worst_cases.bounds import answer

        found = answer(q, bar.say)
        found = with_fewest(found) if fewest else found
        path = written(found, out, _name(found.asked, method, criterion))
    told = _told(found) | {"certificate": None if path is None else str(path)}
    if instance is not None:
        told |= {"instance": write_instance(found, instance)}
    if as_json:
        emit(told)
        return
    _show(told, found)
    tell_proof(path, found, method, criterion)
    if instance is not None:
        show_instance(told["instance"], own_options(method, criterion))


def checked(multipliers: Any, factors: Any) -> str:
    """Say in words which part of a proof has been checked."""
    sizes = " and ".join(f"{len(of.names)} x {len(of.names)}" for of in factors.values()) or "none"
    count = f"{len(multipliers)} multiplier" + "s" * (len(multipliers) != 1)
    return f"{count}, of inequalities none negative; L D L' of matrices {sizes}, D >= 0; all in fractions"


def with_fewest(found: Any) -> Any:
    """A worst case with a proof of as few inequalities as can be found."""
    from fedtheory.worst_cases.bounds import BOUND
    from fedtheory.worst_cases.readable import fewest, inequalities

    count = len(inequalities(found.family, found.solution.numbers))
    what, seconds = f"{count:,} inequalities, each tried to be left out", count * (TRIED + TRIED_MORE * count**2)
    must_end(what, seconds, "go without --fewest, or take fewer --rounds or local steps")
    announce(what, seconds)
    solution = fewest(found.family, BOUND, found.solution)
    return replace(found, solution=solution, bound=-solution.numbers.get(BOUND, Fraction(0)))


def method_of(name: str) -> Any:
    """The class of a method: FILE.py:CLASS or MODULE:CLASS, which is imported, or a name.

    Raises
    ------
    UnknownName, InvalidInput
        As `class_of`; what is no class of methods.
    """
    from fedtheory.algorithms import Algorithm
    from fedtheory.cli.audit import named
    from fedtheory.worst_cases.methods import class_of

    if ":" not in name:
        if name.endswith(".py"):
            raise InvalidInput(f"{name}: name the class as well, as in {name}:MyMethod")
        return class_of(name)
    found = named(name, "method", lambda v: isinstance(v, type) and issubclass(v, Algorithm) and v is not Algorithm)
    if not (isinstance(found, type) and issubclass(found, Algorithm)):
        raise InvalidInput(f"{name} is no method: a class of fedtheory.algorithms.Algorithm is needed, with init and round")
    return found


def criterion_of(name: str) -> Any:
    """A named criterion, or the function FILE.py:FUNCTION, which is imported."""
    from fedtheory.cli.audit import named

    return named(name, "criterion") if ":" in name else name


def _question(
    method: str, clients: int | None, participants: int | None, local_steps: int, rounds: int, criterion: str,
    numbers: dict[str, str | None], options: dict[str, Any],
) -> Any:
    from fedtheory.worst_cases.bounds import asked

    cls = method_of(method)
    given: dict[str, Any] = {
        name: exact(f"--{name.replace('_', '-')}", text) for name, text in numbers.items() if text is not None
    }
    groups = options.pop("group", None) or ()
    extra = given_values(options.pop("given", None)) or {}
    extra |= {name: exact(f"--{name}", text) for name, text in options.items() if text is not None}
    losses = grouped(groups, cls.nonsmooth, given) or _losses(method, cls.nonsmooth, given)
    return asked(cls, extra, local_steps, rounds, criterion_of(criterion), losses, clients=clients, participants=participants, **given)


def grouped(texts: Sequence[str], nonsmooth: bool, given: Mapping[str, Any]) -> list[Group]:
    """The groups as they are typed, beside which nothing else may be said of the losses."""
    found = [_group(text, nonsmooth) for text in texts]
    if texts and (twice := sorted({*OF_A_GROUP.values()} & {*given})):
        raise InvalidInput(f"--{twice[0].replace('_', '-')} with --group: say it in every group, as in --group '1/2: L=2 mu=1/10'")
    return found


def told_groups(asked: Mapping[str, Any], any_number: bool) -> list[str]:
    """Each group of clients in words."""
    many = ("2 clients or more" if any_number else f"{of['clients']} clients" for of in asked.get("groups", {}).values())
    pairs = zip(asked.get("groups", {}).values(), many, strict=True)
    return [f"share {of['share']}, {'one client' if of['clients'] == 1 else n}: {_of_losses(of)}" for of, n in pairs]


def hash_of(groups: Mapping[str, Any]) -> str:
    """The part of a file's name that tells the groups."""
    return sha256(repr(plain(groups)).encode()).hexdigest()[:10]


def _losses(who: str, nonsmooth: bool, given: dict[str, Any]) -> Losses:
    """The class that the numbers say, which are taken out of ``given``."""
    from fedtheory.worst_cases.classes import Losses

    smooth = not nonsmooth and "lipschitz" not in given
    if not smooth and {"smoothness", "strong_convexity", "heterogeneity"} & set(given):
        raise InvalidInput(f"{who}: its losses are convex with gradients of at most G (--lipschitz), and nothing else is asked")
    return Losses(
        given.pop("smoothness", Fraction(1)) if smooth else None,
        given.pop("strong_convexity", Fraction(0)),
        None if smooth else given.pop("lipschitz", Fraction(1)),
    )


def _group(text: str, nonsmooth: bool) -> Group:
    """A group as it is typed: '9/10: L=1 mu=1/10' or '1/2, one client: L=2'."""
    from fedtheory.worst_cases.groups import Group

    found, told = GROUP.fullmatch(text), f"--group {text!r}"
    words = [] if found is None else [word.partition("=") for word in found[3].replace(",", " ").split()]
    if found is None or any(name not in OF_A_GROUP or not number for name, _, number in words):
        raise InvalidInput(f"{told}: write a share and numbers L, mu or G, as in '9/10: L=1 mu=1/10' or '1/2, one client: L=2'")
    if len({name for name, *_ in words}) < len(words):
        raise InvalidInput(f"{told}: a number is given twice")
    given = {OF_A_GROUP[name]: exact(f"{told}: {name}", number) for name, _, number in words}
    clients = None if found[2] is None else 1 if found[2] == "one" else int(found[2][:9])
    return Group(exact(f"{told}: share", found[1]), _losses(told, nonsmooth, given), clients)


def in_file_names(given: str, name: str) -> str:
    """The part of a file's name that tells a method or a criterion: its name, or where one's own is, as it was named,
    since two files may have classes of one name."""
    where, colon, own = given.rpartition(":")
    if not colon:
        return name
    return re.sub(r"[^A-Za-z0-9_]+", "-", f"{where.removesuffix('.py').replace('..', 'up')}-{own}").strip("-")


def _name(asked: Any, method: str, criterion: str) -> str:
    """The file's name; ``method`` and ``criterion`` as they were named."""
    numbers = {"L": asked.get("smoothness"), "sc": asked.get("strong convexity"), "G": asked.get("lipschitz")}
    if groups := asked.get("groups"):
        numbers["groups"] = hash_of(groups)
    numbers |= asked["options"] | {"zeta": asked["heterogeneity"], "R": asked["distance"]}
    if asked["participants"] < asked["clients"] or asked["clients"] == 1:
        numbers |= {"N": asked["clients"], "P": asked["participants"]}
    given = "".join(f"-{name}{str(number).replace('/', '_')}" for name, number in numbers.items() if number is not None)
    of, by = in_file_names(method, asked["method"]), in_file_names(criterion, asked["criterion"])
    return f"{of}-K{asked['local steps']}-T{asked['rounds']}-{by}{given}"


def _told(found: Any) -> dict[str, Any]:
    """Return what --json prints."""
    asked, numbers = found.asked, found.solution.numbers
    grows = {name: float(numbers[name]) for name in ("start", "heterogeneity") if name in numbers}
    return {
        "method": asked["method"], "clients": asked["clients"],
        "participants": asked["participants"], "status": "proved", "bound": float(found.bound),
        "bound_exact": str(found.bound), "solver": found.best, "grows_with": grows,
        "every_number_of_clients": found.any_number, "asked": plain(asked),
    }  # fmt: skip


def plain(value: Any) -> Any:
    """Fractions as texts, also inside of mappings."""
    if isinstance(value, Mapping):
        return {name: plain(x) for name, x in value.items()}
    return str(value) if isinstance(value, Fraction) else value


def own_options(method: str = "", criterion: str = "") -> str:
    """Options of `replay` for a method and a criterion of one's own, as they were named."""
    return "".join(f" --{n} {v}" for n, v in (("method", method), ("criterion", criterion)) if ":" in v)


def tell_proof(path: Path | None, found: Any, method: str = "", criterion: str = "") -> None:
    """Say where the certificate of what was found is, and how it is checked; ``method`` and
    ``criterion`` as they were named."""
    if path is not None:
        from fedtheory.cli.coq import has_theorem

        own = own_options(method, criterion)
        out_console().print(f"\nThe proof in fractions: {path}", soft_wrap=True)
        out_console().print(f"Check it without a solver: fedtheory replay {path}{own}", soft_wrap=True)
        read = "Read it: replay it with --proof proof.tex, or proof.py, a script that checks itself"
        out_console().print(read, soft_wrap=True)
        if has_theorem(found):
            out_console().print("Have Coq check it: replay it with --coq proof.v", soft_wrap=True)


def _show(told: dict[str, Any], found: Any) -> None:
    from fedtheory.worst_cases.bounds import assumed
    from fedtheory.worst_cases.criteria import CRITERIA
    from fedtheory.worst_cases.readable import inequalities

    console, asked, subject = out_console(), told["asked"], found.question.subject
    options = ", ".join(f"{name} = {_short(value)}" for name, value in asked["options"].items())
    groups = asked.get("groups", {})
    weigh = ", all clients of one weight" if groups and found.question.losses.grow_alike else ""
    losses = f"{len(groups)} groups of clients{weigh}" if groups else _of_losses(asked)
    work = _own_steps(subject, asked["rounds"]) or "local problems solved"
    steps = work if subject.local_steps is None else f"K = {subject.local_steps}"
    parts = [f"T = {asked['rounds']}", steps, options]
    console.print(Text(f"{told['method']}: {', '.join(filter(None, parts))}", "bold"), soft_wrap=True)
    if (about := first_line(type(subject.plain))) is not None:
        console.print(about, soft_wrap=True)
    own = "" if asked["heterogeneity"] is None else f"; root mean square of the clients' gradients at x* <= {asked['heterogeneity']}"
    for line in told_groups(asked, found.any_number):
        console.print(line, soft_wrap=True)
    console.print(losses, soft_wrap=True)
    own += "".join(f"; {words}" for words in assumed(found.question).values())
    console.print(f"||x_0 - x*|| <= {asked['distance']}{own}", soft_wrap=True)
    drawn = asked["participants"] < asked["clients"]
    many = "any number of clients from 2 on" if found.any_number else f"{asked['clients']} clients"
    all_alike = "one loss" if subject.one_loss else "one client" if asked["clients"] == 1 else many
    all_alike = "everybody" if groups else all_alike
    who = f"{asked['participants']} of {asked['clients']} clients" if drawn else all_alike
    what = CRITERIA.get(asked["criterion"], asked["criterion"])
    if drawn or found.flips:  # of the best gap it is the least expectation, not the expectation of the least
        what = what.replace("F(x_t)", "E F(x_t)") if asked["criterion"] == "best-gap" else f"E {what}"
    table = Table(f"{who}, any dimension", what)
    table.add_row("upper bound, by the solver" if found.relaxed else "worst case, by the solver", f"{told['solver']:.9g}")
    table.add_row("proved in fractions: at most", f"{told['bound']:.9g}")
    table.add_row("inequalities in the proof", str(len(inequalities(found.family, found.solution.numbers))))
    console.print(table)
    if found.relaxed:
        console.print(f"An upper bound on the worst case: {found.relaxed}.", soft_wrap=True)
    numbers = found.solution.numbers
    start, zeta = (float(numbers.get(name, 0)) for name in ("start", "heterogeneity"))
    if asked["distance"] == "0" or asked["heterogeneity"] == "0":
        return  # the multiplier of a number that is 0 is any large one
    begins = assumed(found.question).items()
    also = [(words.partition(" is at most")[0], float(numbers.get(name, 0))) for name, words in begins]
    joined = "," if also else " and"
    more = "" if asked["heterogeneity"] is None else f"{joined} by {zeta:.4g} with the mean square of the clients' gradients at x*"
    more += "".join(f" and by {by:.4g} with {of}" for of, by in also)
    rest = ", and with G" if found.question.losses.lipschitz is not None else ""
    console.print(f"The bound grows by {start:.4g} with ||x_0 - x*||^2{more}{rest}.")


def _of_losses(of: Mapping[str, Any]) -> str:
    """A class of losses in words."""
    if of["smoothness"] is None:
        return f"convex losses, gradients of at most {of['lipschitz']}"
    return f"losses of smoothness {of['smoothness']} and strong convexity {of['strong convexity']}"


def first_line(cls: type) -> str | None:
    """The first line of a class's docstring; None where a dataclass has none but its own."""
    line = (cls.__doc__ or "").partition("\n")[0]
    return None if not line or line.startswith(f"{cls.__name__}(") else line


def _own_steps(subject: Any, rounds: int) -> str:
    """T_k of FedMLS and MOPES, whose last round has none that matter; '' of other methods."""
    from fedtheory.algorithms import FedMLS

    method: Any = subject.algorithm
    if not isinstance(method, FedMLS):
        return "" if subject.made.local_work != "none" else "no local steps"
    counts = [] if method.solved else [method.steps(k) for k in range(1, rounds)]
    return f"T_k = {', '.join(map(str, counts))}" if counts else ""


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) < 8 or not text[0].isdigit() else f"{float(Fraction(text)):.6g}"


def check_files(path: Path, question: Mapping[str, Any], method: Any, criterion: Any) -> None:
    """Raise `InvalidInput` where a file is about a method or a criterion of a user's that is not given."""
    for option, own, key in (("method", method, "source"), ("criterion", criterion, "criterion source")):
        if own is None and isinstance(of := question.get(key), str):
            of = of.partition(", sha256")[0]
            raise InvalidInput(f"{path} is about {of}: name its file as well, --{option} {of}; the file is run")


def replay_certificate(
    path: Path, as_json: bool, method: str | None = None, criterion: str | None = None,
    proof: Path | None = None, coq: Path | None = None,
) -> None:  # fmt: skip
    """Check a certificate file in fractions and say what it proves; ``coq``: the file of its theorem."""
    from fedtheory.cli.coq import ask_coq, check_coq
    from fedtheory.worst_cases import certificates as files
    from fedtheory.worst_cases import criteria, methods

    check_coq(coq)
    found = files.load(path)
    cls = None if method is None else method_of(method)
    function = None if criterion is None else criterion_of(criterion)
    check_files(path, found.question, cls, function)
    try:
        with progress("checking the proof"):
            files.verify(found, cls, function)
    except FedTheoryError as error:
        raise type(error)(f"{path}: not proved: {error}") from error
    if proof is not None:
        from fedtheory.worst_cases.readable import of_certificate, write_proof

        with writing(proof.parent):
            write_proof(proof, of_certificate(found, cls, function))
    theorem, in_coq = ask_coq(coq, found, cls, function)
    told = {
        "question": dict(found.question), "verdict": "proved", "mode": "proved",
        "claim": {name: str(number) for name, number in found.claim.items()},
        "multipliers": len(found.multipliers), **theorem,
    }
    sources = {"source": (method, cls, methods.source_of), "criterion source": (criterion, function, criteria.source_of)}
    made_with = {key: found.question.get(key) == of(own) for key, (_, own, of) in sources.items() if own is not None}
    if as_json:
        emit(told | ({"made_with_these_files": all(made_with.values())} if made_with else {}))
        return
    console = out_console()
    console.print(Text(files.in_words(found.question), "bold"), soft_wrap=True)
    for name, number in found.claim.items():
        equal = "" if str(number) == f"{float(number):.9g}" else f" = {float(number):.9g}"
        console.print(f"{name} = {number}{equal}", soft_wrap=True)
    for key in (key for key, same in made_with.items() if not same):
        told_of = f"The file of {sources[key][0]} is not the one that the certificate was made with"
        console.print(f"{told_of}; it is proved for this one.", soft_wrap=True)
    console.print(f"proved: {checked(found.multipliers, found.factors)}")
    if proof is not None:
        console.print(f"The proof to read: {proof}", soft_wrap=True)
    for line in in_coq:
        console.print(line, soft_wrap=True)
