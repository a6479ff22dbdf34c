"""Runs of FedMLS in one dimension, as the data of a file say them: in fractions, and in floats.

They are in fractions where a form is judged, so that what violates it is proved to, and in floats
where counterexamples are searched for. Subgradients are exact: with noise the statements are about
expectations, and a search by sampling would find the sampling error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fedtheory.algorithms.fedmls import FedMLS
from fedtheory.errors import InvalidInput
from fedtheory.optimum.certify import Optimum
from fedtheory.problems.nonsmooth import MaxAffine
from fedtheory.rational import objects
from fedtheory.theorems.fedmls import lines, of_files
from fedtheory.theorems.fedmls.constants import LinesConstants, k_min
from fedtheory.theorems.fedmls.notation import LINE_14, LINE_22, ROUNDS, SLACK
from fedtheory.theorems.fedmls.quantities import Bounds, MLSView, view_of_run
from fedtheory.theorems.fedmls.readings import READINGS, TWO
from fedtheory.theory import derived, word
from fedtheory.theory.judge.record import Missing
from fedtheory.theory.world import WorldInstance

LARGEST_STEPS = 20_000  # local steps of a client in floats: longer runs are drawn again
READS = {"variant": word(*READINGS), **of_files.on_interval(10**9)}
FIELDS = tuple(READS)
GRID = 64  # what is drawn is a multiple of 1/64
ONE_SLOPE = "9.9 for 10"
SERVER, CLIENTS = ("x", "z"), ("x_client", "z_client", "z_average", "gradient")
UNKNOWN: Any = Missing("a run in fractions that no proof is walked along holds x_K alone")


@dataclass(frozen=True)
class OneDimension:
    """A run on f_i(x) = max_j slopes_ij x + offsets_ij over [-R, R], and how it is read."""

    variant: str
    clients: tuple[lines.Lines, ...]
    copies: tuple[int, ...]
    lam: Fraction
    d: Fraction
    radius: Fraction
    x0: Fraction
    rounds: int

    @classmethod
    def of(cls, data: dict[str, Any]) -> OneDimension:
        """Read the data: variant, slopes, offsets, lam, D, radius, x0, rounds, and copies or not.

        Raises
        ------
        InvalidInput
            Missing, unknown or malformed fields; data of no such run.
        """
        missing = [name for name in FIELDS if name not in data]
        unknown = sorted(set(data) - {*FIELDS, "copies"})
        both = (("missing", missing), ("unknown", unknown))
        if what := [f"{word}: {', '.join(names)}" for word, names in both if names]:
            raise InvalidInput(f"data of kind 'lines': wrong fields ({'; '.join(what)})")
        variant, slopes, offsets, *numbers = of_files.read_fields(READS, data).values()
        clients = of_files.clients_on_ball(slopes, offsets, *numbers[2:4])
        copies = data.get("copies", [])
        counted = isinstance(copies, list) and all(type(c) is int and c >= 1 for c in copies)
        if not counted or len(copies) not in (0, len(clients)):
            raise InvalidInput(
                f"copies = {copies}: give {len(clients)} integers >= 1, one for each loss, or none"
            )
        counts = tuple(copies) or (1,) * len(clients)
        return cls(variant, clients, counts, *numbers)

    reading = derived(lambda q: READINGS[q.variant], "The changes that its variant makes")
    best = derived(
        lambda q: lines.least_on(q.clients, -q.radius, q.radius, q.x0, q.copies),
        "F*, and the minimiser that is nearest to x_0",
    )

    @cached_property
    def constants(self) -> LinesConstants:
        """The constants of the bounds, with the reading's G_i, one for each loss."""
        takes, n = self.reading.takes, len(self.clients)
        G = [lines.steepest(c, self.radius, takes != "inside") for c in self.clients]
        if takes == "consensus":
            G = [lines.consensus_slope(self.clients, self.radius, self.copies)] * n
        numbers: Any = {"lam": self.lam, "D": self.d, "distance_sq": (self.x0 - self.best[1]) ** 2}
        arrays = objects(G), objects([Fraction(0)] * n), UNKNOWN, objects(self.copies)
        names = ("G_i", "sigma_i", "steps", "copies")
        return LinesConstants(self.rounds, **numbers, **dict(zip(names, arrays, strict=True)))

    g_sq = derived(
        lambda q: q.constants.joint_G_sq if q.reading.takes == "joint" else q.constants.G_sq,
        "G^2 of T_k",
    )
    far = derived(
        lambda q: q.constants.distance_sq * (q.constants.N if q.reading.joint_distance else 1),
        "||x_0 - x*||^2, in R^{Nd} where the reading has it there",
    )

    @property
    def run(self) -> lines.Run:
        """The run that the reading means."""
        change, end = self.reading.change, self.radius
        if change.get("server_projection") is False:
            end = math.inf  # type: ignore[assignment]
        return lines.Run(
            self.clients, self.lam, self.d, -end, end, self.radius, self.x0, self.rounds, self.g_sq,
            "flat" if self.reading.one_dimension else "sliding", change.get("average") == "printed",
            self.constants.N if change.get("norm") == "product" else 1, self.copies,
        )  # fmt: skip

    @cached_property
    def facts(self) -> frozenset[str]:
        """The facts that a form may need: the reading of lines 14 and 22, and whose K it is.

        Raises
        ------
        InvalidInput
            D or K that are not Theorem 2's, of its readings.
        """
        reading, K, far = self.reading, self.rounds, self.far
        facts = {LINE_14} if reading.change.get("average") else set()
        facts |= {LINE_22} if reading.change.get("norm") else set()
        if self.variant.startswith(TWO):
            need = 72 * far / (self.lam**2 * self.g_sq)  # 72 G^2 D/epsilon^2, epsilon = lambda G^2
            least = math.isqrt(math.ceil(need) - 1) + 1 if need > 0 else 1
            if self.d != far or K != least:
                raise InvalidInput(
                    f"D = {self.d} and K = {K} are not Theorem 2's: with these data and lambda it "
                    f"has D = {far} and K = {least}"
                )
            return frozenset(facts | {ROUNDS["printed"]})
        if self.d >= far and reading.holds:
            reach = self.lam**2 * self.g_sq / self.d  # epsilon^2/(G^2 D)
            facts |= {ROUNDS["printed"]} if K * K * reach >= 72 else set()
            enough = [name for name, s in SLACK.items() if K * (K + 1) * reach >= 2 * (10 + s)]
            facts |= {ROUNDS[name] for name in enough}
        return frozenset(facts)

    def in_fractions(self, whole: bool = False) -> MLSView:
        """Make the run.

        Parameters
        ----------
        whole : with what every client does in every round, and with round K's training

        Raises
        ------
        InvalidInput
            More rounds or local steps than fractions can carry, or what `facts` raises.
        """
        run, c, reading = self.run, self.constants, self.reading
        known: dict[str, Any] = dict.fromkeys((*SERVER, *CLIENTS, "values"), UNKNOWN)
        if self.variant == ONE_SLOPE:
            last = self._one_slope()
        else:
            path = lines.history(run, whole)
            last = lines.excess(self.clients, path.x[-1], self.best[0], self.copies)
            c = replace(c, steps=objects([Fraction(t) for t in run.steps]))
            if whole:
                each = np.repeat(np.arange(len(self.clients)), self.copies)
                bounds: Any = {"G_i": c.G_i[each], "sigma_i": c.sigma_i[each]}
                c = replace(c, **bounds, copies=objects([1] * len(each)))
                known = {n: objects(getattr(path, n))[:, None, None] for n in SERVER}
                rows = {n: objects(getattr(path, n))[:, each, None, None] for n in CLIENTS}
                known |= {**rows, "values": values_of([self.clients[i] for i in each])}
        shown = {"K": c.K, "G^2": self.g_sq, "||x_0 - x*||^2": self.far}
        return MLSView(
            c, **known, excess=of_files.entry(last), noise=0, points=objects([[self.best[1]]]),
            exact=True, facts=self.facts, shown=shown,
            reading="" if reading.holds else reading.form or self.variant,
        )  # fmt: skip

    def _one_slope(self) -> Fraction:
        """F(x_K) - F* from below, of one client f = -u on [-1, 1] from 0 with every T_k = 1.

        In closed form (docs/fedmls.md, How tight) x_K <= M_K = lam (K(K+1)/40 + (2K+1)/60), so that
        F(x_K) - F* = 1 - x_K >= 1 - M_K; nothing is cut at the interval's ends.
        """
        K, lam, one = self.rounds, self.lam, [(Fraction(-1), Fraction(0))]
        if (self.clients, self.copies, self.radius, self.x0) != ((one,), (1,), 1, 0):
            raise InvalidInput("this bound is refuted by one client f = -u with R = 1 and x_0 = 0")
        inside = lam * (Fraction(K * (K + 1), 20) + Fraction(8, 25)) <= 1
        if K < 2 or 2 * lam * lam * K * (K - 1) ** 2 > self.d or not inside:
            raise InvalidInput(
                f"K = {K}, lambda = {lam}, D = {self.d}: the closed form needs K >= 2, every "
                "T_k = 1, 2 lambda^2 K (K - 1)^2 <= D, and iterates that stay inside, "
                "lambda (K(K + 1)/20 + 8/25) <= 1"
            )
        return 1 - lam * (Fraction(K * (K + 1), 40) + Fraction(2 * K + 1, 60))

    def in_floats(self) -> MLSView:
        """Run the library's FedMLS on the same numbers.

        Raises
        ------
        FedTheoryError
            More local steps than `LARGEST_STEPS`, or numbers that FedMLS refuses.
        """
        pieces = np.array(self.clients, dtype=float).repeat(self.copies, axis=0)
        problem, radius = MaxAffine(pieces[:, :, :1], pieces[:, :, 1]), float(self.radius)
        g = math.sqrt(self.g_sq) * (1 + 2.0**-50)  # not below G in T_k
        algorithm = FedMLS(
            float(self.lam), float(self.d), self.rounds, radius, g, skip_last=False,
            **self.reading.change,
        )  # fmt: skip
        if sum(algorithm.steps(k) for k in range(1, self.rounds + 1)) > LARGEST_STEPS:
            raise InvalidInput(f"more than {LARGEST_STEPS} local steps")
        least, star = (float(v) for v in self.best)
        below = math.nextafter(least, -math.inf)
        best = Optimum(np.array([star]), least, below, 0.0, 0.0, "exact", "fractions")
        bounds = Bounds(best, problem.lipschitz(radius), np.zeros(problem.num_clients))
        start = np.array([float(self.x0)])
        return view_of_run(problem, algorithm, start, bounds=bounds, facts=self.facts)


