"""The method that a worst case is about: one of the package or of anyone's, with its local work.

What a method adds is said beside it: `Algorithm.usual_parameters` has its hyperparameters in the
units of a worst case, ``nonsmooth`` that its losses have bounded subgradients, ``one_loss`` that it
has no clients, ``plain_mean`` that clients have no weights.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from fractions import Fraction
from math import inf, isfinite, isqrt
from pathlib import Path
from typing import Any

from fedtheory import algorithms
from fedtheory.algorithms.base import Algorithm
from fedtheory.algorithms.compressed import Compressed
from fedtheory.central import ONE_LOSS
from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability, suggest
from fedtheory.inputs import shown, whole_number
from fedtheory.local import Exact, ExactProx, GradientSteps
from fedtheory.local.objective import LocalSolver
from fedtheory.rational import in_fractions
from fedtheory.worst_cases.entries import SHOWN
from fedtheory.worst_cases.numbers import exact
from fedtheory.worst_cases.page import Page
from fedtheory.worst_cases.runs import Run
from fedtheory.worst_cases.traced import Contraction, NoCurvature

__all__ = ["Scale", "Subject", "class_of", "names", "source_of", "subject"]

STEP = "step"  # of local gradient steps, unless the method itself has a number of this name
WIRE = ("contraction", "contraction_down", "feedback")  # of messages that are compressed in any way
OWN_WORK = ("sliding", "none")  # of methods that do their own local work, or none


@dataclass(frozen=True)
class Scale:
    """The units in which usual hyperparameters are given.

    Attributes
    ----------
    L, G : smoothness, and the bound of subgradients; 1 where there is none
    R, T : ||x_0 - x*||, and the number of rounds
    """

    L: Fraction
    G: Fraction
    R: Fraction
    T: int

    def root(self, number: int) -> Fraction:
        """The square root, to six digits."""
        return Fraction(isqrt(number * 10**12), 10**6)


@dataclass(frozen=True)
class Subject:
    """A method with its local work.

    Attributes
    ----------
    made, local : method and local solver as they are run, their numbers in floats
    algorithm, solver : the same in fractions
    options : dict name -> hyperparameter that is neither the class's default nor settled by the
        question, or that is one of the class's `usual_parameters`, of anyone's class all; and
        ``step`` of local gradient steps
    source : of a class of anyone's 'NAME.py:CLASS' and the hash of its code; '' for the package's
    """

    made: Algorithm
    local: LocalSolver | None
    algorithm: Algorithm
    solver: LocalSolver
    options: Mapping[str, Any]
    source: str

    @property
    def name(self) -> str:
        """Its name, or that of its class."""
        return str(getattr(self.made, "name", type(self.plain).__name__))

    @property
    def local_steps(self) -> int | None:
        """K; None where local problems are solved, or local work is the method's own."""
        return self.solver.steps if isinstance(self.solver, GradientSteps) else None

    @property
    def plain(self) -> Algorithm:
        """The method itself, without its compressors."""
        return self.made.method if isinstance(self.made, Compressed) else self.made

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Those that are not the class's defaults."""
        of: Any = self.algorithm
        of = of.method if isinstance(of, Compressed) else of
        return {f.name: v for f in fields(of) if (v := getattr(of, f.name)) != _default(f)}

    @property
    def one_loss(self) -> bool:
        """True if it has no clients, but one loss."""
        return self.algorithm.one_loss

    def page(self, clients: int, participants: int, coordinates: int = SHOWN) -> Page:
        """Its round on the vectors of a worst case."""
        return Page(self.algorithm, self.solver, clients, participants, coordinates)


def names() -> list[str]:
    """List the names of methods that `class_of` takes."""
    return [*algorithms.names(), *ONE_LOSS]


def class_of(name: str) -> type[Algorithm]:
    """The class of a method by its name.

    Raises
    ------
    UnknownName
        With the nearest known names.
    """
    if name not in names():
        raise suggest(name, names(), "method")
    return ONE_LOSS[name] if name in ONE_LOSS else algorithms.get(name)


