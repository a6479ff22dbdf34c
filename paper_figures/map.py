"""From the papers' own numbers to our figures and tables, or to why there is none."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MAP", "Entry"]


@dataclass(frozen=True)
class Entry:
    """One figure or table that a paper prints.

    Attributes
    ----------
    paper : its id
    number : as the paper calls it
    shows : what the paper shows there
    names : of our figures that answer it
    command : where another command answers it
    why_not : where nothing does, or only in part
    """

    paper: str
    number: str
    shows: str
    names: tuple[str, ...] = ()
    command: str = ""
    why_not: str = ""


_DIGITS = (
    "on scikit-learn's digits and small networks; --data FOLDER takes the paper's data and networks"
)
_GPU = f"{_DIGITS}, which take days of a graphics card"
_TEXTS = (
    "--data FOLDER takes Shakespeare and its LSTM; without, Python's help texts and a small one"
)


def _trained(paper: str, number: str, shows: str, why_not: str = _DIGITS) -> Entry:
    """A figure or table of trained networks, which is drawn and run by its number."""
    name = f"{paper}_{number.lower().replace(' ', '')}"
    return Entry(paper, number, shows, (name,), f"fedtheory bench {name.replace('_', '-')}", why_not)


_ELASTIC = "elastic-aggregation"
MAP: tuple[Entry, ...] = (
    Entry(
        "fedelasticnet", "Table 1", "prior methods compared", ("fedelasticnet_table1",),
        "fedtheory verify fedelasticnet/table-1",
    ),
    _trained("fedelasticnet", "Table 2", "nonzeros sent over all rounds"),
    _trained("fedelasticnet", "Table 3", "entropy of what is sent, 10 % of the clients"),
    _trained("fedelasticnet", "Table 4", "entropy of what is sent, all clients"),
    Entry(
        "fedelasticnet", "Table 5", "hyperparameters", ("fedelasticnet_table5",),
        why_not="inputs, no results; drawn: what they do",
    ),
    _trained("fedelasticnet", "Figure 1", "test accuracy against rounds"),
    _trained("fedelasticnet", "Figure 2", "distributions of the updates sent"),
    _trained("fedelasticnet", "Figure 3", "Algorithm 1: accuracy and sparsity against λ₁"),
    _trained("fedelasticnet", "Figure 4", "Algorithm 2: accuracy and sparsity against λ₁"),
    _trained("fedelasticnet", "Figure 5", "Algorithm 3: accuracy and sparsity against λ₁"),
    _trained("fedelasticnet", "Figure 6", "test accuracy, images, 10 % of the clients"),
    _trained("fedelasticnet", "Figure 7", "test accuracy, Shakespeare", _TEXTS),
    _trained("fedelasticnet", "Figure 8", "test accuracy, MNIST and EMNIST-L, all clients"),
    _trained("fedelasticnet", "Figure 9", "test accuracy, CIFAR, all clients", _GPU),
    Entry("efl", "Table 1", "rounds to ε of prior methods", ("efl_table1",)),
    _trained("efl", "Table 2", "best mean test accuracy, data that differ"),
    _trained(
        "efl", "Figure 1", "test accuracy, VGG11 and ResNet50",
        f"{_GPU}; no ResNet50: MNIST's network in its place",
    ),
    _trained("efl", "Figure 2", "the elastic term: accuracy and training loss", _GPU),
    _trained("efl", "Figure 3", "test accuracy when few take part", _GPU),
    Entry(
        "fedmls", "Selected Results", "objective against rounds and time, beside other methods",
        ("rates", "rates_summary"),
    ),
    Entry(
        _ELASTIC, "Figure (left)", "naive and elastic aggregation of two clients",
        ("elastic_aggregation_two_clients", "elastic_aggregation"),
    ),
    Entry(
        _ELASTIC, "Figure (results)", "splits, participation and local epochs",
        ("elastic_aggregation_settings",), "fedtheory bench elastic-aggregation-settings",
        "on scikit-learn's digits; the poster does not print what was run",
    ),
    Entry(
        _ELASTIC, "Table (upper)", "test accuracies", ("elastic_aggregation_table",),
        "fedtheory bench elastic-table; fedtheory bench elastic-aggregation-table", _GPU,
    ),
)  # fmt: skip
