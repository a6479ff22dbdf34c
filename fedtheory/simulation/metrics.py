"""Metrics of every round, and how they are measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from fedtheory.arrays import Array, all_true, is_numpy, namespace, on_host, rows_of, to_numpy
from fedtheory.errors import MissingCapability
from fedtheory.messages.measures import bin_counts, entropy_of_counts, joined

if TYPE_CHECKING:
    from fedtheory.clients.clients import Clients

__all__ = ["BITS", "METRICS", "OF_MEANS", "RoundBins", "check_metrics", "entropies", "measure", "message_bins", "remember", "updates"]

METRICS = {
    "objective": "F(x) of the server model",
    "suboptimality": "F(x) - F*, against the certified value",
    "gradient_norm": "||grad F(x)||",
    "distance": "||x - x*||",
    "test_accuracy": "share of the test samples that the server model gets right",
    "test_accuracy_all": "test accuracy of the mean of all clients' last local models; before its first work a client's is the start",
    "test_accuracy_cohort": "test accuracy of the mean of the local models of those that took part this round",
    "client_accuracy": "accuracy on each client's own test samples (or labels), of its own model if it has one, mean over clients",
    "test_loss": "mean loss of the server model on the test samples",
    "drift": "||y_k - x||, how far a local model went from the server's, mean over the participants",
    "participants": "clients that took part",
    "nonzeros": "nonzero entries sent, mean over the participants",
    "entropy": "entropy of what was sent, in bits an entry (bins of 0.01); where a client sends several messages, the sum of theirs",
    "entropy_1": "entropy in bits an entry of the first message that a client sends in a round (bins of 0.01)",
    "entropy_2": "entropy in bits an entry of the second message that a client sends in a round (bins of 0.01), 0 where there is none",
    "entropy_pooled": "entropy in bits an entry of all messages of a round in one histogram (bins of 0.01)",
    "update_entropy": "entropy in bits an entry of y_k - x (bins of 0.01), whatever is sent",
    "bits_up": "bits all participants sent this round",
    "bits_down": "bits all participants received this round",
    "bits": "bits sent and received so far, both ways together",
}
SENT_ENTROPIES = ("entropy", "entropy_1", "entropy_2", "entropy_pooled")
ENTROPIES = {*SENT_ENTROPIES, "update_entropy"}  # one number a round: all scenarios together
BITS = ("bits_up", "bits_down", "bits")
OF_UPDATES = ("drift", "update_entropy")
OF_MEANS = ("test_accuracy_all", "test_accuracy_cohort")  # of clients' local models, which the server need not hold
TESTED = ("test_accuracy", "test_loss", "client_accuracy", *OF_MEANS)
EVALUATED = {"objective", "suboptimality", "gradient_norm", "distance", *TESTED}  # of the models alone

Bins = tuple[np.ndarray, np.ndarray]  # which bins are hit, and how often
RoundBins = dict[str, list[Bins | None]]  # "sent": a histogram a message, in the order they are sent; "update": one, of y_k - x


def check_metrics(record: tuple[str, ...], problem: Any) -> None:
    """Raise `MissingCapability` before any work when the problem has no test samples."""
    for name in TESTED:
        if name not in record:
            continue
        if not hasattr(problem, "evaluate"):
            raise MissingCapability(
                f"{type(problem).__name__} has no test samples to measure {name!r} on: use a "
                "fedtheory.neural.NeuralProblem with test=(inputs, targets), or record 'objective'"
            )
        if problem.test is None:
            raise MissingCapability(f"this problem was made without test samples for {name!r}: give it test=(inputs, targets)")


def _local_models(clients: Clients, dim: int, name: str) -> Array:
    """The participants' models after the round's last local work (S, P, d)."""
    if not clients.results:
        raise MissingCapability(f"this method does not train local models, so there is no {name!r}: leave it out")
    return clients.results[-1].y[:, :, :dim]  # APFL's local point is longer: the shared model comes first


def remember(models: Array | None, clients: Clients) -> Array | None:
    """All clients' last local models (S, N, d) after a round; None where they are not kept."""
    if models is None:
        return None
    return clients.put(models, _local_models(clients, models.shape[2], "test_accuracy_all"))