def subject(
    method: str | type[Algorithm] | Algorithm, given: Mapping[str, Any], local_steps: int, scale: Scale
) -> Subject:
    """The method with its hyperparameters and its local work.

    Parameters
    ----------
    method : a name, a class, or a method with its hyperparameters
    given : hyperparameters by name, and ``step`` of local gradient steps. Without a step local
        problems are solved exactly where they can be, and the step is 1/L elsewhere.
        ``contraction`` and ``contraction_down`` are delta of E||C(m) - m||^2 <= (1 - delta) ||m||^2 of the
        clients' messages and of the server's step, with ``feedback`` as of `Compressed`

    Raises
    ------
    InvalidInput, UnknownName
        What is no method, or none of its hyperparameters.
    """
    whole_number("local_steps", local_steps)
    given, wire = dict(given), None
    if isinstance(method, Compressed):
        wire = _wire_of(method)
        method = method.method
        if twice := [n for n in WIRE if n in given]:
            raise InvalidInput(f"{', '.join(twice)}: the method is compressed already; leave them out")
    cls: Any = class_of(method) if isinstance(method, str) else method
    cls = cls if isinstance(cls, type) else type(cls)
    if not issubclass(cls, Algorithm):
        raise InvalidInput(f"method = {shown(method)}: give a name, such as 'fedavg', or an Algorithm")
    if not hasattr(cls, "__dataclass_fields__"):
        raise InvalidInput(f"{cls.__name__} is no dataclass: put @dataclass(frozen=True) above it; its fields are the hyperparameters")
    has = {f.name: f for f in fields(cls)}
    wire = {n: given.pop(n) for n in WIRE if n in given and n not in has} if wire is None else wire
    step = None if STEP in has else given.pop(STEP, None)
    made, numbers = (method, {}) if isinstance(method, Algorithm) else _made(cls, has, given, scale)
    if made is method and given:
        raise InvalidInput(f"{', '.join(given)}: the method has its hyperparameters; leave them out, or give its class")
    algorithm, wire = in_fractions(made, numbers), _checked(wire)
    local, solver = _local_work(algorithm, None if step is None else exact(STEP, step), local_steps, scale)
    found = Subject(_sent(made, wire), local, _sent(algorithm, wire), solver, {}, source_of(cls))
    settled = {} if made is method else cls.usual_parameters(scale, given)
    told = has if found.source else found.hyperparameters.keys() | {n for n, v in settled.items() if isinstance(v, Fraction)}
    every = {n: getattr(algorithm, n) for n in has if n in told}
    open_ = {n for n in every if n in given or n not in settled or isinstance(settled[n], Fraction)}
    options = {n: v for n, v in every.items() if n in open_} | wire
    options |= {STEP: solver.lr} if isinstance(solver, GradientSteps) else {}
    return replace(found, options=options)


def _wire_of(method: Compressed) -> dict[str, Any]:
    """The contractions of a compressed method.

    Raises
    ------
    MissingCapability
        Another compressor, or a second message that is compressed.
    """
    sides = {"contraction": method.up, "contraction_down": method.down}
    if other := [c for c in (*sides.values(), method.control) if c is not None and not isinstance(c, Contraction)]:
        raise MissingCapability(
            f"{method.name} compresses messages by {other[0].name}: a worst case is one of every compressor that is "
            "as near; take worst_cases.Contraction(delta)"
        )
    if method.control is not None:
        raise MissingCapability(f"{method.name}: of its second message no contraction is computed; leave control out")
    found = {name: c.delta for name, c in sides.items() if isinstance(c, Contraction)}
    return found | ({} if method.feedback is None else {"feedback": method.feedback})


def _checked(wire: Mapping[str, Any]) -> dict[str, Any]:
    """Contractions as fractions; ``feedback`` goes with one."""
    words = {"true": True, "false": False}
    found = {n: words.get(str(v).lower(), v) if n == "feedback" else exact(n, v) for n, v in wire.items()}
    if set(found) == {"feedback"}:
        raise InvalidInput(f"feedback = {found['feedback']}: no message is compressed; give a contraction, or leave it out")
    return found


