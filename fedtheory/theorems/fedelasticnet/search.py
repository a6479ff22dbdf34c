"""The search for violations: SciPy's differential evolution over instances of a form, in batches of float64, then exact witnesses.

The same search hunts printed statements, where it should find something, and repaired ones, where it must not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import scipy  # its optimize is loaded when first used

from fedtheory.errors import InvalidInput
from fedtheory.inputs import whole_number
from fedtheory.theorems.fedelasticnet.exact import DiagonalInstance, RationalState
from fedtheory.theorems.fedelasticnet.exact_witness import DiagonalWitness
from fedtheory.theorems.fedelasticnet.notation import RATIO
from fedtheory.theorems.fedelasticnet.shapes import Shape, default_shapes
from fedtheory.theorems.fedelasticnet.shrink import margin, shrink
from fedtheory.theory.judge.check import RELATIVE_TOLERANCE
from fedtheory.theory.judge.registry import get
from fedtheory.theory.judge.search import VISIBLE, SearchResult
from fedtheory.theory.judge.statement import Form, Sides, Statement

__all__ = ["Shape", "default_shapes", "search"]

POPULATION = 96


class _Target:
    """One form on one shape: numbers in the unit cube to margins and ratios."""

    def __init__(self, statement: Statement, form: Form, rule: str, shape: Shape, sides: Callable[[Any], Sides]) -> None:
        self.run, self.form, self.rule, self.shape, self.sides = statement.scope == "run", form, rule, shape, sides
        violated = form.established.get(rule) == "violated"
        self.least_ratio = statement.witness_limits.get(RATIO, 0.0) if violated else 0.0  # what holds is searched for every lambda_2
        m, d = shape.rows, 1 if shape.same else shape.d
        self.parts: dict[str, tuple[int, ...]] = {"h": (m, d), "c": (m, d), "x0": (shape.starts, d), "l1": (), "l2": ()}
        if self.run:
            self.parts |= {"beta": (), "length": ()}
        elif shape.cohorts is None:
            self.parts |= {"stored": (m, d), "local": (m, d)}
        self.size = sum(int(np.prod(s)) for s in self.parts.values())

    def numbers(self, u: np.ndarray) -> dict[str, np.ndarray]:
        """(B, size) in [0, 1] to the numbers of B instances."""
        out, at = {}, 0
        for name, shape in self.parts.items():
            count = int(np.prod(shape))
            out[name] = u[:, at : at + count].reshape(len(u), *shape)
            at += count
        beta = 10 ** (8 * out.pop("beta", np.full(len(u), 0.5)) - 4)
        length = 10 ** (8 * out.pop("length", np.full(len(u), 0.5)) - 4)
        h = np.maximum(out["h"] - 0.15, 0) ** 2  # a curvature may be 0
        top = h.max(axis=(1, 2))
        out["h"] = np.where(top[:, None, None] > 0, h / np.maximum(top, 1e-300)[:, None, None], 1.0) * beta[:, None, None]
        for name, power in (("c", 2), ("stored", 2), ("x0", 5), ("local", 5)):
            if name in out:
                z = 2 * out[name] - 1
                unit = beta * length if name == "stored" else length
                least = 1e-6 if name == "x0" else 0.0  # nearer to the optimum float64 sees rounding errors
                size = np.maximum(np.abs(z) ** power, least)
                out[name] = 4 * np.where(z < 0, -size, size) * unit.reshape((-1,) + (1,) * (z.ndim - 1))
        if self.shape.edge:
            return self._at_the_edge(out, beta, length)
        # Starts are measured from the optimum, local models from the start: both may nearly coincide.
        weight = out["h"].sum(axis=1)
        star = (out["h"] * out["c"]).sum(axis=1) / np.where(weight > 0, weight, 1.0)
        out["x0"] = out["x0"] + star[:, None, :]
        if self.shape.starts == 1:
            out["x0"] = out["x0"][:, 0]
        if "local" in out:
            out["local"] = out["local"] + out["x0"][:, None, :]
        if self.shape.same:
            out |= {k: np.repeat(v, self.shape.d, axis=-1) for k, v in out.items() if v.ndim > 1}
        out["l1"] = 10 ** (6 * out["l1"] - 4) * beta * length  # above 0, as Algorithm 3 asks
        least = max(self.form.limits.get(RATIO, 0.02), self.least_ratio)
        out["l2"] = beta * least * (1 + 1e-3) * (1000 / least) ** out["l2"]
        return out

    def _at_the_edge(self, out: dict[str, np.ndarray], beta: np.ndarray, length: np.ndarray) -> dict[str, np.ndarray]:
        """lambda_1 from a slope at the start.

        Clients of several kinds are nearly linear (lambda_2 up to 10^8 beta), and the start is as
        far from the optimum as gamma moves in the run.
        """
        several = self.shape.rows > 1
        pull = out["h"] * np.array(self.shape.copies or [1] * self.shape.rows)[:, None]
        star = (pull * out["c"]).sum(axis=1) / pull.sum(axis=1)
        least = max(self.form.limits.get(RATIO, 0.02), self.least_ratio)
        out["l2"] = beta * least * (1 + 1e-3) * ((1e8 if several else 1000) / least) ** out["l2"]
        if several:
            steepest = (out["h"] * abs(out["c"] - star[:, None])).max(axis=(1, 2))
            share = np.cbrt(out["x0"] / (4 * length[:, None, None]))  # in [-1, 1]
            out["x0"] = share * (self.shape.T * steepest / out["l2"])[:, None, None]
        out["x0"] = out["x0"] + star[:, None, :]
        slope = _slope_of_one(out["h"], out["c"], out["x0"], out["l1"])
        out["l1"] = np.where(slope < 1e-3 * beta * length, np.nan, slope)  # nothing but rounding errors moves there
        if self.shape.starts == 1:
            out["x0"] = out["x0"][:, 0]
        return out

    def evaluate(self, u: np.ndarray) -> Sides:
        """Sides with instances on axis 0 (a round) or on the last axis (a run)."""
        n = self.numbers(u)
        instance = DiagonalInstance.batch(n["h"], n["c"], n["l1"], n["l2"], self.shape.P, self.rule, n["x0"], self.shape.copies)
        if self.run:
            return self.sides(instance.run_view(self.shape.T))
        if self.shape.cohorts is None:
            stored = n["stored"]
            state = RationalState(n["x0"], stored.mean(axis=1), stored, n["local"])
        else:
            state = instance.after(self.shape.cohorts)
        return self.sides(instance.round_view(state))

    def scores(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Margin, ratio lhs/rhs and the horizon of the largest margin for each of B points of the unit cube."""
        with np.errstate(all="ignore"):
            sides = self.evaluate(u)
            lhs, rhs, scale = (np.asarray(a, dtype=float) for a in (sides.lhs, sides.rhs, sides.scale))
            noise = np.asarray(sides.noise, dtype=float)
            margins = (lhs - rhs - noise) / np.maximum(scale + noise, 1e-290)
            ratio = np.where(rhs > 1e-6 * scale, lhs / rhs, np.where(lhs - rhs > 1e-6 * scale, np.inf, -np.inf))
        margins = np.where(np.isfinite(margins), margins, -1.0)
        ratio = np.where(np.isnan(ratio), -np.inf, ratio)
        if self.run:
            margins, ratio = margins.T, ratio.T
        margins, ratio = margins.reshape(len(u), -1), ratio.reshape(len(u), -1)
        if sides.relation == "==":
            ratio = np.full_like(ratio, -np.inf)
        return margins.max(axis=1), ratio.max(axis=1), margins.argmax(axis=1)

    def describe(self, u: np.ndarray) -> dict[str, Any]:
        numbers = {k: v[0] for k, v in self.numbers(u[None]).items()}
        margin_, ratio, horizon = (a[0] for a in self.scores(u[None]))
        found = {"shape": str(self.shape), "margin": float(margin_), "ratio": float(ratio), **numbers}
        return {**found, "horizon": int(horizon) + 1} if self.run else found

    def witness(self, statement: Statement, u: np.ndarray) -> DiagonalWitness:
        """The point as a witness with 9 digits a number, not yet shrunk."""
        n = {k: v[0] for k, v in self.numbers(u[None]).items()}
        text = {k: _digits(v) for k, v in n.items()}
        more: dict[str, Any] = {} if self.shape.copies is None else {"copies": list(self.shape.copies)}
        if self.run:
            more["T"] = int(self.scores(u[None])[2][0]) + 1
        elif self.shape.cohorts is None:
            more["state"] = {"theta": text["x0"], "stored": text["stored"], "local": text["local"]}
        else:
            more["cohorts"] = [list(c) for c in self.shape.cohorts]
        return DiagonalWitness(
            statement.id, self.form.name, self.rule, text["h"], text["c"], text["l1"], text["l2"], self.shape.P, text["x0"], **more
        )


