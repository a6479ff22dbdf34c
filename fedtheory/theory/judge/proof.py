"""Proofs as data: the steps of a theorem's proof in order, and how much of the slack of each the
final bound keeps.

A bound that is put together from lemmas is loose by what its lemmas leave: the slack of the bound
on a run is the sum over the steps of (weight of the step) times (slack of the step, summed over the
rounds). A `Proof` says which steps, and with which weights; `fedtheory.theory.judge.proof_trace`
puts one run through them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedtheory.theory.judge.witness import Witness

__all__ = ["Course", "Proof", "Round", "Step"]


@dataclass(frozen=True)
class Step:
    """One step of a proof.

    Attributes
    ----------
    label : as a table names it: 'Lemma B.5', '(28)'
    words : why it is used, one sentence
    statement, form : which statement's form it is; '' where a step is no statement of its own, such
        as Jensen's inequality
    weight : callable(view of the whole run) -> number, or one for each round
        What one unit of slack in one round adds to the slack of the final bound. None where the
        step is judged, and stands for no loss of its own: a lemma that others are made of, or that
        the proof passes by.
    sides : callable(view of a round) -> `Sides`; with another ``over`` callable(view of the whole
        run) -> `Sides` None: those of the form.
    over : 'round', judged in every round; 'rounds', the same, where its sides are of the whole run,
        with the rounds as their first axis; or 'end', judged once when the rounds are put together
    formula : LaTeX, where it is not that of the form
    part_of : the label of the lemma that it is a line of
    in_mean : whether it is claimed of the expectation over the states of a round only, and not in
        each of them
    where : how a sentence says where its slack is lost: 'where the last potential is dropped';
        default 'in' and its label
    only_drawn : whether it stands for what scenarios are off their expectation
    """

    label: str
    words: str
    statement: str = ""
    form: str = ""
    weight: Callable[[Any], Any] | None = None
    sides: Callable[[Any], Any] | None = None
    over: str = "round"
    formula: str = ""
    part_of: str = ""
    in_mean: bool = False
    where: str = ""
    only_drawn: bool = False


@dataclass(frozen=True)
class Proof:
    """The proof of one form of a theorem, for one or several rules of the method.

    Attributes
    ----------
    theorem, form : what is proved; the theorem's statement id, and the form's name
    steps : in the order of the proof
    course : callable(`Case`, `Proof`) -> `Course`: the run of a user's problem
    replayed : callable(`Witness`, `Proof`) -> `Course`: the run of a witness, in fractions
    rules : the rules of the method that it is the proof for; ('any',) where there is one only
    witness : the `Witness` that is walked where nobody names a problem, the name of one that comes
        with the paper, or a function that makes one
    note : what a reader should know of the route that the proof takes
    """

    theorem: str
    form: str
    steps: tuple[Step, ...]
    course: Callable[..., Course] | None = None
    replayed: Callable[..., Course] | None = None
    rules: tuple[str, ...] = ("any",)
    witness: Witness | str | Callable[[], Witness] = ""
    note: str = ""

    @property
    def weighed(self) -> bool:
        """True if the steps have weights, so that the slack of the bound can be told apart by
        them."""
        return any(step.weight is not None for step in self.steps)


class Round(NamedTuple):
    """One round of a course, in one batch of states.

    Attributes
    ----------
    view : over all that may happen from each state
    chance : (S,), the probabilities of the states; None: they are equally likely
    drawn : callable(step, slack) -> (S,), of scenarios the slack of a step in what was drawn, where
        ``slack`` is that over all that could be; None: that is the same
    """

    view: Any
    chance: Any = None
    drawn: Callable[[Step, Any], Any] | None = None


@dataclass
class Course:
    """A run as a proof looks at it: round by round, each in one batch of states.

    Attributes
    ----------
    name : the instance, in a line
    rule : of the method
    horizon : T, how many rounds
    rounds : iterable of `Round`; it is gone through once
    end : callable() -> view of the whole run at its horizon, after the last round
    exact : whether the states are all that there are, with their probabilities; else they are
        scenarios, equally likely
    conditional : whether expectations given a state are exact all the same, so that each round is
        judged state by state
    chance : (S,), the probabilities of what the whole run may be; None: it is equally likely
    """

    name: str
    rule: str
    horizon: int
    rounds: Iterable[Round]
    end: Callable[[], Any]
    exact: bool = True
    conditional: bool = False
    chance: Any = None
