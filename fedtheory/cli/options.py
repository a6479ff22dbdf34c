"""Options that several commands share, and those made from the registry of methods (a new method brings its own)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from fractions import Fraction
from functools import cache, wraps
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import typer

from fedtheory.errors import InvalidInput
from fedtheory.inputs import require

if TYPE_CHECKING:
    from fedtheory.algorithms import Algorithm
    from fedtheory.messages import Compressor

__all__ = [
    "FEDMLS_OPTIONS", "GIVEN_OPTIONS", "PROBLEM_OPTIONS", "RADIUS", "RENAMED", "SET_OPTIONS",
    "Hyperparameter", "compressor_of", "defaults_of", "example_of", "flag", "given_values",
    "hyperparameter_options", "hyperparameters", "make_algorithm", "of_fields", "of_messages",
    "refuse_foreign", "refuse_given", "settings_of", "taken_by", "told_of", "with_options",
    "words_of",
]

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def flag(name: str) -> str:
    """'l2_over_beta' -> '--l2-over-beta'."""
    return f"--{name.replace('_', '-')}"


def refuse_given(given: Mapping[str, Any], why: str, example: str = "") -> None:
    """Raise `InvalidInput` that names the options which were given, where there are any.

    example : a command that takes the first of them
    """
    named = [flag(name) for name, value in given.items() if value is not None and value is not False]
    if named:
        raise InvalidInput(f"{', '.join(named)}: {why}" + f", as in `{example} {named[0]} ...`" * bool(example))


def option(name: str, kind: Any, default: Any, text: str, panel: str, off: bool = False, **more: Any) -> inspect.Parameter:
    """A keyword-only parameter that typer reads as an option; `off`: a switch with an opposite."""
    names = f"{flag(name)}/{flag('no_' + name)}" if off else flag(name)
    info = typer.Option(default, names, help=text, rich_help_panel=panel, show_default=default is not None, **more)
    return inspect.Parameter(name, _KEYWORD, default=info, annotation=kind)


def with_options(*groups: Iterable[inspect.Parameter]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add options to a command; it receives them through its ``**options``."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        taken = {p.name for p in own}  # FedMLS's K is the --rounds of a run
        extra = [p for group in groups for p in group if p.name not in taken]
        command.__signature__ = signature.replace(parameters=[*own, *extra])  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in (*own, *extra)}
        return command

    return add


def of_fields(cls: type, rest: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make options of the annotated fields of a dataclass; the command receives them as its ``o``.

    rest : the field with the options that `with_options` adds
    """
    hints = get_type_hints(cls, include_extras=True)
    annotated = [f for f in fields(cls) if get_origin(hints[f.name]) is Annotated]
    mine = [inspect.Parameter(f.name, _KEYWORD, default=f.default, annotation=hints[f.name]) for f in annotated]

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(command, eval_str=True)
        own = [p for p in signature.parameters.values() if p.name != "o"]

        @wraps(command)
        def made(**given: Any) -> Any:
            kept, of = ({p.name: given.pop(p.name) for p in params} for params in (own, mine))
            return command(**kept, o=cls(**of, **{rest: given}))

        made.__signature__ = signature.replace(parameters=[*own, *mine])  # type: ignore[attr-defined]
        return made

    return add


_DATA, _BALL, _SET = "The problem's data", "Nonsmooth problems", "MOPES and MOLES"
_LOSSES = Literal["logistic", "least-squares", "huber", "softmax", "lad", "quantile", "hinge"]
PROBLEM_OPTIONS = (
    option("data", Path | None, None, "A LIBSVM/svmlight file (plain, .gz or .bz2) instead of a named problem.", _DATA, metavar="FILE"),
    option("dimension", int | None, None, "Dimension of the file's features, or of a random problem.", _DATA),
    option("clients", int | None, None, "Number of clients m.", _DATA),
    option("loss", _LOSSES | None, None, "Loss of a data set.", _DATA),
    option("tau", float | None, None, "Level of the quantile loss (default 0.25).", _DATA),
    option("partition", Literal["iid", "dirichlet", "classes"] | None, None, "How data are dealt to clients (default iid).", _DATA),
    option("alpha_dirichlet", float | None, None, "Concentration of --partition dirichlet (default 0.3).", _DATA),
    option("classes", int | None, None, "Classes a client of --partition classes (default 2).", _DATA),
    option("ridge", float | None, None, "Ridge penalty: ridge/2 ||x||^2 in every client's loss.", _DATA),
    option("standardise", bool | None, None, "Standardise the features of --data.", _DATA),
    option("held_out", float | None, None, "Share of every client's samples that is not trained on.", _DATA),
    option(
        "max_conic_entries", int | None, None,
        "Leave cvxpy out of the certified optimum where its cone programme has more entries (default: never).", _DATA,
    ),
    option("for_epsilon", float | None, None, "The accuracy that a hard instance is made for (default 0.1; the chain 0.05).", _DATA),
)  # fmt: skip