def values_of(clients: list[lines.Lines]) -> Any:
    """f_i at a point of its own for each client: (..., N, 1, S) -> (..., N, S)."""

    def values(u: Any) -> Any:
        out = np.empty(u.shape[:-2] + u.shape[-1:], dtype=object)
        for index in np.ndindex(out.shape):
            out[index] = lines.value(clients[index[-2]], u[(*index[:-1], 0, index[-1])])
        return out

    return values


# --- random instances, for the search -------------------------------------------------------------
@dataclass(frozen=True)
class InFloats(WorldInstance):
    """An instance whose run is made in floats."""

    def view(self) -> MLSView:
        """The run; raises as `OneDimension.in_floats` does."""
        return OneDimension.of(self.data).in_floats()


def on_grid(value: Any, least: Fraction | None = None) -> Fraction:
    """The nearest multiple of 1/`GRID`, at least ``least``."""
    near = Fraction(round(float(value) * GRID), GRID)
    return near if least is None else max(near, least)


def draw(tape: Any) -> tuple[str, dict[str, Any]]:
    """Draw 1 to 4 clients of 1 to 3 pieces, K from 1 to 12 or Theorem 2's, on [-1, 1]."""
    n, p = int(tape.integers(1, 5)), int(tape.integers(1, 4))
    size = 10.0 ** tape.uniform(-1.0, 0.5, n)
    drawn = zip(size, tape.uniform(-2.0, 2.0, (n, p)), strict=True)
    slopes = [[on_grid(s * v) for v in row] for s, row in drawn]
    offsets = [[on_grid(v) for v in row] for row in tape.uniform(-1.0, 1.0, (n, p))]
    x0 = on_grid(tape.uniform(-1.0, 1.0))
    plan = ("free", "printed", *SLACK)[int(tape.integers(0, 4))]
    read = tape.random()
    variant = "line 14 as printed" if read < 0.2 else "repaired"
    if read > 0.8:
        variant = "line 22 with grad f_i/N"
        plan = "printed" if plan in SLACK else plan  # no form is about those
    lam_at, d_at = 10.0 ** tape.uniform(-1.5, 1.0), 10.0 ** tape.uniform(-2.0, 1.0)
    rounds, least = int(tape.integers(1, 13)), Fraction(1, GRID**2)
    clients = [list(zip(a, b, strict=True)) for a, b in zip(slopes, offsets, strict=True)]
    one = Fraction(1)
    _, star = lines.least_on(clients, -one, one, x0)
    distance_sq, g_sq = max((x0 - star) ** 2, least), max(of_files.g_sq_of(clients, one), least)
    lam = max(Fraction(round(lam_at * 4 * GRID), 4 * GRID), least)
    d = on_grid(d_at, Fraction(1, GRID))
    if plan != "free":  # epsilon = lam G^2, and no more rounds than can be run
        far = math.ceil(math.sqrt(distance_sq / g_sq) / 2 * GRID)
        lam, d = max(lam, Fraction(far, GRID)), distance_sq
        product = d / (lam**2 * g_sq)  # G^2 D/epsilon^2
        rounds = k_min(product, SLACK[plan]) if plan in SLACK else math.isqrt(
            math.ceil(72 * product) - 1) + 1
    if variant.startswith("line 22"):
        lam, d = n * lam, n * d
    numbers = {"lam": lam, "D": d, "radius": one, "x0": x0, "rounds": max(rounds, 1)}
    label = f"N={n} K={numbers['rounds']} {variant}"
    return label, {"variant": variant, "slopes": slopes, "offsets": offsets, **numbers}
