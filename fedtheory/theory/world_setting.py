"""Judge statements over closed worlds: in campaigns, on a user's problem, and from files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from fedtheory.algorithms.compressed import Compressed
from fedtheory.errors import InvalidInput
from fedtheory.local import GradientSteps
from fedtheory.randomness import Stream
from fedtheory.rational import Builders
from fedtheory.theory.judge.case import About, Case, LocalWork, Plan
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.mutants import Mutants
from fedtheory.theory.judge.record import OwnRun, Record
from fedtheory.theory.judge.registry import paper_of
from fedtheory.theory.judge.request import (
    COMPRESSORS,
    OF_RUNS,
    SENT_WHOLE,
    Prepared,
    Request,
)
from fedtheory.theory.judge.setting import Setting
from fedtheory.theory.judge.statement import Form, Statement
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.declare import Method
from fedtheory.theory.world import World, WorldInstance

__all__ = ["WorldSetting"]

OF_STEPS = ("local_steps", "local_lr")
NUMBERS = LocalWork(
    (), "the statement is about numbers, whatever clients do; leave local_solver out"
)


class WorldSetting(Setting):
    """Judges the statements of a paper that are over closed worlds, and answers for its claims."""

    def __init__(self, statements: Sequence[Any]) -> None:
        self.authored = {s.id: s for s in statements}
        self.worlds: dict[str, type[World]] = {w.kind: w for s in statements for w in s.worlds}
        self.kinds: tuple[str, ...] = tuple(self.worlds)
        self.share = {kind: world.share for kind, world in self.worlds.items() if world.share != 1}
        self.searched = {kind: w.searched for kind, w in self.worlds.items() if w.searched}
        self.scenarios = min((w.usual_scenarios for w in self.worlds.values()), default=1000)
        compared = {f.kind for s in statements for f in s.statement.forms if f.sides is not None}
        self.builders = Builders()
        for kind, world in self.worlds.items():
            runs: Any = world.runs
            own_runs = runs.__func__ is not World.runs.__func__  # type: ignore[attr-defined]
            if kind in compared and not world.draws and not own_runs:
                name = world.__name__
                raise InvalidInput(f"{name} has no draw: write draw(rng) -> (label, data)")
            self.builders.add(kind)(world.from_data)

    # --- instances --------------------------------------------------------------------------------
    def instances(self, plan: Plan) -> Sequence[Any]:
        """Take the runs of every world, and draw random instances.

        Data that a world refuses are drawn again.
        """
        sources = [(kind, source) for kind, world in self.worlds.items() for source in world.draws]
        out: list[Any] = [made for world in self.worlds.values() for made in world.runs(plan)]
        for kind, source in sources:
            rng = Stream(plan.seed).generator(source.stream)
            wanted = max(source.size // 3, round(source.size * plan.scale))
            seeds = (plan.seed * 1000 + n for n in range(wanted, 0, -1))
            out += self.worlds[kind].drawn(source, rng, seeds)
        return out

    def random_instance(self, kind: str, rng: Any) -> Any:
        """Draw one instance, over all shapes of its parameters.

        Raises `InvalidInput`: no such world, or one without draws; data that it refuses, when the
        view is made.
        """
        if kind not in self.worlds or not self.worlds[kind].draws:
            raise InvalidInput(f"kind = {kind!r}: use one of {', '.join(self.kinds)}")
        return self.worlds[kind].search_instance(rng)

    def summary(self, witness: Witness) -> str:
        return self.worlds[witness.kind].summary(witness) or super().summary(witness)

    def facts(self, witness: Witness) -> list[tuple[str, Any]]:
        return self.worlds[witness.kind].told(witness, super().facts(witness))

    def study(
        self,
        statement: Statement,
        budget: int,
        seed: int,
        on_progress: Callable[[str], None] | None = None,
        checks: Sequence[Check] = (),
    ) -> Mutants | None:
        """Try the mutants of a statement of a user's file; a package has tests for its own."""
        own = statement.kind != "claim" and paper_of(statement).file
        return Mutants.of(statement, self.instances(Plan(seed))) if own else None

    # --- a problem of the user's ------------------------------------------------------------------
    def _world(self, statement: Statement) -> type[World]:
        """The world of a statement; of a claim one that makes nothing."""
        return World if statement.kind == "claim" else self.authored[statement.id].over

    def about(self, statement: Statement) -> About:
        """As its world says it, and what those of its forms ask; a claim has nothing to run."""
        symbols = statement.symbols
        if statement.kind == "claim":
            why = (
                "it is a claim that cannot be proved or refuted here, so there is nothing to run: "
                f"{statement.forms[0].note}"
            )
            return About("not provable here", why, symbols=symbols, own_method=True)
        world, example, refusal = self._world(statement), None, None
        if world.of_problems() or world.example:
            example = world.example_of(statement.id) or f"--problem {world.problem}"
        if not (world.of_problems() or _symbolic(statement)):
            subject = world.about or "about instances of its own"
            refusal = world.no_problem or f"it is {subject}, not about a problem's run"
        kinds = dict.fromkeys(form.kind for form in statement.forms)
        worlds = [self.worlds[kind] for kind in kinds if kind in self.worlds]
        asks = dict.fromkeys(need for each in worlds for need in each.asks)
        takes = {name: what for each in worlds for name, what in each.accepts.items()}
        work = None if set(OF_STEPS) & set(world.takes) else world.work or NUMBERS
        own = world.own_method and self.authored[statement.id].about is None
        return About(
            world.about, refusal, tuple(asks), symbols=symbols, takes=takes, own_method=own,
            work=work, example=example,
        )  # fmt: skip

    def shares_view(self, form: Form) -> Any:
        """The kind, and what tells a world's forms apart."""
        world = self.worlds.get(form.kind)
        return form.kind if world is None else (form.kind, world.apart(form))

    def verify(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        """Judge the forms on a user's problem, on at most as many runs as the world says."""
        world = self._world(statement)
        world.check_given(case)
        if world.scenarios is not None:
            least, most = world.scenarios
            scenarios = max(least, min(case.scenarios, most))
            case = replace(case, scenarios=scenarios, least=max(least, case.least or 0))
        return super().verify(statement, forms, case)

    def instance(self, statement: Statement, form: Form, case: Case) -> Any:
        """The data that the world makes of the case."""
        world = self.worlds.get(form.kind)
        if world is None or not world.of_problems():
            return super().instance(statement, form, case)
        about = self.authored[statement.id].about
        if about is not None:
            check_method(about, case.algorithm)
        made = world.on_problem(statement.id, replace(case, form=form))
        if isinstance(made, dict):
            return world.instance(case.problem.name, made)
        return made if isinstance(made, WorldInstance) else SimpleNamespace(view=lambda: made)

    def own_run(self, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        """The sides of a form on a run of anyone's, as the world makes them."""
        asked = statement, form, case, record
        made: OwnRun | None = self._world(statement).own_run(*asked)
        return super().own_run(*asked) if made is None else made

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """Make a case of the method, gradient steps, and all clients or cohorts of P."""
        world = self._world(statement)
        if _symbolic(statement):
            request.refuse(COMPRESSORS, SENT_WHOLE)
            head = ["an identity between symbols: no data enter"]
            return Prepared(request.problem(world.problem), None, head=head)
        if not world.of_problems():
            return super().prepare(statement, request)
        if (own := world.prepare(statement, request)) is not None:
            return own
        no_use = f"{statement.id} is {world.about}, and is judged without runs; leave it out"
        no_runs = [name for name in (*OF_RUNS, *OF_STEPS) if name not in world.takes]
        request.refuse([*no_runs, "rounds", "mode"], no_use)
        if "participants" not in world.takes:
            request.refuse("participants", f"{statement.id} is about all clients; leave it out")
        asked = request
        if world.example:
            request = request.or_else(world.example)
        problem = request.problem(world.problem)
        about = self.authored[statement.id].about
        wrapped = isinstance(about, Compressed)
        algorithm = about if wrapped else request.algorithm(method_of(about).name, problem)
        steps, lr = (request.options.get(name) for name in OF_STEPS)
        solver = None
        if steps is not None or lr is not None:
            lr = 1 / (2 * float(problem.beta_k.max())) if lr is None else lr
            solver = GradientSteps(2 if steps is None else steps, lr)
        sampling = request.sampling(problem)
        head = [world.head(Case(problem, algorithm, sampling))]
        if request is not asked:
            head.append(f"no problem was named, so it is the example's: {world.example}")
        options = {"sampling": sampling, "local_solver": solver, "x0": request.start(problem)}
        details = {name: repr(options[name]) for name in ("sampling", "local_solver")}
        return Prepared(problem, algorithm, options, head, details)


def _symbolic(statement: Statement) -> bool:
    """True if all its forms are identities between symbols: no data enter."""
    return all(form.symbolic is not None for form in statement.forms)


def method_of(about: Any) -> Any:
    """The class of the method that a statement is about."""
    return about.cls if isinstance(about, Method) else type(about)


def check_method(about: Any, algorithm: Any) -> None:
    """Raise `InvalidInput` for a method that a statement is not about, or with other values."""
    cls = method_of(about)
    if not isinstance(algorithm, cls):
        raise InvalidInput(f"the statement is about {cls.__name__}, not {type(algorithm).__name__}")
    for name, value in (about.hyperparameters if isinstance(about, Method) else {}).items():
        if (given := getattr(algorithm, name)) != value:
            raise InvalidInput(
                f"{name} = {given!r}: the statement is about another {cls.__name__}; "
                f"use {name}={value!r}"
            )
