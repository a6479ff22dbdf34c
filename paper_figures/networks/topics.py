"""A text that every Python has: its topics' help, cut like Shakespeare's roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedtheory.errors import MissingCapability

if TYPE_CHECKING:
    from fedtheory.neural.data import Data

__all__ = ["TOPICS", "topics"]

TOPICS = "topics"


def topics(clients: int = 10, samples: int = 200, length: int = 20, test_samples: int = 40) -> Data:
    """Windows of the longest topics and the character after each; a user a topic, the last fifth of its text for testing.

    Parameters
    ----------
    clients : topics, the longest first
    samples, test_samples : windows of each, spread evenly over its text
    length : characters of a window

    Raises
    ------
    MissingCapability
        A Python without its help texts, or whose topics are too few or too short.
    """
    from fedtheory.neural.data.core import Corpus
    from fedtheory.neural.data.shakespeare import VOCABULARY, encode

    try:
        from pydoc_data.topics import topics as texts
    except ModuleNotFoundError as error:
        raise MissingCapability(
            "this Python comes without its help texts (pydoc_data): name a folder with Shakespeare by --data"
        ) from error
    chosen = sorted(texts, key=lambda name: (-len(texts[name]), name))[:clients]
    if len(chosen) < clients or len(texts[chosen[-1]]) < 5 * (length + max(samples // 4, test_samples)):
        raise MissingCapability(
            f"the help texts of this Python have no {clients} topics long enough: name a folder with Shakespeare by --data"
        )
    parts: dict[str, list[np.ndarray]] = {"x": [], "y": [], "test_x": [], "test_y": []}
    unknown = 0
    for name in chosen:
        codes, strange = encode(" ".join(texts[name].split()))
        unknown += strange
        split = int(0.8 * len(codes))
        for text, count, first in ((codes[:split], samples, ""), (codes[split:], test_samples, "test_")):
            starts = np.linspace(0, len(text) - length - 1, count).astype(int)
            parts[f"{first}x"].append(np.stack([text[s : s + length] for s in starts]))
            parts[f"{first}y"].append(text[starts + length].astype(np.int64))
    owners = [np.repeat(np.arange(clients, dtype=np.int32), n) for n in (samples, test_samples)]
    return Corpus(
        TOPICS, np.concatenate(parts["x"]), np.concatenate(parts["y"]),
        np.concatenate(parts["test_x"]), np.concatenate(parts["test_y"]), len(VOCABULARY),
        tuple(chosen), owners[0], owners[1],
        source="the help texts of Python's topics (pydoc_data)", vocabulary=VOCABULARY,
        unknown=unknown,
    )
