"""Instances, in fractions, of the sentences of EFL that the paper states without a formula:
stability, Table 1's row, compression."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.rational import to_file

__all__ = ["ATTAINED", "MAKERS"]


def _part(rng: np.random.Generator, most: int = 16, of: int = 8) -> Fraction:
    return Fraction(int(rng.integers(1, most + 1)), of)


def _signed(rng: np.random.Generator) -> Fraction:
    return Fraction(int(rng.integers(-8, 9)), 2)


def _shares(rng: np.random.Generator, n: int) -> list[Fraction]:
    parts = [int(v) for v in rng.integers(1, 5, n)]
    return [Fraction(v, sum(parts)) for v in parts]


def _rows(rng: np.random.Generator, n: int, d: int, make: Callable[[Any], Fraction]) -> list[list[Fraction]]:
    return [[make(rng) for _ in range(d)] for _ in range(n)]


_STEPS = [Fraction(v) for v in ("1/4", "1", "3/2", "19/10", "21/10", "5/2", "59/20", "31/10")]  # eta sum p h
_PULLS = [Fraction(v) for v in ("1/8", "1/2", "39/40", "21/20", "3/2")]  # eta^2 lambda |b|


def _stability(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d, E = int(rng.integers(1, 4)), int(rng.integers(1, 3)), int(rng.choice([1, 1, 1, 2, 3]))
    p = _shares(rng, n)
    h = [[_part(rng) for _ in range(d)]] * n if rng.random() < 0.35 else _rows(rng, n, d, _part)
    u = h if rng.random() < 0.4 else _rows(rng, n, d, lambda g: Fraction(int(g.integers(0, 17)), 8))
    if not any(row[0] for row in u):
        u = h
    U = sum(row[0] for row in u)
    a = sum(w * row[0] for w, row in zip(p, h, strict=True))
    b = sum((v[0] - w * U) * row[0] for w, v, row in zip(p, u, h, strict=True))
    eta = _STEPS[int(rng.integers(len(_STEPS)))] / a
    gentle = rng.random() < 0.3
    if gentle:  # eta (h + lambda U) at most 1
        eta = 1 / (2 * max(max(row) for row in h))
        lam = 1 / (2 * eta * max(sum(row[i] for row in u) for i in range(d)))
    elif b and E == 1:
        lam = _PULLS[int(rng.integers(len(_PULLS)))] / (eta**2 * abs(b))
    else:
        lam = _part(rng, 12) / (eta * U)
    start = [_signed(rng) for _ in range(d)]
    anchors = [start] * n if gentle else _rows(rng, n, d, _signed)
    data = {
        "weights": p, "h": h, "c": _rows(rng, n, d, _signed), "u": u, "lam": lam, "eta": eta,
        "E": E, "start": start, "anchors": anchors,
    }
    return f"N={n} d={d} E={E}", to_file(data)


def _frozen(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    variant, n, d = str(rng.choice(["consistent", "literal", "text"])), int(rng.integers(1, 4)), int(rng.integers(1, 3))
    data = {
        "variant": variant, "weights": [Fraction(1, n)] * n, "h": [[Fraction(1)] * d] * n,
        "c": _rows(rng, n, d, lambda g: Fraction(int(g.integers(-7, 8)))), "q": Fraction(1, d),
    }  # fmt: skip
    return f"{variant} N={n} d={d}", to_file(data)


def _compressed(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d, E = int(rng.integers(1, 3)), int(rng.integers(1, 3)), int(rng.integers(1, 3))
    noisy, T = rng.random() < 0.3, int(rng.integers(1, 4))
    c = [[_signed(rng) for _ in range(d)]] * n if rng.random() < 0.3 else _rows(rng, n, d, _signed)
    data = {
        "weights": _shares(rng, n),
        "h": _rows(rng, n, d, lambda g: Fraction(2) ** int(g.integers(-1, 2))), "c": c,
        "q": Fraction(int(rng.integers(1, d + 1)), d), "down": bool(rng.random() < 0.7), "E": E,
        "T": 2 // E if noisy else T,
        "w0": c[0] if rng.random() < 0.4 else [_signed(rng) for _ in range(d)],
    }
    if noisy:
        data["noise"] = [[_part(rng, 8, 4) if k == 0 else Fraction(0) for _ in range(d)] for k in range(n)]
    return f"N={n} d={d} E={E}" + (" noise" if noisy else ""), to_file(data)


def _compressed_partial(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    scheme = str(rng.choice(["A", "B", "C", "C-corrected"]))
    n, d, E = (int(v) for v in rng.integers(1, 3, 3))
    law = []
    for _ in range(n):
        parts = [int(v) for v in rng.integers(0, 4, E)] + [int(rng.integers(1, 4))]
        law.append([Fraction(v, sum(parts)) for v in parts])
    c = _rows(rng, n, d, _signed)
    data = {
        "scheme": scheme, "weights": _shares(rng, n),
        "h": _rows(rng, n, d, lambda g: Fraction(2) ** int(g.integers(-1, 2))), "c": c, "law": law,
        "q": Fraction(int(rng.integers(1, d + 1)), d), "down": bool(rng.random() < 0.7),
        "w0": c[0] if rng.random() < 0.4 else [_signed(rng) for _ in range(d)],
        "T": 1 if n * E == 4 else 2,
    }
    return f"{scheme} N={n} d={d} E={E}", to_file(data)


def _row(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    d, loss = int(rng.integers(1, 3)), bool(rng.random() < 0.5)
    h, start = [_part(rng) for _ in range(d)], [Fraction(int(rng.integers(1, 9))) for _ in range(d)]
    error = sum((x / 2 if loss else 1) * w**2 for x, w in zip(h, start, strict=True))
    root = Fraction(int(rng.integers(1, 5)), 8) * Fraction(round(float(error) ** 0.5 * 16) or 1, 16)
    data = {"h": h, "start": start, "root": root, "K": Fraction(10) ** int(rng.integers(0, 4)), "loss": loss}
    return f"d={d} " + ("loss" if loss else "distance"), to_file(data)


def _units(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    mu, L = sorted([_part(rng), _part(rng, 64)])
    data = {
        "G": _part(rng, 64), "L": L, "mu": mu, "S": Fraction(int(rng.integers(1, 50))),
        "sigma": _part(rng, 64), "clients": Fraction(int(rng.integers(1, 100))),
        "root": _part(rng, 16, 16),
    }
    return "random", to_file(data)


_THREE: dict[str, Any] = {"weights": ["1/3", "1/3", "1/3"], "h": [["1", "1"]] * 3, "q": "1/2"}  # w* = 0, gradients -c_k
_LITERAL = {**_THREE, "variant": "literal", "c": [["-14", "-5"], ["-8", "-25"], ["22", "30"]]}
_TEXT = {**_THREE, "variant": "text", "c": [["-3", "11"], ["8", "-9"], ["-5", "-2"]]}

MAKERS: dict[str, Callable[[np.random.Generator], tuple[str, dict[str, Any]]]] = {
    "stability": _stability, "frozen": _frozen, "compressed": _compressed,
    "compressed-partial": _compressed_partial, "row": _row, "units": _units,
}  # fmt: skip
ATTAINED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "stability", "the longest step that some lambda allows",
        {
            "weights": ["1/2", "1/2"], "h": [["1"], ["5"]], "c": [["0"], ["1"]], "u": [["1"], ["5"]], "lam": "141/1000",
            "eta": "59/60", "E": 1,
        },
    ),
    (
        "stability", "one client, a step a little above 2/h",
        {"weights": ["1"], "h": [["1"]], "c": [["0"]], "u": [["1"]], "lam": "1", "eta": "21/10", "E": 1},
    ),
    (
        "row", "by the distance, in a large unit",
        {"h": ["1/10000000000000000"], "start": ["1000000000"], "root": "500000000", "K": "1000000", "loss": False},
    ),
    (
        "row", "by the loss, curvatures far apart",
        {"h": ["100000000", "100000000000"], "start": ["1", "0"], "root": "5000", "K": "100", "loss": True},
    ),
    ("frozen", "the formulas as printed, three clients", _LITERAL),
    ("frozen", "the text of 3.1, three clients", _TEXT),
    *(
        (
            "compressed", f"from a flat direction, {'both ways' if down else 'one way'}",
            {
                "weights": ["1"], "h": [["1", "4000"]], "c": [["0", "0"]], "q": "1/2", "down": down, "E": 1, "T": 2, "w0": ["1", "0"],
            },
        )
        for down in (True, False)
    ),
    (
        "compressed", "three clients, from their optimum",
        {
            "weights": ["1/3", "1/3", "1/3"], "h": [["1", "1"]] * 3, "q": "1/2",
            "c": [["2", "1"], ["1", "-3"], ["-3", "2"]], "down": False, "E": 1, "T": 3, "w0": ["0", "0"],
        },
    ),
    (
        "compressed-partial", "from a flat direction",
        {
            "scheme": "C-corrected", "weights": ["1"], "h": [["1", "4000000"]], "c": [["0", "0"]], "law": [["1/2", "1/2"]],
            "q": "1/2", "down": False, "T": 2, "w0": ["1", "0"],
        },
    ),
    (  # each entry waits up to 16 rounds and then jumps beyond the optimum: only rho bounds this
        "compressed-partial", "one entry a round, and nothing but the residuals",
        {
            "scheme": "A", "weights": ["1"], "h": [["17/8"] * 16 + ["1"]], "c": [["0"] * 17], "law": [["0", "1"]], "q": "1/17",
            "down": False, "T": 16, "w0": ["1"] * 16 + ["0"],
        },
    ),
    (
        "compressed", "equal entries, noise only",
        {
            "weights": ["1"], "h": [["1", "1"]], "c": [["0", "0"]], "noise": [["1", "1"]], "q": "1/2", "down": True, "E": 1, "T": 2,
            "w0": ["0", "0"],
        },
    ),
)  # fmt: skip
