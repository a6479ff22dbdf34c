"""cvxpy, imported without the third of its modules that nothing here uses."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

__all__ = ["cvxpy"]


def cvxpy() -> Any:
    """The module cvxpy.

    One of its atoms takes one function from scipy.stats, and that is a third of the seconds in which
    cvxpy is imported. It gets one that imports scipy.stats when it is called. A cvxpy that takes
    more of it is imported as it is.
    """
    if not {"cvxpy", "scipy.stats"} & sys.modules.keys():
        later = ModuleType("scipy.stats")
        vars(later)["entropy"] = lambda *args, **options: import_module("scipy.stats").entropy(*args, **options)
        sys.modules["scipy.stats"] = later
        try:
            return import_module("cvxpy")
        except ImportError:
            pass
        finally:
            del sys.modules["scipy.stats"]
    return import_module("cvxpy")
