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

MAP: tuple[Entry, ...] = (
    Entry(
        "fedelasticnet",
        "Table 1",
        "prior methods compared",
        ("fedelasticnet_table1",),
        "fedtheory verify fedelasticnet/table-1",
    ),
    Entry(
        "fedelasticnet",
        "Table 2",
        "nonzeros sent over all rounds",
        ("fedelasticnet_table2",),
        "fedtheory bench fedelasticnet-table2",
        _DIGITS,
    ),
    Entry(
        "fedelasticnet",
        "Table 3",
        "entropy of what is sent, 10 % of the clients",
        ("fedelasticnet_table3",),
        "fedtheory bench fedelasticnet-table3",
        _DIGITS,
    ),
    Entry(
        "fedelasticnet",
        "Table 4",
        "entropy of what is sent, all clients",
        ("fedelasticnet_table4",),
        "fedtheory bench fedelasticnet-table4",
        _DIGITS,
    ),
    Entry(
        "fedelasticnet",
        "Table 5",
        "hyperparameters",
        ("fedelasticnet_table5",),
        why_not="inputs, no results; drawn: what they do",
    ),
    Entry(
        "fedelasticnet",
        "Figure 1",
        "test accuracy against rounds",
        ("fedelasticnet_figure1",),
        "fedtheory bench fedelasticnet-figure1",
        _DIGITS,
    ),
    Entry(
        "fedelasticnet",
        "Figure 2",
        "distributions of the updates sent",
        ("fedelasticnet_figure2",),
        "fedtheory bench fedelasticnet-figure2",
        why_not=_DIGITS,
    ),
    Entry(
        "fedelasticnet",
        "Figure 3",
        "Algorithm 1: accuracy and sparsity against λ₁",
        ("fedelasticnet_figure3",),
        "fedtheory bench fedelasticnet-figure3",
        why_not=_DIGITS,
    ),
    Entry(
        "fedelasticnet",
        "Figure 4",
        "Algorithm 2: accuracy and sparsity against λ₁",
        ("fedelasticnet_figure4",),
        "fedtheory bench fedelasticnet-figure4",
        why_not=_DIGITS,
    ),
    Entry(
        "fedelasticnet",
        "Figure 5",
        "Algorithm 3: accuracy and sparsity against λ₁",
        ("fedelasticnet_figure5",),
        "fedtheory bench fedelasticnet-figure5",
        why_not=_DIGITS,
    ),
    Entry(
        "fedelasticnet",
        "Figure 6",
        "test accuracy, images, 10 % of the clients",
        ("fedelasticnet_figure6",),
        "fedtheory bench fedelasticnet-figure6",
        why_not=_DIGITS,
    ),
    Entry(
        "fedelasticnet",
        "Figure 7",
        "test accuracy, Shakespeare",
        ("fedelasticnet_figure7",),
        "fedtheory bench fedelasticnet-figure7",
        why_not=_TEXTS,
    ),
    Entry(
        "fedelasticnet",
        "Figure 8",
        "test accuracy, MNIST and EMNIST-L, all clients",
        ("fedelasticnet_figure8",),
        "fedtheory bench fedelasticnet-figure8",
        why_not=_DIGITS,
    ),
    Entry(
        "fedelasticnet",
        "Figure 9",
        "test accuracy, CIFAR, all clients",
        ("fedelasticnet_figure9",),
        "fedtheory bench fedelasticnet-figure9",
        why_not=_GPU,
    ),
    Entry("efl", "Table 1", "rounds to ε of prior methods", ("efl_table1",)),
    Entry(
        "efl",
        "Table 2",
        "best mean test accuracy, data that differ",
        ("efl_table2",),
        "fedtheory bench efl-table2",
        _DIGITS,
    ),
    Entry(
        "efl",
        "Figure 1",
        "test accuracy, VGG11 and ResNet50",
        ("efl_figure1",),
        "fedtheory bench efl-figure1",
        why_not=f"{_GPU}; no ResNet50: MNIST's network in its place",
    ),
    Entry(
        "efl",
        "Figure 2",
        "the elastic term: accuracy and training loss",
        ("efl_figure2",),
        "fedtheory bench efl-figure2",
        why_not=_GPU,
    ),
    Entry(
        "efl",
        "Figure 3",
        "test accuracy when few take part",
        ("efl_figure3",),
        "fedtheory bench efl-figure3",
        why_not=_GPU,
    ),
    Entry(
        "fedmls",
        "Selected Results",
        "objective against rounds and time, beside other methods",
        ("rates", "rates_summary"),
    ),
    Entry(
        "elastic-aggregation",
        "Figure (left)",
        "naive and elastic aggregation of two clients",
        ("elastic_aggregation_two_clients", "elastic_aggregation"),
    ),
    Entry(
        "elastic-aggregation",
        "Figure (results)",
        "splits, participation and local epochs",
        ("elastic_aggregation_settings",),
        "fedtheory bench elastic-aggregation-settings",
        why_not="on scikit-learn's digits; the poster does not print what was run",
    ),
    Entry(
        "elastic-aggregation",
        "Table (upper)",
        "test accuracies",
        ("elastic_aggregation_table",),
        "fedtheory bench elastic-table; fedtheory bench elastic-aggregation-table",
        _GPU,
    ),
)
