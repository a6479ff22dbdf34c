"""FedElasticNet's closed worlds: what makes them of data, and their instances."""

from __future__ import annotations

from typing import Any

from fedtheory.theory.judge.registry import setting_of
from fedtheory.theory.judge.setting import Plan

SETTING = setting_of("fedelasticnet/eq-1")
BUILDERS = {kind: made for part in SETTING.parts for kind, made in part.builders.items()}
ALGORITHM_2 = (
    "algorithm-2", "algorithm-2 at rest", "scaffold stability", "threshold at rest",
    "threshold on the wire",
)  # fmt: skip

MAIN_TEXT = (
    "regression", "local", "local-steps", "objective", "everybody", "signs", "message", "density",
)  # fmt: skip


def battery(kinds: tuple[str, ...], seed: int, scale: float) -> list[Any]:
    """Instances of a campaign, of these kinds."""
    parts = {id(part): part for part in map(SETTING.of_kind, kinds)}.values()
    every = (made for part in parts for made in part.instances(Plan(seed, scale=scale)))
    return [made for made in every if made.kind in kinds]


def random_instance(kind: str, rng: Any) -> Any:
    """Draw an instance."""
    return SETTING.of_kind(kind).random_instance(kind, rng)
