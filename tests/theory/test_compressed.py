"""Theorems about methods whose messages are compressed, in fractions."""

from fractions import Fraction as Q

import numpy as np
import pytest

from fedtheory.algorithms import Compressed, FedAvg, FedDyn, FedProx
from fedtheory.errors import InvalidInput
from fedtheory.messages import QSGD, ST, Threshold, TopK
from fedtheory.participation.cohorts import Cohort
from fedtheory.problems import random_quadratic
from fedtheory.rational import in_fractions
from fedtheory.theory import (
    Full,
    GradientSteps,
    Minimise,
    Paper,
    SmoothConvex,
    among,
    eq,
    le,
    method,
    printed,
    repaired,
    study,
    verify,
)
from fedtheory.theory.rounds.losses import SeparableLosses
from fedtheory.theory.rounds.rational_clients import SlotClients, SlotWork

CLASS = {"sampling": Full(), "problems": SmoothConvex(clients=(2, 3), dimension=(2, 3))}


def test_the_server_of_feddyn_is_off_by_the_mean_residual():
    """h - mean_k g_k is alpha times the mean of what was left out, in fractions and in floats."""
    paper = Paper("compressed-feddyn", title="Compressed FedDyn", source="a test")

    @paper.statement(
        "off",
        about=method(FedDyn, alpha=among(1, "5/2")).compressed(up=TopK(k=1)),
        local=Minimise(),
        **CLASS,
    )
    def off(q):
        """h is off by the mean residual."""
        found = q.state_next.h - q.state_next.gradients.mean(axis=-2)
        yield repaired(
            eq(q.sq(found - q.method.alpha * q.state_next.residuals.mean(axis=-2)), 0 * q.d),
            holds=True,
        )
        yield printed(eq(q.sq(found), 0 * q.d), fails=True)

    found = study(paper, budget=40)
    assert found.ok, str(found)
    assert {(row.form, "rational" in row.modes) for row in found.rows} == {
        ("repaired", True),
        ("printed", True),
    }
    problem = random_quadratic(3, 2, seed=1)
    for given in (None, Compressed(FedDyn(alpha=2.5), TopK(k=1))):
        assert [c.verdict for c in verify(paper["off"], problem, given)] == ["holds", "violated"]
    for given, why in (
        (FedDyn(alpha=2.5), "FedDyn, with compressed messages, not FedDyn(alpha=2.5)"),
        (Compressed(FedDyn(alpha=2.5), TopK(k=2)), "with up = top-k"),
        (Compressed(FedDyn(alpha=3.0), TopK(k=1)), "is about alpha 1 or 5/2"),
        (Compressed(FedAvg(), TopK(k=1)), "is about FedDyn, not Compressed"),
    ):
        assert {c.verdict for c in verify(paper["off"], problem, given)} == {"not applicable"}
        assert why in verify(paper["off"], problem, given)[0].reason


def test_a_run_that_is_compressed_both_ways():
    """Messages up lose their smaller entries, and the server's step those below the threshold."""
    paper = Paper("compressed-both", title="Both ways", source="a test")
    both_ways, steps = (
        Compressed(FedProx(mu=0.5), up=TopK(k=1), down=Threshold(0.25)),
        GradientSteps(2, lr=lambda c: 1 / (c.beta + 1)),
    )

    @paper.statement("both", about=both_ways, local=steps, over="run", rounds=(1, 3), **CLASS)
    def both(q):
        """No step is shorter than the threshold, and distances do not grow."""
        moved = abs(q.x[1:] - q.x[:-1]).max(axis=-1)
        yield repaired(eq(moved * (moved <= Q(1, 4)), 0 * moved), holds=True)
        yield printed(le(q.distance_sq[1:], q.distance_sq[:1]), fails=True)

    found = study(paper, budget=60)
    assert found.ok, str(found)


def test_hyperparameters_of_a_wrapped_method_become_fractions():
    made = Compressed(FedDyn(alpha=0.1), TopK(k=1))
    assert in_fractions(made).method.alpha == Q(1, 10) and made.method.alpha == 0.1


@pytest.mark.parametrize(
    "compressor", [TopK(k=1), ST(Q(1, 2)), Threshold(Q(1, 2))], ids=lambda c: c.name
)
def test_a_round_is_worked_out_by_hand(compressor):
    """From 0 with f_k = ||x - c_k||^2/2 and eta = 1/2 the updates are c_k/2 = (1, 1/2), (-1/2, 3/2).

    The larger entry of each arrives.
    """
    one, none, c = [[Q(1)] * 2] * 2, [[Q(0)] * 2] * 2, [[Q(2), Q(1)], [Q(-1), Q(3)]]
    losses = SeparableLosses.of(one, c, none, none, [[None] * 2] * 2, [Q(1, 2)] * 2)
    x = np.full((1, 2), Q(0), dtype=object)
    made = Compressed(FedAvg("cohort"), compressor)
    clients = SlotClients(
        losses, Cohort(2, mask=np.ones((1, 2), dtype=bool)), SlotWork(1, Q(1, 2)), x
    )
    new = made.round(made.init(x, 2), clients)
    assert new.x.tolist() == [[Q(1, 2), Q(3, 4)]]
    assert new.residuals.tolist() == [[[0, Q(1, 2)], [Q(-1, 2), 0]]]
    assert all(isinstance(v, Q) for v in new.x.ravel())


def test_a_compressor_that_draws_is_told():
    paper = Paper("compressed-at-random", title="At random", source="a test")
    with pytest.raises(InvalidInput, match="compressed by qsgd, which draws at random"):

        @paper.statement(
            "one",
            about=Compressed(FedAvg(), QSGD(4)),
            local=GradientSteps(1, lr=lambda c: 1 / c.beta),
            **CLASS,
        )
        def one(q):
            """One round."""
            yield printed(le(q.F_next, q.F), fails=True)

        study(paper, budget=10)