def updates(record: tuple[str, ...], clients: Clients, x: Array) -> Array | None:
    """y_k - x of all slots (S, P, d) after the round's last local work, x (S, d) what it began
    with, but for running statistics; None: no metric asks for it."""
    name = next(filter(record.__contains__, OF_UPDATES), None)
    if name is None:
        return None
    trained = x.shape[1] - getattr(clients.problem, "statistics", 0)
    return _local_models(clients, trained, name) - x[:, None, :trained]


def _norms(points: np.ndarray) -> np.ndarray:
    """||x|| along the last axis, as NumPy's own sums it: (S, d) -> (S,)."""
    return np.sqrt(np.add.reduce(points * points, axis=-1))


def _drift(clients: Clients, moved: Array) -> np.ndarray:
    """Mean over the participants of ||y_k - x|| (S,), 0 where there are none."""
    xp, mask = namespace(moved), clients.cohort.partial_mask
    length = np.ascontiguousarray(to_numpy(xp.sqrt(xp.sum(moved * moved, axis=-1))), dtype=float)
    length = length if mask is None else np.where(mask, length, 0.0)  # outside the cohort there may be infinities
    return np.add.reduce(length, 1) / clients.cohort.divisor


def _nonzeros(clients: Clients) -> np.ndarray | float:
    """Nonzero entries a participant sent, mean over each scenario's participants (S,)."""
    mask, total = clients.cohort.partial_mask, cast(Any, 0.0)
    for message in clients.sent:
        if mask is None and message.shape[0] == 1 and is_numpy(message):
            total = total + np.count_nonzero(message) / clients.cohort.divisor
            continue
        if on_host(message):
            count = np.add.reduce(to_numpy(message) != 0, axis=-1)
        else:
            count = to_numpy(namespace(message).count_nonzero(message, axis=-1))
        total = total + (count if mask is None else count * mask).sum(axis=1) / clients.cohort.divisor
    return total


def message_bins(record: tuple[str, ...], clients: Clients, moved: Array | None) -> RoundBins:
    """The round's histograms that the recorded entropies are made of; moved are its `updates`."""
    found: RoundBins = {}
    sent, update = _wanted(record)[1:]
    messages = clients.sent_rows() if sent else []
    if sent:
        found["sent"] = [_bins(rows) for rows in messages]
    if update:
        own = rows_of(moved, clients.cohort.partial_mask)
        same = [bins for rows, bins in zip(messages, found.get("sent", ())) if _equal(rows, own)]
        found["update"] = same[:1] or [_bins(own)]
    return found


def _equal(one: Array, other: Array) -> bool:
    """True if two messages in main memory are the same numbers, as what is sent often is the update itself."""
    if not (is_numpy(one) and is_numpy(other) and one.shape == other.shape and one.size):
        return False
    return bool(one.item(0) == other.item(0)) and all_true(one == other)


@cache
def _wanted(record: tuple[str, ...]) -> tuple[tuple[str, ...], bool, bool]:
    """The recorded entropies, whether any is of what was sent, and whether one is of updates."""
    found = tuple(name for name in record if name in ENTROPIES)
    return found, any(name in SENT_ENTROPIES for name in found), "update_entropy" in found


def _bins(message: Array) -> Bins | None:
    """The histogram of a message's entries, counted where they lie; None where there are none."""
    return bin_counts(message) if math.prod(message.shape) else None


def merged(parts: list[Bins]) -> Bins:
    """Several histograms as one."""
    if len(parts) == 1:
        return parts[0]
    return joined(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))


