"""The best quadratic potential of a method: over all symmetric forms of its state, cross terms included.

    V = sum_ij M_ij <m_i, m_j> + sum_ij D_ij mean_k <d_ki, d_kj>,     M, D >= 0,     V >= ||x - x*||^2,

m the means over the clients of the state's fields less those of a fixed point, d their deviations,
and E V+ <= rho V for all losses of the class: the least such rho, by bisection. V's matrices are
blocks of one identity beside those of rho V - E V+ - sum of multipliers x conditions, so that rho
and V are proved in fractions. Of groups of clients m are the means of each group, and there is a D
for the deviations within each.

1. The class's round is run on a free symbol for each field of its state: s+ = A s + B g, and losses
   are asked at C s + D g. A round that flips coins has an A and a B for each way that they fall, and
   what follows holds for all of them.
2. *Reached*: the state stays in the span of A^i s_0 and A^i B, as c may be the mean of all c_k.
3. A fixed point at which every loss is asked at x*: s* = A s* + B g*, C s* + D g* = 0. Where there
   is one, losses less their tangents at x* make g* and s* 0. Where there is none, as of local
   descent with several steps, V+ <= rho V + c zeta^2 is sought. The deviations of g* are any, and
   the means of groups any whose mean over all clients is 0.
4. *Seen*: directions on which neither x nor a position ever depends go. With them a solver finds
   rho that are too small.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache, cached_property
from itertools import combinations_with_replacement as pairs
from itertools import product
from typing import Any

import numpy as np

from fedtheory.algorithms.base import Algorithm
from fedtheory.algorithms.compressed import Compressed
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.inputs import whole_number
from fedtheory.limits import announce
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.coins import Coins, every_way
from fedtheory.worst_cases.entries import ROUNDING, SHOWN, Coordinate, Trace
from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic, Vector, common, entry, square, value
from fedtheory.worst_cases.groups import Group, Groups, others, sized
from fedtheory.worst_cases.identity import Family
from fedtheory.worst_cases.methods import Scale, Subject, subject
from fedtheory.worst_cases.page import with_its_line
from fedtheory.worst_cases.programme import LARGEST, NoMultipliers, Solution, maximise, optimum
from fedtheory.worst_cases.runs import OPTIMUM, Run, spread
from fedtheory.worst_cases.traced import VectorClients

__all__ = [
    "BISECTIONS", "PotentialQuestion", "QuadraticPotential", "System", "answer", "potential_question",
    "quadratic_potential", "system",
]  # fmt: skip

SHORT, VALUE = 12, "V value"  # characters of a fraction that is shown as it is; V's multiple of F(x) - F*
SIZE, S, NOISE = ("size", "1", "1"), "s", "c"  # trace V <= 1; V >= s ||x - x*||^2; what zeta^2 is multiplied by
DIGITS = 10**6  # of rho
BISECTIONS = 20
SOLVED = 1.2e-5  # seconds: times the square of the conditions, for each programme (measured, one core)
ENOUGH = 1e-6  # of s, below which the solver's is 0
ROOM = (0, 1, 3, 10, 30, 100, 1000)  # by how many digits a rho that is proved may be larger than the solver's
CURVATURES = 33  # parabolas, of which the slowest is a lower bound
MOST_APART = 6  # groups whose parabolas are looked at with every choice of ends


@dataclass(frozen=True)
class Outcome:
    """The state after a round, for one way that its coins fall.

    Attributes
    ----------
    weight : its probability; 1 of a round without coins
    server : dict coordinate -> it after the round, of those of the means that are the same for all
    drawn, others : dict coordinate -> a client's after the round, of a client that is drawn and of the others
    """

    weight: Fraction
    server: Mapping[str, Vector]
    drawn: Mapping[str, Vector]
    others: Mapping[str, Vector]


@dataclass(frozen=True)
class System:
    """A round from a fixed point plus free coordinates.

    Attributes
    ----------
    run : the points at which losses are asked
    blocks : the coordinates of the means over the clients, and of the deviations, of each group by themselves
    outcomes : for each way that the round's coins fall
    fixed : whether there is a fixed point with every loss asked at x*
    stands : coordinate -> multiples of the coordinates of the state of which it is the sum, where it is none of them itself
    valued : the point x, and x+ of each outcome, where V has a multiple of F - F*, and is a form of the gradients at x,
        too; () where not
    """

    run: Run
    blocks: Mapping[str, tuple[str, ...]]
    outcomes: tuple[Outcome, ...]
    fixed: bool
    stands: Mapping[str, Mapping[str, Fraction]] = field(default_factory=dict)
    valued: tuple[str, ...] = ()

    def average(self, o: Outcome, f: str) -> Vector:
        """The mean over all clients of a coordinate after the round, with what the draw of a cohort adds to it."""
        if f in o.server:
            return o.server[f]
        turn = o.drawn[f] - o.others[f]
        drawn = turn.deviation if self.run.spread else {}
        return o.others[f].average + self.run.share * Vector(turn.mean, {}, drawn)

    def after(self, block: str, f: str, g: str) -> Quadratic:
        """E of <f, g> of the means after the round, or of the mean of <f, g> of the deviations."""
        return Quadratic.total(o.weight * self._after(o, block, f, g) for o in self.outcomes)

    def _after(self, o: Outcome, block: str, f: str, g: str) -> Quadratic:
        of_means = self.run.product(self.average(o, f), self.average(o, g))
        if block == MEAN:
            return of_means
        share = self.run.share
        return share * o.drawn[f].inner(o.drawn[g]) + (1 - share) * o.others[f].inner(o.others[g]) - of_means

    def family(self, losses: Losses, rho: Any, one: bool = False) -> Family:
        """The identity of E V+ <= rho V, of V with trace <= 1; s of V >= s ||x - x*||^2 is sought."""
        terms: dict[str, Quadratic] = {}
        for block, f, g in self.entries:
            if block == MEAN or not one:
                now = {entry(block, f, g): Fraction(rho), entry(f"V {block}", f, g): Fraction(1), SIZE: -Fraction(f == g)}
                terms[f"V {block} {f}, {g}"] = Quadratic(now) - self.after(block, f, g)
        if self.valued:
            terms |= self._with_values(losses, Fraction(rho), one)
        signed = {S, *(name for name in terms if name.startswith("V "))}
        terms[S] = -Quadratic({entry(f"V {MEAN}", "x", "x"): Fraction(1)})
        if not self.fixed:
            terms[NOISE] = square(self.run.optimum)
        terms |= {name: -c for name, c in self.run.of_losses(losses).items()}
        found = Family(Quadratic({SIZE: Fraction(1)}), terms, frozenset(signed))
        return found.of_one_client() if one else found

    def matrices(self, multipliers: Mapping[str, Fraction]) -> dict[str, dict[tuple[str, str], Fraction]]:
        """V's entries from the multipliers of a proof, in which all is multiplied by s."""
        found: dict[str, dict[tuple[str, str], Fraction]] = {block: {} for block in self.blocks}
        for block, f, g in self.entries:
            if x := multipliers.get(f"V {block} {f}, {g}"):
                found[block][f, g] = x / multipliers[S]
        return found

    def written(self, multipliers: Mapping[str, Fraction]) -> tuple[str, str]:
        """V of a proof as a sum, and of what its vectors are."""
        parts, at_x = [], self.valued[0] if self.valued else ""
        at = {self.run.named(at_x, g) for g in range(len(self.run.shares))}
        for block, of in self.matrices(multipliers).items():
            for (f, g), x in of.items():
                f, g = (f"grad F(x){n[len(at_x):]}" if n in at else n.removesuffix("'") for n in (f, g))
                what = f"||{f}||^2" if f == g else f"<{f}, {g}>"
                parts.append(f"{_exactly(x)} {what}" if block == MEAN else f"{_exactly(x)} mean ({what} of deviations)")
        if value := multipliers.get(VALUE):
            parts.append(f"{_exactly(value / multipliers[S])} (F(x) - F*)")
        less = "all of them less what they are where the method rests at x*" if self.fixed else "and x stands for x - x*"
        whose = ", (1), (2) and so on those over a group" * bool(self.run.groups)
        for n, row in self.stands.items():
            plain = {Fraction(1): "", Fraction(-1): "-"}
            terms = " + ".join(f"{plain.get(c, f'{_exactly(c)} ')}{m}" for m, c in row.items()).replace("+ -", "- ")
            less += f"; {n} stands for {terms}".replace("'", "")
        return " + ".join(parts).replace("+ -", "- "), f"Its vectors are means over the clients{whose}, {less}"

    def _with_values(self, losses: Losses, rho: Fraction, one: bool) -> dict[str, Quadratic]:
        """The forms of V's multiple of F(x) - F*, and of the conditions by which V >= s ||x - x*||^2."""
        x, *after = self.valued
        now = {x: rho, OPTIMUM: 1 - rho, f"V {x}": Fraction(1), f"V {OPTIMUM}": Fraction(-1)}
        new = Quadratic.total(o.weight * self._value(to) for o, to in zip(self.outcomes, after, strict=True))
        found = {VALUE: Quadratic.total(c * self._value(to) for to, c in now.items()) - new}
        there = [self.run.points[self.run.named(p, g)] for p in (OPTIMUM, x) for g in range(len(self.run.shares))]
        for name, q in losses.conditions(there).items():
            gram = {(f"V {block}", f, g): -c for (block, f, g), c in q.gram.items() if block == MEAN or not one}
            size = -1 - sum(c for (_, f, g), c in gram.items() if f == g)
            found[f"N {name}"] = Quadratic({**gram, SIZE: size}, {f"V {point}": -c for point, c in q.values.items()})
        return found

    def _value(self, point: str) -> Quadratic:
        """The mean over the clients of the losses at a point."""
        return Quadratic.total(s * value(self.run.named(point, g)) for g, s in enumerate(self.run.shares))

    def with_values(self) -> System:
        """The same with V a form of the gradients at x, too, and with a multiple of F(x) - F*."""
        def point(name: str, at: Vector) -> str:
            known = self.run.known(at)
            if known is None:
                self.run.gradient(name, at)
            return name if known is None else known[0]

        x, outcomes, valued = point("at x", Vector({"x": Fraction(1)})), [], []
        groups = range(len(self.run.shares))
        for i, o in enumerate(self.outcomes):
            valued.append(point("at x+" + f" {i}" * (i > 0), o.server["x"]))
            new = {self.run.named(x, g): self.run.points[self.run.named(valued[-1], g)].gradient for g in groups}
            outcomes.append(replace(o, drawn={**o.drawn, **new}, others={**o.others, **new}))
        at_x = [self.run.points[self.run.named(x, g)].gradient for g in groups]
        more = {block: tuple(n for v in at_x if v.block == block for n in v.deviation) for block in self.blocks}
        more[MEAN] = tuple(n for v in at_x for n in v.mean)
        blocks = {block: (*names, *more[block]) for block, names in self.blocks.items()}
        return replace(self, blocks=blocks, outcomes=tuple(outcomes), valued=(x, *valued))

    @property
    def entries(self) -> list[tuple[str, str, str]]:
        """The entries of V's matrices: block, and two coordinates."""
        return [(block, f, g) for block, names in self.blocks.items() for f, g in pairs(names, 2)]

    def on_parabolas(self, losses: Losses) -> float:
        """The slowest mean square rate where clients have parabolas a/2 ||.||^2 plus linear parts, of one a in a group, and of
        a message m a multiple arrives: no rho is below it. Of groups a is the same share of the way from mu to L, or an end."""
        run = self.run
        points = [p for p in run.points.values() if not p.name.startswith(OPTIMUM)]
        sent = [(run.named(n, g), v, d) for n, (m, d) in run.messages.items() for g, v in enumerate(run.rows(m))]
        made_of = [p.at for p in points] + [v for _, v, _ in sent]
        lost = np.array([(1 - float(delta)) ** 0.5 for *_, delta in sent])
        every = [p.name for p in points] + [name for name, *_ in sent]
        after = [self.after(*key) for key in self.entries]
        parts = [
            (block, of, [v.mean if block == MEAN else v.deviation if v.block == block else {} for v in made_of])
            for block, of in self.blocks.items()
        ]
        of = [g.losses for g in run.groups] or [losses]
        ends = np.array([[float(one.strong_convexity), float(one.largest_curvature)] for one in of])
        ways = [ends[:, 0] + t * (ends[:, 1] - ends[:, 0]) for t in np.linspace(0, 1, CURVATURES)]
        ways += [np.array(way) for way in product(*ends)] if 1 < len(of) <= MOST_APART else []
        found = 0.0
        for a, t in product(ways, (-1, 0, 1) if len(lost) else (0,)):
            slopes = _multiples([a[p.group] for p in points] + list(1 + t * lost), every, parts)
            found = max(found, float(max(abs(np.linalg.eigvals(_operator(self.entries, after, slopes))))))
        return found


