"""The methods that can be audited: their settings in a run of the audit, and what they keep."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["METHODS", "Method"]


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


SERVER_MODEL = {"x": "the server's model (d,)"}
CONTROLS = {
    **SERVER_MODEL, "c": "the server's control variate (d,)",
    "c_k": "the clients' control variates (N, d)",
}
STORED = {
    **SERVER_MODEL, "h": "the server's h (d,)", "h_k": "the gradients that the clients store (N, d)"
}
TRACKERS = {**SERVER_MODEL, "d_k": "the clients' corrections (N, d)"}
MOMENTUM = {**SERVER_MODEL, "m": "the momentum (d,)"}
MOMENTS = {**SERVER_MODEL, "m": "the first moment (d,)", "v": "the second moment (d,)"}
RATES = {"server_lr": 0.2, "beta1": 0.7, "beta2": 0.9, "tau": 0.05}
ONLY_ADDS = {name: rate for name, rate in RATES.items() if name != "beta2"}  # FedAdagrad
REDDI, KARIMIREDDY = "Reddi et al. 2021, Algorithm 2", "Karimireddy et al. 2020"
ELASTIC_NET, OPTIMUM = {"mu": 0.7, "l1": 0.05}, "optimum"

METHODS = {m.name: m for m in (
    Method("fedavg", "McMahan et al. 2017, Algorithm 1", {}, SERVER_MODEL, "examples"),
    Method("fedprox", "Li et al. 2020, Algorithm 2", {"mu": 0.7}, SERVER_MODEL, "examples", True),
    Method("scaffold", f"{KARIMIREDDY}, Algorithm 1", {"server_lr": 0.9}, CONTROLS, "uniform",
           aim=OPTIMUM),
    Method("feddyn", "Acar et al. 2021, Algorithm 1", {"alpha": 0.8}, STORED, "uniform", True,
           OPTIMUM),
    Method("fedelasticnet-prox", "FedElasticNet, Algorithm 1", ELASTIC_NET, SERVER_MODEL,
           "examples", True),
    Method("fedelasticnet-scaffold", "FedElasticNet, Algorithm 2",
           {**ELASTIC_NET, "server_lr": 0.9}, CONTROLS, "uniform"),
    Method("fedelasticnet-dyn", "FedElasticNet, Algorithm 3 under its sign rule",
           {"alpha": 0.8, "l1": 0.05}, STORED, "uniform", True),
    Method("mime", f"{KARIMIREDDY} (Mime), Algorithm 1", {"momentum": 0.6},
           {**SERVER_MODEL, "s": "the momentum (d,)"}, "uniform"),
    Method("fedgate", "Haddadpour et al. 2021, FedGATE", {"server_lr": 0.9}, TRACKERS, "uniform",
           aim=OPTIMUM),
    Method("vrl-sgd", "Liang et al. 2019, VRL-SGD, Algorithm 1", {}, TRACKERS, "uniform",
           aim=OPTIMUM),
    Method("elastic-aggregation", "Chen et al. 2023, Algorithm 1", {"tau": 0.4, "server_lr": 0.9},
           SERVER_MODEL, "examples"),
    Method("fedavgm", "Hsu et al. 2019, FedAvgM", {"server_lr": 0.6, "beta1": 0.7}, MOMENTUM,
           "examples"),
    Method("fedadagrad", REDDI, ONLY_ADDS, MOMENTS, "examples"),
    Method("fedadam", REDDI, RATES, MOMENTS, "examples"),
    Method("fedyogi", REDDI, RATES, MOMENTS, "examples"),
)}  # fmt: skip