_R = (
    "R of the ball ||x|| <= R for nonsmooth problems (default: the least power of 2 whose ball "
    "holds a minimiser)."
)
_NOISE = "Noise of every subgradient (rms): of fedmls in units of G, of local-sgd as it is."
RADIUS = (option("radius", float | None, None, _R, _BALL),)
FEDMLS_OPTIONS = (
    option("noise", float | None, None, _NOISE, _BALL),
    option("start", str | None, None, "x_0, as in --start=1,0,-2, or one number for all coordinates (default 0).", "Start"),
)


SET_OPTIONS = (
    option(
        "set", Literal["ball", "box", "simplex", "l1-ball", "nuclear-ball", "consensus"] | None, None,
        "X, over which mopes and moles minimise (default ball).", _SET,
    ),
    option("set_size", float | None, None, "S of the set (default 1).", _SET),
    option("set_shape", str | None, None, "Rows and columns of the nuclear ball's matrices, as in 2x3.", _SET),
    option(
        "allowance", float | None, None,
        "C of moles: projections stop at a Wolfe gap of C/(4K) (default diameter^2).", _SET,
    ),
)  # fmt: skip


_GIVEN = "A number of the theorem itself, as --given G=3; FILE.py::NAME alone is proved with it."
_KEEP = "Folder to keep every form that is judged in fractions, for `fedtheory replay`."
GIVEN_OPTIONS = (
    option("given", list[str] | None, None, _GIVEN, "With a statement", metavar="NAME=VALUE"),
    option("keep", Path | None, None, _KEEP, "With a statement", metavar="FOLDER"),
)


def given_values(texts: Iterable[str] | None) -> dict[str, Any] | None:
    """--given NAME=VALUE as a dict: whole numbers, fractions and floats, lists of them, and words;
    None where nothing is given.
    """
    out: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise InvalidInput(f"--given {text}: write it as --given NAME=VALUE, for example --given G=3")
        if name in out:
            raise InvalidInput(f"--given {name}: it is given twice")
        if re.search(r",\s*\w+=", value):
            raise InvalidInput(f"--given {text}: write --given anew for every NAME=VALUE")
        parts = [_number_or_word(part) for part in value.split(",")]
        out[name] = parts if "," in value else parts[0]
    return out or None


def _number_or_word(text: str) -> Any:
    for kind in (int, float, Fraction):
        try:
            return kind(text.strip())
        except (ValueError, ZeroDivisionError):
            continue
    return text.strip()


@dataclass(frozen=True)
class Hyperparameter:
    """One hyperparameter, the methods that have it, and each one's default ('' where it needs the number or has none)."""

    name: str
    kind: Any
    choices: tuple[str, ...]
    methods: tuple[str, ...]
    required: tuple[str, ...]
    defaults: tuple[str, ...]


