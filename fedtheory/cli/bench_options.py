"""What the command line of `fedtheory bench` says."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Options"]


@dataclass(frozen=True)
class Options:
    """What the command line says; names as its options."""

    data: Path | None
    dataset: str | None
    split: str | None
    method: str | None
    rounds: int | None
    epochs: int | None
    clip: float | None
    cohorts: str
    augment: bool
    verify: bool
    quick: bool
    network: str | None
    device: str
    dtype: str
    threads: int | None
    evaluate_every: int | None
    resume: bool
    tensorboard: Path | None
    only_report: bool
    seed: int
    json: bool
    out: Path
    autocast: str | None = None
    lr: str | None = None
    l1: str | None = None
    l2: str | None = None
    epsilon: str | None = None
    seeds: str | None = None
    record: str | None = None

    @property
    def swept(self) -> tuple[str, ...]:
        """The options whose values differ from the paper's, each a column of the table."""
        return tuple(name for name in ("lr", "l1", "l2", "epsilon") if getattr(self, name) is not None)