def entropies(record: tuple[str, ...], parts: list[RoundBins]) -> dict[str, float]:
    """The recorded entropies of a round, of all chunks of scenarios together; each message has a histogram of its own.

    A message that only some chunks send is theirs alone; an entropy is 0 where nothing was sent.
    """
    wanted = _wanted(record)[0]
    if not wanted:
        return {}
    messages = [p.get("sent", []) for p in parts]
    each = [_joint_entropy(m) for m in zip_longest(*messages)]
    values = {"entropy": sum(each), "entropy_1": each[0] if each else 0.0, "entropy_2": each[1] if len(each) > 1 else 0.0}
    if "entropy_pooled" in wanted:
        values["entropy_pooled"] = each[0] if len(each) == 1 else _joint_entropy(chain(*zip_longest(*messages)))
    if "update_entropy" in wanted:
        updates = [chunk for p in parts for chunk in p.get("update", [])]
        same = len(parts) == 1 and any(chunk is updates[0] for chunk in messages[0][:1])
        values["update_entropy"] = each[0] if same else _joint_entropy(updates)
    return {name: values[name] for name in wanted}


def _joint_entropy(parts: Iterable[Bins | None]) -> float:
    """Entropy of several histograms together; 0 where nothing was counted."""
    filled = [p for p in parts if p is not None]
    return entropy_of_counts(merged(filled)[1]) if filled else 0.0


def measure(
    meters: dict[str, np.ndarray], problem: Any, t: int, x: Array, clients: Clients | None = None,
    moved: Array | None = None, evaluate: bool = True, personal: Array | None = None,
    models: Array | None = None,
) -> None:
    """Fill row t of every (rounds + 1, S) meter but the entropies.

    Parameters
    ----------
    x : (S, d)
        The server's model after the round.
    clients, moved : the round's clients and their `updates`, None for row 0
    evaluate : bool
        Whether what depends on the model alone is measured in this row; NaN if not.
    personal : (S, N, d), the clients' own models, where the method makes some
    models : (S, N, d), all clients' last local models, where they are kept

    Notes
    -----
    F and its gradient are evaluated in double precision whatever the run's: rounding in F alone,
    eps |F|, would hide a suboptimality below 1e-7 |F| in single precision. What is left is the
    point's own: a single-precision x is within 6e-8 of x* in each coordinate, relative, at best,
    which costs beta/2 (6e-8 ||x*||)^2, and local work stops where its gradients are rounding
    errors.
    """
    tested: dict[str, np.ndarray] = {}
    traffic: dict[str, np.ndarray] = {}
    values: np.ndarray | None = None
    for name, out in meters.items():
        if name in ENTROPIES:
            continue
        if name in EVALUATED:
            if not evaluate:
                out[t] = np.nan
            elif name in ("test_accuracy", "test_loss"):
                tested = tested or problem.evaluate(x)
                out[t] = tested[name]
            elif name in OF_MEANS:
                mean = x if clients is None else clients.mean(_local_models(clients, x.shape[1], name))
                if name == "test_accuracy_all" and models is not None:
                    mean = namespace(models).mean(models, axis=1)
                out[t] = problem.evaluate(mean)["test_accuracy"]
            elif name == "client_accuracy":
                out[t] = problem.evaluate_clients(x, personal)
            elif name == "gradient_norm":
                out[t] = _norms(to_numpy(problem.full_gradient(problem.in_double(x))))
            elif name == "distance":
                out[t] = _norms(to_numpy(x) - problem.optimum().x)
            else:
                if values is None:
                    values = to_numpy(problem.objective(problem.in_double(x)))
                out[t] = values - problem.optimum().value if name == "suboptimality" else values
        elif clients is None:
            out[t] = 0.0
        elif name == "nonzeros":
            out[t] = _nonzeros(clients)
        elif name == "drift":
            out[t] = _drift(clients, moved)
        elif name == "participants":
            out[t] = clients.cohort.size()
        else:
            traffic = traffic or {way: np.add.reduce(getattr(clients, way), 1) for way in ("bits_up", "bits_down")}
            out[t] = traffic["bits_up"] + traffic["bits_down"] + out[t - 1] if name == "bits" else traffic[name]
