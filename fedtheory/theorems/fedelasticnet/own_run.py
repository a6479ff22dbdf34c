"""A run of anyone's Algorithm 3, or FedDyn, as the statements about runs take it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedtheory.algorithms.feddyn import FedDyn
from fedtheory.algorithms.fedelasticnet_dyn import FedElasticNetDyn
from fedtheory.theory.judge.case import Case
from fedtheory.theory.judge.record import Record
from fedtheory.theory.judge.statement import Form

__all__ = ["in_states_of_algorithm_3"]


def in_states_of_algorithm_3(form: Form, case: Case, record: Record) -> tuple[Case, Record]:
    """A run of FedDyn as one of Algorithm 3, and the server's h from gamma where that was given.

    Every statement for lambda_1 > 0 holds for lambda_1 = 0, where the two rules are one: local
    models, and with them both sides, are continuous in lambda_1. So it is taken next to 0.
    """
    method, kept = case.algorithm, dict(record.memories)
    if isinstance(method, FedDyn):
        rule = "true-gradient" if "true-gradient" in form.established else "sign"
        least = float(np.nextafter(0, 1))
        method = FedElasticNetDyn(least, float(method.alpha), rule)  # type: ignore[arg-type]
        case = replace(case, algorithm=method)
    if "gradients" in kept:
        kept.setdefault("stored", kept["gradients"])
    if "gamma" in kept and "h" not in kept and record.models is not None:
        gamma = record.memory("gamma", record.models.shape[2:])
        kept["h"] = (gamma - record.models) * method.l2
    return case, replace(record, memories=kept)
