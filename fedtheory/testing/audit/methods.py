"""The methods that can be audited: their settings in a run of the audit, and what they keep."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "ADAGRAD", "ADAM", "AVG", "DYN", "ELASTIC_AGGREGATION", "EN_DYN", "EN_PROX", "EN_SCAFFOLD",
    "GATE", "METHODS", "MIME", "MOMENTUM", "PROX", "SCAFFOLD", "VRL", "YOGI", "Method",
]


@dataclass(frozen=True)
class Method:
    """A method that can be audited.

    Attributes
    ----------
    settings : name -> the value in a run of the audit, besides learning_rate and local_steps
    state : name -> what it is, of all that a single round takes and gives back
    weighting : what a client counts for in the server's mean: 'examples' or 'uniform'
    exact : whether its clients may also minimise their objective to the end
    aim : where it goes: 'optimum' (from anywhere, by its theorem), or '' where its limit is another point
    """

    name: str
    source: str
    settings: dict[str, float]
    state: dict[str, str]
    weighting: str
    exact: bool = False
    aim: str = ""


AVG, PROX, SCAFFOLD, DYN = "fedavg", "fedprox", "scaffold", "feddyn"
EN_PROX, EN_SCAFFOLD, EN_DYN = "fedelasticnet-prox", "fedelasticnet-scaffold", "fedelasticnet-dyn"
MOMENTUM, ADAGRAD, ADAM, YOGI = "fedavgm", "fedadagrad", "fedadam", "fedyogi"
MIME, GATE, VRL, ELASTIC_AGGREGATION = "mime", "fedgate", "vrl-sgd", "elastic-aggregation"
SERVER_MODEL = {"x": "the server's model (d,)"}
CONTROLS = {**SERVER_MODEL, "c": "the server's control variate (d,)", "c_k": "the clients' control variates (N, d)"}
STORED = {**SERVER_MODEL, "h": "the server's h (d,)", "h_k": "the gradients that the clients store (N, d)"}
TRACKERS = {**SERVER_MODEL, "d_k": "the clients' corrections (N, d)"}
RATES = {"server_lr": 0.2, "beta1": 0.7, "beta2": 0.9, "tau": 0.05}

METHODS = {
    m.name: m
    for m in (
        Method(AVG, "McMahan et al. 2017, Algorithm 1", {}, SERVER_MODEL, "examples"),
        Method(PROX, "Li et al. 2020, Algorithm 2", {"mu": 0.7}, SERVER_MODEL, "examples", exact=True),
        Method(
            SCAFFOLD, "Karimireddy et al. 2020, Algorithm 1", {"server_lr": 0.9}, CONTROLS, "uniform", aim="optimum"
        ),
        Method(DYN, "Acar et al. 2021, Algorithm 1", {"alpha": 0.8}, STORED, "uniform", exact=True, aim="optimum"),
        Method(EN_PROX, "FedElasticNet, Algorithm 1", {"mu": 0.7, "l1": 0.05}, SERVER_MODEL, "examples", exact=True),
        Method(
            EN_SCAFFOLD, "FedElasticNet, Algorithm 2", {"mu": 0.7, "l1": 0.05, "server_lr": 0.9}, CONTROLS, "uniform"
        ),
        Method(
            EN_DYN,
            "FedElasticNet, Algorithm 3 under its sign rule",
            {"alpha": 0.8, "l1": 0.05},
            STORED,
            "uniform",
            exact=True,
        ),
        Method(
            MIME,
            "Karimireddy et al. 2020 (Mime), Algorithm 1",
            {"momentum": 0.6},
            {**SERVER_MODEL, "s": "the momentum (d,)"},
            "uniform",
        ),
        Method(GATE, "Haddadpour et al. 2021, FedGATE", {"server_lr": 0.9}, TRACKERS, "uniform", aim="optimum"),
        Method(VRL, "Liang et al. 2019, VRL-SGD, Algorithm 1", {}, TRACKERS, "uniform", aim="optimum"),
        Method(
            ELASTIC_AGGREGATION,
            "Chen et al. 2023, Algorithm 1",
            {"tau": 0.4, "server_lr": 0.9},
            SERVER_MODEL,
            "examples",
        ),
        Method(
            MOMENTUM,
            "Hsu et al. 2019, FedAvgM",
            {"server_lr": 0.6, "beta1": 0.7},
            {**SERVER_MODEL, "m": "the momentum (d,)"},
            "examples",
        ),
        *(
            Method(
                name,
                "Reddi et al. 2021, Algorithm 2",
                {k: v for k, v in RATES.items() if name != ADAGRAD or k != "beta2"},  # FedAdagrad only adds up
                {**SERVER_MODEL, "m": "the first moment (d,)", "v": "the second moment (d,)"},
                "examples",
            )
            for name in (ADAGRAD, ADAM, YOGI)
        ),
    )
}
