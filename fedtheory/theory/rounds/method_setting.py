"""Make what an authored statement is judged on: instances, views in fractions and in
floats, Monte Carlo, and variants.

`MethodSetting` is a statement with its method, local work, sampling and class of problems; a
variant of it has one assumption dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product, takewhile
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError, InvalidInput, NotCertified
from fedtheory.participation.cohorts import Cohort, Full, Sampling, Uniform
from fedtheory.randomness import Stream
from fedtheory.rational import with_floats
from fedtheory.theory.rounds.declare import (
    Among,
    Facts,
    Family,
    GradientSteps,
    Method,
    Minimise,
    Upto,
    Words,
    in_fractions,
    resolve,
)
from fedtheory.theory.rounds.fixed_points import by_coordinate, in_floats
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.measured import Quantities, RoundQuantities, RunQuantities
from fedtheory.theory.rounds.oracles import (
    MAX_PATHS,
    ProblemWorld,
    SeparableWorld,
    enumerable,
    everyone,
    probabilities,
    rows,
    run,
    sequences,
    whole,
)
from fedtheory.theory.rounds.problem_classes import ProblemClass
from fedtheory.theory.rounds.undefined import Undefined
from fedtheory.theory.rounds.units import POSITIONS, simple

__all__ = ["MANY", "MethodSetting"]

MANY = 128  # cohorts of one round of more clients than need be
DRAWS = 200
STATES = 32
REACHED = 6  # rounds of a run whose states are looked at
REACHED_FROM = 3  # starts of such runs
MORE_STARTS = 7  # of one round on a user's problem, beside 0, where he says none
EXACT_PATHS = 81  # of a run in fractions
TOGETHER = 2**23  # numbers, or predictions, of all clients in all rounds of draws held at once
AT_REST = 200  # rounds of the longest run that is drawn, of those that start where nothing may move
USUAL = 50  # rounds of the longest run where nobody asks for more
REACHES = np.array([Fraction(16 + i % 16, 16) * Fraction(2) ** (i // 16) for i in range(-160, 80)])


@dataclass(frozen=True, eq=False)
class MethodSetting:
    """A statement, and everything it is about.

    Parameters
    ----------
    of : an `AuthoredStatement`
    method, local, sampling, problems : as declared, or with one assumption dropped
    """

    of_statement: Any
    method: Any
    local: GradientSteps | Minimise
    sampling: Any
    problems: ProblemClass

    @classmethod
    def of(cls, statement: Any) -> MethodSetting:
        """The setting as declared; of several rules that of the first."""
        statement = next(iter(statement.variants.values()))
        return cls(
            statement, statement.about, statement.local, statement.sampling, statement.problems
        )

    @property
    def scope(self) -> str:
        """'round', 'run' or 'fixed-point'."""
        return self.of_statement.over

    @property
    def usual_rounds(self) -> tuple[int, int]:
        """The least and the most rounds where nobody says how many."""
        least, most = self.of_statement.rounds
        return least, max(least, min(most, USUAL)) if self.scope == "run" else most

    @property
    def more_starts(self) -> int:
        """How many starts a round has beside 0 where a user says none; of any state it has none."""
        return MORE_STARTS if self.scope == "round" and not self._free else 0

    def default_starts(self, problem: Any, rng: np.random.Generator) -> np.ndarray:
        """0, and of one round others that are drawn around the optimum (S, d)."""
        zero = np.zeros((1, problem.dim))
        if not self.more_starts:
            return zero
        return np.concatenate([zero, _starts(self.world(problem), rng, self.more_starts, None)])

    # --- instances --------------------------------------------------------------------------------
    def open_numbers(self) -> dict[str, Any]:
        """The numbers that the statement leaves open of the method and of the local work, by
        name."""
        own = self.method.hyperparameters if isinstance(self.method, Method) else {}
        declared = {**self.local.parameters(), **{f"method.{k}": v for k, v in own.items()}}
        return {k: v for k, v in declared.items() if isinstance(v, Family)}

    def words(self, instance: Draw) -> str:
        """An instance in words, with the numbers that what it draws comes to, and their limits:
        'method.mu = 2 (above 1)'."""
        families = {k: v for k, v in self.open_numbers().items() if k in instance.drawn}
        numbers = {k: str(instance.drawn[k]) for k, v in families.items() if isinstance(v, Among)}
        if len(numbers) == len(families):
            return instance.words(numbers)
        for exact in (True, False):
            world = SeparableWorld(instance.losses(exact), instance.start)
            try:
                facts = self.resolved(world, self.law(instance), instance.drawn, instance.rounds)[0]
                for name, family in families.items():
                    if not isinstance(family, Among):
                        value, limit = (
                            resolve(v, facts, exact, instance.drawn[name])
                            for v in (family, family.limit)
                        )
                        side = (
                            "at most" if isinstance(family, Upto) else "at least" if family.closed
                            else "above"
                        )
                        numbers[name] = f"{_short(value)} ({side} {_short(limit)})"
                break
            except (FedTheoryError, ArithmeticError):
                continue
        return instance.words(numbers)

    @property
    def of_package(self) -> bool:
        """True of a method of the package, whose hyperparameters are options of the command
        line."""
        plain = isinstance(self.method, Method) and self.method.wrapped is None
        return plain and self.method.cls.__module__.startswith("fedtheory.")

    @property
    def free(self) -> tuple[str, ...]:
        """The hyperparameters of the method that a user may choose."""
        if not isinstance(self.method, Method):
            return ()
        given, rules = self.method.hyperparameters.items(), self.of_statement.rule_values
        return tuple(n for n, value in given if isinstance(value, Family | Words) or n in rules)

    def usual(self, problem: Any) -> dict[str, Any]:
        """The hyperparameters that a user may choose, as they usually are on a problem."""
        facts = self.facts(self.world(problem), Full(), 1)
        found = self.method.numbers(facts, self.first_choice, False)
        return {name: found[name] for name in self.free}

    def random_instance(self, rng: np.random.Generator) -> Draw:
        """One instance of the class, with everything drawn that varies, and few enough sequences
        of cohorts to enumerate.

        Raises `InvalidInput`: none was found: the class is empty, or its runs have too many
        sequences of cohorts.
        """
        reason = ""
        for _ in range(DRAWS):
            made = self._drawn(rng)
            if made is None:
                reason = (
                    f"{self.sampling} needs at least {self.sampling.size} clients: declare "
                    f"clients={self.sampling.size}"
                )
                continue
            why = self.why_not(made)
            if why is None and self.few(made):
                return made
            why = why or f"a round of {made.num_clients} clients has too many cohorts to enumerate"
            reason = (
                f"{why}: declare smaller numbers of clients or of rounds" if "sequences" in why
                else why
            )
        where = self.of_statement.place
        raise InvalidInput(
            f"{where}: in {DRAWS} draws no instance was found of: {self.problems}; of "
            f"the last, {reason}"
        )

    def few(self, made: Draw) -> bool:
        """True if the sequences of cohorts are few enough to enumerate; of one round fewer where
        the class has fewer clients."""
        count = self.law(made).count(made.num_clients)
        if self.scope == "run":
            return len(made.starts) * count**made.rounds <= MAX_PATHS
        return count <= (MANY if made.num_clients > self.problems.clients[0] + 4 else MAX_PATHS)

    def _drawn(self, rng: np.random.Generator) -> Draw | None:
        base = self.problems.draw(rng)
        share = 0.25 if self.scope == "run" else 0.12
        # where nothing should move: a bias, or a noise, is all there is
        still = rng.random() < share
        n, size = base.num_clients, None
        if self.sampling is Uniform:
            size = int(rng.integers(1, n + 1))
        elif isinstance(self.sampling, Uniform):
            size = self.sampling.size
            if size > n:
                return None
        least, most = self.usual_rounds
        if still and base.dim == 1:  # which is soon done
            most = max(most, min(self.of_statement.rounds[1], AT_REST))
        lengths: Sequence[int] = range(least, most + 1)
        if self.scope == "run":  # of the few that can be enumerated often the longest
            count = self.law(base.changed(cohort_size=size)).count(n)
            lengths = [*takewhile(lambda t: count**t <= MAX_PATHS, lengths)] or lengths[:1]
            lengths = lengths[-1:] if still or rng.random() < 0.25 else lengths
        rounds = lengths[int(rng.integers(len(lengths)))]
        before = _before(rng, n, size, rounds if self.scope == "round" else 0)
        drawn = {k: v.draw(rng) for k, v in self.open_numbers().items()}
        made = base.changed(rounds=rounds, before=before, cohort_size=size, drawn=drawn)
        if still and self.problems.why_not(made) is None:
            made = self._at_rest(made)
        elif (starts := self.of_statement.starts) > 1 and rng.random() < 0.5:
            made = made.changed(start=_several(rng, made.start, int(rng.integers(2, starts + 1))))
        if not self._free or rng.random() < 0.5:
            return made
        units = (Fraction(1), base.exact_losses.constants["beta"])  # of a model, or of a gradient
        state = {
            name: np.empty(v, dtype=object) for name, v in self._shapes(N=n, d=base.dim).items()
        }
        for values in state.values():
            unit = units[int(rng.integers(2))]
            for index in np.ndindex(values.shape):
                values[index] = simple(rng, POSITIONS, 3.0) * unit
        return made.changed(rounds=0, before=(), state=state)

    def _at_rest(self, instance: Draw) -> Draw:
        """The instance started at the minimiser of F, where there is one; of a run in every
        coordinate as far from it, towards its own start, as a round of all clients leaves the model
        there."""
        try:
            x = instance.exact_losses.minimiser(instance.start)
            if self.scope == "run":
                points = x + REACHES[:, None] * (instance.start - x)
                starts = points.astype(float)
                world = SeparableWorld(instance.losses(False), starts[0])
                cohorts = [everyone(instance.num_clients, len(starts))]
                path = self._made(world, starts, Full(), cohorts, None, instance.drawn).path
                rests = np.isclose(path.states[-1].x, starts, rtol=1e-12, atol=1e-12)
                last = len(points) - 1 - rests[::-1].argmax(axis=0)
                x = np.where(rests.any(axis=0), points[last, range(instance.dim)], x)
            return instance.changed(start=x)
        except FedTheoryError:
            return instance

    @property
    def _free(self) -> dict[str, str]:
        """The axes of what may be anything in the state before a round."""
        states = self.of_statement.states
        return {name: axes for name, axes in states.items() if isinstance(axes, str)}

    def _shapes(self, **sizes: int) -> dict[str, tuple[int, ...]]:
        return {name: tuple(sizes[a] for a in axes.split()) for name, axes in self._free.items()}

    def _begun(self, state: Mapping[str, Any], count: int, exact: bool) -> dict[str, Any] | None:
        """The fields of the state that ``count`` scenarios begin in, the free ones and the rest."""
        if not state:
            return None
        free = {k: v if exact else v.astype(float) for k, v in state.items()}
        return {k: np.repeat(v[None], count, axis=0) for k, v in self._with_rest(free).items()}

    def _with_rest(self, free: dict[str, Any]) -> dict[str, Any]:
        """A state's free fields, and those that follow from them."""
        rules = {k: made for k, made in self.of_statement.states.items() if callable(made)}
        return free | {k: np.asarray(made(free)) for k, made in rules.items()}

    def why_not(self, instance: Draw) -> str | None:
        """Why an instance is none of this setting's, or None."""
        return next(self._reasons(instance), None)

    def _reasons(self, instance: Draw) -> Iterator[str]:
        if reason := self.problems.why_not(instance):
            yield reason
        rounds, size, (least, most) = (
            instance.rounds, instance.cohort_size, self.of_statement.rounds
        )
        if not self._free and not least <= rounds <= most:  # any state: those of runs of any length
            yield f"rounds = {rounds}: the statement is declared for {least} to {most}"
        if isinstance(self.sampling, Uniform) and size != self.sampling.size:
            yield f"cohort_size = {size}: the statement is about {self.sampling}"
        families = self.open_numbers()
        if set(instance.drawn) != set(families):
            yield f"drawn {sorted(instance.drawn)}: the statement varies {sorted(families)}"
        if instance.state:
            shapes = {name: v.shape for name, v in instance.state.items()}
            wanted = self._shapes(N=instance.num_clients, d=instance.dim)
            if shapes != wanted or rounds:
                about = wanted or "states of runs"
                yield f"state {shapes} after {rounds} rounds: the statement is about {about}"
        for name, family in families.items():
            if reason := family.why_not(instance.drawn[name]):
                yield f"{name}: {reason}"
        if reason := self._not_before(instance):
            yield reason
        if len(instance.starts) > (starts := self.of_statement.starts):
            yield f"{len(instance.starts)} starts: the statement is declared for {starts}"
        if self.scope == "run":
            count = self.law(instance).count(instance.num_clients) ** rounds
            if len(instance.starts) * count > MAX_PATHS:
                yield (
                    f"a run of {rounds} rounds has {count} sequences of cohorts, more "
                    f"than {MAX_PATHS}"
                )

    def _not_before(self, instance: Draw) -> str | None:
        """Why the cohorts of the rounds before cannot have been drawn, or None."""
        n, before, rounds = instance.num_clients, instance.before, instance.rounds
        if self.scope != "round" or instance.state:
            return None
        law = self.law(instance)
        size = law.size if isinstance(law, Uniform) else n if isinstance(law, Full) else None
        if not before and size in (None, n):
            return None
        good = len(before) == rounds and all(c and sorted(set(c)) == list(c) for c in before)
        good = good and all(size in (None, len(c)) for c in before)
        return None if good else f"before = {before}: not {rounds} cohorts of {law}"

    def as_own(self, instance: Draw) -> Draw | None:
        """An instance of a variant as one of this setting, or None where it is none."""
        drawn = {k: v for k, v in instance.drawn.items() if k in self.open_numbers()}
        steps = instance.drawn.get("steps")
        if (
            "steps" not in drawn and steps is not None
            and steps != getattr(self.local, "steps", None)
        ):
            return None
        own = instance.changed(drawn=drawn)
        if isinstance(self.sampling, Full):
            if any(len(c) < instance.num_clients for c in own.before):
                return None
            own = own.changed(before=(), cohort_size=None)
        return own if self.why_not(own) is None else None

    def law(self, instance: Draw) -> Sampling:
        """The sampling of an instance."""
        return (
            Uniform(instance.cohort_size or instance.num_clients) if self.sampling is Uniform
            else self.sampling
        )

    def read(self, data: dict[str, Any]) -> Draw:
        """The instance of a witness's data. Raises `InvalidInput` for one that is none of this
        setting's."""
        instance = Draw.from_data(data)
        if (reason := self.why_not(instance)) is not None:
            raise InvalidInput(f"not an instance of {self.of_statement.id}: {reason}")
        return instance

    # --- views ------------------------------------------------------------------------------------
    def view(
        self, instance: Draw, exact: bool = True, starts: Any = None, times: int = 1,
        most: int | None = None
    ) -> Quantities:
        """The quantities on an instance, in fractions or in floats.

        Parameters
        ----------
        starts : of one round in floats (S, d), which are judged together in place of the instance's
        times : of a run, how often every sequence of cohorts stands, with so small a share of its
            chance
        most : of a run, sequences of cohorts; default what is soon done

        Raises `NotInFractions`: the method, or a hyperparameter, makes other numbers.
        """
        own = instance.starts if exact else instance.starts.astype(float)
        law, most = self.law(instance), most or (EXACT_PATHS if exact else MAX_PATHS)
        if self.scope == "run":
            scenarios = law, instance.num_clients, instance.rounds, exact, most, times
            x, cohorts, chance = sequences(own, *scenarios)
            world = SeparableWorld(instance.losses(exact), own[0])
            return self._made(world, x, law, cohorts, chance, instance.drawn)
        world = SeparableWorld(instance.losses(exact), own[0])
        more = instance.rounds, instance.before, instance.drawn, instance.state
        return self._round(world, own if starts is None else starts, law, *more)

    def _round(
        self, world: Any, starts: Any, sampling: Sampling, rounds: int,
        before: Sequence[Sequence[int]], drawn: dict[str, Fraction],
        state: Mapping[str, Any] | None = None,
    ) -> Quantities:  # fmt: skip
        """One round after some others: starts (S, d), all cohorts of the law each.

        ``state`` : what else they begin in
        """
        fixed = self.scope == "fixed-point"
        if fixed:
            starts, rounds = self._fixed_point(world, starts, sampling, drawn), 0
        law = sampling.enumerate(world.num_clients)
        n, count, scenarios = world.num_clients, law.scenarios, len(starts) * law.scenarios
        cohorts = [
            Cohort(n, members=np.tile(np.asarray(c), (scenarios, 1))) for c in before[:rounds]
        ]
        cohorts = cohorts or [everyone(n, scenarios)] * rounds
        cohorts.append(rows(law, np.tile(np.arange(count), len(starts))))
        chance = probabilities(sampling, law, world.exact)
        begun = self._begun(state or {}, scenarios, world.exact)
        x = np.repeat(starts, count, axis=0)
        return self._made(world, x, sampling, cohorts, chance, drawn, fixed=fixed, state=begun)

    def _any_round(
        self, world: Any, starts: Any, sampling: Sampling, rounds: int, drawn: dict[str, Fraction],
        rng: np.random.Generator,
    ) -> Quantities:  # fmt: skip
        """One round in floats from every state of a few runs, and from `STATES` of any kind."""
        n, S = world.num_clients, len(starts)
        _, work, algorithm = self.resolved(world, sampling, drawn, rounds + 1)
        law = sampling.enumerate(n)
        drawn_rounds = range(min(rounds, REACHED))
        cohorts = [rows(law, rng.integers(law.scenarios, size=S)) for _ in drawn_rounds]
        reached = run(world, algorithm, work, starts, cohorts).states
        kept = {k: np.concatenate([getattr(s, k) for s in reached]) for k in reached[0]._fields}
        count = STATES
        size = 10.0 ** rng.uniform(-2, 1, (count, 1))
        near = np.where(np.arange(count)[:, None] % 4 == 3, 1e-3, 1.0)
        x = world.centre + near * size * rng.standard_normal((count, world.dim))
        shapes = self._shapes(N=n, d=world.dim)
        fields = {k: _any_field(world, x, size[:, 0], shape, rng) for k, shape in shapes.items()}
        begun = [self._with_rest({k: v[i] for k, v in fields.items()}) for i in range(count)]
        added = {k: np.stack([b[k] for b in begun]) for k in begun[0]} | {"x": x}
        both = {k: np.concatenate([kept[k], v]) for k, v in added.items()}
        return self.round_from(world, both, sampling, drawn)

    def round_from(
        self, world: Any, state: Mapping[str, Any], sampling: Sampling, drawn: dict[str, Fraction],
        rounds: int = 1
    ) -> RoundQuantities:
        """One round from S states, over all cohorts of the law, by the method as it is for a run of
        so many rounds."""
        facts, work, algorithm = self.resolved(world, sampling, drawn, rounds)
        law = sampling.enumerate(world.num_clients)
        cohorts = rows(law, np.tile(np.arange(law.scenarios), len(state["x"])))
        begun = {
            k: v if v is None else np.repeat(v, law.scenarios, axis=0) for k, v in state.items()
        }
        with np.errstate(all="ignore"):
            path = run(world, algorithm, work, begun["x"], [cohorts], state=begun)
        return RoundQuantities(
            world, facts, path, probabilities(sampling, law, world.exact), algorithm
        )

    def _fixed_point(
        self, world: Any, starts: Any, sampling: Sampling, drawn: dict[str, Fraction]
    ) -> Any:
        """The model that a round of all clients leaves where it is (1, d)."""
        if not isinstance(sampling, Full):
            raise InvalidInput(
                f"{self.of_statement.place}: a fixed point needs full participation, not {sampling}"
            )
        _, work, algorithm = self.resolved(world, sampling, drawn, 1)

        def after(x: Any) -> Any:
            cohorts = [everyone(world.num_clients, len(x))]
            made = run(world, algorithm, work, x, cohorts).states[-1]
            if len(made) > 1:
                raise InvalidInput(
                    f"{self.of_statement.place}: a fixed point is found of methods whose state "
                    "is the model alone"
                )
            return made.x

        x = starts[:1]
        try:
            return (
                by_coordinate(after, x, world.exact) if isinstance(world, SeparableWorld)
                else in_floats(after, x)
            )
        except (Undefined, NotCertified) as error:
            raise type(error)(f"{self.of_statement.place}: {error}") from error

    def _made(
        self, world: Any, x: Any, sampling: Sampling, cohorts: Sequence[Cohort], chance: Any,
        drawn: dict[str, Fraction], sampled: bool = False, seed: int = 0, fixed: bool = False,
        state: dict[str, Any] | None = None, **more: Any,
    ) -> Quantities:  # fmt: skip
        facts, work, algorithm = self.resolved(world, sampling, drawn, len(cohorts))
        with np.errstate(all="ignore"):
            path = run(world, algorithm, work, x, cohorts, seed, state, **more)
        kind = RunQuantities if self.scope == "run" else RoundQuantities
        return kind(world, facts, path, chance, algorithm, sampled, fixed=fixed)

    def facts(self, world: Any, sampling: Sampling, rounds: int) -> Facts:
        """The constants that hyperparameters are functions of."""
        n = world.num_clients
        rule = {"rule": self.of_statement.rule}
        counts = {
            "N": n, "d": world.dim, "P": sampling.size if isinstance(sampling, Uniform) else n
        }
        if self.scope == "run":
            counts["T"] = rounds
        counted = {k: whole(v, world.exact) for k, v in counts.items()}
        return Facts({**rule, **world.constants, **counted, **getattr(world, "watched", {})})

    def resolved(
        self, world: Any, sampling: Sampling, drawn: dict[str, Fraction], rounds: int
    ) -> tuple[Facts, dict[str, Any], Any]:
        """The constants, the local work's numbers, and the algorithm."""
        facts, exact = self.facts(world, sampling, rounds), world.exact
        try:
            work = self.local.resolve(facts, drawn, exact)
            facts = Facts({**facts, **work})
            algorithm = (
                self.method.build(facts, drawn, exact) if isinstance(self.method, Method)
                else self.method
            )
        except ZeroDivisionError as error:
            raise Undefined(
                f"{self.of_statement.place}: a hyperparameter divides by 0 on this instance"
            ) from error
        except FedTheoryError as error:
            raise type(error)(f"{self.of_statement.place}: {error}") from error
        # one that is made already has what its author gave it
        if not isinstance(self.method, Method):
            algorithm = in_fractions(algorithm) if exact else with_floats(algorithm)
        return facts, work, algorithm

    # --- a problem of the package -----------------------------------------------------------------
    def world(self, problem: Any) -> ProblemWorld:
        """The problem with the weights that the statement is about."""
        return ProblemWorld(problem, self.problems.weights == "samples")

    def problem_views(
        self, problem: Any, rng: np.random.Generator, sampling: Sampling | None = None,
        scenarios: int = 400, x0: Any = None, rounds: int | None = None, seed: int = 0,
        drawn: dict[str, Fraction] | None = None, mode: str = "auto", first: int = 0, **more: Any,
    ) -> Quantities:  # fmt: skip
        """A view in floats on a problem: all cohorts where they are few, else draws of them (of
        runs only), those from number ``first`` on, as many at once as may be held.

        x0 : (d,), of one round also (S, d); None: drawn
        more : of draws, as of `run`

        Raises `InvalidInput`: a round has too many cohorts to enumerate, or a run with the mode
        'exact'; one round with 'monte-carlo'.
        """
        world, n = self.world(problem), problem.num_clients
        if sampling is None:
            sampling = (
                Uniform(int(rng.integers(1, n + 1))) if self.sampling is Uniform else self.sampling
            )
        sampling.check(n)
        drawn = {k: v.draw(rng) for k, v in self.open_numbers().items()} if drawn is None else drawn
        least, most = self.usual_rounds
        count = sampling.count(n)
        if self.scope != "run":
            if mode == "monte-carlo":
                raise InvalidInput(
                    f"mode = {mode!r}: the cohorts of one round are enumerated; leave it out"
                )
            if count > MAX_PATHS:
                raise InvalidInput(
                    f"{count} cohorts are too many to enumerate (limit {MAX_PATHS}): "
                    "take fewer clients"
                )
            usual = REACHED_FROM if self._free else 1 + MORE_STARTS
            starts = world.start = _starts(world, rng, usual, x0)
            rounds = int(rng.integers(least, most + 1)) if rounds is None else rounds
            before = _before(rng, n, getattr(sampling, "size", None), rounds)
            if self._free:
                return self._any_round(world, starts, sampling, rounds, drawn, rng)
            return self._round(world, starts, sampling, rounds, before, drawn)
        rounds = (
            (most if count == 1 else int(rng.integers(least, most + 1))) if rounds is None
            else rounds
        )
        start = world.start = _starts(world, rng, 1, x0)
        few = enumerable(count, rounds, n * world.dim)
        if few and mode != "monte-carlo":
            x, cohorts, chance = sequences(start, sampling, n, rounds, False)
            return self._made(world, x, sampling, cohorts, chance, drawn, seed=seed)
        if mode == "exact" and not few:
            raise InvalidInput(
                f"mode = {mode!r}: {count}^{rounds} sequences of cohorts are too many: take fewer "
                "rounds, or use mode='monte-carlo'"
            )
        size = rounds * n * max(world.dim, int(np.max(problem.sample_counts)))
        pieces = -(-(scenarios - first) * size // TOGETHER)
        count = -(-(scenarios - first) // pieces)
        some = range(first, first + count)
        cohorts = [sampling.sample(Stream(seed), t, some, n) for t in range(1, rounds + 1)]
        x, chance = np.repeat(start, count, axis=0), np.full(count, 1 / count)
        return self._made(
            world, x, sampling, cohorts, chance, drawn, sampled=True, seed=seed, first=first, **more
        )

    @property
    def first_choice(self) -> dict[str, Fraction]:
        """Of what varies the limit, the usual distance from it, or the first choice."""
        return {k: v.first for k, v in self.open_numbers().items()}

    def choices(self) -> list[dict[str, Fraction]]:
        """Of what varies by itself the limit, with every combination of what is one of several; the
        first choice first."""
        some = {k: v.choices for k, v in self.open_numbers().items() if isinstance(v, Among)}
        return [
            self.first_choice | dict(zip(some, map(Fraction, taken), strict=True))
            for taken in product(*some.values())
        ]

    def on_problem(
        self, problem: Any, sampling: Sampling | None = None, **drawn: Any
    ) -> tuple[Any, dict[str, Any]]:
        """The method as it is run on a problem, and the local work's numbers: of families those
        given, else the limit, or the first choice."""
        chosen = {**self.first_choice, **drawn}
        _, work, algorithm = self.resolved(self.world(problem), sampling or Full(), chosen, 1)
        return algorithm, work

    def refusal(self) -> str | None:
        """Why the statement cannot be checked on a problem of a user's, or None."""
        return None if self.problems.kinds else self.problems.why_not_problem(None)

    def not_about(self, problem: Any, sampling: Sampling | None) -> str | None:
        """Why a problem, or cohorts of a law, are none that the statement is about, or None."""
        if (reason := self.refusal() or self.problems.why_not_problem(problem)) is not None:
            return reason
        if sampling is None or sampling == self.sampling:
            return None
        size = problem.num_clients if type(sampling) is Full else getattr(sampling, "size", None)
        mine = (
            problem.num_clients if isinstance(self.sampling, Full)
            else getattr(self.sampling, "size", None)
        )
        if isinstance(sampling, Full | Uniform) and (self.sampling is Uniform or mine == size):
            return None
        own = "uniform cohorts of any size" if self.sampling is Uniform else self.sampling
        return f"the statement is about {own}, not {sampling}"

    # --- what may be dropped ----------------------------------------------------------------------
    def variants(self) -> Iterator[tuple[str, MethodSetting]]:
        """(assumption in words, the setting without it)."""
        for words, problems in self.problems.variants():
            yield words, replace(self, problems=problems)
        most = self.problems.clients[1]
        if isinstance(self.sampling, Full) and most > 1 and self.scope != "fixed-point":
            yield "full participation", replace(self, sampling=Uniform)
        if isinstance(self.local, GradientSteps):
            lr, steps = self.local.lr, self.local.steps
            if isinstance(lr, Upto):
                yield (
                    "the limit of the step size",
                    replace(self, local=replace(self.local, lr=replace(lr, beyond=Fraction(3)))),
                )
            if steps == 1:
                yield (
                    "one local step",
                    replace(self, local=replace(self.local, steps=Among((1, 2, 3))))
                )


def _short(number: Any) -> str:
    """A fraction as it is, a float with six digits."""
    return str(number) if isinstance(number, Fraction) else f"{number:.6g}"


def _any_field(world: Any, x: Any, size: Any, shape: tuple[int, ...], rng: Any) -> Any:
    """A field of states near x (S, d), each at its own distance: numbers of the order of a model or
    of a gradient, models, or the clients' gradients."""
    each, beta = (len(x), *(1,) * len(shape)), world.constants["beta"]
    noise = size.reshape(each) * rng.standard_normal((len(x), *shape))
    kinds = [noise, beta * noise]
    if shape == (world.num_clients, world.dim):
        y = x[:, None] + noise
        kinds += [y, world.gradients_each(y), world.gradients(world.centre) + kinds[1]]
    return np.choose(rng.integers(len(kinds), size=each), kinds)


def _several(rng: np.random.Generator, start: np.ndarray, count: int) -> np.ndarray:
    """The start, and others as far from it as it is from 0."""
    size = max(abs(start).max(), Fraction(1, 10))
    out = np.repeat(start[None], count, axis=0)
    for i, j in np.ndindex(count - 1, len(start)):
        out[i + 1, j] += size * simple(rng, POSITIONS, 3.0)
    return out


def _before(
    rng: np.random.Generator, n: int, size: int | None, rounds: int
) -> tuple[tuple[int, ...], ...]:
    """Draw the cohorts of the rounds before; () where all clients take part."""
    if size is None or size >= n:
        return ()
    return tuple(tuple(sorted(rng.permutation(n)[:size].tolist())) for _ in range(rounds))


def _starts(world: Any, rng: np.random.Generator, count: int, x0: Any) -> np.ndarray:
    if x0 is not None:
        return np.atleast_2d(np.asarray(x0, dtype=float))
    size = 10.0 ** rng.uniform(-1, 1, (count, 1))
    return world.centre + size * rng.standard_normal((count, world.dim))
