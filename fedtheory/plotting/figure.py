"""A figure by its name: how its data are computed, how they are drawn, with how much effort, and what a reader is to see."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

__all__ = ["Figure", "restored"]

_WORDS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}  # as `fedtheory.provenance.to_jsonable` writes these numbers


def no_caption(data: Any) -> str:
    return ""


@dataclass(frozen=True)
class Figure:
    """One figure.

    Attributes
    ----------
    name : of its files
    compute : callable(**effort) -> data
        Of numbers, strings, arrays, lists and dicts only, so that it survives JSON.
    draw : callable(data) -> matplotlib Figure
        From the data alone: what ``compute`` returned, or `restored` from JSON.
    quick, full : keyword arguments of ``compute`` for a quick look, and for a paper's resolution
    seeded : whether ``compute`` takes ``seed``
    title : what it shows, in a line
    paper : id of the paper it belongs to; '' for none
    number : the paper's own ('Figure 2'); '' where it is ours
    caption : callable(data) -> what to see, in whole sentences with the computed numbers
    takes : further keyword arguments that ``compute`` takes from whoever runs it
        'data': a folder with published data files or None; 'keep': a folder where finished parts
        are kept, or None; 'progress': callable(words), called after each part. 'problem': a problem
        of the user's in place of the figure's own, or None. 'change': what `fedtheory bench` changes in
        the settings of all runs.
    """

    name: str
    compute: Callable[..., Any]
    draw: Callable[[Any], Any]
    quick: Mapping[str, Any] = field(default_factory=dict)
    full: Mapping[str, Any] = field(default_factory=dict)
    seeded: bool = True
    title: str = ""
    paper: str = ""
    number: str = ""
    caption: Callable[[Any], str] = no_caption
    takes: tuple[str, ...] = ()
    parts: ClassVar[tuple[str, ...]] = ("compute", "draw", "caption")

    @classmethod
    def of(cls, module: Any, name: str, **more: Any) -> Self:
        """The figure whose functions a module has, each of the name that it has here."""
        return cls(name, **{part: getattr(module, part) for part in cls.parts}, **more)


def restored(data: Any) -> Any:
    """Restore what `compute` returned from the JSON it was written to.

    Lists of numbers become arrays, as deep as they are rectangular; keys that are whole numbers
    become integers; 'nan', 'inf' and '-inf' become numbers.
    """
    if isinstance(data, dict):
        return {_key(k): restored(v) for k, v in data.items()}
    if isinstance(data, list):
        return _listed([restored(v) for v in data])
    return _WORDS.get(data, data) if isinstance(data, str) else data


def _key(text: Any) -> Any:
    return int(text) if isinstance(text, str) and text.lstrip("-").isdecimal() else text


def _listed(values: list[Any]) -> Any:
    """An array where all are numbers, or arrays of one shape; the list otherwise."""
    if not values:
        return values
    if all(isinstance(v, np.ndarray) for v in values):
        return np.stack(values) if len({v.shape for v in values}) == 1 else values
    kinds = {type(v) for v in values}
    return np.array(values) if kinds <= {int, float} or kinds == {bool} else values