def _slope_of_one(h: np.ndarray, c: np.ndarray, x0: np.ndarray, which: np.ndarray) -> np.ndarray:
    """(B,): how steep one client (`which` in [0, 1] picks it) is at the start, a little more: it just does not move."""
    points = x0.reshape(len(h), -1, 1, h.shape[-1])  # (B, starts, 1, d)
    slopes = abs(h[:, None] * (points - c[:, None])).max(axis=(1, 3))
    client = np.minimum((which * slopes.shape[1]).astype(int), slopes.shape[1] - 1)
    return np.take_along_axis(slopes, client[:, None], axis=1)[:, 0] * (1 + 1e-6)


def _digits(a: np.ndarray) -> Any:
    return [_digits(x) for x in a] if np.ndim(a) else str(Fraction(f"{float(a):.9g}"))


class _Best:
    """The best points seen over all evaluations, whatever the optimiser was after."""

    def __init__(self) -> None:
        self.evaluations = 0
        self.margin, self.ratio = -np.inf, -np.inf
        self.margin_at: np.ndarray | None = None
        self.ratio_at: np.ndarray | None = None

    def see(self, u: np.ndarray, margins: np.ndarray, ratios: np.ndarray) -> None:
        self.evaluations += len(u)
        i, j = int(margins.argmax()), int(ratios.argmax())
        if margins[i] > self.margin:
            self.margin, self.margin_at = float(margins[i]), u[i].copy()
        if ratios[j] > self.ratio:
            self.ratio, self.ratio_at = float(ratios[j]), u[j].copy()


