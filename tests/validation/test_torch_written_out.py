"""Settings drawn at random end where rounds written out in plain torch do: `validation/references/torch_written_out.py`."""

from __future__ import annotations

import sys

import pytest
from repository import ROOT

torch = pytest.importorskip("torch")


@pytest.fixture
def written(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "validation" / "references"))
    import torch_written_out

    yield torch_written_out
    sys.modules.pop("torch_written_out", None)


@pytest.mark.filterwarnings("ignore:the clients' models are trained one after another")
@pytest.mark.parametrize("first", [0, 15, 30, 45])
def test_every_engine_ends_where_plain_torch_does(written, first):
    for seed in range(first, first + 15):
        words, found = written.differences(seed)
        assert set(found) == {"auto", "stacked", "loop"} and max(found.values()) <= 1e-8, f"{words}: {found}"


@pytest.mark.parametrize(
    "name, value, method", [("MU", 0.33, "fedprox"), ("ALPHA", 0.44, "feddyn"), ("L1", 0.011, "algorithm-1"), ("MOMENTUM", 0.88, None)]
)
def test_a_constant_a_tenth_larger_is_noticed(written, monkeypatch, name, value, method):
    """Written out with it, while the engines keep theirs."""
    drawn = (written.drawn(seed) for seed in range(200))
    setting = next(s for s in drawn if s.epochs > 1 and s.rounds > 1 and (s.method == method if method else s.solver == "momentum"))
    found = written.trained(setting, "auto")
    assert (found - written.written_out(setting)).abs().max() < 1e-9
    monkeypatch.setattr(written, name, value)
    assert (found - written.written_out(setting)).abs().max() > 1e-5
