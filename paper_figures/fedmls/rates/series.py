"""Rounds to epsilon of one method on one instance, their fit, and where two change places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.rates.fits import LEAST_POINTS, fit_slope, prefer
from fedtheory.rates.rounds import RoundsToEpsilon, crossover

__all__ = ["Series", "best_of", "crossovers"]

Role = Literal["measured", "theory", "lower bound"]


@dataclass
class Series:
    """Rounds to epsilon of one method on one instance.

    Attributes
    ----------
    label : the method with its schedule in a word or two
    role : 'measured', 'theory' (what a theorem asks for), or 'lower bound' (what no method of the
        class can beat)
    epsilons, rounds, local_steps : (E,)
        rounds: inf where never reached within the horizon. local_steps: of one client; NaN where
        local problems are solved exactly.
    schedule : what the rounds belong to
    notes : what was left out, and why
    details : of each epsilon
    """

    instance: str
    method: str
    label: str
    role: Role
    schedule: str
    epsilons: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    local_steps: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)

    def add(self, epsilon: float, rounds: float, local_steps: float = math.nan, detail: str = "") -> None:
        self.epsilons.append(float(epsilon))
        self.rounds.append(float(rounds))
        self.local_steps.append(float(local_steps))
        self.details.append(detail)

    @cached_property
    def fit(self) -> dict[str, Any] | None:
        """Slope of rounds against epsilon over all epsilons, its interval, and the verdict between
        -1 and -2; None below 4 points."""
        return self._fit(self.rounds)

    @cached_property
    def fit_local(self) -> dict[str, Any] | None:
        """The same for local steps."""
        return self._fit([v if math.isfinite(v) else math.inf for v in self.local_steps])

    def _fit(self, values: Sequence[float]) -> dict[str, Any] | None:
        if np.isfinite(values).sum() < LEAST_POINTS:
            return None
        slope = fit_slope(self.epsilons, values, window=(min(self.epsilons), max(self.epsilons)), schedule=self.schedule)
        choice = prefer(slope, -1.0, -2.0)
        text = {"claimed": "1/eps", "other": "1/eps^2", "undecided": "undecided"}[choice.verdict]
        if slope.low > -0.75:  # clear of -1, on the good side
            text = "better than 1/eps"
        elif slope.high < -1.1 and slope.low > -1.9:  # clear of both
            text = "between the two"
        return {
            "slope": slope.slope, "low": slope.low, "high": slope.high,
            "confidence": slope.confidence, "points": slope.points, "verdict": text,
            "p_minus_1": choice.p_claimed, "p_minus_2": choice.p_other, "excluded": slope.excluded,
        }

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Series:
        """Make a series of what `dataclasses.asdict` of it became in JSON."""
        numbers = {name: [float(v) for v in told[name]] for name in ("epsilons", "rounds", "local_steps")}
        return cls(**{**told, **numbers})

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "fit": self.fit, "fit_local": self.fit_local}


def best_of(name: str, series: Sequence[Series]) -> Series:
    """The fewest rounds of any of these at every epsilon, and the local steps and schedule that had
    them; `name` is its label.

    Raises
    ------
    InvalidInput
        No series, or series of different instances.
    """
    if not series or len({s.instance for s in series}) > 1:
        raise InvalidInput(f"series = {[s.label for s in series]}: give one or more, all measured on the same instance")
    out = Series(series[0].instance, name, name, "measured", f"the best of {', '.join(s.label for s in series)} at every epsilon")
    for epsilon in sorted({e for s in series for e in s.epsilons}, reverse=True):
        measured = [
            (s.rounds[i], s.local_steps[i], f"{s.label}: {s.details[i]}")
            for s in series for i, at in enumerate(s.epsilons) if at == epsilon
        ]  # fmt: skip
        out.add(epsilon, *min(measured, key=lambda m: m[0]))
    return out


def crossovers(series: Sequence[Series], label: str) -> list[dict[str, Any]]:
    """For every method beside the one of that label on the same instance: who is ahead at both
    ends, and where they change places."""
    out = []
    for ours in (s for s in series if s.label == label):
        for other in series:
            if other.instance != ours.instance or other is ours or other.role == "theory":
                continue
            common = sorted(set(ours.epsilons) & set(other.epsilons))
            if not common:
                continue
            a, b = (
                np.array([s.rounds[s.epsilons.index(e)] for e in common]) for s in (ours, other)
            )
            none = np.zeros(len(common), dtype=bool)
            first, second = (RoundsToEpsilon(np.array(common), r, r, none, "last", math.inf, "") for r in (a, b))
            ahead = [label if p < q else other.label if q < p else "equal" for p, q in zip(a, b, strict=True)]
            out.append({
                "instance": ours.instance, "ours": label, "other": other.label, "schedule": other.schedule, "role": other.role,
                "at": crossover(first, second), "smallest_epsilon": common[0], "ahead_at_smallest": ahead[0],
                "largest_epsilon": common[-1], "ahead_at_largest": ahead[-1],
            })  # fmt: skip
    return out
