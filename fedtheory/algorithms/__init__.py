"""The federated methods, one a file."""

from typing import TYPE_CHECKING, Any

from fedtheory.algorithms.apfl import APFL
from fedtheory.algorithms.base import Algorithm
from fedtheory.algorithms.compressed import Compressed
from fedtheory.algorithms.efl import EFL
from fedtheory.algorithms.elastic_aggregation import ElasticAggregation
from fedtheory.algorithms.fedamp import FedAMP
from fedtheory.algorithms.fedavg import FedAvg
from fedtheory.algorithms.fedbn import FedBN
from fedtheory.algorithms.feddyn import FedDyn
from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.algorithms.fedelasticnet_prox import FedElasticNetProx
from fedtheory.algorithms.fedelasticnet_scaffold import FedElasticNetScaffold
from fedtheory.algorithms.fedgate import FedGATE
from fedtheory.algorithms.fedmls import FedMLS, fedmls_parameters
from fedtheory.algorithms.fedprox import FedProx
from fedtheory.algorithms.mime import Mime
from fedtheory.algorithms.scaffnew import Scaffnew
from fedtheory.algorithms.scaffold import Scaffold
from fedtheory.algorithms.server_optimisers import FedAdagrad, FedAdam, FedAvgM, FedYogi
from fedtheory.algorithms.subgradient import Subgradient, subgradient_parameters
from fedtheory.algorithms.vrl_sgd import VRLSGD
from fedtheory.errors import no_attribute, suggest

__all__ = [
    "APFL",
    "EFL",
    "VRLSGD",
    "Algorithm",
    "Compressed",
    "ElasticAggregation",
    "FedAMP",
    "FedAdagrad",
    "FedAdam",
    "FedAvg",
    "FedAvgM",
    "FedBN",
    "FedDyn",
    "FedElasticNetDyn",
    "FedElasticNetProx",
    "FedElasticNetScaffold",
    "FedGATE",
    "FedMLS",
    "FedProx",
    "FedYogi",
    "Mime",
    "Scaffnew",
    "Scaffold",
    "Subgradient",
    "fedmls_parameters",
    "get",
    "names",
    "subgradient_parameters",
]

_ALGORITHMS: dict[str, type[Algorithm]] = {
    cls.name: cls
    for cls in (
        FedAvg,
        FedProx,
        Scaffold,
        FedDyn,
        FedElasticNetProx,
        FedElasticNetScaffold,
        FedElasticNetDyn,
        FedMLS,
        Subgradient,
        EFL,
        Mime,
        VRLSGD,
        FedGATE,
        Scaffnew,
        APFL,
        FedAMP,
        FedBN,
        ElasticAggregation,
        FedAvgM,
        FedAdagrad,
        FedAdam,
        FedYogi,
    )
}


def names() -> list[str]:
    """Names of all methods, as `get` takes them."""
    return list(_ALGORITHMS)


def get(name: str) -> type[Algorithm]:
    """The class of a method by its name; its dataclass fields are the hyperparameters.

    Raises
    ------
    UnknownName
        With the nearest known names.
    """
    key = str(name).lower().replace("_", "-")
    found = _ALGORITHMS.get(key)
    if found is None:
        raise suggest(key, _ALGORITHMS, "algorithm")
    return found


if not TYPE_CHECKING:  # type checkers know what is here

    def __getattr__(name: str) -> Any:
        raise no_attribute(__name__, name, __all__)
