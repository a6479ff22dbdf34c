"""Import the names of a package when they are first used."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from fedtheory.errors import no_attribute

__all__ = ["lazily"]


def lazily(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Give a package its ``__getattr__`` and its ``__dir__``.

    The names are those of the imports that stand in its file, as those that it has for type
    checkers alone, under ``if TYPE_CHECKING``.
    """
    own = vars(sys.modules[package])
    imports = ast.walk(ast.parse(Path(own["__file__"]).read_text(encoding="utf-8")))
    homes = {a.name: n.module for n in imports if isinstance(n, ast.ImportFrom) for a in n.names}

    def found(name: str) -> Any:
        if name in homes and name in own["__all__"]:
            return getattr(import_module(homes[name] or ""), name)
        raise no_attribute(package, name, own["__all__"])

    return found, lambda: sorted({*own, *own["__all__"]})
