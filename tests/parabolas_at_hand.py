"""Runs and cohorts of three parabolas in fractions, on which forms of `worst_cases` are numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction as F
from typing import Any

from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic, Vector

CLIENTS = 3
CURVATURE = (F(1, 2), F(1), F(1, 3), F(1))  # sum of a_k b_k = 0 for three clients: x* = 0
LOWEST = (F(2), F(-2), F(3), F(-6))  # the last one is no client
Row = tuple[F, ...]


def slope(k: int, x: F) -> F:
    return CURVATURE[k] * (x - LOWEST[k])


def loss(k: int, x: F) -> F:
    return CURVATURE[k] * (x - LOWEST[k]) ** 2 / 2


def prox(k: int, center: F, linear: F, factor: F) -> F:
    """argmin of loss_k + linear u + factor/2 (u - center)^2."""
    a, b = CURVATURE[k], LOWEST[k]
    return (a * b + factor * center - linear) / (a + factor)


def mean(row: Any) -> F:
    row = list(row)
    return sum(row, F(0)) / len(row)


def mean_loss(x: F) -> F:
    return mean(loss(k, x) for k in range(CLIENTS))


def mean_slope(x: F) -> F:
    return mean(slope(k, x) for k in range(CLIENTS))


class OfClients:
    """Numbers of exchangeable clients: every name of a vector one number a client, by its points.

    ``more``: dict name -> the clients' numbers of vectors that are no gradients.
    """

    def __init__(
        self, points: list[Any], more: Mapping[str, Row],
        slope: Callable[[int, F], F] = slope, loss: Callable[[int, F], F] = loss,
        clients: int = CLIENTS,
    ) -> None:  # fmt: skip
        self.clients, self.numbers, self.values = clients, dict(more), {}
        for point in points:
            names = [*point.gradient.mean, *point.gradient.deviation]
            name = names[0] if names else None
            if name is not None and name not in self.numbers:
                self.numbers[name] = self.solved(name, point.at, slope)
            at = self.of(point.at)
            self.values[point.name] = mean(loss(k, x) for k, x in enumerate(at))
            if name is not None:
                assert self.of(point.gradient) == tuple(slope(k, x) for k, x in enumerate(at))

    def solved(self, name: str, at: Vector, slope: Callable[[int, F], F]) -> Row:
        """The gradients at a point that is written with them (slopes are affine)."""
        ends = []
        for guess in (F(0), F(1)):
            self.numbers[name] = (guess,) * self.clients
            ends.append([slope(k, x) for k, x in enumerate(self.of(at))])
        return tuple(low / (1 - (high - low)) for low, high in zip(*ends, strict=True))

    def of(self, v: Vector) -> Row:
        """One number a client."""
        middle = sum((c * mean(self.numbers[n]) for n, c in v.mean.items()), F(0))
        return tuple(
            middle + sum((c * (self.numbers[n][k] - mean(self.numbers[n]))
                          for n, c in v.deviation.items()), F(0))
            for k in range(self.clients)
        )  # fmt: skip

    def form(self, q: Quadratic) -> F:
        """The number that a form is."""
        total = F(q.constant) + sum(c * self.values[p] for p, c in q.values.items())
        for (block, x, y), c in q.gram.items():
            a, b = self.numbers[x], self.numbers[y]
            middles = mean(a) * mean(b)
            assert block in (MEAN, DEVIATION)
            both = mean(p * q for p, q in zip(a, b, strict=True))
            total += c * (middles if block == MEAN else both - middles)
        return total


class OfTree:
    """Numbers of every label of a tree of cohorts. ``more`` has those that are no gradients."""

    def __init__(self, tree: Any, more: Mapping[Any, F]) -> None:
        self.numbers, self.values = dict(more), {}
        for points in tree.points.values():
            for k, point in enumerate(points):
                (label,) = point.gradient.of if len(point.gradient.of) == 1 else (None,)
                if label is not None and label not in self.numbers:
                    own = point.at.of.get(label, F(0))
                    rest = self.of(point.at.plus(point.gradient, -own))
                    a, b = CURVATURE[k], LOWEST[k]
                    self.numbers[label] = a * (rest - b) / (1 - a * own)
                self.values[point.name] = loss(k, self.of(point.at))
                assert self.of(point.gradient) == slope(k, self.of(point.at))

    def of(self, row: Any) -> F:
        return sum((c * self.numbers[label] for label, c in row.of.items()), F(0))

    def form(self, q: Quadratic) -> F:
        gram = sum(c * self.numbers[x] * self.numbers[y] for (_, x, y), c in q.gram.items())
        return F(q.constant) + gram + sum(c * self.values[p] for p, c in q.values.items())
