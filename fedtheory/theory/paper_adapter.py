"""A file's paper among the papers that the core knows: its setting, with a kind of instances for
each statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from itertools import islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedtheory.algorithms.compressed import Compressed
from fedtheory.errors import FedTheoryError, InvalidInput, suggest
from fedtheory.local import GradientSteps
from fedtheory.local.exact import Exact
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.randomness import Stream
from fedtheory.rational import Builders, fraction
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.record import OwnRun, Record
from fedtheory.theory.judge.request import OF_RUNS, Prepared, Request
from fedtheory.theory.judge.search import Target
from fedtheory.theory.judge.setting import About, Case, LocalWork, Plan, Setting
from fedtheory.theory.judge.statement import Form, Statement
from fedtheory.theory.judge.view import DataInstance
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.rounds.declare import Among, Minimise
from fedtheory.theory.rounds.instances import Draw
from fedtheory.theory.rounds.judging import check
from fedtheory.theory.rounds.method_setting import MethodSetting
from fedtheory.theory.rounds.on_problem import on_case
from fedtheory.theory.rounds.own_run import own_run
from fedtheory.theory.rounds.problem_classes import not_shares
from fedtheory.theory.rounds.rational_clients import NotInFractions
from fedtheory.theory.rounds.reads import read_there
from fedtheory.theory.rounds.undefined import SILENT
from fedtheory.theory.studies.declared import as_written, declared, scope, symbols

if TYPE_CHECKING:
    from fedtheory.theory.studies.study import Study

__all__ = ["AuthoredSetting", "DrawnInstance"]

INSTANCES = 40  # a statement, in a full campaign
RUNS = 540
PROBLEMS = 8
_OF_WORK = {"steps": "local_steps", "lr": "local_lr"}  # left open, perhaps, and the option


@dataclass(frozen=True)
class DrawnInstance(DataInstance):
    """An instance of a campaign, judged in fractions where it is ``rational``; of a problem that
    the statement's class draws the data are its number and seed."""

    rational: bool = False


