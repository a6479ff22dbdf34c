"""Modules that have moved: the old names stay importable, with a warning that says where the new ones are.

`import fedtheory.cohorts` gives a module without contents of its own: its attributes are those of the new
modules, looked up when they are asked for. A module that is still there, or a package of its name, hands over
the names that it has no longer by `__getattr__ = names_before(__name__)`.

An old name lives for one release: from the release `GOES_IN` on it is gone, and the warning says so before.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["GOES_IN", "GONE", "MOVED", "NAMES", "find", "install", "live", "names_before", "public_names"]

GOES_IN = "0.2"  # the release that has the old names no longer
_UNTIL = f"; the old name goes in fedtheory {GOES_IN}"

# an old module -> the modules in which its names are looked up, in this order
MOVED: dict[str, tuple[str, ...]] = {
    # fedtheory/
    "fedtheory.arguments": ("fedtheory.simulation.arguments",),
    "fedtheory.ball_form": ("fedtheory.optimum.duality",),
    "fedtheory.battery": ("fedtheory.theorems.fedelasticnet.instances",),
    "fedtheory.campaign": ("fedtheory.verification.campaign", "fedtheory.theorems.fedelasticnet.setting"),
    "fedtheory.certificates": ("fedtheory.optimum.lower_bounds",),
    "fedtheory.coefficients": ("fedtheory.participation.coefficients",),
    "fedtheory.cohorts": ("fedtheory.participation.cohorts",),
    "fedtheory.conic": ("fedtheory.optimum.conic",),
    "fedtheory.efl_battery": ("fedtheory.verification.setting",),
    "fedtheory.efl_measured": ("fedtheory.theorems.efl.quantities.measured_run",),
    "fedtheory.efl_other_battery": ("fedtheory.theorems.efl.instances.in_fractions",),
    "fedtheory.efl_run_battery": ("fedtheory.theorems.efl.instances.runs",),
    "fedtheory.efl_search": ("fedtheory.verification.search",),
    "fedtheory.efl_shift_on": ("fedtheory.theorems.efl.cases.theorem_2",),
    "fedtheory.efl_verify": ("fedtheory.theorems.efl.cases.theorem_1",),
    "fedtheory.elastic_battery": ("fedtheory.theorems.elastic_aggregation.instances",),
    "fedtheory.enclosures": ("fedtheory.optimum.intervals",),
    "fedtheory.expectation": ("fedtheory.theorems.fedelasticnet.expectation",),
    "fedtheory.fedmls_battery": ("fedtheory.theorems.fedmls.instances", "fedtheory.theorems.fedmls.quantities"),
    "fedtheory.fedmls_search": ("fedtheory.theorems.fedmls.search",),
    "fedtheory.fisher": ("fedtheory.clients.fisher",),
    "fedtheory.metering": ("fedtheory.simulation.metrics",),
    "fedtheory.moments": ("fedtheory.participation.moments",),
    "fedtheory.optimum_ball": ("fedtheory.optimum.on_ball",),
    "fedtheory.optimum_ball_polish": ("fedtheory.optimum.active_set",),
    "fedtheory.overlap": ("fedtheory.participation.positive_part",),
    "fedtheory.own_losses": ("fedtheory.optimum.custom_losses",),
    "fedtheory.participation_adapter": ("fedtheory.participation.cohort_laws",),
    "fedtheory.pools": ("fedtheory.parallel",),
    "fedtheory.resuming": ("fedtheory.simulation.resume",),
    "fedtheory.sensitivity": ("fedtheory.clients.sensitivity",),
    "fedtheory.stages": ("fedtheory.theorems.fedelasticnet.stages",),
    "fedtheory.states": ("fedtheory.simulation.states",),
    "fedtheory.step_laws": ("fedtheory.participation.laws",),
    "fedtheory.structures": ("fedtheory.optimum.loss_enclosures", "fedtheory.optimum.interface"),
    "fedtheory.witness": ("fedtheory.verification.witness", "fedtheory.verification.replay"),
    "fedtheory.witness_search": ("fedtheory.theorems.fedelasticnet.search",),
    "fedtheory.witness_shapes": ("fedtheory.theorems.fedelasticnet.shapes",),
    "fedtheory.witness_shrink": ("fedtheory.theorems.fedelasticnet.shrink", "fedtheory.verification.rational"),
    # fedtheory/cli/
    "fedtheory.cli.benching": ("fedtheory.cli.bench",),
    "fedtheory.cli.catalogue": ("fedtheory.cli.explain", "fedtheory.cli.list"),
    "fedtheory.cli.checking": ("fedtheory.cli.verify", "fedtheory.cli.replay"),
    "fedtheory.cli.checking_efl": ("fedtheory.cli.verify",),
    "fedtheory.cli.irregular": ("fedtheory.cli.participation",),
    "fedtheory.cli.lasting": ("fedtheory.cli.time_limit",),
    "fedtheory.cli.named": ("fedtheory.cli.problems",),
    "fedtheory.cli.on_ball": ("fedtheory.cli.ball", "fedtheory.optimum.on_ball", "fedtheory.theorems.fedmls.parameters"),
    "fedtheory.cli.parts": ("fedtheory.cli.common",),
    "fedtheory.cli.rating": ("fedtheory.cli.rates",),
    "fedtheory.cli.verifying": ("fedtheory.cli.campaign",),
    "fedtheory.cli.working": ("fedtheory.cli.run", "fedtheory.cli.solve"),
    # fedtheory/local/
    "fedtheory.local.affine": ("fedtheory.local.quadratic",),
    "fedtheory.local.sliding_numba": ("fedtheory.local.sliding_compiled",),
    "fedtheory.local.steps": ("fedtheory.local.sgd",),
    "fedtheory.local.views": ("fedtheory.local.shifted_gradients",),
    # fedtheory/messages/
    "fedtheory.messages.counting": ("fedtheory.messages.measures",),
    # fedtheory/neural/
    "fedtheory.neural.bench": ("fedtheory.neural.benchmarks.run",),
    "fedtheory.neural.checkpoints": ("fedtheory.simulation.checkpoints",),
    "fedtheory.neural.choose": ("fedtheory.neural.engines.select",),
    "fedtheory.neural.compiled": ("fedtheory.neural.engines.compiled",),
    "fedtheory.neural.cores": ("fedtheory.neural.threads",),
    "fedtheory.neural.dense": ("fedtheory.neural.engines.stacked",),
    "fedtheory.neural.entropies": ("fedtheory.neural.benchmarks.entropies",),
    "fedtheory.neural.kernels": ("fedtheory.neural.engines.kernels",),
    "fedtheory.neural.papers": ("fedtheory.neural.benchmarks.printed_tables",),
    "fedtheory.neural.preset": ("fedtheory.neural.benchmarks.preset",),
    "fedtheory.neural.presets": ("fedtheory.neural.benchmarks.presets",),
    "fedtheory.neural.settings": ("fedtheory.neural.benchmarks.hyperparameters",),
    "fedtheory.neural.walking": ("fedtheory.neural.sgd",),
    # fedtheory/problems/
    "fedtheory.problems.cells": ("fedtheory.problems.lipschitz",),
    "fedtheory.problems.distinct": ("fedtheory.problems.distinct_samples",),
    # fedtheory/rates/
    "fedtheory.rates.competitors": ("fedtheory.theorems.fedmls.rates.competitors",),
    "fedtheory.rates.experiments": ("fedtheory.theorems.fedmls.rates.experiments",),
    # fedtheory/report/
    "fedtheory.report.curves": ("fedtheory.plotting.curves",),
    "fedtheory.report.figures_bounds": ("fedtheory.theorems.fedelasticnet.figures.bounds",),
    "fedtheory.report.figures_efl": ("fedtheory.theorems.efl.figures.statements",),
    "fedtheory.report.figures_efl_runs": (
        "fedtheory.theorems.efl.figures.runs", "fedtheory.theorems.efl.figures.bits", "fedtheory.theorems.efl.figures.theorem_2",
    ),
    "fedtheory.report.figures_elastic": ("fedtheory.theorems.elastic_aggregation.figures",),
    "fedtheory.report.figures_rates": ("fedtheory.theorems.fedmls.figures",),
    "fedtheory.report.figures_rules": ("fedtheory.theorems.fedelasticnet.figures.rules",),
    "fedtheory.report.figures_tightness": ("fedtheory.theorems.fedelasticnet.figures.tightness",),
    "fedtheory.report.figures_traffic": ("fedtheory.theorems.fedelasticnet.figures.traffic",),
    "fedtheory.report.figures_training": ("fedtheory.report.networks.table_runs",),
    "fedtheory.report.style": ("fedtheory.plotting.style",),
    # fedtheory/theorems/
    "fedtheory.theorems.core": (
        "fedtheory.verification.statement", "fedtheory.verification.check", "fedtheory.verification.checks",
        "fedtheory.verification.registry",
    ),
    "fedtheory.theorems.efl_common": (
        "fedtheory.theorems.efl.notation", "fedtheory.verification.statement",
        "fedtheory.verification.setting", "fedtheory.verification.rational",
    ),
    "fedtheory.theorems.efl_compression": (
        "fedtheory.theorems.efl.statements.compression", "fedtheory.theorems.efl.statements.error_feedback",
    ),
    "fedtheory.theorems.efl_corollary": ("fedtheory.theorems.efl.statements.corollary_1",),
    "fedtheory.theorems.efl_elastic": ("fedtheory.theorems.efl.statements.elastic_term",),
    "fedtheory.theorems.efl_epochs": ("fedtheory.theorems.efl.statements.corollary_1_deadlines",),
    "fedtheory.theorems.efl_exact": ("fedtheory.theorems.efl.quantities.second_moments",),
    "fedtheory.theorems.efl_irregular": ("fedtheory.theorems.efl.statements.sections_4_1_and_4_2",),
    "fedtheory.theorems.efl_limits": ("fedtheory.theorems.efl.statements.limit_points",),
    "fedtheory.theorems.efl_rational": ("fedtheory.verification.rational", "fedtheory.verification.replay"),
    "fedtheory.theorems.efl_runs": ("fedtheory.theorems.efl.quantities.exact_run",),
    "fedtheory.theorems.efl_shift": ("fedtheory.theorems.efl.statements.theorem_2",),
    "fedtheory.theorems.efl_step_sides": ("fedtheory.theorems.efl.statements.theorem_1_proof_sides",),
    "fedtheory.theorems.efl_step_views": ("fedtheory.theorems.efl.quantities.step",),
    "fedtheory.theorems.efl_steps": ("fedtheory.theorems.efl.statements.theorem_1_proof",),
    "fedtheory.theorems.efl_table": ("fedtheory.theorems.efl.statements.table_1",),
    "fedtheory.theorems.efl_theorem": ("fedtheory.theorems.efl.statements.theorem_1",),
    "fedtheory.theorems.efl_views": ("fedtheory.theorems.efl.quantities.run",),
    "fedtheory.theorems.elastic_aggregation_rational": ("fedtheory.theorems.elastic_aggregation.exact",),
    "fedtheory.theorems.elastic_aggregation_sampled": ("fedtheory.theorems.elastic_aggregation.statements.sampled_clients",),
    "fedtheory.theorems.elastic_aggregation_slopes": ("fedtheory.theorems.elastic_aggregation.mean_motion",),
    "fedtheory.theorems.elastic_aggregation_views": ("fedtheory.theorems.elastic_aggregation.quantities",),
    "fedtheory.theorems.fedelasticnet_algorithm1": (
        "fedtheory.theorems.fedelasticnet.statements.algorithm_1", "fedtheory.theorems.fedelasticnet.quantities.fixed_point",
    ),
    "fedtheory.theorems.fedelasticnet_common": (
        "fedtheory.theorems.fedelasticnet.notation", "fedtheory.verification.statement",
    ),
    "fedtheory.theorems.fedelasticnet_definitions": ("fedtheory.theorems.fedelasticnet.statements.equations_19_to_22",),
    "fedtheory.theorems.fedelasticnet_descent": ("fedtheory.theorems.fedelasticnet.statements.lemmas_b3_b4",),
    "fedtheory.theorems.fedelasticnet_drift": ("fedtheory.theorems.fedelasticnet.statements.lemma_b5",),
    "fedtheory.theorems.fedelasticnet_potential": ("fedtheory.theorems.fedelasticnet.statements.theorem_b6",),
    "fedtheory.theorems.fedelasticnet_properties": ("fedtheory.theorems.fedelasticnet.statements.equations_11_to_17",),
    "fedtheory.theorems.fedelasticnet_theorem": ("fedtheory.theorems.fedelasticnet.statements.theorem_3_1",),
    "fedtheory.theorems.fedmls_common": ("fedtheory.theorems.fedmls.notation", "fedtheory.verification.statement"),
    "fedtheory.theorems.fedmls_rational": ("fedtheory.theorems.fedmls.exact", "fedtheory.verification.replay"),
    "fedtheory.theorems.fedmls_theorem": (
        "fedtheory.theorems.fedmls.statements.theorems_1_and_2", "fedtheory.theorems.fedmls.quantities",
    ),
    "fedtheory.theorems.fedmls_views": ("fedtheory.theorems.fedmls.quantities",),
    "fedtheory.theorems.rational": ("fedtheory.theorems.fedelasticnet.exact",),
    "fedtheory.theorems.rational_losses": ("fedtheory.theorems.fedelasticnet.exact_losses",),
    "fedtheory.theorems.rational_still": ("fedtheory.theorems.fedelasticnet.exact_identical_clients",),
    "fedtheory.theorems.symbolic": ("fedtheory.theorems.fedelasticnet.statements.identities",),
    "fedtheory.theorems.views": ("fedtheory.theorems.fedelasticnet.quantities",),
}


def _names(old: str, new: str, names: str) -> dict[str, str]:
    return {f"{old}.{name}": f"{new}.{name}" for name in names.split()}


# single names, where they are not in a place of their module's, or are called otherwise there; also names that a module
# or a package of the same name has no longer -> the name in full
NAMES: dict[str, str] = {
    "fedtheory.arguments.check_problem": "fedtheory.inputs.check_problem",
    "fedtheory.ball_form.BallForm": "fedtheory.optimum.duality.NonsmoothStructure",
    "fedtheory.report.figures_efl_runs.compute_bits": "fedtheory.theorems.efl.figures.bits.compute",
    "fedtheory.report.figures_efl_runs.draw_bits": "fedtheory.theorems.efl.figures.bits.draw",
    "fedtheory.battery.Instance": "fedtheory.theorems.fedelasticnet.instances.ProblemInstance",
    "fedtheory.theorems.rational.Instance": "fedtheory.theorems.fedelasticnet.exact.DiagonalInstance",
    "fedtheory.efl_battery.EFLInstance": "fedtheory.verification.setting.Instance",
    "fedtheory.efl_battery.EFLView": "fedtheory.verification.setting.View",
    "fedtheory.efl_other_battery.OtherInstance": "fedtheory.theorems.efl.instances.in_fractions.FractionsInstance",
    "fedtheory.efl_search.SHARE": "fedtheory.theorems.efl.setting.SHARE",
    "fedtheory.enclosures.Ball": "fedtheory.optimum.intervals.Enclosure",
    "fedtheory.neural.bench.run_presets": "fedtheory.neural.benchmarks.many.run_presets",
    **_names("fedtheory.neural.engines", "fedtheory.neural.engines.base", "Engine Loop"),
    "fedtheory.theorems.efl_rational.BUILDERS": "fedtheory.theorems.efl.notation.BUILDERS",
    "fedtheory.theorems.efl_views.RunView": "fedtheory.theorems.efl.quantities.run.IrregularRunView",
    "fedtheory.theorems.elastic_aggregation.aggregation_view": "fedtheory.theorems.elastic_aggregation.exact.aggregation_view",
    "fedtheory.theorems.fedelasticnet.SYMBOLS": "fedtheory.theorems.fedelasticnet.notation.SYMBOLS",
    "fedtheory.theorems.fedelasticnet_algorithm1.assumption_failure": (
        "fedtheory.theorems.fedelasticnet.on_a_problem.algorithm_1_failure"
    ),
    **_names("fedtheory.theorems.fedmls", "fedtheory.theorems.fedmls.notation", "LINE_14 SYMBOLS"),
    "fedtheory.theorems.fedmls.k_min": "fedtheory.theorems.fedmls.quantities.k_min",
    "fedtheory.verification.assumption_failure": "fedtheory.theorems.fedelasticnet.on_a_problem.assumption_failure",
    "fedtheory.verification.reachable_states": "fedtheory.theorems.fedelasticnet.states.reachable_states",
}


def _gone(instead: str, *names: str) -> dict[str, str]:
    return dict.fromkeys(names, instead)


# names that have no successor -> what does their work now
GONE: dict[str, str] = {
    **_gone("looks are those of every statement, fedtheory.verification.sequential.looks", "fedtheory.stages.stage_sizes"),
    **_gone(
        "one engine took its place, fedtheory.neural.engines.stacked.Stacked",
        "fedtheory.neural.dense.Dense",
        "fedtheory.neural.engines.Vmap",
    ),
    **_gone(
        "torch's losses are known with their options by fedtheory.neural.torch_losses.known_loss",
        "fedtheory.neural.losses.as_named",
        "fedtheory.neural.losses.options_of",
    ),
    **_gone(
        "the work is in parts now, and there are len(fedtheory.theorems.fedmls.rates.experiments.parts(...)) of them",
        "fedtheory.rates.experiments.steps",
    ),
    **_gone(
        "a paper is registered when fedtheory.theorems is imported; its statements are in the PAPER of its package",
        *(
            f"fedtheory.theorems.{module}.load"
            for module in (
                "efl", "efl_compression", "efl_corollary", "efl_elastic", "efl_epochs", "efl_irregular", "efl_limits", "efl_shift",
                "efl_steps", "efl_table", "efl_theorem", "elastic_aggregation", "fedelasticnet", "fedmls",
            )
        ),
        "fedtheory.theorems.elastic_aggregation.STATEMENTS",
    ),
    **_gone(
        "ask the paper's setting, fedtheory.verification.registry.setting_of(statement)",
        "fedtheory.efl_battery.battery", "fedtheory.efl_battery.check_instance", "fedtheory.efl_battery.random_instance",
        "fedtheory.efl_search.kinds", "fedtheory.efl_search.search", "fedtheory.efl_search.search_kind",
        "fedtheory.fedmls_battery.check_instance", "fedtheory.cli.checking_efl.checks_of",
        "fedtheory.cli.checking_efl.refuse_without_problem", "fedtheory.cli.checking_efl.runs_on_a_problem",
        "fedtheory.cli.parts.refuse_for_fedmls",
    ),
    **_gone(
        "use fedtheory.verification.judge_view",
        "fedtheory.efl_battery.judge_efl", "fedtheory.verification.check_view",
    ),
    **_gone("use fedtheory.verification.verify", "fedtheory.efl_verify.verify", "fedtheory.fedmls_battery.verify"),
    **_gone("it is the form's own field, form.kind", "fedtheory.efl_battery.kind_of"),
    **_gone(
        "such a form is on record as violated, form.established",
        "fedtheory.theorems.fedmls.WITNESS", "fedtheory.theorems.fedmls_common.WITNESS",
    ),
    **_gone(
        "all witnesses are fedtheory.verification.witness.Witness",
        "fedtheory.theorems.efl_rational.EFLWitness", "fedtheory.theorems.fedmls_rational.MLSWitness",
    ),
    **_gone("use fedtheory.verification.replay.exact_check", "fedtheory.theorems.efl_rational.exact_sides"),
    **_gone("a paper's builders are a table, as fedtheory.theorems.efl.notation.BUILDERS", "fedtheory.theorems.efl_rational.builder"),
    **_gone("use fedtheory.verification.papers()", "fedtheory.report.tables.PAPERS"),
    **_gone(
        "fedtheory.theorems.fedmls.rates.loops has every method's rounds on every instance",
        "fedtheory.rates.competitors.fedmls_on_pull", "fedtheory.rates.competitors.nesterov_rounds",
        "fedtheory.rates.competitors.pull_rounds", "fedtheory.rates.competitors.subgradient_rounds",
    ),
    **_gone("sizes of pieces are the business of fedtheory.neural.evaluation.sums", "fedtheory.neural.memory.evaluation_piece"),
    **_gone("use fedtheory.verification.registry.rule_words", "fedtheory.report.tables.rule_text"),
}  # fmt: skip


def live(version: str) -> bool:
    """Whether a release still has the old names: those before `GOES_IN`."""
    return tuple(int(part) for part in version.split(".")[:2]) < tuple(int(part) for part in GOES_IN.split("."))


def find(old: str, name: str) -> tuple[str, Any]:
    """The new module of a name of an old one, and what it stands for there.

    Raises
    ------
    AttributeError
        No module has it; for a name without successor, the message says what does its work now.
    """
    full = f"{old}.{name}"
    if full in GONE:
        raise AttributeError(f"{full} is gone: {GONE[full]}")
    if full in NAMES:
        place, _, new_name = NAMES[full].rpartition(".")
        return place, getattr(import_module(place), new_name)
    places = MOVED.get(old, ())
    if not name.startswith("__"):
        for place in places:
            module = import_module(place)
            if hasattr(module, name):
                return place, getattr(module, name)
    hint = f": its names have moved to {' and '.join(places)}" if places else ""
    raise AttributeError(f"module {old!r} has no attribute {name!r}{hint}")


def public_names(old: str) -> list[str]:
    """What `from old import *` gives of a moved module."""
    names = {name for place in MOVED[old] for name in getattr(import_module(place), "__all__", ())}
    return sorted(names | {full.rpartition(".")[2] for full in NAMES if full.rpartition(".")[0] == old})


def names_before(module: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module or package that is still there, for the names that it had (`NAMES`, `GONE`)."""

    def __getattr__(name: str) -> Any:
        from fedtheory import __version__

        if not live(__version__):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        value = find(module, name)[1]
        _warn_of_name(f"{module}.{name}")
        return value

    return __getattr__


