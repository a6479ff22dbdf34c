'''A theorem of anyone's, in one Python file.

Write down what a paper claims of a federated method, and everything else follows: instances are
drawn from the class of problems that was declared; the claim is checked exactly (all cohorts
enumerated), by Monte Carlo, and in fractions; a counterexample is searched for, shrunk to a few
short numbers and proved; it is found out how tight the bound is, how far each of its constants
could be tightened, and which assumption could be dropped.

    """My paper, Lemma 4: one local gradient step of everybody decreases F."""
    from fractions import Fraction
    from fedtheory.algorithms import FedAvg
    from fedtheory.theory import Full, GradientSteps, Paper, SmoothConvex, le, printed, repaired

    paper = Paper("my-paper", title="On averages", source="arXiv 2101.00001")

    @paper.statement(
        "lemma-4", about=FedAvg(), local=GradientSteps(1, lr=lambda c: 1 / c.beta),
        sampling=Full(), problems=SmoothConvex(clients=(1, 4), dimension=(1, 5)), over="round",
    )
    def lemma_4(q):
        """One local gradient step of everybody decreases F."""
        gain = q.gradient_sq / q.beta
        yield printed(le(q.F_next, q.F, -gain))
        half = q.constant("half", Fraction(1, 2))
        yield repaired(le(q.F_next, q.F, -half * gain))

Then ``print(study(paper))`` says: printed violated (by f = x^2/2 from x = 1, where 0 > -1/2),
repaired holds; violated at half = 1001/2000, so that 1/2 is the best constant; one local step and
full participation are needed; nothing was found that needs convexity or equal weights. At the
command line: ``fedtheory verify FILE.py``, ``fedtheory explain FILE.py``,
``fedtheory list FILE.py``.

What a file says
----------------
about
    The method: an algorithm of `fedtheory.algorithms`, or a class of your own with
    ``init(x, num_clients)`` and ``round(state, clients)``. With hyperparameters that depend on the
    problem: ``method(FedProx, mu=lambda c: 2 * c.beta)``.
local
    ``GradientSteps(steps, lr)`` or ``Minimise()``. Step sizes and other hyperparameters are
    numbers, functions of the constants, ``upto(limit)`` (every number in (0, limit]),
    ``above(limit)``, or ``among(1, 2, 5)`` (each of them).
sampling
    ``Full()``, ``Uniform(P)``, ``Bernoulli(p)`` (given that somebody takes part: no cohort is
    empty), or the class ``Uniform`` itself for cohorts of every size.
problems
    `SmoothConvex`, `StronglyConvex`, `Quadratics`, `Lipschitz`, or for a nonconvex theorem `Smooth`
    (F bounded below; F* is its least value), with numbers of clients and dimensions.
over
    'round' (one round from a state that can be reached), 'run' (T rounds from any start), or
    'fixed-point' (a round that begins where it ends). Or a `World`: a class of your own that says
    what an instance is (its fields by `number`, `whole`, `word`, `flag` or `anything`, which
    ``from_data`` reads; ``draw``) and what is known of it (`derived`), for identities and claims
    about numbers, or for losses that none of these classes has; then problems, local and sampling
    are left out, and ``q`` is an instance of it. Formulas write what has a ``letter`` by that, and
    a number by its name. examples/own_world.py is such a file. An
    `IrregularRun` is the world of runs in which clients are inactive or stop early.

rules, states, starts
    ``rules={"printed": {"sign": 1}, "repaired": {"sign": -1}}`` are variants of the method within
    one statement: each has its forms and its verdicts, and ``q.rule`` says which one it is.
    ``states={"c_k": "N d", "c": lambda s: s["c_k"].mean(axis=-2)}``, of a round, says what of the
    state before it may be anything, and what follows from that.
    ``starts=2``, of a run, lets it start at one of up to two equally likely points: for bounds in
    E||x_0 - x*||^2.

The function gets the quantities ``q`` by name: ``quantities()`` lists them. It yields forms:
`printed`, `repaired`, or `form` with a name of your own. Each has its sides, ``le`` (lhs <= the sum
of the other terms, in expectation over the cohorts unless ``pathwise=True``) or ``eq``, or a
function without arguments that gives them when they are needed; its LaTeX, where that is not to be
made by the code; mutants (`wrong`) that a study must reject, with sides of their own or a share of
the form's right side, or of each of its terms; and what is on record (``holds=True``,
``fails=True``, or open). Numbers that may be asked how small they could be are declared:
``q.constant("c", 1)``. One that is ``free=True`` stands for some number >= 0: a proof chooses it,
and instances are judged with the one stated. ``potential(q, V, D)`` gives the sides of E V+ <= rho
V - D + noise, of functions of a state: where it is proved from any state, it is for every number of
rounds. ``needs={"mu > 0": q.mu > 0}`` says where a form is claimed; an inequality ``le`` in its
place is one that a proof may use. Half is ``Fraction(1, 2)``: with 0.5 in
a side the claim is checked in floats only. Where a number is declared, in ``q.constant("c", 0.5)``
and in hyperparameters, a float is the fraction that it prints as.
Sums run over the last axis (``axis=-1``, ``q.sq``, ``q.dot``), as several starts or sequences of
cohorts stand on the others. Each form is judged by itself: where one divides by 0, or needs a
minimiser that does not exist, the others are judged all the same.

Clients' weights w_k in F = sum_k w_k f_k are at once their shares of the samples, and a method that
averages by samples is run with them on a problem whose clients have uneven numbers of samples, too.

What one can do with it
-----------------------
`load_file` reads the file. `study` does everything and prints as a table; its ``rows``, ``checks``,
``counterexamples``, ``tightness``, ``necessity`` and ``mutants`` say it piece by piece, and
``to_json()`` and ``figure(path)`` keep it. `replay` judges a counterexample again from its data
alone. `verify` puts a statement to a problem of `fedtheory.problems`.

How a theorem about a run is proved from the statements about a round is said by
``paper.proof(theorem, steps=[step(lemma, weight=...), ...])``; ``fedtheory proof FILE.py::NAME``
then walks the proof, and shows where the slack of the bound is lost (docs/proofs.md).

What a verdict means: 'violated' in mode 'rational' is a proof, with an instance in fractions that
can be replayed. 'holds' says that nothing was found against the form on the instances looked at:
it supports a theorem, and proves none.
'''

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtheory.lazy import lazily

