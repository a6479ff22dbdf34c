"""cvxpy, imported without the third of its modules that nothing here uses."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["cvxpy"]


class _Later(ModuleType):
    """scipy.stats, imported when its entropy is called or anything else of it is looked up."""

    @staticmethod
    def entropy(*args: Any, **options: Any) -> Any:
        """That of scipy.stats."""
        return import_module("scipy.stats").entropy(*args, **options)

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # which every import from a module looks up
            raise AttributeError(name)
        self.end()
        return getattr(import_module("scipy.stats"), name)

    def end(self) -> None:
        """Stand for scipy.stats no longer."""
        if sys.modules.get("scipy.stats") is self:
            del sys.modules["scipy.stats"]


def cvxpy() -> Any:
    """The module cvxpy.

    One of its atoms takes entropy from scipy.stats, whose import is a third of its own: it gets one
    that waits.
    """
    if not {"cvxpy", "scipy.stats"} & sys.modules.keys():
        sys.modules["scipy.stats"] = later = _Later("scipy.stats")
        try:
            with suppress(ImportError):  # of a part of scipy.stats: then it is imported as it is
                import_module("cvxpy")
        finally:
            later.end()
    return import_module("cvxpy")