def _warn_of_name(full: str) -> None:
    """Said of the line that asked the `__getattr__` which calls this."""
    place, _, name = NAMES[full].rpartition(".")
    what = place if full.endswith(f".{name}") else f"{place}, where it is called {name}"
    warnings.warn(f"{full} has moved: import it from {what}{_UNTIL}", DeprecationWarning, stacklevel=3)


class _Moved(ModuleType):
    """An old module: all its attributes are those of the new ones."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            return public_names(self.__name__)
        value = find(self.__name__, name)[1]
        if f"{self.__name__}.{name}" in NAMES:
            _warn_of_name(f"{self.__name__}.{name}")
        return value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *public_names(self.__name__)]


class _Finder(MetaPathFinder, Loader):
    """Finds and loads old modules; it is asked after all others, so that a module that exists is never hidden."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Moved(spec.name, f"Moved to {' and '.join(MOVED[spec.name])}.")

    def exec_module(self, module: ModuleType) -> None:
        places = " and ".join(MOVED[module.__name__])
        # the import system's own frames are not counted: this names the import statement
        said = f"{module.__name__} has moved: import its names from {places}{_UNTIL}"
        warnings.warn(said, DeprecationWarning, stacklevel=2)


def install(version: str) -> None:
    """Make the old modules importable, once in a process, in a release that still has them."""
    if live(version) and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
