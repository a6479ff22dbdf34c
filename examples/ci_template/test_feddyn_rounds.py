"""Every round of FedDyn beside a reference: a mistake that a rate and a bound leave room for is named."""

import numpy as np
from feddyn import feddyn

from fedtheory.testing import check_algorithm


def adapter(start, clients, cohorts, learning_rate, local_steps, alpha):
    def gradients(points):
        return np.array([client.gradient(point) for client, point in zip(clients, points, strict=True)])

    starts, chosen = np.tile(start, (len(clients), 1)), [np.array(cohort) for cohort in cohorts]
    return feddyn(gradients, starts, alpha, chosen, learning_rate, local_steps)["x"]


def test_every_round_is_the_references():
    check_algorithm(adapter, "feddyn")