def _multiples(by: list[float], names: list[str], parts: Any) -> dict[tuple[str, str], dict[str, float]]:
    """(block, vector) -> its coordinates, where every gradient, and all that arrives, is a multiple of its position or message."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    scale = np.diag(by)
    for block, coordinates, rows in parts:
        own, state = (
            np.array([[float(v.get(n, 0)) for n in of] for v in rows]).reshape(len(rows), len(of))
            for of in (names, coordinates)
        )
        vectors = np.linalg.solve(np.eye(len(names)) - scale @ own, scale @ state)
        found |= {(block, n): dict(zip(coordinates, row, strict=True)) for n, row in zip(names, vectors, strict=True)}
        found |= {(block, f): {f: 1.0} for f in coordinates}
    return found


def _operator(keys: list[Any], after: Sequence[Quadratic], slopes: Mapping[Any, Mapping[str, float]]) -> np.ndarray:
    """The map of a round on the products of coordinates."""
    out = np.zeros((len(keys), len(keys)))
    place = {key: i for i, key in enumerate(keys)} | {(b, g, f): i for i, (b, f, g) in enumerate(keys)}
    for i, q in enumerate(after):
        for (block, x, y), c in q.gram.items():
            for f, u in slopes[block, x].items():
                for g, w in slopes[block, y].items():
                    out[i, place[block, f, g]] += float(c) * u * w
    return out


# --- from a method's class ------------------------------------------------------------------------
class _Round:
    """A method's round from free fields of its state."""

    def __init__(self, subject: Subject, clients: int, participants: int, groups: tuple[Group, ...]) -> None:
        self.subject, self.clients, self.participants, self.groups = subject, clients, participants, groups
        trace = Trace(Run(groups=groups, weights={"x": 1}), clients, participants)
        of_all: tuple[Any, ...] = trace, subject.solver, clients, clients, 1, {}, [], "0"
        everybody = cache(lambda: VectorClients(*of_all))
        with with_its_line(subject.plain):
            self.begun = subject.algorithm.begin(trace.of_server(common("x")), clients, everybody)
        self.fields = [n for n, v in self.begun._asdict().items() if v is not None and _is_vector(v)]
        self.of_clients = [n for n in self.fields if np.ndim(getattr(self.begun, n)) == 3]
        self.start: dict[str, Vector] = {}  # coordinate -> it before round 1
        for n in self.fields:
            self.start |= self.rows(trace.run, n, trace.vector(getattr(self.begun, n)))
        # coordinate -> by how much it moves along with the start
        self.weights = {name: v.mean.get("x", Fraction(0)) for name, v in self.start.items()}
        self.own = [name for n in self.of_clients for name in self.rows(trace.run, n, Vector())]

    def rows(self, run: Run, field: str, v: Any) -> dict[str, Any]:
        """Coordinate -> a field's vector, of what clients keep that of each group."""
        return {run.named(field, g): row for g, row in enumerate(run.rows(v))} if field in self.of_clients else {field: v}

    def run(self) -> Run:
        """A run without points."""
        N, P = self.clients, self.participants
        return Run(Fraction(P, N), spread(N, P), weights=self.weights, groups=self.groups)

    def __call__(self, run: Run, at: Mapping[str, Any]) -> tuple[Outcome, ...]:
        """The coordinates after a round from fields, for each way that its coins fall."""
        trace = Trace(run, self.clients, self.participants)
        made = {n: trace.of_clients(at[n]) if n in self.of_clients else trace.of_server(at[n]) for n in self.fields}
        before, subject = self.begun._replace(**made), self.subject

        def after(coins: Coins) -> Any:
            seen = VectorClients(trace, subject.solver, self.clients, self.participants, 1, {}, [], coins=coins)
            return subject.algorithm.round(copy.deepcopy(before), seen)

        with with_its_line(self.subject.plain):
            return tuple(self._outcome(run, trace, coins.weight, new) for coins, new in every_way(after))

    def _outcome(self, run: Run, trace: Trace, weight: Fraction, after: Any) -> Outcome:
        subject = self.subject
        if trace.refused is not None:
            raise trace.refused
        if "t" in trace.read:
            raise MissingCapability(f"{subject.name}: asks which round it is, and a potential is one of every round")
        if run.conditions.keys() != {run.named(n, g) for n in run.messages for g in range(len(run.shares))}:
            raise MissingCapability(f"{subject.name}: a potential of l1 terms or of sets is not computed so")
        bits = {"missed_bits"} if isinstance(subject.algorithm, Compressed) else set[str]()
        for n in self.begun._fields:
            if n in bits.union(self.fields):
                continue
            if not _stays(getattr(self.begun, n), getattr(after, n)):
                told = f"a round changes {n}, which is no vector at the start: rounds may differ"
                raise MissingCapability(f"{subject.name}: {told}")
        new = {name: v for n in self.fields for name, v in self.rows(run, n, trace.vector(getattr(after, n))).items()}
        kept = {n: (v.new, v.old) if hasattr(v, "old") else (v, v) for n, v in new.items() if n in self.own}
        for n, (drawn, _) in kept.items():
            if drawn.drawn:
                raise MissingCapability(f"{subject.name}: what a client keeps in {n} depends on who else was drawn")
        server = {n: v for n, v in new.items() if n not in self.own}
        for n, v in (*server.items(), *((n, d) for n, (d, _) in kept.items())):
            if abs(sum(c * run.weights.get(name, 0) for name, c in v.mean.items()) - self.weights[n]) > ROUNDING:
                raise MissingCapability(f"{subject.name}: its {n} depends on where the origin is, as with weight decay")
        return Outcome(weight, server, {n: d for n, (d, _) in kept.items()}, {n: o for n, (_, o) in kept.items()})


