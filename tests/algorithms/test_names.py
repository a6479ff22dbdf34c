"""Names that packages do not have are answered with the nearest of those that they have."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fedtheory import algorithms, neural


@pytest.mark.parametrize(
    ("package", "name", "near"),
    [
        (algorithms, "FedElasticNet", "'FedElasticNetDyn' or 'FedElasticNetProx' or 'FedElasticNetScaffold'"),
        (algorithms, "SCAFFOLD", "'Scaffold'"),
        (algorithms, "FedDYN", "'FedDyn'"),
        (neural, "Train", "'train'"),
        (neural, "NeuralNetwork", "'NeuralProblem'"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_the_nearest(package, name, near):
    with pytest.raises(AttributeError, match=f"no attribute '{name}': did you mean {near}"):
        getattr(package, name)
    assert not hasattr(package, "__wrapped__")  # what tools ask for


def test_the_public_names_of_networks_are_listed_before_their_first_use():
    code = "import sys; from fedtheory import neural; print(*dir(neural)); assert 'torch' not in sys.modules"
    listed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert set(neural.__all__) <= set(listed)
