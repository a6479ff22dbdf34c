"""Both printed loops of EFL miss the optimum: no history of theirs makes the moves cancel."""

from __future__ import annotations

from fractions import Fraction

import efl_held_at_the_optimum as held
import efl_instances as instances
import pytest
from efl_on_a_problem import BUILDERS


@pytest.mark.parametrize("data", [held.LITERAL, held.TEXT], ids=["literal", "text"])
def test_no_history_makes_the_moves_at_the_optimum_cancel(data):
    """Over all phases of the clients' periods and all that the server may hold back; none is a tie."""
    means, gap = held.means_of_all_histories(data)
    assert (0, 0) not in means and gap >= Fraction(1, 3)
    moves = held.held_moves(data)
    assert tuple(sum(m[i] for m in moves) / len(moves) for i in (0, 1)) in means
    view = BUILDERS["frozen"]({**instances.HELD, **data})
    assert [list(move) for move in view.moves] == moves


def test_two_clients_at_their_optimum_never_leave_it():
    """Their messages cancel, so that three clients are needed for all starts."""
    for variant in ("literal", "text"):
        assert not any(
            any(move)
            for move in held.held_moves({"variant": variant, "c": [["9", "6"], ["-9", "-6"]]})
        )