# of one whose meaning depends on the method: by method, '' for the others
_WORDS: dict[str, str | dict[str, str]] = {
    "l1": "lambda_1, weight of the l1 penalty. ", "l2": "lambda_2, weight of the squared penalty. ",
    "rule": "How line 5 stores the gradient. ",
    "epsilon": {
        "fedmls": "The accuracy, in units of G ||x_0 - x*|| (default 0.2). ",
        "": "The threshold below which entries are not sent (default 0.0). ",
    },
    "lam": {
        "fedmls": "lambda, in place of epsilon/G^2. ", "efl": "lambda of the elastic term. ",
        "fedamp": "lambda, by which clients are pulled. ",
    },
    "server_tau": {
        "elastic-aggregation": "tau: the server's factors lie between tau and 1 + tau. ",
        "": "tau: the server divides by sqrt(v) + tau, and v begins at tau^2. ",
    },
    "mu": {
        "fedprox": "The weight mu/2 of ||w - w^t||^2. ",
        "elastic-aggregation": "The share that the moving average over batches keeps. ",
    },
    "zero": "zeta where no parameter of a layer moves the output: one is 1, boost 1 + tau, "
    "error stops. ",
    "ema": "The moving average that starts at 0: as printed or corrected. ",
    "sign": "Sign of the server's step: as printed or repaired. ",
    "probe_batch": "Batches on which the sensitivity is measured (default: all samples at once). ",
    "layers": "The largest sensitivity is that of a module, a tensor or the whole model. ",
    "D": "D~, in place of ||x_0 - x*||^2. ",
    "lipschitz": "G, in place of the problem's. ",
    "compressor": "How clients compress, as in top-k:q=0.1 (fedtheory list compressors). ",
    "down_compressor": "How the server compresses its step. What else it sends is whole. ",
    "control_compressor": "How clients compress the change of their control variate. ",
    "control": "The change of c_k: sent, or recovered from the update. ",
    "stored": "A client keeps the gradient of its own update, or of what is received. ",
    "scheme": "Coefficients of clients that do part of the work. ", "variant": "Which reading of Algorithm 1. ",
    "scale": "The coefficient multiplies before or after the compressor. ",
    "departed": "The pair (u, v) of a client that has left: remove it, or go on with it, stale. ",
    "aggregation": "Weights of the cohort's models: samples (by samples in the cohort), cohort "
    "(alike), or printed (by samples over everybody's). ",
    "send": "A client sends its model, or the update, which a compressor takes. ",
    "client_feedback": "What a client's compressor leaves out is added to its next message. ",
    "server_feedback": "The same of the server's compressor. ",
    "option": "The new control variate: the models' difference, or the gradient at the server's "
    "model. ",
    "initial": "The control variates at the start. ",
    "server_lr": "The server's step size. ",
    "alpha": {
        "feddyn": "The penalty's weight. ", "apfl": "The share of a client's own model. ",
        "fedamp": "The server's step size. ",
    },
    "sigma": {
        "fedmls": "The noise that T_k reckons with; none is added. ",
        "fedamp": "The scale of the attention, in units of ||x - x'||^2. ",
    },
    "p": "The probability that a round communicates, in (0, 1]. ",
    "noise_std": "Noise of every subgradient (rms), as it is. ",
    "average": "Line 14 takes the averaged point, or the last, as printed. ",
    "server_projection": "The server projects z_k onto the ball. ",
    "norm": "Inner product on N copies: their mean, or product, the sum. ",
    "skip_last": "Skip the last round's local work, which the result does not depend on. ",
    "local_training": "sliding is T_k subgradient steps, exact-prox exact local solves. ",
    "allow_long": "Start a run that is estimated to take more than an hour. ",
    "step": "h of the subgradient method. ",
    "schedule": "Its steps: constant h, h/sqrt(t) (inverse-sqrt), or hold-and-cut. ",
    "output": "Its result: the last point, or the average. ", "hold": "Rounds for which hold-and-cut keeps h. ",
    "cut": "Factor on h in every round after them. ",
    "momentum": "beta of the server's momentum. ", "lite": "MimeLite: no correction by control variates. ",
    "adaptive": "Each client learns its mixture alpha, too. ",
    "fisher": "Which Fisher diagonal (default: gram for quadratic losses, else model). ",
}  # fmt: skip


RENAMED = {"tau": "server_tau"}  # --tau is a problem's: the level of a quantile
WIRE: dict[str, dict[str, Any]] = {  # the options of `algorithms.Compressed`, by the message that a method lets it compress
    "up": {"compressor": None, "client_feedback": True},
    "down": {"down_compressor": None, "server_feedback": True},
    "control": {"control_compressor": None},
}


