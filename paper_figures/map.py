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


_NETWORKS = "needs networks of millions of weights trained for days; a small network shows the same on a CPU"

MAP: tuple[Entry, ...] = (
    Entry("fedelasticnet", "Table 1", "prior methods compared", command="fedtheory verify fedelasticnet/table-1"),
    Entry("fedelasticnet", "Table 2", "nonzeros sent over all rounds", command="fedtheory bench fedelasticnet-table2"),
    Entry("fedelasticnet", "Table 3", "entropy of what is sent, 10 % of the clients", command="fedtheory bench fedelasticnet-table3"),
    Entry("fedelasticnet", "Table 4", "entropy of what is sent, all clients", command="fedtheory bench fedelasticnet-table4"),
    Entry("fedelasticnet", "Table 5", "hyperparameters", command="fedtheory bench fedelasticnet-table2 --help"),
    Entry("fedelasticnet", "Figure 1", "test accuracy against rounds", command="fedtheory bench fedelasticnet-figure1"),
    Entry("fedelasticnet", "Figure 2", "distributions of the updates sent", why_not=_NETWORKS),
    Entry("fedelasticnet", "Figure 3", "Algorithm 1: accuracy and sparsity against λ₁", why_not=_NETWORKS),
    Entry("fedelasticnet", "Figure 4", "Algorithm 2: accuracy and sparsity against λ₁", why_not=_NETWORKS),
    Entry("fedelasticnet", "Figure 5", "Algorithm 3: accuracy and sparsity against λ₁", why_not=_NETWORKS),
    Entry("fedelasticnet", "Figure 6", "test accuracy, images, 10 % of the clients", why_not=_NETWORKS),
    Entry("fedelasticnet", "Figure 7", "test accuracy, Shakespeare", why_not=_NETWORKS),
    Entry("fedelasticnet", "Figure 8", "test accuracy, MNIST and EMNIST-L, all clients", why_not=_NETWORKS),
    Entry("fedelasticnet", "Figure 9", "test accuracy, CIFAR, all clients", why_not=_NETWORKS),
    Entry("efl", "Table 1", "rounds to ε of prior methods", ("efl_table1",)),
    Entry("efl", "Table 2", "best mean test accuracy, data that differ", command="fedtheory bench efl-table2"),
    Entry("efl", "Figure 1", "test accuracy, VGG11 and ResNet50", why_not=_NETWORKS),
    Entry("efl", "Figure 2", "the elastic term: accuracy and training loss", why_not=_NETWORKS),
    Entry("efl", "Figure 3", "test accuracy when few take part", why_not=_NETWORKS),
    Entry("fedmls", "Selected Results", "objective against rounds and time, beside other methods", ("rates", "rates_summary")),
    Entry("elastic-aggregation", "Figure (left)", "naive and elastic aggregation of two clients", ("elastic_aggregation",)),
    Entry("elastic-aggregation", "Table (upper)", "test accuracies", command="fedtheory bench elastic-table"),
)
