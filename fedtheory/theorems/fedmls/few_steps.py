"""The inner loop of few local steps without noise: less error than the proof for every T has."""

from fedtheory.theorems.fedmls.inner_loop import MOST, average_is_proved, last_iterate_is_proved
from fedtheory.theorems.fedmls.notation import ASSUMPTIONS
from fedtheory.theorems.fedmls.paper import paper
from fedtheory.theorems.fedmls.theorem_1_proof import LOCAL, Algebra
from fedtheory.theory import form

BOUND = rf"T\le{MOST},\ \sigma_i=0:\quad" + LOCAL + r"\tfrac{4G_i^2}{\beta T}"


@paper.statement(
    "inner-loop-few-steps", over=Algebra,
    source="ours, for lines 18-27", assumptions=ASSUMPTIONS, ours=True,
)
def few_steps(q):
    """local training of few steps without noise"""
    yield form(
        "repaired", None, BOUND % r"\tilde u_T", holds=True, symbolic=average_is_proved,
        proves=True,
        note="1 stands for 8 in Theorem 1 while all T_k are at most this. T = 1 attains it. A "
        "certificate in fractions for each T, over all losses and all closed convex sets",
    )
    yield form(
        "last iterate", None, BOUND % "u_T", holds=True, symbolic=last_iterate_is_proved,
        proves=True, note="the same with line 14 as printed",
    )