def _without_none(hint: Any) -> Any:
    """int | None -> int."""
    some = [a for a in get_args(hint) if a is not NoneType]
    return some[0] if get_origin(hint) in (Union, UnionType) and len(some) == 1 else hint


def compressor_of(text: str, option: str = "--compressor") -> Compressor:
    """'top-k:q=0.1' -> TopK(q=0.1); parameters are separated by commas. Errors name the option."""
    from fedtheory import messages

    name, _, rest = text.partition(":")
    cls = messages.get(name)
    kinds = {f.name: _without_none(get_type_hints(cls)[f.name]) for f in fields(cls)}
    known, given = ", ".join(kinds), {}
    for part in filter(None, rest.split(",")):
        key, _, value = part.partition("=")
        if key not in kinds:
            raise InvalidInput(f"{option} {text}: {cls.name} has no parameter {key!r}, it takes {known}")
        given[key] = _value(kinds[key], value, f"{option} {text}")
    bare = [f.name for f in fields(cls) if f.init and f.default is MISSING and f.default_factory is MISSING]
    needed = [n for n in bare if n not in given]
    if needed:
        example = ",".join([*rest.split(",")] * bool(rest) + [f"{n}={_EXAMPLES.get(n, '...')}" for n in needed])
        lacks = f"{cls.name} takes {known}, and {', '.join(needed)} is missing"
        raise InvalidInput(f"{option} {text}: {lacks}, as in {option} {cls.name}:{example}")
    try:
        return cls(**given)
    except InvalidInput as error:
        either = f"give one of the two, as in {option} {cls.name}:q=0.1"
        raise InvalidInput(f"{option} {text}: {str(error).replace('give one of the two', either)}") from error
    except TypeError as error:
        raise InvalidInput(f"{option} {text}: {cls.name} takes {known}") from error


_EXAMPLES = {"q": "0.1", "k": "10", "levels": "4"}
# of the hyperparameters that a method needs: their range, and a value that is in it
_RANGES = {
    "mu": "a number >= 0, as in --mu 0.1",
    "alpha": "a number > 0, as in --alpha 0.1",
    "l1": "a number >= 0, as in --l1 0.1",
    "l2": "a number > 0, as in --l2-over-beta 30",
    "lam": "a number >= 0, as in --lam 1",
    "sigma": "a number > 0, as in --sigma 1",
    "p": "a number in (0, 1], as in --p 0.3",
}



def example_of(method: str, name: str) -> str:
    """A hyperparameter that the method needs, with a value that is in its range."""
    return {**_RANGES, **_OWN_RANGES.get(method, {})}[name].rpartition("as in ")[2]


_OWN_RANGES = {"apfl": {"alpha": "a number from 0 to 1, as in --alpha 0.5"}}


def _value(kind: Any, text: str, whole: str) -> Any:
    """The text as a number, a truth value or a word, whatever the parameter takes."""
    if text in ("True", "true", "False", "false"):
        return text in ("True", "true")
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    if kind is str or get_origin(kind) is Literal:
        return text
    raise InvalidInput(f"{whole}: {text!r} is not a number")


@cache
def hyperparameters() -> dict[str, Hyperparameter]:
    """All hyperparameters of all registered methods."""
    from fedtheory import algorithms
    from fedtheory.messages import Compressor

    found: dict[str, Hyperparameter] = {}
    for method in algorithms.names():
        cls = algorithms.get(method)
        hints = get_type_hints(cls, localns={"Compressor": Compressor})
        for name, default in defaults_of(cls).items():
            hint = _without_none(hints.get(_FIELDS.get(name, name), bool if name.endswith("feedback") else Compressor))
            hint = next((of for of in get_args(hint) if get_origin(of) is Literal), hint)  # a run has its words, not its numbers
            choices = tuple(get_args(hint)) if get_origin(hint) is Literal else ()
            before = found.get(name, Hyperparameter(name, str if choices else hint, (), (), (), ()))
            needed = default is MISSING
            shown = "" if needed or default is None else str(default)
            found[name] = Hyperparameter(
                name, before.kind, tuple(dict.fromkeys((*before.choices, *choices))),
                (*before.methods, method),
                (*before.required, method) if needed else before.required,
                (*before.defaults, shown),
            )
    return found