class AuthoredSetting(Setting):
    """Judges the statements of a file about rounds and runs."""

    study_searches = True
    scenarios = 400

    def __init__(self, paper: Any) -> None:
        self.authored = paper
        self._about: dict[str, About] = {}
        own = {name: s for name, s in paper.authored.items() if not s.of_world}
        self.kinds, self.builders = tuple(own), Builders()
        for name, statement in own.items():
            self.builders.add(name)(partial(_view, MethodSetting.of(statement)))
        for kind, world in paper.worlds.items():
            self.builders.add(kind)(world.from_data)

    def _of(self, kind: str, rule: str = "") -> MethodSetting:
        """The setting of a statement, by its name or its id, under a rule, by default its first."""
        statement = self.authored[kind]
        if rule and rule not in statement.variants:
            raise suggest(rule, statement.variants, f"rule of {statement.id}")
        return MethodSetting.of(statement.variants[rule] if rule else statement)

    def _settings(self, kind: str) -> list[MethodSetting]:
        """The settings of a statement under all of its rules."""
        return [MethodSetting.of(variant) for variant in self.authored[kind].variants.values()]

    def _chosen(
        self, statement: Statement, algorithm: Any, given: Mapping[str, Any]
    ) -> MethodSetting:
        """The setting under the rule that a user's method has, or the hyperparameters that are
        given."""
        every, algorithm = self._settings(statement.id), algorithm or SimpleNamespace(**given)
        for setting in every:
            values = setting.of_statement.rule_values.items()
            if all(getattr(algorithm, name, value) == value for name, value in values):
                return setting
        return every[0]

    # --- the campaign -----------------------------------------------------------------------------
    @cached_property
    def _alike(self) -> dict[tuple[str, str], list[Any]]:
        """Statements under a rule that are about the same, by name and rule of the first: they
        share their instances."""
        groups: list[list[Any]] = []
        for kind in self.kinds:
            for variant in self.authored[kind].variants.values():
                group = next((g for g in groups if g[0].is_about_the_same_as(variant)), [])
                groups += [] if group else [group]
                group.append(variant)
        return {(g[0].name, g[0].rule): g for g in groups}

    def instances(self, plan: Plan) -> Sequence[Any]:
        """Random instances of every statement, a third of them in fractions, and problems of the
        package; of runs in a paper, which nobody studies as a file's, many more in floats. What is
        about the same is judged on the same ones."""
        out: list[Any] = []
        for (kind, rule), (first, *_) in self._alike.items():
            setting = MethodSetting.of(first)
            more = self.authored.tested and setting.scope == "run"
            count = RUNS if more else INSTANCES
            drawn = islice(_draws(setting, plan.seed), max(6, round(count * plan.scale)))
            for i, instance in enumerate(drawn):
                told = _label(setting, instance), instance.to_data(), None, rule, "separable losses"
                out.append(DrawnInstance({}, kind, *told, rational=i % 3 == 0 and i < INSTANCES))
            for i in (
                range(max(2, round(PROBLEMS * plan.scale))) if setting.refusal() is None else ()
            ):
                label, family = (
                    f"problem {i} seed={plan.seed}{_told(rule)}", "problems of the package"
                )
                data = {"number": i, "seed": plan.seed}
                out.append(DrawnInstance({}, kind, label, data, None, rule, family))
        return out

    def _concerned(self, instance: Any, statements: Sequence[Statement]) -> list[Any]:
        """Those of the statements that are judged on an instance."""
        chosen = {s.id for s in statements}
        return [v for v in self._alike[instance.kind, instance.rule] if v.id in chosen]

    def concerns(self, instance: Any, statements: Sequence[Statement]) -> bool:
        """True if one of these statements is judged on it."""
        return bool(self._concerned(instance, statements))

    def check(self, instance: Any, statements: Sequence[Statement]) -> list[Check]:
        """Every form of the statements that are judged on it, which share its run."""
        concerned = self._concerned(instance, statements)
        setting, name = self._of(instance.kind, instance.rule), instance.name
        view = cache(partial(self._campaign_view, setting, instance))
        out = list[Check]()
        for statement in concerned:
            found = list[Check]()
            try:
                if instance.rational:
                    with suppress(NotInFractions, InvalidInput):  # then in floats
                        found = check(statement, view(True), None, name)
                others = [f for f in statement.forms if f not in {c.form for c in found}]
                if others:
                    found += check(statement, view(False), others, name)
                out += found
            except SILENT as error:
                out += statement.unjudged(statement.forms, error, name)
        return out

    def _campaign_view(self, setting: MethodSetting, instance: Any, exact: bool) -> Any:
        """Make the view of an instance of a campaign."""
        if (number := instance.data.get("number")) is None:
            return setting.view(Draw.from_data(instance.data), exact=exact)
        seed = instance.data["seed"]
        rng = Stream(seed).generator(f"authoring problems {setting.of_statement.id}", number)
        _, problem = next(iter(setting.problems.problems(rng, 1, number)))
        return setting.problem_views(problem, rng, seed=seed)

    # --- a problem of the user's ------------------------------------------------------------------
    def about(self, statement: Statement) -> About:
        """What the statement declares; made once."""
        if statement.id not in self._about:
            self._about[statement.id] = self._told(statement)
        return self._about[statement.id]

    def _told(self, statement: Statement) -> About:
        authored, setting = self.authored[statement.id], self._of(statement.id)
        takes = dict[str, str]()
        for name in () if setting.of_package else setting.free:  # of the package they are options
            values = [f"{v[name]} ({rule} rule)" for rule, v in authored.rules.items() if name in v]
            takes[name] = ", ".join(values) or as_written(setting.method.hyperparameters[name])
        settled = [o for n, o in _OF_WORK.items() if n not in setting.open_numbers()]
        if setting.sampling is not Uniform:  # else the size of a cohort is left free
            settled.append("participants")
        exact = isinstance(setting.local, Minimise)
        kind, what = (
            (Exact, "exact local solutions") if exact else (GradientSteps, "gradient steps")
        )
        words = f"the statement is about {what}; leave local_solver out, or use {kind.__name__}"
        refusal = setting.refusal()
        return About(
            f"about {scope(setting.of_statement)}", refusal, declares=declared(authored),
            symbols={**symbols(authored), **statement.symbols}, takes=takes,
            refuses=(*OF_RUNS, *settled), own_method=True,
            work=LocalWork((kind,), words, of_runs=False),  # a run of anyone's has its points
            example=None if refusal else "--problem quadratic",
        )  # fmt: skip

    def verify(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        """One check a form on a user's problem, with the algorithm's numbers, else at the limits of
        what may vary.

        A problem outside the class is 'not applicable', with the property's name; so is another
        method.
        """
        authored = self._chosen(statement, case.algorithm, case.given).of_statement
        rules = self.authored[statement.id].rules
        rule = getattr(case.algorithm, "rule", authored.rule) if rules else authored.rule
        claimed = [f.name for f in forms if rule in f.established]
        why = f"not claimed for the {rule} rule"
        others = authored.unjudged([f.name for f in forms if f.name not in claimed], why)
        order = {f.name: i for i, f in enumerate(statement.forms)}

        def in_order(found: Sequence[Check]) -> list[Check]:
            return sorted([*found, *others], key=lambda c: order[c.form])

        tell = case.on_stage
        if tell is not None:
            case = replace(case, on_stage=lambda found: tell(Checks(in_order(found), statement)))
        return in_order(on_case(authored, case, claimed))

    def own_run(self, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        """Of statements about a run; `fedtheory.theory.rounds.own_run`."""
        if (takes := self.authored[statement.id].takes_run) is not None:
            case, record = takes(form, case, record)
        about, rule = self.authored[statement.id].about, case.rule
        if (
            isinstance(case.algorithm, getattr(about, "cls", ()))
            and rule not in (*form.established, "any")
        ):
            raise InvalidInput(f"{statement.id} [{form.name}] is not claimed for the {rule} rule")
        return own_run(self._chosen(statement, case.algorithm, case.given), form, case, record)

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """The statement's own method, local work and cohorts on the user's problem; their size may
        be chosen where the statement leaves it free."""
        about = self.about(statement)
        if about.refusal is not None:
            return super().prepare(statement, request)
        own = (
            f"{statement.id} says itself which method it is about, and what clients "
            "do; leave it out"
        )
        request.refuse([name for name in about.refuses if name != "participants"], own)
        given = request.options.get("given") or {}
        setting = self._chosen(statement, None, given)
        options_of_method = setting.of_package and bool(setting.free)
        if not options_of_method:
            request.refuse_hyperparameters(own)
        problem, law, sampling = request.problem("quadratic"), setting.sampling, None
        size = problem.num_clients if isinstance(law, Full) else getattr(law, "size", None)
        if request.participants is not None and law is Uniform:
            sampling = request.sampling(problem)
        elif request.participants not in (None, size):
            request.refuse("participants", f"{statement.id} is about {law}; leave it out")
        of_steps = ((name, request.options.get(option)) for name, option in _OF_WORK.items())
        said: dict[str, Any] = {name: value for name, value in of_steps if value is not None}
        drawn = {"steps": Fraction(said["steps"])} if "steps" in said else {}
        algorithm: Any = None
        numbers: dict[str, Any] = {}
        try:
            algorithm, numbers = setting.on_problem(problem, sampling, **drawn)
        except FedTheoryError:
            # as of a number in units of a curvature that is 0, which is said perhaps
            if not options_of_method:
                raise
        if said:
            numbers["eta"] = said.get("lr", numbers["eta"])
        solver = GradientSteps(int(numbers["E"]), float(numbers["eta"])) if said else None
        numbers |= given
        if options_of_method:
            algorithm = request.algorithm(
                setting.method.cls.name, problem, **setting.usual(problem)
            )
            numbers |= {name: getattr(algorithm, name) for name in setting.free}
            setting = self._chosen(statement, algorithm, {})
        head = [*_case_told(setting, problem, sampling, algorithm, numbers)]
        head += self._left_open(statement, setting, request, bool(said))
        if law is Uniform and sampling is None:
            everyone = f"all {problem.num_clients} clients take part"
            head.append(f"{everyone}: --participants P takes cohorts of P")
        if getattr(algorithm, "aggregation", "") == "samples" and not_shares(problem) is not None:
            head.append(
                "a server that averages by samples averages by F's weights, whatever the clients' "
                "numbers of samples are"
            )
        options = {"sampling": sampling, "local_solver": solver}
        if request.options.get("start") is None:  # then the statement has its own
            options["x0"] = None
        # `Case.given` has what is said, and of the others each is judged
        if not setting.of_package and setting.free:
            algorithm = None
            if setting.scope == "run":
                options["rounds"] = request.rounds or setting.of_statement.rounds[1]
        return Prepared(problem, algorithm, options, head, staged=setting.scope == "run")

    def _left_open(
        self, statement: Statement, setting: MethodSetting, request: Request, said: bool
    ) -> Iterator[str]:
        """Say what is judged where the user left a choice open, and how he chooses.

        said : whether he gave numbers of the local work
        """
        options, given = request.options, request.options.get("given") or {}
        if setting.more_starts and options.get("start") is None:
            count = setting.more_starts
            yield f"judged from 0 and {count} starts that the seed draws: --start takes one"
        if setting.of_statement.starts > 1:
            yield (
                "judged from one start (--start): random starts, which the statement has too, are "
                "drawn without a problem only"
            )
        for key, family in setting.open_numbers().items():
            name = key.removeprefix("method.")
            of_work = key == name  # not a hyperparameter of the method
            chosen = said if of_work else name in given or options.get(name) is not None
            if chosen or not isinstance(family, Among):
                continue
            first = setting.of_package and not of_work
            judged, more = ("the first", "another") if first else ("each", "one")
            other = f"{judged} is judged, {_option(setting, _OF_WORK.get(name, name))} takes {more}"
            yield f"{name} is one of {', '.join(map(str, family.choices))}: {other}"
        mine, others = setting.of_statement.rule, []
        for rule, changes in self.authored[statement.id].rules.items():
            flags = " ".join(_option(setting, *pair) for pair in changes.items())
            others += [f"{flags} takes the {rule} rule"] * (rule != mine)
        if others:
            yield f"judged under the {mine} rule: {', '.join(others)}"

    # --- instances in fractions, and the search ---------------------------------------------------
    def random_instance(self, kind: str, rng: Any) -> Any:
        """One instance of a statement, under any of its rules."""
        every = self._settings(kind)
        setting = every[int(rng.integers(len(every)))] if len(every) > 1 else every[0]
        instance, rule = setting.random_instance(rng), setting.of_statement.rule
        in_floats = {kind: lambda data: setting.view(Draw.from_data(data), exact=False)}
        return DataInstance(
            in_floats, kind, setting.words(instance), instance.to_data(), None, rule
        )

    def exact_view(self, statement: Statement, form: Form, witness: Witness) -> Any:
        """As `Setting.exact_view`; also of a closed world that the paper has witnesses of."""
        if witness.rule not in self.authored[statement.id].variants:
            raise InvalidInput(
                f"{statement.id} [{form.name}] is not claimed for the {witness.rule} rule"
            )
        if witness.kind in self.authored.worlds:
            form = replace(form, kind=witness.kind)
        view = super().exact_view(statement, form, witness)
        view_forms = self.authored[statement.id].on(view)
        if form.name in view_forms.absent:
            raise InvalidInput(
                f"the assumptions of {statement.id} [{form.name}] fail: {view_forms.why(form.name)}"
            )
        return view

    def built(self, witness: Witness) -> Any:
        """Make the view of a witness's data, also without an assumption, or with other
        constants."""
        if witness.kind in self.authored.worlds:
            return super().built(witness)
        setting, declared = (
            self._of(witness.kind, witness.rule),
            self.authored[witness.statement].constants,
        )
        if unknown := [k for k in witness.constants if k not in declared]:
            raise InvalidInput(
                f"constants {', '.join(unknown)}: {witness.statement} declares none of that name"
            )
        if witness.without:
            named = dict(setting.variants())
            if witness.without not in named:
                may = f"may be dropped: {', '.join(named) or 'nothing'}"
                raise InvalidInput(f"without = {witness.without!r}: of {witness.statement} {may}")
            setting = named[witness.without]
        view = _view(setting, witness.data)
        if (numbers := setting.of_statement.numbers) is not None:
            view.printed_constants = partial(numbers, view)
        moved = {k: fraction(v, k) for k, v in witness.constants.items()}
        return view.other(moved) if moved else view

    def exact_check(self, statement: Statement, witness: Witness) -> tuple[Check, Any, Any, Any]:
        """Judge a witness; one without an assumption must need that.

        Raises `InvalidInput`: as `Setting.exact_check` raises it; an instance that breaks no
        assumption.
        """
        found = super().exact_check(statement, witness)
        from fedtheory.theory.studies.counterexamples import needless  # loads what searches

        if (
            witness.without
            and found[0].verdict == "violated"
            and needless(self._of(witness.kind, witness.rule), witness)
        ):
            raise InvalidInput(
                f"without {witness.without}: the instance does not need that, it violates "
                f"{statement.id} as it stands"
            )
        return found

    def proved(self, target: Target) -> tuple[Witness | None, float | None]:
        """As `Setting.proved`; a run ends where the form fails most, if that proves anything."""
        at = target.margin_at
        if at is not None and target.statement.scope == "run":
            view: Any = at.view()
            sides = target.sides(view)
            lhs, rhs, scale = (
                np.atleast_1d(np.asarray(v, dtype=float))
                for v in (sides.lhs, sides.rhs, sides.scale)
            )
            with np.errstate(all="ignore"):
                excess = (lhs - rhs) / scale
            excess = np.where(np.isfinite(excess), excess, -np.inf).reshape(len(excess), -1).max(
                axis=1
            )
            rounds = int(view.looked(len(excess))[1][excess.argmax()])
            ended = replace(at, data={**at.data, "rounds": rounds})
            found = super().proved(replace(target, margin_at=ended))
            if found[0] is not None:
                return found
        return super().proved(target)

    def summary(self, witness: Witness) -> str:
        """The losses, the start, and what was drawn."""
        from fedtheory.theory.studies.counterexamples import told  # loads what searches

        if witness.kind in self.authored.worlds:
            return (
                f"{witness.statement} [{witness.form}]: "
                f"{self.authored.worlds[witness.kind].summary(witness)}"
            )
        words = told(self._of(witness.kind, witness.rule), witness)
        return f"{witness.statement} [{witness.form}]: {words}"

    def facts(self, witness: Witness) -> list[tuple[str, Any]]:
        """The instance in words, its data, and what the statement's function reads there, for who
        checks it by hand."""
        if (world := self.authored.worlds.get(witness.kind)) is not None:
            return world.told(witness, super().facts(witness))
        instance = Draw.from_data(witness.data)
        read = read_there(self._of(witness.kind, witness.rule), witness.form, instance)
        shown = super().facts(witness)[1:]
        others = ("drawn", "table")  # the words resolve the one, the points are told one by one
        data = [(name, value) for name, value in shown if name not in others]
        points = [] if instance.table is None else instance.table.facts
        told = self.summary(witness).partition("]: ")[2]
        return [("instance", told), *data, *points, *read.items()]

    def study(
        self, statement: Statement, budget: int, seed: int,
        on_progress: Callable[[str], None] | None = None, checks: Sequence[Check] = (),
    ) -> Study | None:  # fmt: skip
        """`fedtheory.theory.studies` of one statement of a user's file; a package has its tests."""
        if self.authored.tested:
            return None
        from fedtheory.theory.studies.study import study  # loads what searches

        tell = None if on_progress is None else (lambda done, total, words: on_progress(words))
        authored = self.authored[statement.id]
        names = {c.instance for c in checks if c.verdict == "violated"}
        groups = [g for g in self._alike.values() if any(v.id == statement.id for v in g)]
        every = [_drawn_again(MethodSetting.of(first), seed, names) for first, *_ in groups]
        again = {name: instance for found in every for name, instance in found.items()}
        return study(authored, budget, seed, on_progress=tell, checks=checks, instances=again)


def _case_told(
    setting: MethodSetting, problem: Any, sampling: Any, algorithm: Any, numbers: Mapping[str, Any]
) -> Iterator[str]:
    """Say in lines above the table what is judged: the problem, and the method with its numbers."""
    own = "" if problem.name.lower() in repr(problem).lower() else f"{problem.name}: "
    of_cohorts = "" if sampling is None else f", P = {sampling.size}"
    yield f"{own}{problem!r}{of_cohorts}, {setting.problems.words}"
    name = getattr(algorithm, "name", type(algorithm).__name__)
    name += ", compressed" if isinstance(algorithm, Compressed) else ""
    told = (
        f"{k} = {v if isinstance(v, str) else format(float(v), '.6g')}" for k, v in numbers.items()
    )
    yield f"{name}, {setting.local}: {', '.join(told) or 'no numbers'}"
    if larger := setting.problems.beyond(problem):
        yield f"larger than what the search draws, and judged all the same: {larger}"


def _option(setting: MethodSetting, name: str, value: Any = "...") -> str:
    """The option of a hyperparameter, or of a number of the local work: '--mu 2', '--given alpha=2'
    of a file's method."""
    if name in _OF_WORK.values() or setting.of_package:
        return f"--{name.replace('_', '-')}" + f" {value}" * (value != "...")
    return f"--given {name}={value}"


def _draws(setting: MethodSetting, seed: int) -> Iterator[Draw]:
    """The random instances of a campaign, one after another."""
    statement = setting.of_statement
    rng = Stream(seed).generator(f"authoring campaign {statement.id}{_told(statement.rule)}")
    while True:
        yield setting.random_instance(rng)


def _told(rule: str) -> str:
    return "" if rule == "any" else f", {rule} rule"


def _label(setting: MethodSetting, instance: Draw) -> str:
    return f"{setting.words(instance)}{_told(setting.of_statement.rule)}"


def _drawn_again(setting: MethodSetting, seed: int, names: set[str]) -> dict[str, Draw]:
    """Of a campaign's first instances those with one of these names, by name."""
    kind = setting.of_statement.name
    drawn = {
        f"{kind}: {_label(setting, i)}": i
        for i in islice(_draws(setting, seed), INSTANCES if names else 0)
    }
    return {name: i for name, i in drawn.items() if name in names}


def _view(setting: MethodSetting, data: dict[str, Any]) -> Any:
    """Make the exact view of an instance's data."""
    return setting.view(setting.read(data), exact=True)
