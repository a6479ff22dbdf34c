"""The instances of EFL's statements other than Theorem 1: shifts, limits, the elastic term,
compression, the rates of Table 1.

Almost all of them are given in fractions, so that their views are exact and a violation is a
witness as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.randomness import Stream
from fedtheory.rational import to_file
from fedtheory.theorems.efl.cases.theorem_2 import shift_on
from fedtheory.theorems.efl.instances import of_claims, sentences
from fedtheory.theorems.efl.instances.draws import curvatures as _curvatures
from fedtheory.theorems.efl.instances.draws import law as _law
from fedtheory.theorems.efl.instances.draws import rows as _rows
from fedtheory.theorems.efl.instances.draws import shares as _shares
from fedtheory.theorems.efl.instances.draws import signed as _signed
from fedtheory.theorems.efl.instances.draws import size as _size
from fedtheory.theorems.efl.notation import FractionsInstance, instance_of
from fedtheory.theorems.efl.statements.limit_points import SCHEMES
from fedtheory.theorems.efl.statements.theorem_2 import ShiftView

__all__ = ["KINDS", "DataShift", "battery", "random_instance"]

KINDS = (
    "shift", "departed", "after-shift", "inactive", "abandon", "epochs", "keep", "incomplete",
    "limit", "elastic", "compression", "feedback", "rates", *of_claims.MAKERS, *sentences.KINDS,
)
COUNTS = {"shift": 60, "compression": 330, "limit": 60, "rates": 60, "inactive": 60, "feedback": 80}  # others: 40
COUNTS |= {"compressed": 24, "compressed-partial": 24, "frozen": 24, "restart": 18, "row": 24}


@dataclass(frozen=True)
class DataShift:
    """A departure or arrival on data: l2-regularised logistic regression or least squares, with certified optima.

    Attributes
    ----------
    family : 'logistic', 'least squares' or 'breast cancer'
    event : 'departure' or 'arrival'
    clients : N, the one that leaves or joins among them
    """

    family: str
    event: str
    clients: int
    seed: int
    kind: str = "shift"

    @property
    def name(self) -> str:
        return f"shift: {self.family} {self.event} N={self.clients} seed={self.seed}"

    def problem(self) -> Any:
        """The problem with all clients, p^k = n_k/n."""
        from fedtheory import problems
        from fedtheory.problems import datasets, partitions

        if self.family == "breast cancer":
            data = datasets.breast_cancer()
            deal = partitions.dirichlet(data.targets, self.clients, 0.6, seed=self.seed)
            return partitions.federate(data, deal, ridge=1e-1, weights="samples")
        rng = Stream(self.seed).generator("efl shift")
        counts = rng.integers(4, 40, self.clients)
        features = [rng.standard_normal((n, 3)) + rng.standard_normal(3) for n in counts]
        if self.family == "logistic":
            labels = [np.where(rng.random(len(a)) < 0.5, -1.0, 1.0) for a in features]
            return problems.Logistic(features, labels, ridge=0.2, weights="samples")
        targets = [a @ rng.standard_normal(3) + rng.standard_normal(len(a)) for a in features]
        return problems.LeastSquares(features, targets, ridge=0.2, weights="samples")

    def view(self) -> ShiftView:
        """Certified optima with and without the last client. Raises `NotCertified` where one cannot be had."""
        return shift_on(self.problem(), self.event, self.clients - 1)

    def to_json(self) -> dict[str, Any]:
        return {"family": self.family, "event": self.event, "clients": self.clients, "seed": self.seed, "name": self.name}


# --- one random instance of each kind -------------------------------------------------------------
def _shift(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    event, n = str(rng.choice(["departure", "arrival"])), int(rng.integers(2, 5))
    samples = [Fraction(int(v)) for v in rng.integers(1, 30, n)]
    shape = rng.integers(4)
    if shape == 0:  # client a large or small against all others
        samples[-1] *= int(rng.integers(5, 200))
    elif shape == 1:
        samples[-1] /= int(rng.integers(5, 200))
    elif shape == 2:  # as many as all others
        samples[-1] = sum(samples[:-1], Fraction(0))
    if rng.random() < 0.4:  # one dimension, the shape for which the sharp bounds are attained
        mu, L = sorted([_size(rng), _size(rng)])
        n_o, n_a, at = sum(samples[:-1]), samples[-1], abs(_signed(rng)) + 1
        slope = (n_o / n_a) * mu * at  # of -F_a at the joint optimum
        data: dict[str, Any]
        data = {"event": event, "samples": samples, "h": [[mu]] * (n - 1) + [[L]], "c": [[Fraction(0)]] * (n - 1) + [[at + slope / L]]}
        if rng.random() < 0.7:
            data |= {"bend": at, "below": mu}
        return f"{event} 1-d", to_file(data)
    d = int(rng.integers(1, 4))
    return f"{event} d={d}", to_file({"event": event, "samples": samples, "h": _curvatures(rng, n, d), "c": _rows(rng, n, d, _signed)})


def _departed(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    rounds, n = int(rng.integers(1, 12)), int(rng.integers(2, 5))
    alike = rng.random() < 0.6
    work = [[Fraction(1)] * n] * rounds if alike else [[Fraction(int(v), 4) for v in rng.integers(1, 9, n)] for _ in range(rounds)]
    return f"T={rounds}", to_file({"T": rounds, "tau_0": int(rng.integers(rounds)), "mean_work": work})


def _after_shift(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    d, mu = int(rng.integers(1, 3)), _size(rng)
    h = [mu * int(v) for v in rng.integers(1, 5, d)]
    gamma = Fraction(16 * max(h) / mu) + int(rng.integers(0, 40))
    sigma_sq = Fraction(0) if rng.random() < 0.6 else _size(rng) * mu**2
    data = {
        "curvature": h, "start": [_signed(rng) for _ in h], "mu": mu, "gamma": gamma,
        "tau_0": int(rng.integers(0, 400)), "rounds": int(rng.integers(1, 16)),
        "sigma_sq": sigma_sq,
    }
    return f"d={d}", to_file(data)


def _inactive(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, rounds, most = int(rng.integers(1, 5)), int(rng.integers(1, 60)), int(rng.integers(1, 12))

    def row() -> list[Fraction]:
        if rng.random() < 0.5:
            return [Fraction(int(rng.integers(0, 4)), 4)] * n
        return [Fraction(int(v), 4) for v in rng.integers(0, 4, n)]

    idle: Any = row() if rng.random() < 0.5 else [row() for _ in range(rounds)]
    data = {
        "idle": idle, "E": most, "T": rounds,
        "gamma": Fraction(4 * most) + (0 if rng.random() < 0.3 else _size(rng)), "J": _size(rng),
        "C": _size(rng, 2.5), "y": Fraction(int(rng.integers(1, 20)), 20),
        "tau_0": int(rng.integers(rounds)) if rng.random() < 0.5 else 0,
    }
    return f"N={n} E={most} T={rounds}", to_file(data)


def _abandon(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    data = {
        "weights": _shares(rng, n), "h": _curvatures(rng, n, d), "c": _rows(rng, n, d, _signed),
        "y": Fraction(int(rng.integers(1, 100)), 100),
    }  # fmt: skip
    return f"N={n} d={d}", to_file(data)


def _epochs(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    kappa = 1 + (0 if rng.random() < 0.3 else _size(rng))
    data = {
        "noise": _size(rng, 2), "G_sq": _size(rng), "kappa": kappa, "E": int(rng.integers(1, 12)),
        "T": int(rng.integers(1, 400)),
    }  # fmt: skip
    return f"E={data['E']} T={data['T']}", to_file(data)


def _keep(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    noise, x0 = Fraction(0) if rng.random() < 0.2 else _size(rng), Fraction(int(rng.integers(-8, 9)), 4)
    data = {"y": Fraction(int(rng.integers(1, 20)), 20), "sigma_sq": noise, "x0": x0, "rounds": int(rng.integers(1, 30))}
    return f"T={data['rounds']}", to_file(data)


def _incomplete(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    n, most = int(rng.integers(1, 5)), int(rng.integers(1, 6))
    mu, L = sorted([_size(rng), _size(rng)])
    data = {
        "weights": _shares(rng, n), "law": [_law(rng, most, False) for _ in range(n)], "L": L,
        "mu": mu, "G_sq": Fraction(0) if rng.random() < 0.3 else _size(rng),
        "sigma_sq": [_size(rng) for _ in range(n)], "D": [_size(rng) for _ in range(n)],
    }
    return f"N={n} E={most}", to_file(data)


def _limit(rng: np.random.Generator, scheme: str | None = None, long: bool = False) -> tuple[str, dict[str, Any]]:
    scheme = scheme or str(rng.choice(SCHEMES))
    n, most, d = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 3))
    idle = rng.random() < 0.7
    law = [_law(rng, most, idle) for _ in range(n)]
    if rng.random() < 0.2:
        law = [law[0]] * n
    if scheme == "A" and not any(row[-1] for row in law):  # somebody is complete now and then
        law[0] = [Fraction(0)] * most + [Fraction(1)]
    h, step = _rows(rng, n, d, lambda g: Fraction(int(g.integers(2, 9)), 8)), Fraction(int(rng.integers(2, 30)))
    data = {
        "scheme": scheme, "weights": _shares(rng, n), "h": h, "c": _rows(rng, n, d, _signed),
        "law": law, "eta": Fraction(1, int(rng.integers(1, 20))),
        "x0": [_signed(rng) for _ in range(d)], "step": step, "offset": step * (n * most),
        "rounds": 4000 if long else int(rng.integers(1, 5)),
    }
    if long:
        data["arithmetic"] = "float"
    return f"{scheme} N={n} E={most} d={d}" + (" long run" if long else ""), to_file(data)


def _elastic(rng: np.random.Generator, long: bool = False) -> tuple[str, dict[str, Any]]:
    n, d = int(rng.integers(1, 5)), int(rng.integers(1, 3))
    weights = _shares(rng, n)
    h = _rows(rng, n, d, lambda g: Fraction(int(g.integers(1, 17)), 8))
    kind = rng.random()
    if kind < 0.4:
        u = h  # the Gram diagonal of a quadratic
    elif kind < 0.6:
        u = [[w * Fraction(k + 1) for k in range(d)] for w in weights]
    else:
        u = _rows(rng, n, d, lambda g: Fraction(int(g.integers(0, 17)), 8))
    most = max(max(sum(row[i] for row in u) for i in range(d)), Fraction(1, 8))
    eta = Fraction(int(rng.integers(2, 9)), int(rng.choice([4, 8])))
    lam = Fraction(int(rng.integers(1, 8)), 8) / (eta * most)
    data = {
        "weights": weights, "h": h, "c": _rows(rng, n, d, _signed), "u": u, "lam": lam, "eta": eta,
        "rounds": 2000 if long else 12,
    }  # fmt: skip
    if n > 1 and rng.random() < 0.5:
        data |= {"leaver": int(rng.integers(n)), "anchor": [_signed(rng) for _ in range(d)]}
    if long:
        data["arithmetic"] = "float"
    return f"N={n} d={d}" + (" long run" if long else ""), to_file(data)


_COMPRESSORS: tuple[Callable[[np.random.Generator, int], dict[str, Any]], ...] = (
    lambda g, n: {"name": "st", "q": Fraction(int(g.integers(1, n + 1)), n), "rule": "exact"},
    lambda g, n: {"name": "st", "q": Fraction(int(g.integers(1, 2 * n + 1)), 2 * n), "rule": "printed"},
    lambda g, n: {"name": "top-k", "k": int(g.integers(1, n + 1))},
    lambda g, n: {"name": "random-k", "k": int(g.integers(1, n + 1))},
    lambda g, n: {"name": "random-k", "k": int(g.integers(1, n + 1)), "scaled": True},
    lambda g, n: {"name": "scaled-sign"},
    lambda g, n: {"name": "qsgd", "levels": int(g.integers(1, 9))},
    lambda g, n: {"name": "natural"},
    lambda g, n: {"name": "stochastic"},
    lambda g, n: {"name": "stochastic", "step": _size(g, 1)},
    lambda g, n: {"name": "threshold", "epsilon": _size(g, 1)},
)


def _message(rng: np.random.Generator, n: int, size: Fraction) -> list[Fraction]:
    """Among random ones those that are extreme for some compressor: equal entries, one large one,
    ties, powers of two times 4/3."""
    shape = rng.integers(7)
    if shape == 0:
        return [size * int(rng.choice([-1, 1])) for _ in range(n)]
    if shape == 1:
        return [size * 64, *[size / int(rng.choice([1, 8, 64]))] * (n - 1)]
    if shape == 2:
        return [Fraction(int(v)) * size for v in rng.integers(-2, 3, n)]
    if shape == 3:
        return [Fraction(4, 3) * Fraction(2) ** int(v) for v in rng.integers(-3, 4, n)]
    if shape == 4:  # (1, b, ..., b) with b near 1/(1 + sqrt n)
        return [size, *[size * Fraction(round(64 / (1 + n**0.5)), 64)] * (n - 1)]
    return [_signed(rng) * size / 3 for _ in range(n)]


def _compression(rng: np.random.Generator, number: int | None = None) -> tuple[str, dict[str, Any]]:
    n = int(rng.integers(1, 9))
    number = int(rng.integers(len(_COMPRESSORS))) if number is None else number
    spec = to_file(_COMPRESSORS[number](rng, n))
    size = Fraction(1)
    if "step" in spec or "epsilon" in spec:  # near the worst case, now and then
        size = Fraction(spec.get("step", spec.get("epsilon"))) / (2 if "step" in spec else 1)
    x = _message(rng, n, size if rng.random() < 0.7 else _size(rng))
    return f"{spec['name']} n={n}", {"compressor": spec, "x": to_file(x)}


def _feedback(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    variant = str(rng.choice(["consistent", "consistent", "literal", "literal", "text", "text", "after"]))
    n, d, most = int(rng.integers(1, 4)), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    plain = rng.random() < 0.6
    most = 1 if plain else most
    low = 1 if plain else 0
    parts = {1: ["1"], 2: ["1/2", "1/2"], 3: ["1/2", "1/4", "1/4"]}[n]
    data = {
        "variant": variant, "weights": parts,
        "h": _rows(rng, n, d, lambda g: Fraction(int(g.integers(2, 9)), 8)),
        "c": _rows(rng, n, d, _signed), "q": Fraction(int(rng.integers(1, d + 1)), d),
        "eta": Fraction(1, 2 ** int(rng.integers(0, 4))), "x0": [_signed(rng) for _ in range(d)],
        "E": most, "rounds": int(rng.integers(1, 25)),
        "schedule": [[int(s) for s in rng.integers(low, most + 1, n)] for _ in range(3)],
    }
    return f"{variant} N={n} d={d}", to_file(data)


def _rates(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    mu, L = sorted([_size(rng), _size(rng)])
    data = {
        "G": _size(rng, 2), "L": L, "mu": mu, "S": Fraction(int(rng.integers(1, 100))),
        "root": min(_size(rng, 1.0) / 2, Fraction(4)),
        "delta": _size(rng, 2) if rng.random() < 0.5 else L * Fraction(int(rng.integers(1, 9)), 8),
    }  # fmt: skip
    return "random", to_file(data)


_MAKERS: dict[str, Callable[[np.random.Generator], tuple[str, dict[str, Any]]]] = {
    "shift": _shift, "departed": _departed, "after-shift": _after_shift, "inactive": _inactive,
    "abandon": _abandon, "epochs": _epochs, "keep": _keep, "incomplete": _incomplete,
    "limit": _limit, "elastic": _elastic, "compression": _compression, "feedback": _feedback,
    "rates": _rates, **of_claims.MAKERS, **sentences.MAKERS,
}


_LONG: dict[str, Any] = {"idle": ["0", "1/2"], "E": 1, "T": 400, "gamma": "4", "J": "1", "C": "1", "y": "1/2"}
_ATTAINED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("inactive", "abandoned at T/2", {**_LONG, "tau_0": 200}),
    ("inactive", "abandoned at once", {**_LONG, "tau_0": 0}),
    ("inactive", "one round of 200", {**_LONG, "idle": [["0", "1/2"], *[["0", "0"]] * 199], "T": 200, "tau_0": 0}),
    ("keep", "noise only", {"y": "1/2", "sigma_sq": "1", "x0": "1", "rounds": 1}),
    ("epochs", "many epochs", {"noise": "1/100", "G_sq": "8", "kappa": "1", "E": 6, "T": 50}),
    (
        "elastic", "a decaying step a little above 1/(10 a)",
        {
            "weights": ["1/2", "1/2"], "h": [["1"], ["1"]], "c": [["0"], ["2"]], "u": [["1"], ["1"]],
            "lam": "1", "eta": "101/1000", "rounds": 12,
        },
    ),
    (
        "elastic", "informative clients that are the curved ones",
        {
            "weights": ["2/5", "2/5", "1/5"], "h": [["1/40"], ["1/40"], ["13/10"]],
            "c": [["0"], ["-26"], ["1"]], "u": [["0"], ["0"], ["1"]], "lam": "19/20", "eta": "1", "rounds": 250,
        },
    ),
    *sentences.ATTAINED,
    ("compression", "QSGD beyond sqrt(n)/2", {"compressor": {"name": "qsgd", "levels": 3}, "x": ["5", "-3", "1", "1"]}),
    *of_claims.ATTAINED,
)


def random_instance(kind: str, rng: np.random.Generator) -> FractionsInstance:
    """One instance of a kind, over all shapes of its parameters.

    Raises
    ------
    InvalidInput
        A kind that is not in `KINDS`; data that its builder refuses (then draw again).
    """
    if kind not in _MAKERS:
        raise InvalidInput(f"kind = {kind!r}: use one of {', '.join(KINDS)}")
    if kind in ("limit", "elastic") and rng.random() < 0.02:  # long runs in floats
        label, data = (_limit if kind == "limit" else _elastic)(rng, long=True)
    else:
        label, data = _MAKERS[kind](rng)
    return instance_of(kind, label, data)


def battery(seed: int = 0, scale: float = 1.0) -> list[Any]:
    """Instances of every kind, with the shapes that the bounds are attained on among them, and shifts on data."""
    out: list[Any] = []
    for kind in KINDS:
        rng = Stream(seed).generator(f"efl battery {kind}")
        count = max(COUNTS.get(kind, 40) // 3, round(COUNTS.get(kind, 40) * scale))
        for i in range(count):
            if kind == "compression":
                label, data = _compression(rng, i % len(_COMPRESSORS))
            elif kind == "limit":
                label, data = _limit(rng, SCHEMES[i % 4], long=i % 10 == 9)
            elif kind == "elastic":
                label, data = _elastic(rng, long=i % 5 == 4)
            else:
                label, data = _MAKERS[kind](rng)
            out.append(instance_of(kind, label, data, seed * 1000 + i))
    out += [instance_of(kind, f"{label}, nearly attained", data) for kind, label, data in _ATTAINED]
    out += [
        DataShift(family, event, clients, seed * 10 + i)
        for family, clients in (("logistic", 4), ("least squares", 3), ("breast cancer", 5))
        for i in range(max(1, round(2 * scale)))
        for event in ("departure", "arrival")
    ]
    return out