def _explore(target: _Target, budget: int, seed: int, use_ratio: bool, best: _Best) -> None:
    """Two thirds of the budget over the whole cube, the rest in a small box around the best point; all over the cube when small."""

    def loss(points: np.ndarray) -> np.ndarray:
        u = np.clip(points.T, 0, 1)
        margins, ratios, _ = target.scores(u)
        best.see(u, margins, ratios)
        return -(np.clip(ratios, -1e3, 1e3) if use_ratio else margins)

    small = budget < 100
    for part, share in enumerate((1,) if small else (2 / 3, 1 / 3)):
        population = int(min(POPULATION, max(8, share * budget / (2 if small else 3))))
        generations = max(0, int(share * budget / population) - 1)
        centre = best.ratio_at if use_ratio else best.margin_at
        if part == 0 or centre is None:
            low, high = np.zeros(target.size), np.ones(target.size)
        else:
            low, high = np.clip(centre - 0.03, 0, 0.999), np.clip(centre + 0.03, 0.001, 1)
        rng = np.random.default_rng([seed, part, int(use_ratio)])
        scipy.optimize.differential_evolution(
            loss,
            list(zip(low, high, strict=True)),
            init=rng.uniform(low, high, (population, target.size)),
            maxiter=generations,
            mutation=(0.4, 0.9),
            recombination=0.8,
            tol=0,
            atol=0,
            polish=False,
            vectorized=True,
            updating="deferred",
            rng=rng,
        )


