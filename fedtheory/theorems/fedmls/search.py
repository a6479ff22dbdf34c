"""The search for counterexamples to FedMLS's statements: runs in one dimension, where the minimum is known exactly.

As in `fedtheory.verification.search`: random instances first, which serve all forms at once, then, form by form, small
changes to the one that came nearest. The data are fractions with small denominators, so that what violates Theorem 1 can
be rerun exactly. Exact subgradients only: with noise the statements are about expectations, and a search by sampling would
find the sampling error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.optimum.certify import Optimum
from fedtheory.problems.nonsmooth import MaxAffine
from fedtheory.theorems.fedelasticnet.search import SearchResult
from fedtheory.theorems.fedmls.exact import MLSWitness, evaluate, minimum
from fedtheory.theorems.fedmls.quantities import MLSView
from fedtheory.theorems.fedmls.setting import SLACK, MLSInstance, applies, view_of_run
from fedtheory.theorems.fedmls.statements.theorem_1_proof import WITNESS, k_min
from fedtheory.verification.search import Tape, Target, changed
from fedtheory.verification.statement import RELATIVE_TOLERANCE, Form, Sides, Statement, all_statements, get

__all__ = ["LARGEST_STEPS", "Lines", "draw", "search", "search_all"]

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
    """

    slopes: tuple[tuple[Fraction, ...], ...]
    offsets: tuple[tuple[Fraction, ...], ...]
    x0: Fraction
    lam: Fraction
    D: Fraction
    rounds: int
    parameters: str
    average: str

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
        g = problem.lipschitz_rms(1.0)
        algorithm = FedMLS(
            float(self.lam), float(self.D), self.rounds, 1.0, g * (1 + 2.0**-50), average=self.average, skip_last=False  # type: ignore[arg-type]
        )
        if sum(algorithm.steps(k) for k in range(1, self.rounds + 1)) > LARGEST_STEPS:
            raise InvalidInput(f"more than {LARGEST_STEPS} local steps")
        value, star = minimum(self.clients, one, near=self.x0)
        best = Optimum(np.array([float(star)]), float(value), math.nextafter(float(value), -math.inf), 0.0, 0.0, "exact", "fractions")
        return view_of_run(problem, algorithm, np.array([float(self.x0)]), radius=1.0, optimum=best)


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
    average = "printed" if tape.random() < 0.2 else "averaged"
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
    return Lines(tuple(map(tuple, slopes)), tuple(map(tuple, offsets)), x0, lam, d, max(rounds, 1), parameters, average)


def _reason(form: Form, lines: Lines) -> str | None:
    """Why a form does not apply, as `fedtheory.theorems.fedmls.setting.applies` says it."""
    rounds = lines.rounds if lines.parameters == "free" else lines.parameters
    return applies(form, MLSInstance("lines", len(lines.slopes), 1, 0.0, 1.0, rounds, 1.0, 1, 0, lines.average))


def _targets(violated: bool) -> list[Target]:
    return [
        Target(s, f, "deterministic", f.sides)
        for s in all_statements("fedmls/")
        if s.scope == "fedmls"
        for f in s.forms
        if f.sides is not None and WITNESS not in f.requires
        for rule, verdict in f.established.items()
        if rule == "deterministic" and (violated or verdict != "violated")
    ]


def _try(tape: Tape, targets: Sequence[Target]) -> None:
    lines = draw(tape)
    judging = [t for t in targets if _reason(t.form, lines) is None]
    if not judging:
        return
    try:
        view = lines.view()
    except FedTheoryError:
        return
    used = tape.used.copy()
    for t in judging:
        t.judge(lines, view, used)


def _run(targets: list[Target], budget: int, seed: int) -> list[SearchResult]:
    """Half of the budget at random, for all; the other half shared evenly by the forms."""
    rng = np.random.default_rng([seed, *b"fedmls"])
    for i in range(-(-budget // 2)):
        _try(Tape(rng.random(40), seed * 100_003 + i), targets)
    for target in targets:
        for _ in range(max(2, budget // (2 * len(targets)))):
            start = target.ratio_tape if target.ratio_tape is not None else target.margin_tape
            if start is None:
                break
            _try(Tape(changed(start, rng), seed), [target])
    return [_result(t, budget, seed) for t in targets]


def _result(t: Target, budget: int, seed: int) -> SearchResult:
    described = [{} if at is None else at.to_json() for at in (t.margin_at, t.ratio_at)]
    witness = _witness(t) if t.margin > RELATIVE_TOLERANCE and t.sides is t.form.sides else None
    return SearchResult(
        t.statement.id, t.form.name, t.rule, seed, budget, t.evaluations, max(t.margin, -1.0),
        t.ratio if np.isfinite(t.ratio) else float("nan"), *described, witness,  # type: ignore[arg-type]
    )  # fmt: skip


def _witness(t: Target) -> MLSWitness | None:
    """The violation of Theorem 1 as printed for the mean product, rerun in fractions; None where it is not one."""
    if (t.statement.id, t.form.name) != ("fedmls/theorem-1", "repaired"):
        return None
    at: Lines = t.margin_at
    try:
        lhs, rhs = evaluate(at.clients, at.lam, at.D, Fraction(1), at.x0, at.rounds, "repaired")
    except FedTheoryError:  # too many local steps for fractions
        return None
    if not lhs > rhs:
        return None
    slopes, offsets = ([[str(v) for v in row] for row in rows] for rows in (at.slopes, at.offsets))
    return MLSWitness("repaired", slopes, offsets, str(at.lam), str(at.D), "1", str(at.x0), at.rounds, str(lhs), str(rhs))


def search_all(budget: int = 400, seed: int = 0, violated: bool = False) -> list[SearchResult]:
    """All forms about runs with exact subgradients that are not on record as violated (``violated``: those too).

    Raises
    ------
    InvalidInput
        A budget below 1.
    """
    _check(budget)
    return _run(_targets(violated), budget, seed)


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
    statement = get(statement) if isinstance(statement, str) else statement
    form = statement.form(form) if isinstance(form, str) else form
    if statement.scope != "fedmls" or form.sides is None or WITNESS in form.requires or "deterministic" not in form.established:
        raise InvalidInput(f"{statement.id} [{form.name}] is not judged on runs with exact subgradients: there is nothing to search")
    return _run([Target(statement, form, "deterministic", sides or form.sides)], budget, seed)[0]


def _check(budget: int) -> None:
    if budget < 1:
        raise InvalidInput(f"budget = {budget}: try at least 1 instance")
