"""Theorems 3.1 to E on a run of anyone's Algorithm 3, or FedDyn: what they need of it, and their sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from fedtheory.algorithms.feddyn import FedDyn
from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn, FedElasticNetDynState
from fedtheory.errors import InvalidInput
from fedtheory.local.exact import Exact
from fedtheory.participation.cohorts import Full, Uniform
from fedtheory.theorems.fedelasticnet.accumulator import Accumulator
from fedtheory.theorems.fedelasticnet.expectation import (
    FederatedLosses,
    constants_of,
    full_round,
    own_anchor,
)
from fedtheory.theorems.fedelasticnet.on_a_problem import assumption_failure
from fedtheory.theorems.fedelasticnet.quantities import RunView, norm_sq
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.record import Missing, OwnRun, Record
from fedtheory.theory.judge.statement import Form, Statement

__all__ = ["in_states_of_algorithm_3", "own_run"]

LEFT = "R(mean of gamma_0..gamma_(T-1)) - R*, gamma_t the mean of the local models of round t (theta_t + h_t/lambda_2)"
SPLIT_OF = {"inner_exact": "inner_split", "inner_sign": "inner_split_sign", "inner_own_sign": "inner_split_own_sign"}
ON_THE_WAY = (*SPLIT_OF, *SPLIT_OF.values())
HOW_GAMMA = (
    "hand over {'x': models, 'h': h} with the server's h, or {'x': models, 'gamma': gamma} with the plain mean of the local models "
    "that arrived in each round (of round 0 the start)"
)
HOW_STORED = "hand over {'x': models, 'h': h, 'stored': g} with the gradients that the clients store, (rounds + 1, seeds, clients, d)"


def as_algorithm_3(algorithm: Any) -> Any:
    """FedDyn as Algorithm 3 with lambda_1 = 0, where its two rules are one; others as they are.

    Every statement for lambda_1 > 0 holds for lambda_1 = 0, too: local models, and with them both sides, are continuous in lambda_1.
    """
    if not isinstance(algorithm, FedDyn):
        return algorithm
    if algorithm.compressor is not None:
        raise InvalidInput(f"compressor = {algorithm.compressor.name}: the theorems are about uncompressed messages; use None")
    return SimpleNamespace(l1=0.0, l2=float(algorithm.alpha), rule="true-gradient")


def in_states_of_algorithm_3(case: Case, record: Record) -> tuple[Case, Record]:
    """A run of FedDyn as one of Algorithm 3, and the server's h from gamma where that was given."""
    method, kept = as_algorithm_3(case.algorithm), dict(record.memories)
    if isinstance(method, SimpleNamespace):
        least = float(np.nextafter(0, 1))  # lambda_1 is above 0
        case = replace(case, algorithm=FedElasticNetDyn(least, method.l2, "true-gradient"))
    if "gradients" in kept:
        kept.setdefault("stored", kept["gradients"])
    if "gamma" in kept and "h" not in kept and record.models is not None:
        gamma = record.memory("gamma", record.models.shape[2:])
        kept["h"] = (gamma - record.models) * method.l2
    return case, replace(record, memories=kept)


def _refusal(form: Form, case: Case, method: Any, sampling: Any) -> str | None:
    """The first assumption that fails, or None."""
    if isinstance(method, SimpleNamespace):  # any lambda_1 > 0 stands for 0
        rule = "true-gradient" if "true-gradient" in form.established else "sign"
        method = FedElasticNetDyn(1.0, method.l2, rule)  # type: ignore[arg-type]
    return assumption_failure(form, case.problem, method, sampling)