def search(
    statement: str | Statement,
    form: str | Form = "repaired",
    rule: str = "sign",
    budget: int = 2000,
    seed: int = 0,
    shapes: Sequence[Shape] | None = None,
    sides: Callable[[Any], Sides] | None = None,
) -> SearchResult:
    """Look for an instance of diagonal quadratics on which a form fails, simplest shapes first.

    Parameters
    ----------
    budget : instances to try, shared evenly by the shapes (never fewer than a small population each)
    seed : the same seed gives the same result
    shapes : default `default_shapes`, as many of them as give each 100 instances (at least two)
    sides : run this instead of the form's own sides (for mutants)

    Returns
    -------
    SearchResult
        It stops at the first shape with a violation of at least `VISIBLE`, and before arbitrary states are tried when a
        real run has any. A violation is shrunk and proved in exact arithmetic
        unless `sides` is given, since a witness file names a form of a statement.

    Raises
    ------
    UnknownName, InvalidInput
        No such statement or form; a form without data, or not claimed for the rule.
    """
    statement = statement if isinstance(statement, Statement) else get(statement)
    form = statement.form(form) if isinstance(form, str) else form
    if form.sides is None:
        raise InvalidInput(f"{statement.id} [{form.name}] is an identity without data: there is nothing to search")
    if form.kind not in ("round", "run"):
        raise InvalidInput(f"{statement.id} is about {statement.scope}s: the search runs rounds and runs of Algorithm 3 only")
    if rule not in form.established:
        raise InvalidInput(f"{statement.id} [{form.name}] is not claimed for the {rule} rule")
    whole_number("budget", budget, remedy="it is the number of instances to try")
    hunt = form.established[rule] != "holds"
    if shapes is None:
        shapes = default_shapes(statement.scope, hunt)
        mergeable = [s for s in shapes if s.copies is None or s.P == s.m or rule == "true-gradient"]
        shapes = mergeable[: max(2, budget // 100)]  # a small budget goes into few shapes
    found: list[tuple[_Target, _Best]] = []
    evaluations = 0
    for number, shape in enumerate(shapes):
        target, best = _Target(statement, form, rule, shape, sides or form.sides), _Best()
        share = max(8, budget // len(shapes))
        both = form.established[rule] != "violated" and _has_ratio(target)
        for use_ratio in (False, True) if both else (False,):
            _explore(target, share // (2 if both else 1), seed * 1000 + number, use_ratio, best)
        evaluations += best.evaluations
        found.append((target, best))
        most = max(b.margin for _, b in found)
        if most >= VISIBLE or (most > 1e-6 and _leaves_real_runs(shapes, number)):
            break
    target, best = next((t, b) for t, b in found if b.margin >= min(VISIBLE, most / 2) or b.margin == most)
    tight_target, tight = max(found, key=lambda f: f[1].ratio)
    witness, exact_best = None, None
    if sides is None and best.margin > RELATIVE_TOLERANCE:
        point = target.witness(statement, best.margin_at)  # type: ignore[arg-type]
        short, exact_best = shrink(point), margin(point)
        found_by = {"search": "differential evolution, then greedy rounding", "shape": str(target.shape)}
        witness = None if short is None else replace(short.witness(), found_by=found_by)
    return SearchResult(
        statement.id,
        form.name,
        rule,
        seed,
        budget,
        evaluations,
        best.margin,
        tight.ratio if np.isfinite(tight.ratio) else float("nan"),
        target.describe(best.margin_at) if best.margin_at is not None else {},
        tight_target.describe(tight.ratio_at) if tight.ratio_at is not None and np.isfinite(tight.ratio) else {},
        witness,
        exact_best,
    )


def _leaves_real_runs(shapes: Sequence[Shape], number: int) -> bool:
    """Whether the next shape is the first with arbitrary states: a smaller violation on a real run is preferred to those."""
    return shapes[number].cohorts is not None and number + 1 < len(shapes) and shapes[number + 1].cohorts is None


def _has_ratio(target: _Target) -> bool:
    return target.evaluate(np.full((1, target.size), 0.6)).relation == "<="
