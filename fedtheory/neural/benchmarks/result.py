"""One run of a setting and what it measured: what the tables, the entropies and the files are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fedtheory.neural.benchmarks.preset import Preset
from fedtheory.provenance import to_jsonable

__all__ = ["Result", "result_json"]


@dataclass
class Result:
    """One run and what it measured so far.

    Attributes
    ----------
    preset : Preset
    metrics : dict of (rounds done + 1,) lists
    rounds : int
        Done.
    error : str or None
        Why it ended early.
    """

    preset: Preset
    metrics: dict[str, list[float | None]] = field(default_factory=dict)
    rounds: int = 0
    seconds: float = 0.0
    provenance: dict[str, Any] = field(default_factory=dict)
    parameters: int = 0
    error: str | None = None

    @property
    def own_tests(self) -> bool | None:
        """True if each client was tested on test samples of its own, for client_accuracy; None where nothing was run."""
        found = self.provenance.get("configuration")
        return None if found is None else found["problem"].get("tested") is not None

    @property
    def autocast(self) -> str | None:
        """The mixed precision of training, None where there was none."""
        return self.provenance.get("configuration", {}).get("problem", {}).get("autocast")

    def series(self, name: str) -> np.ndarray:
        """A metric in every round from the first one (rounds,)."""
        return np.array([np.nan if v is None else float(v) for v in self.metrics[name]])[1:]

    def fill(self, metrics: Mapping[str, Any], rounds: int, seconds: Sequence[float], provenance: dict[str, Any]) -> None:
        """Take what a run measured: metrics (rounds + 1, 1) each, of which NaN becomes None, and seconds of each round."""
        columns = {name: np.asarray(values)[:, 0] for name, values in metrics.items()}
        self.metrics = {name: [float(v) if np.isfinite(v) else None for v in column] for name, column in columns.items()}
        self.rounds, self.seconds, self.provenance = rounds, float(sum(seconds)), provenance


def result_json(result: Result) -> dict[str, Any]:
    """A result as JSON values."""
    return to_jsonable({**asdict(result), "preset": {"name": result.preset.name, **asdict(result.preset)}})