def own_run(statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
    """The sides of a form on a recorded run.

    Raises
    ------
    InvalidInput
        An assumption that fails.
    NotRecorded
        The run lacks h, or what the clients store.
    NotCertified
        An optimum that cannot be certified.
    """
    sampling = case.sampling or Full()
    method = as_algorithm_3(case.algorithm)
    reason = _refusal(form, case, method, sampling)
    if reason is not None:
        raise InvalidInput(reason)
    exact = not isinstance(sampling, Uniform) or sampling.size == case.problem.num_clients
    if form.exact_only and not exact:
        raise InvalidInput(f"{statement.id} [{form.name}] multiplies expectations, which runs do not give: take another form")
    view = _view(statement, form, case, record, method, sampling, exact)
    sides = form.sides(view)  # type: ignore[misc]
    rule = method.rule if method.rule in form.established else next(iter(form.established))
    names = ("m", "P", "beta", "lambda1", "lambda2")
    return OwnRun(sides, view.horizons, "T", exact, LEFT, rule, {n: getattr(view.constants, n) for n in names})


def _view(statement: Statement, form: Form, case: Case, record: Record, method: Any, sampling: Any, exact: bool) -> RunView:
    losses, horizons = FederatedLosses(case.problem), np.arange(1, record.rounds + 1)
    missing: Callable[[str, str], Missing] = lambda what, how: Missing(f"{statement.id} [{form.name}] needs {what}: {how}")  # noqa: E731
    m, d = case.problem.num_clients, case.problem.dim
    start = record.start(case.x0)
    stored_0 = np.zeros((len(start), m, d))
    stored = record.memory("stored", (m, d))
    if stored is None:
        stored = record.memory("gradients", (m, d))
    h = record.memory("h", (d,))
    if stored is not None:
        stored_0 = stored[0]
    gamma_0 = start if h is None else start + h[0] / method.l2
    of_start: dict[str, Any] = {
        "start_sq": norm_sq(gamma_0 - losses.theta_star),
        "C0": norm_sq(stored_0 - losses.grad_star).mean(axis=-1),
        "C0_printed": np.sqrt(norm_sq(stored_0 - losses.grad_star)).mean(axis=-1),
        "C0_true": norm_sq(losses.gradients(start) - losses.grad_star).mean(axis=-1),
    }
    if not exact:  # means over the seeds, as the statement has them
        of_start = {k: v.mean() for k, v in of_start.items()}
    zero = np.zeros((record.rounds, record.seeds))
    on_the_way: dict[str, Any] = dict.fromkeys(ON_THE_WAY, zero)
    view = RunView(
        losses=losses, constants=constants_of(case.problem, method, sampling), rule=method.rule, d=d, horizons=horizons, exact=exact,
        excess=zero, noise=0.0, zeros=zero, **on_the_way, **of_start,
    )  # fmt: skip
    gamma: Any = None
    if record.models is not None:
        gamma = record.memory("gamma", (d,)) if h is None else record.models + h / method.l2
        if gamma is None:
            missing("gamma_t, the mean of the local models of each round", HOW_GAMMA)._raise()
        sums = np.cumsum(gamma[:-1], axis=0) / horizons[:, None, None]
        view = replace(view, excess=losses.excess(sums), noise=losses.noise(sums) if exact else float(losses.noise(sums).max()))
    if method.l1 == 0:
        return view
    if gamma is None or h is None or stored is None:
        unknown = missing("the signs of the local moves on the way", f"give run={{...}}; {HOW_STORED}")
        on_the_way = dict.fromkeys(ON_THE_WAY, unknown)
        return replace(view, zeros=unknown, **on_the_way)
    found = _on_the_way(case, record, h, stored, losses, missing)
    if exact:  # nothing is random: the product of two expectations is the product
        found |= {split: found[whole] for whole, split in SPLIT_OF.items()}
    return replace(view, **found)


def _on_the_way(case: Case, record: Record, h: np.ndarray, stored: np.ndarray, losses: Any, missing: Any) -> dict[str, Any]:
    """The sums along the run, from its states: the virtual local models of (19) are worked out from these."""
    problem, algorithm, solver = case.problem, case.algorithm, Exact()
    models: Any = record.models
    local = record.memory("local", (problem.num_clients, problem.dim))
    sums = Accumulator(losses, algorithm.l1, models[0])
    rows: dict[str, list[Any]] = {name: [] for name in sums.sums}
    for t in range(record.rounds):
        state = FedElasticNetDynState(models[t], stored[t], h[t], stored[t] if local is None else local[t])
        y = full_round(problem, algorithm, solver, state)
        own = None if local is None else own_anchor(problem, algorithm, solver, state)
        sums.add(state.x + state.h / algorithm.l2, state.x, state.stored, y, losses.gradients_each(y), own)
        for name, values in sums.sums.items():
            rows[name].append(values.copy())
    out = {f"inner_{name}": np.stack(values) for name, values in rows.items() if name != "zeros"}
    out["zeros"] = np.stack(rows["zeros"]) / np.arange(1, record.rounds + 1)[:, None]
    if local is None:
        unknown = missing("theta_k, each client's last local model", "hand it over as 'local', (rounds + 1, seeds, clients, d)")
        out["inner_own_sign"] = unknown
    return out
