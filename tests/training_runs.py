"""A small network on the digits, and a run of it that tests cut, continue, damage and compare."""

from __future__ import annotations

import numpy as np

from fedtheory import Bernoulli, algorithms
from fedtheory.local import SGD
from fedtheory.neural import NeuralProblem, data, models, train

METHOD = algorithms.FedElasticNetDyn(1e-4, 0.05, epsilon=1e-3)


def make(ridge: float = 1e-3, seed: int = 0, test: bool = True) -> NeuralProblem:
    """Ten clients of the digits, dealt by a Dirichlet law."""
    digits = data.digits()
    part = data.federated(digits, "dirichlet", 10, alpha=0.3)
    module = models.get("mlp-100-100").build(digits.input_shape, 10, seed=seed, hidden=(12, 9))
    held_out = (digits.inputs(digits.test_x), digits.test_y) if test else None
    return NeuralProblem(module, digits.inputs(digits.train_x), digits.train_y, part.indices, test=held_out, ridge=ridge, name="digits")


def go(problem, rounds, method=METHOD, **options):
    """Train for that many rounds, in silence."""
    settings = {"sampling": Bernoulli(0.3), "solver": SGD(20, 0.1, epochs=1, decay=0.99), "seed": 2, "progress": False, **options}
    return train(problem, method, rounds, **settings)


def same(a, b):
    """Two runs have the same metrics and the same last states, to the bit."""
    assert a.rounds == b.rounds
    for name in a.metrics:
        np.testing.assert_array_equal(a.metrics[name], b.metrics[name], err_msg=name)
    for x, y in zip(a.final, b.final, strict=True):
        np.testing.assert_array_equal(x, y)


class Cut(Exception):
    """Ends a run before its time."""


def cut_after(rounds):
    """An ``on_round`` that ends a run after so many rounds."""

    def stop(at):
        if at.round_index == rounds:
            raise Cut

    return stop
