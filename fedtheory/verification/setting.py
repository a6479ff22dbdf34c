"""What the statements about EFL and Elastic Aggregation are judged on: instances of several kinds, their views, and the judging itself.

An instance is a frozen dataclass with ``name``, ``family``, ``kind``, ``seed``, ``view()`` and ``to_json()``. Its view says whether it
is exact (enumerated, a moment recursion, a closed form) or holds scenarios along the last axis, and to which forms it applies. The
first word a form requires is the kind of view it is judged on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from fedtheory.errors import NotCertified
from fedtheory.verification import statement as core
from fedtheory.verification.statement import Check, Form, Sides, Statement, all_statements
from fedtheory.verification.verify import CONFIDENCE, judge_statistical

__all__ = ["EFLInstance", "EFLView", "battery", "check_instance", "judge_efl", "kind_of", "random_instance"]


class EFLView(Protocol):
    """What one instance makes measurable."""

    exact: bool
    rule: str

    def applies(self, form: Form) -> str | None:
        """Why the form is not claimed for this view, or None."""


class EFLInstance(Protocol):
    """One instance of EFL's statements."""

    name: str
    family: str
    kind: str
    seed: int

    def view(self) -> EFLView:
        """Run it."""

    def to_json(self) -> dict[str, Any]:
        """All its parameters."""


def kind_of(form: Form) -> str | None:
    """The kind of view a form is judged on; None where nothing can be run."""
    return form.requires[0] if form.requires else None


def battery(seed: int = 0, scale: float = 1.0) -> list[EFLInstance]:
    """The instances of all kinds."""
    from fedtheory.theorems.efl.instances import in_fractions as efl_other_battery
    from fedtheory.theorems.efl.instances import runs as efl_run_battery
    from fedtheory.theorems.elastic_aggregation import instances as elastic_battery

    return [i for module in (efl_run_battery, efl_other_battery, elastic_battery) for i in module.battery(seed, scale)]


def random_instance(kind: str, rng: np.random.Generator) -> EFLInstance:
    """One instance of a kind, over all shapes of its parameters (for the search for counterexamples)."""
    from fedtheory.theorems.efl.instances import in_fractions as efl_other_battery
    from fedtheory.theorems.efl.instances import runs as efl_run_battery
    from fedtheory.theorems.elastic_aggregation import instances as elastic_battery

    modules = (efl_run_battery, elastic_battery)
    module = next((m for m in modules if kind in m.KINDS), efl_other_battery)
    return module.random_instance(kind, rng)


def judge_efl(
    statement: Statement,
    form: Form,
    view: EFLView,
    instance: str = "",
    confidence: float = CONFIDENCE,
    sides: Callable[[Any], Sides] | None = None,
) -> Check:
    """One form, or a mutant of it, on a view; whether it applies is the caller's business."""
    with np.errstate(over="ignore", invalid="ignore"):
        result = (sides or form.sides)(view)  # type: ignore[misc]
    fields = {"statement": statement.id, "form": form.name, "rule": view.rule, "instance": instance}
    constants = getattr(view, "printed_constants", None)
    if constants is not None:
        fields["where"] = dict(constants())
    if np.asarray(result.lhs).dtype == object:
        return core.judge(result, mode="rational", **fields)
    if view.exact:
        return core.judge(result, mode="exact", **fields)
    return judge_statistical(result, confidence, mode="statistical", **fields)


def check_instance(instance: EFLInstance, statements: Sequence[Statement] | None = None) -> list[Check]:
    """Every form that is judged on this kind of instance."""
    statements = [s for s in (all_statements() if statements is None else statements) if s.scope == "efl"]
    forms = [(s, f) for s in statements for f in s.forms if f.sides is not None and kind_of(f) == instance.kind]
    try:
        view = instance.view()
    except NotCertified as error:
        return [
            Check(s.id, f.name, rule, "inconclusive", "exact", reason=str(error), instance=instance.name)
            for s, f in forms
            for rule in f.established
        ]
    out = []
    for s, f in forms:
        if view.rule not in f.established:
            continue
        reason = view.applies(f)
        if reason is None:
            out.append(judge_efl(s, f, view, instance.name))
        else:
            out.append(Check(s.id, f.name, view.rule, "not applicable", "exact", reason=reason, instance=instance.name))
    return out