_FIELDS = {new: old for old, new in RENAMED.items()}


def defaults_of(cls: type[Algorithm]) -> dict[str, Any]:
    """The options of a method with their defaults (MISSING: none), those of its compressed messages included."""
    own = {
        RENAMED.get(f.name, f.name): f.default_factory() if callable(f.default_factory) else f.default
        for f in fields(cls)
    }
    wire = {name: default for message in cls.compresses for name, default in WIRE.get(message, {}).items()}
    return own | {n: cls.error_feedback if n == "client_feedback" else default for n, default in wire.items()}


def of_messages(method: str, name: str) -> bool:
    """True of an option that makes a method `algorithms.Compressed`, which statements about the method leave out."""
    from fedtheory import algorithms

    return any(name in options for m, options in WIRE.items() if m in algorithms.get(method).compresses)


def settings_of(algorithm: Algorithm) -> dict[str, Any]:
    """The hyperparameters of a method, by its options' names where it is `algorithms.Compressed`."""
    from fedtheory.algorithms import Compressed

    if not isinstance(algorithm, Compressed):
        return {f.name: getattr(algorithm, f.name) for f in fields(algorithm)}
    told: dict[str, Any] = settings_of(algorithm.method)
    for message, (option, feedback) in {"up": ("compressor", "client"), "down": ("down_compressor", "server")}.items():
        if getattr(algorithm, message) is not None:
            told |= {option: getattr(algorithm, message), f"{feedback}_feedback": algorithm.feeds(message)}
    return told | ({} if algorithm.control is None else {"control_compressor": algorithm.control})


def _described(h: Hyperparameter) -> str:
    """Describe a hyperparameter by its type and meaning, from the first docstring that has it."""
    from fedtheory import algorithms

    own = _FIELDS.get(h.name, h.name)
    entry = rf"^    (?:\w+, )*{own}(?:, \w+)* : (.*(?:\n {{8}}.*)*)"
    found = re.search(entry, algorithms.get(h.methods[0]).__doc__ or "", re.MULTILINE)
    return " ".join(found[1].split()).rstrip(".") + ". " if found else ""


def words_of(h: Hyperparameter, method: str = "") -> str:
    """The sentence on a hyperparameter, of one method or of all that have it."""
    words = _WORDS.get(h.name) or _described(h)
    if isinstance(words, str):
        return words
    if method:
        return words.get(method) or words[""]
    return "".join(
        f"Of {of or 'others'}: {text[0].lower() if text.startswith('The ') else text[0]}{text[1:]}"
        for of, text in words.items()
    )


