"""Instances in words."""

import pytest

from fedtheory.theory.rounds.instances import Draw


@pytest.mark.parametrize("entry, words", [
    ({"h": "1", "c": "1", "m": "1"}, "(x - 1)²"),
    ({"h": "1", "c": "0", "m": "1"}, "x²"),
    ({"h": "1/2", "c": "0"}, "x²/4"),
    ({"h": "1", "c": "0"}, "x²/2"),
    ({"h": "3", "c": "-2"}, "3 (x + 2)²/2"),
    ({"h": "65/8", "c": "7/4"}, "65 (x - 7/4)²/16"),
    ({"h": "-1", "c": "0"}, "-x²/2"),
    ({"h": "-2", "c": "0", "m": "1"}, "-x²/2"),
    ({"h": "-1", "c": "0", "m": "1"}, "0"),
    ({"h": "-1", "c": "0", "m": "2", "delta": "1"}, "-huber_1(x) + x²"),
    ({"h": "1/2", "c": "3", "m": "1/2", "delta": "1/4"}, "1/2 huber_1/4(x - 3) + (x - 3)²/4"),
    ({"h": "1", "c": "1", "a": "2"}, "(x - 1)²/2 + 2 |x - 1|"),
])  # fmt: skip
def test_a_loss_is_written_with_one_square(entry, words):
    data = {name: [[value]] for name, value in entry.items()}
    assert str(Draw.from_data({**data, "weights": ["1"], "start": ["0"], "rounds": 0})) == f"f1 = {words}, start 0"