if TYPE_CHECKING:
    from fedtheory.participation.cohorts import Bernoulli, Full, Uniform
    from fedtheory.theory.fields import anything, derived, flag, number, whole, word
    from fedtheory.theory.judge.case import Case, LocalWork
    from fedtheory.theory.judge.replay import replay
    from fedtheory.theory.judge.request import Prepared, Request
    from fedtheory.theory.judge.statement import Form, Sides, Statement
    from fedtheory.theory.judge.symbolic import Letters, maximum, minimum
    from fedtheory.theory.judge.verify import verify
    from fedtheory.theory.judge.view import ClosedView, EachOf, Fact
    from fedtheory.theory.judge.witness import Witness
    from fedtheory.theory.paper import AuthoredStatement, Paper, load_file
    from fedtheory.theory.proofs import step
    from fedtheory.theory.rounds.declare import GradientSteps, Minimise, above, among, method, upto
    from fedtheory.theory.rounds.forms import eq, form, le, potential, printed, repaired, wrong
    from fedtheory.theory.rounds.irregular_run import IrregularRun
    from fedtheory.theory.rounds.problem_classes import (
        Lipschitz,
        Quadratics,
        Smooth,
        SmoothConvex,
        StronglyConvex,
    )
    from fedtheory.theory.studies.study import Study, quantities, study
    from fedtheory.theory.world import Draws, Identities, World

__all__ = [
    "AuthoredStatement", "Bernoulli", "Case", "ClosedView", "Draws", "EachOf", "Fact", "Form",
    "Full", "GradientSteps", "Identities", "IrregularRun", "Letters", "Lipschitz", "LocalWork",
    "Minimise", "Paper", "Prepared", "Quadratics", "Request", "Sides", "Smooth", "SmoothConvex",
    "Statement", "StronglyConvex", "Study", "Uniform", "Witness", "World", "above", "among",
    "anything", "derived", "eq", "flag", "form", "le", "load_file", "maximum", "method",
    "minimum", "number", "potential", "printed", "quantities", "repaired", "replay", "step",
    "study", "upto", "verify", "whole", "word", "wrong",
]  # fmt: skip

__getattr__, __dir__ = lazily(__name__)  # what judges statements needs none of them