def told_of(method: str, names: Iterable[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The sentences on hyperparameters of one method, with its ``defaults``, by flag."""
    known, out = hyperparameters(), {}
    for name in (n for n in names if n in known and n not in ("radius", "rounds")):
        text, default = words_of(known[name], method).strip(), defaults.get(flag(name), "")
        if default not in ("", "None", "False") and "(default" not in text:
            told = (
                default
                if default == "needed"
                else f"default {'on' if default == 'True' else default}"
            )
            text = f"{text.rstrip('.')} ({told})."
        out[name] = text
    return out


def hyperparameter_options(methods: Iterable[str] | None = None) -> list[inspect.Parameter]:
    """Options for the hyperparameters of some methods (default all)."""
    wanted = None if methods is None else set(methods)
    out: list[inspect.Parameter] = []
    for h in hyperparameters().values():
        if wanted is not None and not wanted & set(h.methods):
            continue
        if h.name == "radius":
            out += RADIUS
            continue
        words = words_of(h)
        mine = {m: d for m, d in zip(h.methods, h.defaults, strict=True) if wanted is None or m in wanted}
        alike = len(set(mine.values())) == 1
        of = ", ".join(m if alike or not d else f"{m} (default {d})" for m, d in mine.items()) if wanted is None else ""
        default = f" (default {next(iter(mine.values()))})" if alike and any(mine.values()) and h.name != "epsilon" else ""
        compressor = not h.choices and h.name.endswith("compressor")
        kind = Literal[h.choices] if h.choices else str if compressor else h.kind
        if h.name == "allow_long":  # `run` estimates all methods
            of = default = ""
        text = f"{words}{of}{default}".strip()
        more = {"metavar": "NAME"} if compressor else {}
        out.append(option(h.name, kind | None, None, text, "Hyperparameters", off="True" in mine.values(), **more))
    ratio = "lambda_2 as a multiple of the problem's smoothness beta."
    out.append(option("l2_over_beta", float | None, None, ratio, "Hyperparameters"))
    return out


def make_algorithm(method: str, problem: Any, options: dict[str, Any]) -> Any:
    """The method with the hyperparameters that were given; `options` may hold others that are None.
    """
    from fedtheory import algorithms

    cls = algorithms.get(method)
    method = cls.name
    known = hyperparameters()
    given = {name: options[name] for name in known if options.get(name) is not None}
    ratio = options.get("l2_over_beta")
    if ratio is not None:
        if "l2" in given:
            raise InvalidInput(f"both --l2 {given['l2']:g} and --l2-over-beta {ratio:g}: give one of them")
        given["l2"] = ratio * float(problem.beta_k.max())
    refuse_foreign(method, given)
    for name in known:
        if name.endswith("compressor") and isinstance(given.get(name), str):
            given[name] = compressor_of(given[name], flag(name))
    missing = [h.name for h in known.values() if method in h.required and h.name not in given]
    if missing:
        hint = f" or --l2-over-beta (beta = {float(problem.beta_k.max()):.4g} here)" if "l2" in missing else ""
        ranges = {**_RANGES, **_OWN_RANGES.get(method, {})}
        give = "; ".join(ranges[n] if len(missing) == 1 else f"{flag(n)} is {ranges[n]}" for n in missing if n in ranges)
        raise InvalidInput(f"{method} needs {_flags(missing)}{hint}: give {give or 'it'}")
    names = {f.name for f in fields(cls)}
    wire = {name: given.pop(name) for name in [*given] if _FIELDS.get(name, name) not in names}
    made = cls(**{_FIELDS.get(name, name): value for name, value in given.items()})
    return _compressed(made, given.get("send", "update"), **wire) if wire else made


def _compressed(
    method: Any, of: Any, compressor: Any = None, down_compressor: Any = None, control_compressor: Any = None,
    client_feedback: bool | None = None, server_feedback: bool = True,
) -> Any:  # fmt: skip
    """The method with what the options say of its messages."""
    from fedtheory.algorithms import Compressed

    if not (compressor or down_compressor or control_compressor):
        given = "client_feedback" if client_feedback is not None else "server_feedback"
        raise InvalidInput(f"{flag(given)} is about what a compressor leaves out: give one, as in --compressor top-k:q=0.1")
    up = method.error_feedback if client_feedback is None else client_feedback
    if compressor is not None and of == "model":
        models = "model" in method.compresses
        either = ", or client_feedback=False to compress models" if models else ""
        require(models and not up, "send", of, f"with a compressor, use send='update'{either}")
    sides = {"up": (compressor, up), "down": (down_compressor, server_feedback)}
    fed = [side for side, (given, kept) in sides.items() if given is not None and kept]
    lost = [side for side, (given, kept) in sides.items() if given is not None and not kept]
    kept: Any = fed[0] if fed and lost else not lost
    return Compressed(method, compressor, down_compressor, control_compressor, kept, of if compressor is not None else "update")


def refuse_foreign(method: str, given: Iterable[str]) -> None:
    """Raise `InvalidInput` for the first hyperparameter in `given` that the method lacks."""
    takes = taken_by(method)
    for name in given:
        if name not in takes:
            raise InvalidInput(f"{method} has no hyperparameter {flag(name)}: it takes {_flags(takes)}")


def taken_by(method: str) -> list[str]:
    """The options that a method takes: its hyperparameters, and other words for some of them."""
    takes = [h.name for h in hyperparameters().values() if method in h.methods]
    more = ["l2_over_beta"] if "l2" in takes else ["epsilon", "noise"] if "noise_std" in takes else []
    return list(dict.fromkeys((*takes, *more)))


def _flags(names: Iterable[str]) -> str:
    return ", ".join(flag(n) for n in names)
