"""Proofs as data: the steps of a theorem's proof in order, and how much of the slack of each the final bound keeps.

A bound that is put together from lemmas is loose by what its lemmas leave: the slack of the bound on a run is the sum over the steps
of (weight of the step) times (slack of the step, summed over the rounds). A `Proof` says which steps, and with which weights;
`fedtheory.theory.judge.proof_trace` puts one run through them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedtheory.theory.judge.witness import Witness

__all__ = ["Course", "Ended", "Proof", "Step"]


@dataclass(frozen=True)
class Step:
    """One step of a proof.

    Attributes
    ----------
    label : as a table names it: 'Lemma B.5', '(28)'
    words : why it is used, one sentence
    statement, form : which statement's form it is; '' where a step is no statement of its own, such as Jensen's inequality
    weight : callable(ended) -> number, or one for each round
        What one unit of slack in one round adds to the slack of the final bound. None where the step is judged, and stands for no
        loss of its own: a lemma that others are made of, or that the proof passes by.
    sides : callable(view of a round) -> `Sides`; with ``over='end'`` callable(ended) -> `Sides`
        None: those of the form.
    over : 'round', judged in every round, or 'end', judged once when the rounds are put together
    formula : LaTeX, where it is not that of the form
    part_of : the label of the lemma that it is a line of
    in_mean : whether it is claimed of the expectation over the states of a round only, and not in each of them
    where : how a sentence says where its slack is lost: 'where the last potential is dropped'; default 'in' and its label
    only_drawn : whether it stands for what scenarios are off their expectation, so that runs without any leave it out
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
    witness : the `Witness` that is walked where nobody names a problem, the name of one that comes with the paper, or a function
        that makes one
    sums : dict name -> callable(view of a round) -> array (S,)
        What the steps at the end need of every round: its expectation (`Ended.series`, `Ended.sums`).
    note : what a reader should know of the route that the proof takes
    bound : callable(ended) -> `Sides` of the theorem at the horizon; default the form's on the view of the whole run
    """

    theorem: str
    form: str
    steps: tuple[Step, ...]
    course: Callable[..., Course] | None = None
    replayed: Callable[..., Course] | None = None
    rules: tuple[str, ...] = ("any",)
    witness: Witness | str | Callable[[], Witness] = ""
    sums: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    note: str = ""
    bound: Callable[[Any], Any] | None = None

    @property
    def weighed(self) -> bool:
        """True if the steps have weights, so that the slack of the bound can be told apart by them."""
        return any(step.weight is not None for step in self.steps)


@dataclass
class Course:
    """A run as a proof looks at it: round by round, each in one batch of states.

    Attributes
    ----------
    name : the instance, in a line
    rule : of the method
    horizon : T, how many rounds
    rounds : iterable of (view of the round, weights (S,) of its states); it is gone through once
    end : callable() -> view of the whole run at its horizon, after the last round
    exact : whether the states are all that there are, with their probabilities; else they are scenarios, equally likely
    conditional : whether expectations given a state are exact all the same, so that each round is judged state by state
    """

    name: str
    rule: str
    horizon: int
    rounds: Any
    end: Callable[[], Any]
    exact: bool = True
    conditional: bool = False


@dataclass
class Ended:
    """The view of the steps at the end of a proof.

    Attributes
    ----------
    run : the view of the whole run
    first, last : the views of the first and of the last round
    T : how many rounds
    series : dict name -> a list over the rounds of the expectation; (S,) of scenarios, else a number
    mean : callable(values (S,) of the last round) -> their expectation; of scenarios the values as they are
    """

    run: Any
    first: Any
    last: Any
    T: Any
    series: Mapping[str, list[Any]]
    mean: Callable[[Any], Any]

    @property
    def sums(self) -> dict[str, Any]:
        """The series, summed over the rounds."""
        return {name: sum(values[1:], values[0]) for name, values in self.series.items()}