def _is_vector(values: Any) -> bool:
    """True of a field of vectors, and not of counts or other numbers."""
    found = np.asarray(values, dtype=object)
    return found.shape[-1] == SHOWN and all(isinstance(x, Coordinate) or x == 0 for x in found.reshape(-1))


def _stays(before: Any, after: Any) -> bool:
    """True if what is no vector, None or numbers, is after a round what it was before."""
    if before is None or after is None:
        return before is after
    return bool(np.array_equal(np.asarray(before, dtype=object), np.asarray(after, dtype=object)))


def system(of: Subject, clients: int, participants: int, groups: tuple[Group, ...] = ()) -> System:
    """The system of a method's round in the coordinates that are reached and seen.

    Raises
    ------
    MissingCapability
        What the round asks for that is not linear in vectors; l1 terms, or a client's field that depends on the others.
    """
    turn = _Round(of, clients, participants, groups)
    names, of_client, everybody = list(turn.weights), turn.own, participants == clients
    raw = turn.run()
    probe = System(raw, {}, turn(raw, {f: raw.vector(f, f not in turn.of_clients) for f in turn.fields}), True)
    gradients = [n for n in raw.points if not n.startswith(OPTIMUM)]
    sent = {raw.named(n, g): v for n, (m, _) in raw.messages.items() for g, v in enumerate(raw.rows(m))}
    inputs = [*gradients, *sent]
    means = [[probe.average(o, f) for f in names] for o in probe.outcomes]
    mean, drawn = [[v.mean for v in of] for of in means], [[v.drawn for v in of] for of in means]
    apart = [[o.drawn[f].deviation for f in of_client] for o in probe.outcomes]
    begun = sorted({n for v in turn.start.values() for n in (*v.mean, *v.deviation)})
    first = [list(turn.weights.values()), *_columns([turn.start[f].mean for f in names], begun)]
    for m, d in zip(mean, drawn, strict=True):
        first += [*_columns(m, inputs), *_columns(d, inputs + of_client)]
    basis, at = _reached(first, [_rows(m, names) for m in mean])
    if everybody:
        own_first = _columns([turn.start[f].deviation for f in of_client], begun)
        own_first += [row for v in apart for row in _columns(v, inputs)]
        own_basis, own_at = _reached(own_first, [_rows(v, of_client) for v in apart])
    else:
        own_basis, own_at = _echelon([[Fraction(f == g) for g in of_client] for f in of_client])

    *free, last = range(len(raw.shares))  # groups, of which the means of the gradients g* at x* are free but for the last
    slopes = [{n: Fraction(p.group == g) for n, p in raw.points.items()} for g in range(len(raw.shares))]
    of_means = [{n: c - raw.shares[g] / raw.shares[last] * slopes[last][n] for n, c in slopes[g].items()} for g in free]
    still = [raw.points[g].at for g in gradients] + list(sent.values())  # nothing is left to send
    fixed = _rests(names, basis, mean, [{"x": Fraction(1)}, *(v.mean for v in still)], of_means) and _rests(
        of_client, own_basis, apart, [*(v.deviation for v in still), *(v for of in drawn for v in of)],
        [dict.fromkeys(gradients, Fraction(1))],
    )  # fmt: skip
    kept, own_kept = [names[i] for i in at], [f"{of_client[i]}'" for i in own_at]
    bases = dict(zip(kept, basis, strict=True)), dict(zip(own_kept, own_basis, strict=True))
    found = _in_coordinates(turn, fixed, bases)
    if not everybody:
        return found
    points = [p.at for n, p in found.run.points.items() if not n.startswith(OPTIMUM)]
    points += [v for m, _ in found.run.messages.values() for v in found.run.rows(m)]
    after = [_columns([found.average(o, f).mean for f in kept], kept) for o in found.outcomes]
    own_after = [_columns([o.drawn[f].deviation for f in own_kept], own_kept) for o in found.outcomes]
    sees, seen = _reached(_rows([{"x": Fraction(1)}, *(p.mean for p in points)], kept), after)
    own_sees, own_seen = _reached(_rows([p.deviation for p in points], own_kept), own_after)
    left, own_left = [kept[i] for i in seen], [own_kept[i] for i in own_seen]
    smaller = _in_coordinates(turn, fixed, ({n: bases[0][n] for n in left}, {n: bases[1][n] for n in own_left}))
    outcomes = []
    for o in smaller.outcomes:
        again = [smaller.average(o, f) for f in kept]
        new = {n: _sum(row, again) for n, row in zip(left, sees, strict=True)}
        own_again = [o.drawn[f].own_part for f in own_kept]
        new_own = {n: _sum(row, own_again) for n, row in zip(own_left, own_sees, strict=True)}
        outcomes.append(Outcome(o.weight, new, new_own, new_own))
    rows = [*zip(left, [dict(zip(kept, row, strict=True)) for row in sees], strict=True)]
    rows += zip(own_left, [dict(zip(own_kept, row, strict=True)) for row in own_sees], strict=True)
    stands = {n: {m: c for m, c in row.items() if c} for n, row in rows}
    return replace(smaller, outcomes=tuple(outcomes), stands={n: of for n, of in stands.items() if of != {n: 1}})


