"""Numbers of several seeds in words: ends, differences between methods on the same seed, and
whether they are seen in every one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fedtheory.plotting.style import METHOD_NAMES

__all__ = [
    "LAST", "accuracy", "cited", "data_words", "difference", "ends", "gain", "joined", "name_of", "percent",
    "seen", "sent", "short", "signed", "spread", "where",
]

LAST = 5  # rounds at the end whose mean is "the end"
_SETS = {
    "digits": "scikit-learn's digits",
    "mnist": "MNIST",
    "emnist-l": "EMNIST-L",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "cinic10": "CINIC-10",
    "cinic10-200": "CINIC-10, 200 rounds",
    "emnist": "federated EMNIST",
    "shakespeare": "Shakespeare",
    "topics": "Python's help texts",
}
_NETWORKS = {
    "mlp-100-100": "two hidden layers of 100",
    "logistic": "logistic regression",
    "cnn-8-16": "a CNN of 8 and 16 filters",
    "char-lstm-32": "an LSTM of 32 units",
}
_SHORT = {"mlp-100-100": "digits, two layers", "logistic": "digits, logistic", "cnn-8-16": "digits, CNN"}


def name_of(dataset: str) -> str:
    """A data set as a reader knows it."""
    return _SETS.get(dataset, dataset)


def data_words(panel: dict[str, Any]) -> str:
    """Data set and network of a panel."""
    network = panel["network"]
    return f"{name_of(panel['dataset'])}, {_NETWORKS.get(network, network)}"


def short(panel: dict[str, Any]) -> str:
    """The same in a title's space."""
    name = name_of(panel["dataset"])
    return _SHORT.get(panel["network"], name) if panel["dataset"] == "digits" else name


def where(data: dict[str, Any]) -> str:
    """The first sentence of a caption: on what, with how many clients, rounds and seeds."""
    first = data["panels"][0]
    sets = joined(list(dict.fromkeys(data_words(p) for p in data["panels"])))
    takes = (
        "all take part"
        if first["participation"] == "100%"
        else f"each takes part with probability {float(first['participation'].rstrip('%')) / 100:g}"
    )
    clients, rounds = (
        joined([str(n) for n in dict.fromkeys(p[k] for p in data["panels"])]) for k in ("clients", "rounds")
    )
    most = f", {data['most']} samples of each client" if data["most"] is not None else ""
    stand_in = (
        "" if data["published"] else " These stand in for the paper's data and networks, which --data FOLDER takes."
    )
    return f"{sets}; {clients} clients{most}, {takes}; {rounds} rounds; {len(data['seeds'])} seeds.{stand_in}"


def accuracy(row: Mapping[str, Any]) -> np.ndarray:
    """Test accuracy in percent (seeds, rounds + 1)."""
    return 100 * np.asarray(row["test_accuracy"], dtype=float)


def sent(row: Mapping[str, Any]) -> np.ndarray:
    """Numbers that all clients send over all rounds (seeds,): NaN where a run diverged."""
    each, senders = (np.asarray(row[k], dtype=float)[:, 1:] for k in ("nonzeros", "participants"))
    return (each * senders).sum(axis=1)


def ends(values: Any, last: int = LAST) -> np.ndarray:
    """(seeds, rounds + 1) -> (seeds,): the mean of the last few numbers of each seed, NaN where its run has none at the end.

    The first column, that of the start, does not count, however few the rounds are.
    """
    values = np.asarray(values, dtype=float)
    tail = values[:, 1:][:, -last:]
    kept = np.isfinite(tail)
    total = np.where(kept, tail, 0).sum(axis=1)
    return np.where(kept[:, -1], total / np.maximum(kept.sum(axis=1), 1), np.nan)


def difference(ours: Any, theirs: Any) -> np.ndarray:
    """Ours minus theirs at the end of what both have done, seed by seed, in points; seeds on which
    either diverged are left out."""
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    here = np.isfinite(ours[:, -1]) & np.isfinite(theirs[:, -1])
    both = min(ours.shape[1], theirs.shape[1])
    points = 100 * (ends(ours[here, :both]) - ends(theirs[here, :both]))
    return points[np.isfinite(points)]


def gain(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> np.ndarray:
    """The `difference` of two methods' test accuracies."""
    return difference(ours["test_accuracy"], theirs["test_accuracy"])


def seen(points: np.ndarray) -> str:
    """'in every seed', 'in none' or 'in 2 of 3 seeds': where a difference is above 0."""
    above = int((points > 0).sum())
    return (
        "in every seed" if above == len(points) else "in no seed" if above == 0
        else f"in {above} of {len(points)} seeds"
    )


def signed(value: float) -> str:
    """'+0.3' or '−0.3', and '0.0' without a sign."""
    text = f"{abs(value):.1f}"
    return text if text == "0.0" else f"{'+' if value > 0 else '−'}{text}"


def spread(points: np.ndarray) -> str:
    """'−0.3 (−0.8 to +0.1)': mean and range over the seeds."""
    if not points.size:
        return "not measured, for runs diverged"
    return f"{signed(points.mean())} ({signed(points.min())} to {signed(points.max())})"


def percent(share: float) -> str:
    """Two digits, and more where it is close to a hundred."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1f} %"


def joined(parts: Sequence[str]) -> str:
    """'a, b and c'."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def cited(pairs: Sequence[tuple[str, str]], points: Sequence[np.ndarray]) -> str:
    """'Algorithm 1 minus FedProx: ...; ...' of several pairs."""
    parts = [f"{METHOD_NAMES[b]} minus {METHOD_NAMES[a]} {spread(p)}" for (a, b), p in zip(pairs, points, strict=True)]
    return "; ".join(parts)
