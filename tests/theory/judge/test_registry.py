"""The papers that are known: where they come from, and what is told where none are."""

import pytest

from fedtheory.errors import MissingCapability
from fedtheory.theory.judge import registry


def test_without_an_installed_paper_there_is_nothing_to_judge(monkeypatch):
    for name, empty in (("_PAPERS", {}), ("_STATEMENTS", {}), ("_LOADED", [])):
        monkeypatch.setattr(registry, name, empty)
    monkeypatch.setattr(registry, "entry_points", lambda group: ())
    for ask in (registry.papers, registry.all_statements):
        with pytest.raises(MissingCapability, match=r"no installed package brings a paper.*pip install -e"):
            ask()