def _sent(method: Algorithm, wire: Mapping[str, Any]) -> Algorithm:
    """The method, its messages compressed where there are contractions."""
    if not wire:
        return method
    up, down = (None if n not in wire else Contraction(wire[n]) for n in ("contraction", "contraction_down"))
    return Compressed(method, up=up, down=down, feedback=wire.get("feedback"))


def _default(field: Any) -> Any:
    value = field.default
    return exact(field.name, value) if isinstance(value, float) and isfinite(value) else value


def _made(
    cls: type[Algorithm], has: Mapping[str, Any], given: Mapping[str, Any], scale: Scale
) -> tuple[Algorithm, dict[str, Fraction]]:
    """The method of a class, and its numbers as fractions."""
    for name in given:
        if name not in has:
            raise suggest(name, [*has, STEP], f"option of {cls.name}")
    usual = {n: v for n, v in cls.usual_parameters(scale, given).items() if n not in given}
    if zero := next((n for n, v in usual.items() if isinstance(v, Fraction) and v <= 0), None):
        other = f"take one above 0, or give {zero}"
        raise InvalidInput(f"distance = {scale.R}: the default of {zero} is a multiple of it; {other}")
    chosen = {**usual, **given}
    missing = [n for n, f in has.items() if n not in chosen and MISSING is f.default is f.default_factory]
    if missing:
        told = ", ".join(f"--given {n}=..." for n in missing)
        raise InvalidInput(f"{cls.name} needs {', '.join(missing)}: give a number, on the command line by {told}")
    real = [n for n, v in chosen.items() if "float" in (kind := str(has[n].type)) and v != inf and not _word(v, kind)]
    numbers = {n: exact(n, chosen[n]) for n in real}
    floats = {n: v if n in cls.exact_numbers else float(v) for n, v in numbers.items()}
    return cls(**chosen | floats), numbers


def _word(value: Any, kind: str) -> bool:
    """True of what may be meant as a word, where a hyperparameter is one or a number."""
    return "Literal" in kind and isinstance(value, str) and not any(c.isdigit() for c in value)


def _local_work(
    algorithm: Algorithm, step: Fraction | None, steps: int, scale: Scale
) -> tuple[LocalSolver | None, LocalSolver]:
    """The local solver of runs, None where the method brings its own, and that of the worst case."""
    exactly: LocalSolver = ExactProx() if type(algorithm).nonsmooth else Exact()
    if algorithm.local_work in OWN_WORK:
        return None, exactly
    if step is None and _solves(algorithm, exactly):
        if steps > 1:
            told = f"{algorithm.name} solves its local problems exactly; leave local steps out, or give a step"
            raise InvalidInput(f"local_steps = {steps}: {told}")
        return exactly, exactly
    step = 1 / scale.L if step is None else step
    if step <= 0:
        raise InvalidInput(f"step = {step}: the size of local steps must be above 0")
    local = GradientSteps(steps, float(step))
    return local, in_fractions(local, {"lr": step})


def _solves(algorithm: Algorithm, exactly: LocalSolver) -> bool:
    """True unless a local problem of the method has no exact solution, or not one to go on with."""
    try:
        algorithm.check(exactly)
        run = Run()
        Page(algorithm, exactly, 2, 2).every_way(run, 0, run.start, None)
    except MissingCapability as error:
        return not (error.__cause__ is None or isinstance(error.__cause__, NoCurvature))
    except FedTheoryError:
        pass  # as of a round that is not linear: it comes up again, and is told, where the rounds are walked
    return True


def source_of(cls: type) -> str:
    """'NAME.py:CLASS' and a hash of the file that a class is from; '' for those of the package."""
    name = getattr(cls, "name", None)
    if name in names() and class_of(name) is cls:
        return ""  # whatever a class says of its own module
    try:
        file = Path(inspect.getfile(cls))
        code = file.read_bytes()
    except (OSError, TypeError):  # typed at a prompt
        return f"{cls.__qualname__}, without a file"
    return f"{file.name}:{cls.__qualname__}, sha256 {hashlib.sha256(code).hexdigest()}"
