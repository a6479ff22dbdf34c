"""What a second writing hands over: instances, and what gives both sides of forms on them.

A file `worked_<paper>_<name>.py` has one `SHEET`. It imports nothing of the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, eq=False)
class Sheet:
    """The second writing of some forms of a paper.

    Attributes
    ----------
    kinds : dict
        Kind of instance -> what works its data out; the result is handed to the forms.
    instances : dict
        Name -> (kind, data as a witness file has them). A form is asked on all that it is about,
        and on the frozen ones of these kinds.
    edges : list
        (a condition's words, kind, data, if it holds): instances near where a condition ends.
    forms : dict
        'statement [form]' -> what gives (lhs, rhs), numbers or nested lists.
    """

    paper: str
    kinds: dict[str, Callable[[Any], Any]]
    instances: dict[str, tuple[str, Any]] = field(default_factory=dict)
    edges: list[tuple[str, str, Any, bool]] = field(default_factory=list)
    forms: dict[str, Callable[[Any], Any]] = field(default_factory=dict)

    def form(self, statement: str, name: str) -> Callable[[Any], Any]:
        """Keep a function of what is worked out as a form's sides.

        Where both are 0 by what they are it gives the size of their terms, too.
        """

        def keep(function: Any) -> Any:
            self.forms[f"{statement} [{name}]"] = function
            return function

        return keep
