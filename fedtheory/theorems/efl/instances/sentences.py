"""Instances, in fractions, of what EFL's text says in its sentences: one maker a kind, and shapes that decide a form."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.rational import to_file
from fedtheory.theorems.efl.instances.draws import curvatures, law, rows, shares, signed, size

__all__ = ["ATTAINED", "KINDS", "MAKERS"]


def _term(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(1, 5)), int(rng.integers(1, 4))

    def diagonals() -> list[list[Fraction]]:
        return rows(rng, n, d, lambda g: Fraction(int(g.integers(0, 9)), 4))

    data = {
        "lam": size(rng), "u": diagonals(), "anchors": rows(rng, n, d, signed),
        "next_u": diagonals(), "next_anchors": rows(rng, n, d, signed),
        "points": rows(rng, 3, d, signed), "active": [k for k in range(n) if rng.random() < 0.6],
    }
    return f"N={n} d={d}", to_file(data)


def _away(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    h = rows(rng, n, d, lambda g: Fraction(int(g.integers(1, 5))))
    mu = min(min(row) for row in h)
    most = 16 * max(max(row) for row in h) / mu
    data = {
        "weights": shares(rng, n), "h": h, "c": rows(rng, n, d, signed), "mu": mu,
        "gamma": most + int(rng.integers(0, 60)), "T": int(rng.integers(2, 7)),
        "x0": [signed(rng) for _ in range(d)],
    }
    return f"N={n} d={d} T={data['T']}", to_file(data)


def _coefficient(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    d, most = int(rng.integers(1, 3)), int(rng.integers(1, 7))
    h, factor = [size(rng) for _ in range(d)], 1 + Fraction(int(rng.integers(1, 13)), 4)
    data = {
        "h": h, "away": [signed(rng) for _ in h],
        "eta": Fraction(int(rng.integers(1, 9)), 8) / (factor * max(h)), "E": most,
        "s": int(rng.integers(1, most + 1)), "factor": factor,
    }
    return f"E={most} s={data['s']}", to_file(data)


def _samples(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(2, 5)), int(rng.integers(1, 3))
    samples = [Fraction(int(v)) for v in rng.integers(1, 30, n)]
    samples[-1] *= int(rng.choice([1, 1, 10]))
    data = {
        "samples": samples, "h": curvatures(rng, n, d), "c": rows(rng, n, d, signed),
        "fewer": samples[-1] * Fraction(int(rng.integers(1, 20)), 20),
        "closer": Fraction(int(rng.integers(1, 20)), 20),
    }
    if rng.random() < 0.3:  # one coordinate, and a bend between a's minimiser and the others
        data |= {"h": curvatures(rng, n, 1), "c": [*rows(rng, n - 1, 1, signed), [Fraction(int(rng.integers(4, 12)))]]}
        data |= {"bend": Fraction(int(rng.integers(1, 12)), 3), "below": Fraction(int(rng.integers(1, 40)), 8)}
        return f"N={n} d=1, a bend", to_file(data)
    return f"N={n} d={d}", to_file(data)


def _restart(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d, most = int(rng.integers(2, 4)), 1, int(rng.choice([1, 1, 2]))
    event, scheme = str(rng.choice(["departure", "arrival"])), str(rng.choice(["B", "C"]))
    h = rows(rng, n, d, lambda g: Fraction(int(g.integers(1, 4))))
    centre = rows(rng, 1, d, signed)[0]
    data = {
        "event": event, "scheme": scheme, "weights": shares(rng, n), "h": h,
        "c": [centre] * n if rng.random() < 0.2 else rows(rng, n, d, signed),
        "law": [law(rng, most, True) for _ in range(n)],
        "w0": centre if rng.random() < 0.3 else [signed(rng) for _ in range(d)],
        "tau_0": int(rng.integers(1, 3)), "rounds": 1,
    }
    if rng.random() < 0.5:
        data["noise"] = rows(rng, n, d, lambda g: Fraction(int(g.integers(0, 3))))
    return f"{event} {scheme} N={n} E={most}", to_file(data)


MAKERS: dict[str, Callable[[np.random.Generator], tuple[str, dict[str, Any]]]] = {
    "term": _term, "away": _away, "coefficient": _coefficient, "samples": _samples,
    "restart": _restart,
}
KINDS = tuple(MAKERS)
ATTAINED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("inactive", "the threshold hardly falls", {
        "idle": ["0", "1/2"], "E": 2, "T": 50, "gamma": "100", "J": "1", "C": "1", "y": "1/2", "tau_0": 0,
    }),
    ("away", "hardly any difference", {
        "weights": ["1/2", "1/2"], "h": [["1"], ["1"]], "c": [["0"], ["2"]], "mu": "1", "gamma": "2000", "T": 4, "x0": ["5"],
    }),
    ("away", "a curved way", {
        "weights": ["1/10", "9/10"], "H": [[["15", "3"], ["3", "21"]], [["5", "-4"], ["-4", "23"]]], "c": [["0", "0"], ["-3", "-2"]],
        "mu": "83/20", "gamma": "93", "T": 4, "x0": ["-1", "1"],
    }),
    ("away", "gradients that cancel", {
        "weights": ["9/10", "1/10"], "H": [[["5", "-3"], ["-3", "3"]], [["4", "0"], ["0", "6"]]], "c": [["0", "0"], ["-1", "1"]],
        "mu": "4/5", "gamma": "145", "T": 4, "x0": ["3", "-1"],
    }),
    ("samples", "a bend", {
        "samples": ["1", "1"], "h": [["1"], ["100"]], "c": [["0"], ["101/100"]], "bend": "1", "below": "1", "fewer": "4/5",
        "closer": "1/2",
    }),
    ("samples", "a bend, steeper outwards", {
        "samples": ["2", "3"], "h": [["2"], ["3/2"]], "c": [["0"], ["4"]], "bend": "3", "below": "5/2", "fewer": "29/10",
        "closer": "1/2",
    }),
    ("restart", "a long way to go", {
        "event": "departure", "scheme": "B", "weights": ["99999/100000", "1/100000"], "h": [["1"], ["1000"]], "c": [["0"], ["101"]],
        "law": [["0", "1"], ["0", "1"]], "w0": ["101"], "tau_0": 1, "rounds": 1,
    }),
    ("restart", "only a is noisy", {
        "event": "arrival", "scheme": "B", "weights": ["1/2", "1/2"], "h": [["1"], ["1"]], "c": [["0"], ["0"]], "noise": [["0"], ["1"]],
        "law": [["0", "1"], ["0", "1"]], "w0": ["0"], "tau_0": 1, "rounds": 1,
    }),
)  # fmt: skip
