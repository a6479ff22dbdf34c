"""The search for counterexamples to FedMLS's statements: runs in one dimension, where the minimum is known exactly.

The data are fractions with small denominators, so that what violates Theorem 1 can
be rerun exactly. Exact subgradients only: with noise the statements are about expectations, and a search by sampling would
find the sampling error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.optimum.certify import Optimum
from fedtheory.problems.nonsmooth import MaxAffine
from fedtheory.theorems.fedmls.exact import evaluate, make_witness, minimum
from fedtheory.theorems.fedmls.instances import facts_of
from fedtheory.theorems.fedmls.notation import PAPER_ID, SLACK, applies, is_reading
from fedtheory.theorems.fedmls.quantities import Bounds, MLSView, k_min, view_of_run
from fedtheory.theory.judge.registry import get, paper
from fedtheory.theory.judge.search import SearchResult, Tape, Target, explore
from fedtheory.theory.judge.statement import Form, Sides, Statement
from fedtheory.theory.judge.witness import Witness

__all__ = ["LARGEST_STEPS", "Lines", "draw", "explore_lines", "proved", "search", "search_all", "targets_of"]

LARGEST_STEPS = 20_000  # local steps of a client: longer runs are drawn again
_GRID = 64  # data are multiples of 1/64


@dataclass(frozen=True)
class Lines:
    """One run of FedMLS on f_i(x) = max_j slopes_ij x + offsets_ij over [-1, 1].

    Attributes
    ----------
    slopes, offsets : (N, p) tuples of fractions
    x0, lam, D : fractions
    rounds : K
    parameters : 'free', or those of Theorem 2 with K 'printed', 'fewest' or 'sharpened' (see `MLSInstance`)
    average : 'averaged' or 'printed', line 14
    norm : 'mean' or 'product', line 22 along grad f_i or along grad f_i/N; lam and D are those of the norm
    """

    slopes: tuple[tuple[Fraction, ...], ...]
    offsets: tuple[tuple[Fraction, ...], ...]
    x0: Fraction
    lam: Fraction
    D: Fraction
    rounds: int
    parameters: str
    average: str
    norm: str

    kind = "lines"
    rule = "deterministic"

    @property
    def facts(self) -> frozenset[str]:
        """What a form may need of it."""
        return facts_of(self.parameters, self.average, self.norm)

    @property
    def clients(self) -> list[list[tuple[Any, Any]]]:
        return [list(zip(a, b, strict=True)) for a, b in zip(self.slopes, self.offsets, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """The numbers as text."""

        def text(value: Any) -> Any:
            return [text(v) for v in value] if isinstance(value, tuple) else value if isinstance(value, int | str) else str(value)

        return {name: text(getattr(self, name)) for name in self.__dataclass_fields__}

    def view(self) -> MLSView:
        """The run.

        Raises
        ------
        FedTheoryError
            More local steps than `LARGEST_STEPS`, or numbers that FedMLS refuses.
        """
        one = Fraction(1)
        problem = MaxAffine(np.array(self.slopes, dtype=float)[:, :, None], np.array(self.offsets, dtype=float))
        g = problem.lipschitz_rms(1.0) * (1 + 2.0**-50) / math.sqrt(problem.num_clients if self.norm == "product" else 1)
        algorithm = FedMLS(
            float(self.lam), float(self.D), self.rounds, 1.0, g, average=self.average, norm=self.norm, skip_last=False  # type: ignore[arg-type]
        )
        if sum(algorithm.steps(k) for k in range(1, self.rounds + 1)) > LARGEST_STEPS:
            raise InvalidInput(f"more than {LARGEST_STEPS} local steps")
        value, star = minimum(self.clients, one, near=self.x0)
        best = Optimum(np.array([float(star)]), float(value), math.nextafter(float(value), -math.inf), 0.0, 0.0, "exact", "fractions")
        bounds = Bounds(best, problem.lipschitz(1.0), np.zeros(problem.num_clients))
        return view_of_run(problem, algorithm, np.array([float(self.x0)]), bounds=bounds, facts=self.facts)


def _fraction(value: Any) -> Fraction:
    return Fraction(round(float(value) * _GRID), _GRID)


def draw(tape: Any) -> Lines:
    """An instance from a `numpy.random.Generator`, or a `Tape`: 1 to 4 clients of 1 to 3 pieces, K from 1 to 12."""
    n, p = int(tape.integers(1, 5)), int(tape.integers(1, 4))
    size = 10.0 ** tape.uniform(-1.0, 0.5, n)
    slopes = [[_fraction(s * v) for v in row] for s, row in zip(size, tape.uniform(-2.0, 2.0, (n, p)), strict=True)]
    offsets = [[_fraction(v) for v in row] for row in tape.uniform(-1.0, 1.0, (n, p))]
    x0 = _fraction(tape.uniform(-1.0, 1.0))
    parameters = ("free", "printed", *SLACK)[int(tape.integers(0, 4))]
    read = tape.random()
    average, norm = "printed" if read < 0.2 else "averaged", "product" if read > 0.8 else "mean"
    if norm == "product" and parameters in SLACK:  # no form is about those
        parameters = "printed"
    lam_at, d_at, rounds = 10.0 ** tape.uniform(-1.5, 1.0), 10.0 ** tape.uniform(-2.0, 1.0), int(tape.integers(1, 13))
    clients = [list(zip(a, b, strict=True)) for a, b in zip(slopes, offsets, strict=True)]
    _, star = minimum(clients, Fraction(1), near=x0)
    distance_sq = max((x0 - star) ** 2, Fraction(1, _GRID**2))
    g_sq = max(float(MaxAffine(np.array(slopes, float)[:, :, None], np.array(offsets, float)).lipschitz_rms(1.0)) ** 2, 1e-9)
    lam = max(Fraction(round(lam_at * 4 * _GRID), 4 * _GRID), Fraction(1, _GRID**2))
    d = max(_fraction(d_at), Fraction(1, _GRID))
    if parameters != "free":  # epsilon = lam G^2, and no more rounds than can be run
        lam = max(lam, Fraction(math.ceil(math.sqrt(float(distance_sq) / g_sq) / 2 * _GRID), _GRID))
        d = distance_sq
        product = float(d) / (float(lam) ** 2 * g_sq)  # G^2 D/epsilon^2
        least = math.ceil(6 * math.sqrt(2 * product))
        rounds = k_min(Fraction(product), SLACK[parameters]) if parameters in SLACK else least
    if norm == "product":
        lam, d = n * lam, n * d
    return Lines(tuple(map(tuple, slopes)), tuple(map(tuple, offsets)), x0, lam, d, max(rounds, 1), parameters, average, norm)


def _drawn(tape: Tape, targets: Sequence[Target]) -> tuple[Lines, MLSView] | None:
    """An instance and its run; None where no target is about it."""
    lines = draw(tape)
    return (lines, lines.view()) if any(applies(t.form, lines) is None for t in targets) else None


def targets_of(statements: Iterable[Statement], violated: bool = False) -> list[Target]:
    """All forms about runs with exact subgradients that are not on record as violated (``violated``: those too)."""
    return [
        Target(s, f, "deterministic", f.sides_on)
        for s in statements
        for f in s.forms
        if _searched(f) and (violated or f.established["deterministic"] != "violated")
    ]


def _searched(form: Form) -> bool:
    return form.kind == "run" and not is_reading(form) and "deterministic" in form.established


def explore_lines(targets: list[Target], budget: int, seed: int) -> list[SearchResult]:
    """Half of the budget at random, for all; the other half shared evenly by the forms."""
    rng = np.random.default_rng([seed, *b"fedmls"])
    nearby = max(2, budget // (2 * len(targets)))
    return explore(_drawn, targets, -(-budget // 2), nearby, rng, seed, budget=budget, width=40, proved=proved)


def proved(target: Target) -> Witness | None:
    """The violation of Theorem 1 as printed for the mean product, rerun in fractions; None where it is not one."""
    if (target.statement.id, target.form.name) != ("fedmls/theorem-1", "repaired"):
        return None
    at: Lines = target.margin_at
    try:
        lhs, rhs = evaluate(at.clients, at.lam, at.D, Fraction(1), at.x0, at.rounds, "repaired")
    except FedTheoryError:  # too many local steps for fractions
        return None
    numbers = {"lam": at.lam, "D": at.D, "radius": Fraction(1), "x0": at.x0}
    found_by = {"search": "random and local"}
    made = make_witness("repaired", at.slopes, at.offsets, numbers, at.rounds, found_by=found_by)
    return made.claiming(lhs, rhs) if lhs > rhs else None


def search_all(budget: int = 400, seed: int = 0, violated: bool = False) -> list[SearchResult]:
    """A search of all forms about runs with exact subgradients; see `targets_of`.

    Raises
    ------
    InvalidInput
        A budget below 1.
    """
    _check(budget)
    return explore_lines(targets_of(paper(PAPER_ID).statements, violated), budget, seed)


def search(
    statement: str | Statement,
    form: str | Form = "repaired",
    budget: int = 400,
    seed: int = 0,
    sides: Callable[[Any], Sides] | None = None,
) -> SearchResult:
    """Look for a run on which one form fails.

    Parameters
    ----------
    budget : instances to try
    seed : the same seed gives the same result
    sides : run this instead of the form's own sides (for mutants)

    Raises
    ------
    UnknownName, InvalidInput
        No such statement or form; a form that is not about runs with exact subgradients; a budget below 1.
    """
    _check(budget)
    statement = statement if isinstance(statement, Statement) else get(statement)
    form = statement.form(form) if isinstance(form, str) else form
    if statement.paper != PAPER_ID or not _searched(form):
        raise InvalidInput(f"{statement.id} [{form.name}] is not judged on runs with exact subgradients: there is nothing to search")
    return explore_lines([Target(statement, form, "deterministic", sides or form.sides_on)], budget, seed)[0]


def _check(budget: int) -> None:
    if budget < 1:
        raise InvalidInput(f"budget = {budget}: try at least 1 instance")