def _rests(
    names: Sequence[str], basis: Sequence[Sequence[Fraction]], after: Sequence[Sequence[Mapping[str, Any]]],
    still: Sequence[Mapping[str, Any]], slopes: Sequence[Mapping[str, Any]],
) -> bool:  # fmt: skip
    """True if a state that is reached is one that a round leaves as it is, whatever the gradients at x* are.

    after : of each outcome the tables of the coordinates after a round
    still : tables of what is 0 there, with every position at x*
    slopes : tables of multiples of one vector that the gradients may be
    """
    def equation(v: Mapping[str, Any], f: str = "") -> list[Fraction]:
        left = [Fraction(f == h) - v.get(h, 0) for h in names]
        of = [sum((c * x for c, x in zip(left, row, strict=True)), Fraction(0)) for row in basis]
        return of + [sum((v.get(n, 0) * c for n, c in table.items()), Fraction(0)) for table in slopes]

    rows = [equation(v, f) for of in after for v, f in zip(of, names, strict=True)]
    return all(pivot < len(basis) for pivot in _echelon(rows + [equation(v) for v in still])[1])


def _in_coordinates(turn: _Round, fixed: bool, bases: tuple[Mapping[str, Any], Mapping[str, Any]]) -> System:
    """The round from the state that coordinates make."""
    run, (mean, apart) = turn.run(), bases
    groups = range(len(run.shares))
    of_groups = [DEVIATION if not turn.groups else f"{DEVIATION} {g + 1}" for g in groups]
    for g in groups if fixed else ():
        run.points[run.named(OPTIMUM, g)] = Point(run.named(OPTIMUM, g), Vector(), Vector(), g)
    run.optimum = run.each([Vector() for _ in groups]) if fixed else run.optimum

    def part(of: Mapping[str, Any], f: str, names: list[str]) -> dict[str, Fraction]:
        return {n: b[names.index(f)] for n, b in of.items() if f in names and b[names.index(f)]}

    def vector(f: str, block: str = DEVIATION) -> Vector:
        return Vector(part(mean, f, list(turn.weights)), part(apart, f, turn.own), block=block)

    at = {
        f: run.each([vector(n, b) for n, b in zip(turn.rows(run, f, Vector()), of_groups, strict=True)])
        if f in turn.of_clients else vector(f) for f in turn.fields
    }  # fmt: skip
    blocks = {MEAN: tuple(mean)}
    for g, block in enumerate(of_groups):
        mine = {f"{run.named(f, g)}'" for f in turn.of_clients}
        blocks[block] = tuple(n for n in apart if n in mine)

    def both(of: Mapping[str, Vector]) -> dict[str, Vector]:
        return {**of, **{f"{f}'": v for f, v in of.items()}}

    outcomes = [replace(o, drawn=both(o.drawn), others=both(o.others)) for o in turn(run, at)]
    return System(run, blocks, tuple(outcomes), fixed)


