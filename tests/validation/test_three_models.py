"""The kept figures of the three models that may be tested: complete, and their ends the means of their curves."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

KEPT = Path(__file__).parents[2] / "validation/published/feddyn_three_models.json"


def test_every_end_is_the_mean_of_the_last_rounds_of_a_whole_run():
    kept = json.loads(KEPT.read_text())
    assert sorted((r["method"], r["seed"]) for r in kept["runs"]) == [(m, s) for m in ("algorithm-3", "feddyn") for s in (0, 1, 2)]
    for run in kept["runs"]:
        assert run["error"] is None and run["rounds"] == 100
        for model, curve in run["curves"].items():
            assert model in kept["models"] and len(curve) == 100
            assert run["end"][model] == pytest.approx(np.mean(curve[-kept["mean_of_last_rounds"] :]), abs=0.006)


def test_the_mean_of_all_clients_begins_late_and_ends_higher():
    """Most clients' last models are still the start after a round; at the end a mean over all of them is the better one."""
    for run in json.loads(KEPT.read_text())["runs"]:
        server, everyone = (run["curves"][m] for m in ("test_accuracy", "test_accuracy_all"))
        assert everyone[0] < server[0] - 30 and run["end"]["test_accuracy_all"] > run["end"]["test_accuracy"]
