"""Check a worst-case certificate by a second writing, client by client: nothing of the package is imported.

    python validation/references/check_certificate.py results/CERTIFICATE.json

Of the file only the question, the bound and the multipliers are used. The method is written out here for N clients
with a loss each, the criterion and every condition as well, and

    bound - criterion - sum of multiplier x mean over the clients of the condition

must be a positive semidefinite form of all N clients' vectors, which an elimination in fractions decides. The
package works with the clients' mean and deviations instead, in two blocks that are the same for every N. Of
groups of clients with losses of different classes every client has its weight and its class here.

Methods: fedavg, scaffold and scaffnew with local gradient steps, fedprox and feddyn with exact local solves, where everybody
takes part and losses are smooth. Criteria: gap and distance, of scaffnew their expectations over every way for its coins to fall.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from typing import Any

__all__ = ["check", "main"]

Vector = dict[Any, Fraction]  # by basis vector
CLIENTS = (2, 3, 5)
TIMES = (1, 2)  # the clients of groups


class Form:
    """A constant, plus a quadratic form of the basis vectors, plus a linear one of values of losses."""

    def __init__(self) -> None:
        self.constant, self.gram, self.values = Fraction(0), dict[Any, Fraction](), dict[Any, Fraction]()

    def inner(self, c: Fraction, a: Vector, b: Vector) -> None:
        """Add c <a, b>."""
        for x, u in a.items():
            for y, v in b.items():
                for key in ((x, y), (y, x)):
                    self.gram[key] = self.gram.get(key, Fraction(0)) + c * u * v / 2

    def value(self, c: Fraction, name: Any) -> None:
        """Add c f."""
        self.values[name] = self.values.get(name, Fraction(0)) + c


def plus(*terms: tuple[Any, Vector]) -> Vector:
    """A linear combination."""
    out: Vector = {}
    for c, v in terms:
        for name, number in v.items():
            out[name] = out.get(name, Fraction(0)) + Fraction(c) * number
    return {name: number for name, number in out.items() if number}


def mean(vectors: list[Vector]) -> Vector:
    """The mean over the clients."""
    return plus(*((Fraction(1, len(vectors)), v) for v in vectors))


@dataclass(frozen=True)
class Group:
    """Clients of one class, with what the names of their conditions end with."""

    share: Fraction
    clients: int
    L: Fraction
    mu: Fraction
    ending: str

    @staticmethod
    def all(question: Mapping[str, Any], times: int) -> list[Group]:
        """Those of a question, of so many clients; of the given groups of several, times as many."""
        def made(of: Mapping[str, Any], share: Any, clients: int, ending: str) -> Group:
            return Group(Fraction(share), clients, Fraction(of["smoothness"]), Fraction(of["strong convexity"]), ending)

        if "groups" not in question:
            return [made(question, 1, times, "")]
        groups = question["groups"].values()
        counts = [1 if of["clients"] == 1 else times * of["clients"] for of in groups]
        return [made(of, of["share"], n, f"({i})") for i, (of, n) in enumerate(zip(groups, counts, strict=True), 1)]


@dataclass
class Losses:
    """N losses with the points at which they were asked: name -> every client's position, and its gradient there."""

    groups: list[Group]
    points: dict[str, tuple[list[Vector], list[Vector]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.weights = [g.share / g.clients for g in self.groups for _ in range(g.clients)]
        self.N = len(self.weights)
        others = [{("g*", k): Fraction(1)} for k in range(self.N - 1)]
        last = plus(*((-w / self.weights[-1], g) for w, g in zip(self.weights, others, strict=False)))
        self.points["*"] = [{}] * self.N, [*others, last]

    def mean(self, vectors: list[Vector]) -> Vector:
        """The mean with the clients' weights."""
        return plus(*zip(self.weights, vectors, strict=True))

    def gradients(self, name: str, at: list[Vector]) -> list[Vector]:
        """New vectors: the gradients at a point; those of a known one where it was asked before."""
        known = next((g for n, (x, g) in self.points.items() if n != "*" and x == at), None)
        return self.solved(name, lambda _: at) if known is None else known

    def solved(self, name: str, where: Callable[[list[Vector]], list[Vector]]) -> list[Vector]:
        """The gradients at the point that is made of them."""
        found = [{(name, k): Fraction(1)} for k in range(self.N)]
        self.points[name] = where(found), found
        return found


def fedavg(of: Losses, x: Vector, question: Mapping[str, Any]) -> Iterator[Vector]:
    """x+ = the mean by weights of y_k, y_k after K gradient steps on f_k from x."""
    step = Fraction(question["options"]["step"])
    for t in range(question["rounds"]):
        y = [x] * of.N
        for j in range(question["local steps"]):
            y = [plus((1, a), (-step, g)) for a, g in zip(y, of.gradients(f"g{t}.{j}", y), strict=True)]
        x = of.mean(y)
        yield x


def initial(of: Losses, x: Vector, question: Mapping[str, Any]) -> list[Vector]:
    """The control variates before round 1: 0, the gradients at x_0, those at x*, or new vectors, to which a condition belongs."""
    said = question["options"].get("initial", "zero")
    if said in ("zero", "gradient"):
        return [{}] * of.N if said == "zero" else of.gradients("g0.0", [x] * of.N)
    return of.points["*"][1] if Fraction(said) == 0 else [{("c_k", k): Fraction(1)} for k in range(of.N)]


def scaffold(of: Losses, x: Vector, question: Mapping[str, Any]) -> Iterator[Vector]:
    """SCAFFOLD, option II: y <- y - h (g - c_k + c), c_k+ = c_k - c + (x - y)/(K h), from c_k as `initial` says."""
    step, K = Fraction(question["options"]["step"]), question["local steps"]
    c_k = initial(of, x, question)
    for t in range(question["rounds"]):
        c, y = mean(c_k), [x] * of.N
        for j in range(K):
            g = of.gradients(f"g{t}.{j}", y)
            y = [plus((1, a), (-step, b), (step, e), (-step, c)) for a, b, e in zip(y, g, c_k, strict=True)]
        c_k = [plus((1, e), (-1, c), (1 / (K * step), x), (-1 / (K * step), a)) for e, a in zip(c_k, y, strict=True)]
        x = mean(y)
        yield x


def fedprox(of: Losses, x: Vector, question: Mapping[str, Any]) -> Iterator[Vector]:
    """x+ = mean(y_k), mu (x - y_k) = grad f_k(y_k)."""
    mu = Fraction(question["options"]["mu"])
    for t in range(question["rounds"]):
        at = x
        of.solved(f"g{t}", lambda g, at=at: [plus((1, at), (-1 / mu, v)) for v in g])
        x = mean(of.points[f"g{t}"][0])
        yield x


def feddyn(of: Losses, x: Vector, question: Mapping[str, Any]) -> Iterator[Vector]:
    """grad f_k(y_k) = l_k + alpha (x - y_k), l_k+ = grad f_k(y_k), h+ = h - alpha mean(y_k - x), x+ = mean(y_k) - h+/alpha."""
    alpha = Fraction(question["options"]["alpha"])
    kept: list[Vector] = [{}] * of.N
    h: Vector = {}
    for t in range(question["rounds"]):
        at, before = x, kept

        def where(g: list[Vector], at: Vector = at, before: list[Vector] = before) -> list[Vector]:
            return [plus((1, at), (1 / alpha, e), (-1 / alpha, v)) for e, v in zip(before, g, strict=True)]

        kept = of.solved(f"g{t}", where)
        y = mean(of.points[f"g{t}"][0])
        h = plus((1, h), (-alpha, y), (alpha, x))
        x = plus((1, y), (-1 / alpha, h))
        yield x


METHODS = {"fedavg": fedavg, "scaffold": scaffold, "fedprox": fedprox, "feddyn": feddyn}


def scaffnew(of: Losses, x: Vector, question: Mapping[str, Any]) -> list[tuple[Fraction, Vector, str]]:
    """Scaffnew, and each way for its coins to fall: its probability, the server's last average, and the faces.

    y_k = x_k - gamma (g_k - h_k); heads: x_k+ = mean(y_i - gamma/p h_i), tails: x_k+ = y_k; h_k+ = h_k + p/gamma (x_k+ - y_k).
    """
    step, p, K = Fraction(question["options"]["step"]), Fraction(question["options"]["p"]), question["local steps"]
    over, N = p / (K * step), of.N
    ways: list[Any] = [(Fraction(1), x, [x] * N, [{}] * N, "")]
    for t in range(question["rounds"]):
        after = []
        for weight, server, own, h, faces in ways:
            y = own
            for j in range(K):
                g = of.gradients(f"g{t}{faces}.{j}", y)
                y = [plus((1, a), (-step, b), (step, c)) for a, b, c in zip(y, g, h, strict=True)]
            average = mean([plus((1, a), (-1 / over, c)) for a, c in zip(y, h, strict=True)])
            for face, chance, new, at in (("+", p, [average] * N, average), ("-", 1 - p, y, server)):
                kept = [plus((1, c), (over, b), (-over, a)) for a, b, c in zip(y, new, h, strict=True)]
                after.append((weight * chance, at, new, kept, f"{faces}{face}/"))
        ways = after
    return [(weight, server, faces) for weight, server, _, _, faces in ways if weight]


def ends(of: Losses, x: Vector, question: Mapping[str, Any]) -> list[tuple[Fraction, Vector, str]]:
    """Each way for a method's coins to fall: its probability, the last model, and the faces."""
    if question["method"] == "scaffnew":
        return scaffnew(of, x, question)
    *_, last = METHODS[question["method"]](of, x, question)
    return [(Fraction(1), last, "")]


def left_over(certificate: Mapping[str, Any], times: int) -> Form:
    """The bound less the criterion and the conditions times their multipliers, for so many clients, or times those of groups."""
    question, multipliers = certificate["question"], {k: Fraction(v) for k, v in certificate["multipliers"].items()}
    losses, start, out = Losses(Group.all(question, times)), {"x0": Fraction(1)}, Form()
    N = losses.N
    out.constant = Fraction(certificate["claim"]["bound"])
    if question["criterion"] not in ("gap", "distance"):
        raise SystemExit(f"criterion {question['criterion']!r}: gap and distance are written here")
    for weight, x, faces in ends(losses, start, question):
        if question["criterion"] == "distance":
            out.inner(-weight, x, x)
            continue
        losses.gradients(f"end{faces}", [x] * N)
        end = next(n for n, (at, _) in losses.points.items() if n != "*" and at == [x] * N)
        for k, w in enumerate(losses.weights):
            out.value(-weight * w, (end, k))
            out.value(weight * w, ("*", k))
    for name, m in multipliers.items():
        if name == "minus the bound":
            if m != -out.constant:
                raise SystemExit(f"the bound is {out.constant}, and the multiplier of -1 is {-m}")
        elif name == "start":
            at_least_0(name, m)
            out.constant -= m * Fraction(question["distance"]) ** 2
            out.inner(m, start, start)
        elif name == "heterogeneity":
            at_least_0(name, m)
            out.constant -= m * Fraction(question["heterogeneity"]) ** 2
            for w, g in zip(losses.weights, losses.points["*"][1], strict=True):
                out.inner(m * w, g, g)
        elif name == "c_k":
            at_least_0(name, m)
            out.constant -= m * Fraction(question["options"]["initial"]) ** 2
            for k, (w, g) in enumerate(zip(losses.weights, losses.points["*"][1], strict=True)):
                off = plus((1, {("c_k", k): Fraction(1)}), (-1, g))
                out.inner(m * w, off, off)
        else:
            at_least_0(name, m)
            less_condition(out, m, losses, name)
    return out


def at_least_0(name: str, m: Fraction) -> None:
    """Refuse a negative multiplier of an inequality."""
    if m < 0:
        raise SystemExit(f"the multiplier of {name} is {m} < 0")


def less_condition(out: Form, m: Fraction, losses: Losses, name: str) -> None:
    """Subtract m times the mean over a group's clients of f_k(x_i) - f_k(x_j) - <g_j, x_i - x_j> - (|g_i - g_j|^2/L + mu |x_i - x_j|^2
    - 2 mu/L <g_j - g_i, x_j - x_i>)/(2 (1 - mu/L))."""
    pairs = list(permutations(losses.points, 2))
    named = {f"{i}{g.ending}, {j}{g.ending}": (i, j, at) for at, g in enumerate(losses.groups) for i, j in pairs}
    if name not in named:
        raise SystemExit(f"there is no condition {name!r}")
    i, j, at = named[name]
    before, group = sum(g.clients for g in losses.groups[:at]), losses.groups[at]
    L, mu = group.L, group.mu
    c, share = m / group.clients, 1 / (2 * (1 - mu / L))
    for k in range(before, before + group.clients):
        (x_i, g_i), (x_j, g_j) = ((losses.points[p][0][k], losses.points[p][1][k]) for p in (i, j))
        apart, turned = plus((1, x_i), (-1, x_j)), plus((1, g_i), (-1, g_j))
        out.value(-c, (i, k))
        out.value(c, (j, k))
        out.inner(c, g_j, apart)
        out.inner(c * share / L, turned, turned)
        out.inner(c * share * mu, apart, apart)
        out.inner(-2 * c * share * mu / L, turned, apart)


def semidefinite(gram: Mapping[Any, Fraction]) -> bool:
    """True if a symmetric matrix has no negative eigenvalue: symmetric elimination, exactly."""
    left = {key: v for key, v in gram.items() if v}
    for name in sorted({x for x, _ in left}, key=str):
        pivot = left.pop((name, name), Fraction(0))
        row = {y: v for (x, y), v in left.items() if x == name}
        if pivot < 0 or (pivot == 0 and row):
            return False
        left = {key: v for key, v in left.items() if name not in key}
        for x, u in row.items():
            for y, v in row.items():
                left[x, y] = left.get((x, y), Fraction(0)) - u * v / pivot
        left = {key: v for key, v in left.items() if v}
    return True


def check(certificate: Mapping[str, Any], clients: tuple[int, ...] = CLIENTS) -> None:
    """Raise `SystemExit` with what is wrong, for one of the numbers of clients."""
    question = certificate["question"]
    if question["method"] not in (*METHODS, "scaffnew") or question["participants"] != question["clients"]:
        raise SystemExit(f"{question['method']}, {question['participants']} of {question['clients']} clients: not written here")
    for N in how_many(question, clients):
        left = left_over(certificate, N)
        if left.constant != 0:
            raise SystemExit(f"N = {N}: the bound is not the sum of what start and heterogeneity give: {left.constant} is left")
        if any(left.values.values()):
            raise SystemExit(f"N = {N}: values of losses are left: {[str(n) for n, v in left.values.items() if v]}")
        if not semidefinite(left.gram):
            raise SystemExit(f"N = {N}: what is left is no sum of squares")


def how_many(question: Mapping[str, Any], clients: tuple[int, ...] = CLIENTS) -> tuple[int, ...]:
    """Numbers of clients, or by how much those of groups are multiplied: by nothing where that changes a plain mean."""
    if "groups" not in question:
        return clients
    alone = any(of["clients"] == 1 for of in question["groups"].values())
    return TIMES[:1] if alone and question["method"] != "fedavg" else TIMES


def told(question: Mapping[str, Any]) -> str:
    """Say which clients it was checked for."""
    if "groups" not in question:
        return f"N = {', '.join(map(str, CLIENTS))}"
    counts = [" and ".join(str(g.clients) for g in Group.all(question, n)) for n in how_many(question)]
    return f"groups of {', and of '.join(counts)} clients"


def main(files: list[str]) -> None:
    """Check files."""
    for file in files:
        check(json.loads(Path(file).read_text()))
        print(f"{file}: proved, for {told(json.loads(Path(file).read_text())['question'])}, by the second writing")


if __name__ == "__main__":
    main(sys.argv[1:])