def _rows(tables: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[list[Fraction]]:
    return [[Fraction(t.get(n, 0)) for n in names] for t in tables]


def _columns(tables: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[list[Fraction]]:
    return [[Fraction(t.get(n, 0)) for t in tables] for n in names]


def _sum(row: Sequence[Fraction], of: Sequence[Vector]) -> Vector:
    total = Vector()
    for c, v in zip(row, of, strict=True):
        total = total + c * v if c else total
    return total


def _echelon(rows: Sequence[Sequence[Fraction]]) -> tuple[list[list[Fraction]], list[int]]:
    """The rows in reduced echelon form, and their pivots."""
    left, out, pivots = [list(r) for r in rows], list[list[Fraction]](), list[int]()
    for c in range(len(left[0]) if left else 0):
        found = next((r for r in left if r[c] != 0), None)
        if found is None:
            continue
        left.remove(found)
        pivot = [x / found[c] for x in found]
        left = [[x - r[c] * y for x, y in zip(r, pivot, strict=True)] for r in left]
        out = [[x - r[c] * y for x, y in zip(r, pivot, strict=True)] for r in out]
        out.append(pivot)
        pivots.append(c)
    return out, pivots


def _reached(
    first: Sequence[Sequence[Fraction]], steps: Sequence[Sequence[Sequence[Fraction]]]
) -> tuple[list[list[Fraction]], list[int]]:
    """The least subspace with ``first`` in it that every v -> step v maps into itself: a basis in echelon form, and its pivots."""
    basis, _ = _echelon(first)
    while True:
        more = [
            [sum((a * x for a, x in zip(row, v, strict=True)), Fraction(0)) for row in step] for step in steps for v in basis
        ]
        new, at = _echelon([*basis, *(v for v in more if any(v))])
        if len(new) == len(basis):
            return new, at
        basis = new


# --- rho ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class PotentialQuestion:
    """A question for the best quadratic potential.

    Attributes
    ----------
    subject, losses : the method with its local work, and the class
    clients, participants : N and P; where all take part the potential is one for every N >= 2
    """

    subject: Subject
    losses: Losses
    clients: int
    participants: int

    @property
    def asked(self) -> dict[str, Any]:
        """The question's parts, by name."""
        source = {"source": self.subject.source} if self.subject.source else {}
        return {
            "method": self.subject.name, **source, "local steps": self.subject.local_steps or 1,
            "options": dict(self.subject.options),
            **{name: x for name, x in self.losses.asked.items() if name != "lipschitz"},
            "clients": self.clients, "participants": self.participants,
        }  # fmt: skip

    def system(self, valued: bool = False) -> System:
        """The round; ``valued``: with values of F in V."""
        groups = self.losses.groups if isinstance(self.losses, Groups) else ()
        found = system(self.subject, self.clients, self.participants, groups)
        return found.with_values() if valued else found

    def family(self, rho: Fraction, valued: bool) -> Family:
        """The identity."""
        return self.system(valued).family(self.losses, rho, self.clients == 1)


def potential_question(
    method: Any, options: Mapping[str, Any], local_steps: int = 1, losses: Losses | Sequence[Group] | None = None,
    clients: int | None = None, participants: int | None = None,
) -> PotentialQuestion:  # fmt: skip
    """The question of `quadratic_potential`, with its defaults.

    Raises
    ------
    UnknownName, InvalidInput
        As `quadratic_potential`.
    """
    losses, N = sized(Losses(Fraction(1), Fraction(1, 10)) if losses is None else losses, clients)
    if not losses.strong_convexity > 0 or losses.smoothness is None:
        told = "the least rho is that of smooth, strongly convex losses; give one above 0, such as 1/10"
        raise InvalidInput(f"strong_convexity = {losses.strong_convexity}: {told}")
    P = N if participants is None else whole_number("participants", participants)
    if P > N:
        raise InvalidInput(f"participants = {P} > clients = {N}: at most all take part")
    if P < N and isinstance(losses, Groups):
        raise InvalidInput(f"participants = {P} < clients = {N}: of groups potentials are found where everybody takes part")
    of = subject(method, options, local_steps, Scale(losses.smoothness, Fraction(1), Fraction(1), 1))
    return PotentialQuestion(of, losses, N, P)


@dataclass(frozen=True)
class QuadraticPotential:
    """A quadratic potential of a method, proved in fractions.

    Attributes
    ----------
    rho : E V+ <= rho V, plus c zeta^2 where there is no fixed point with all losses asked at x*
    best : the solver's least rho
    below : no rho is below this one, by equal parabolas
    c : what zeta^2 is multiplied by; 0 where there is a fixed point
    matrices : dict 'mean' or 'deviation' -> dict (coordinate, coordinate) -> V's entry, V >= ||x - x*||^2
    value : V's multiple of F(x) - F*
    solution, family : multipliers with L D L', and the identity
    question : what was asked
    valued : whether V has values of F, and gradients at x
    """

    rho: Fraction
    best: float
    below: float
    c: Fraction
    matrices: Mapping[str, Mapping[tuple[str, str], Fraction]]
    value: Fraction
    solution: Solution
    family: Family
    question: PotentialQuestion
    valued: bool

    @cached_property
    def any_number(self) -> bool:
        """True if it is one for every number of clients from 2 on, as far as `alike` tells."""
        return alike(self.question, self.valued)

    @property
    def written(self) -> tuple[str, str]:
        """V as a sum, and what its vectors are."""
        return self.question.system(self.valued).written(self.solution.numbers)

    def __repr__(self) -> str:
        noise = f", c {float(self.c):.6g}" if self.c else ""
        return f"QuadraticPotential({self.question.subject.name}: rho {float(self.rho):.6f}{noise}, proved)"


def quadratic_potential(
    method: Algorithm | type[Algorithm] | str, *, local_steps: int = 1, losses: Losses | Sequence[Group] | None = None,
    clients: int | None = None, participants: int | None = None, advance: Callable[[int], Any] | None = None,
    **options: Any,
) -> QuadraticPotential:  # fmt: skip
    """The best quadratic potential of a method's round, for all losses of a class.

    Parameters
    ----------
    method, options, local_steps : as `fedtheory.worst_cases.worst_case` takes them
    losses : smooth and strongly convex (default: L = 1, mu = 1/10), or a `Group` for each group of clients with a class of
        its own; then everybody takes part
    clients, participants : N (default: 2, of groups the least with two in each) and P (default: all). Where all take part
        the potential is one for every N >= 2, with groups for every N with these shares
    advance : called with 1 after each of the programmes, up to 2 `BISECTIONS`

    Raises
    ------
    UnknownName, InvalidInput
        What is no method, or none of its hyperparameters; losses that are not strongly convex; too many conditions.
    MissingCapability
        What the round asks for that is not linear in vectors, with the line; l1 terms.
    NotCertified
        There is none with rho <= 1, or none could be proved.
    """
    return answer(potential_question(method, options, local_steps, losses, clients, participants), advance)


def answer(q: PotentialQuestion, advance: Callable[[int], Any] | None = None) -> QuadraticPotential:
    """The best quadratic potential, with values of F where these make rho smaller.

    Raises
    ------
    InvalidInput, MissingCapability, NotCertified
        As `quadratic_potential`.
    """
    plain = q.system()
    conditions = plain.run.pairs
    if conditions > LARGEST:
        raise InvalidInput(f"{conditions:,} conditions on the losses: at most {LARGEST:,}; take fewer local steps")
    told = f"{conditions:,} conditions on the losses in each of up to {2 * BISECTIONS} programmes, three at the least"
    announce(told, 3 * SOLVED * conditions**2)
    below = plain.on_parabolas(q.losses)
    tried: list[QuadraticPotential] = []
    last: NotCertified | None = None
    for valued in (False, True):
        if valued and (not plain.fixed or q.clients > q.participants or (tried and tried[0].best - below < 2 / DIGITS)):
            break
        try:
            tried.append(_least(q, q.system(valued=True) if valued else plain, below, advance))
        except NotCertified as error:
            last = last or error
    if last is not None and not tried:
        raise last
    return min(tried, key=lambda found: found.rho)


def alike(q: PotentialQuestion, valued: bool) -> bool:
    """True if the round has the same numbers for every number of clients from 2 on, as far as `others` tell."""
    here = q.family(Fraction(1), valued)
    try:
        found = [other.family(Fraction(1), valued) for other in others(q)]
    except MissingCapability:
        return False
    return bool(found) and all((here.start, here.terms) == (o.start, o.terms) for o in found)


def _least(
    q: PotentialQuestion, found: System, below: float, advance: Callable[[int], Any] | None
) -> QuadraticPotential:  # fmt: skip
    """The least rho of one kind of potential, proved."""
    losses, one, name = q.losses, q.clients == 1, q.subject.name

    def largest(rho: Fraction) -> float:
        try:
            return optimum(found.family(losses, rho, one), S)
        except NoMultipliers:
            return 0.0

    if below > 1:
        raise NoMultipliers(f"{name}: equal parabolas grow by {below:.6g} a round; take smaller steps")
    if largest(Fraction(1)) < ENOUGH:
        raise NoMultipliers(f"{name}: no quadratic potential with rho <= 1 is found")
    low, high = int(below * DIGITS), DIGITS  # that of parabolas is often the least
    middle = low + 2
    while high - low > 1:
        middle = middle if low < middle < high else (low + high) // 2
        low, high = (low, middle) if largest(Fraction(middle, DIGITS)) > ENOUGH else (middle, high)
        if advance is not None:
            advance(1)
    last: NotCertified | None = None
    for room in ROOM:
        rho = Fraction(min(high + room, DIGITS), DIGITS)
        family = found.family(losses, rho, one)
        try:
            solved = maximise(family, S)
        except NotCertified as error:
            last = error
            continue
        if (s := solved.numbers.get(S, Fraction(0))) > 0:
            return _made(q, found, family, solved, s, rho, high / DIGITS, below)
    raise NotCertified(f"{name}: no potential could be proved") from last


def _exactly(x: Fraction) -> str:
    """A fraction as it is where that is short, else to twelve digits."""
    return str(x) if len(str(x)) <= SHORT else f"{float(x):.12g}"


def _made(
    q: PotentialQuestion, found: System, family: Family, solved: Solution, s: Fraction, rho: Fraction,
    best: float, below: float,
) -> QuadraticPotential:
    c, value = (solved.numbers.get(name, Fraction(0)) / s for name in (NOISE, VALUE))
    matrices = found.matrices(solved.numbers)
    return QuadraticPotential(rho, best, below, c, matrices, value, solved, family, q, bool(found.valued))
