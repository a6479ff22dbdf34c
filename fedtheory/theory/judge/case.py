"""What is judged: how large a campaign is, and a user's problem and method, with what they may
be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from fedtheory.errors import InvalidInput
from fedtheory.theory.judge.check import Check

__all__ = ["About", "Case", "LocalWork", "Plan", "named"]


@dataclass(frozen=True)
class LocalWork:
    """The local solvers that a statement may be given.

    Attributes
    ----------
    solvers : classes of solvers that the statement is judged with; another one would be ignored
    about : what the statement is about instead, and what to do, in words
    of_runs : whether a run that was made with another solver is none that the statement is about
    """

    solvers: tuple[type, ...]
    about: str
    of_runs: bool = True


@dataclass(frozen=True)
class About:
    """A statement in words: its subject, and what it takes of a user.

    Attributes
    ----------
    scope : the subject: one round from a given state, a run, an identity
    refusal : why it does not run on a user's problem, None where it does
    asks : its demands on a user's problem, on who takes part and of the method
    declares : {'method': ..., 'problems': ...}, where the statement says so itself
    symbols : its letters, with their meaning
    takes : what a user may set of it (`Case.given`), with its meaning
    refuses : options of the command line that every request for it refuses
    own_method : whether it says itself which method it is about, so that a user gives none
    work : the local solvers that it is judged with, and a user who gives another is told so; None:
        `Setting.instance` sees to it
    example : options of `fedtheory verify` that show it at work on a problem; None where there are
        none to give
    """

    scope: str
    refusal: str | None = None
    asks: tuple[str, ...] = ()
    declares: Mapping[str, str] = field(default_factory=dict)
    symbols: Mapping[str, str] = field(default_factory=dict)
    takes: Mapping[str, str] = field(default_factory=dict)
    refuses: tuple[str, ...] = ()
    own_method: bool = False
    work: LocalWork | None = None
    example: str | None = None


@dataclass(frozen=True)
class Plan:
    """The size of a campaign.

    Attributes
    ----------
    seed : of everything random
    scale : 1 is the full battery
    long : whether there are long Monte Carlo runs
    """

    seed: int = 0
    scale: float = 1.0
    long: bool = True


@dataclass(frozen=True)
class Case:
    """A problem and a method of a user's, and how they are to be judged; see
    `fedtheory.theory.judge.verify.verify`.

    Attributes
    ----------
    given : dict name -> value
        What the user sets of the theorem itself, such as its constants (`About.takes`).
    form : that an instance is made for
    least : scenarios below which no verdict is looked for; None: so many that each client takes
        part in some (`fedtheory.theory.judge.sequential`)
    x0_given : False where ``x0`` is the default: one round of a method is then judged from other
        starts, too
    """

    problem: Any
    algorithm: Any
    sampling: Any = None
    local_solver: Any = None
    x0: Any = None
    rounds: int | None = None
    mode: str = "auto"
    scenarios: int = 1000
    seed: int = 0
    confidence: float = 0.999
    on_progress: Callable[[int, int, int], None] | None = None
    on_stage: Callable[[list[Check]], None] | None = None
    given: Mapping[str, Any] = field(default_factory=dict)
    form: Any = None
    least: int | None = None
    x0_given: bool = True

    @property
    def rule(self) -> str:
        """The variant of the method that it is about, as the forms name it."""
        return getattr(self.algorithm, "rule", "any")

    @property
    def of_rounds(self) -> bool:
        """True if the method is made for a number of rounds."""
        return (
            is_dataclass(self.algorithm) and any(f.name == "rounds" for f in fields(self.algorithm))
        )

    def check_solver(self, work: LocalWork | None, run: bool = False) -> None:
        """Raise `InvalidInput` for local work that a statement is not judged with.

        That is work with a memory of gradients, for every statement is about plain steps or exact
        work; and a solver that is none of the statement's, which would be ignored.

        Parameters
        ----------
        work : as `About.work` says it; None: not said
        run : whether a run is judged that was made with the solver
        """
        if self.local_solver is None:
            return
        name = type(self.local_solver).__name__
        if not self.local_solver.reports_steps:
            raise InvalidInput(
                f"local work by {name}, which steps along what it remembers of "
                "gradients: the papers' statements are about plain gradient steps or "
                "exact local solutions"
            )
        if (
            work is not None and not isinstance(self.local_solver, work.solvers)
            and (work.of_runs or not run)
        ):
            raise InvalidInput(f"local work by {name}: {work.about}")


def named(value: Any) -> str:
    """A method, a law of cohorts or a solver with what was set of it: 'Method(l1=0.1, l2=30)'."""
    if not is_dataclass(value):
        return repr(value)
    given = [
        (f.name, getattr(value, f.name)) for f in fields(value)
        if getattr(value, f.name) is not f.default
    ]
    shown = [
        f"{name}={v:.4g}" if isinstance(v, float) else f"{name}={named(v)}" for name, v in given
    ]
    return f"{type(value).__name__}({', '.join(v for v in shown if len(v) <= 80)})"
