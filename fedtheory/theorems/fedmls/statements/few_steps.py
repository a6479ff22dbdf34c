"""The inner loop of few local steps without noise: less error than the proof for every T has."""

from __future__ import annotations

from fedtheory.theorems.fedmls.inner_loop import (
    MOST,
    average_is_proved,
    last_iterate_is_proved,
)
from fedtheory.theorems.fedmls.notation import statement
from fedtheory.verification.statement import form

__all__ = ["FEW_STEPS"]

BOUND = (
    rf"T\le{MOST},\ \sigma_i=0:\quad\Phi_i(%s)-\Phi_i(u)\le\tfrac{{\beta}}{{T(T+3)}}\|u-u_0\|^2"
    r"-\tfrac{(T+1)(T+2)}{T(T+3)}\tfrac\beta2\|u-u_T\|^2+\tfrac{4G_i^2}{\beta T}"
)
FEW_STEPS = (
    statement(
        "inner-loop-few-steps",
        "local training of few steps without noise",
        "ours, for lines 18-27",
        form(
            "repaired",
            BOUND % r"\tilde u_T",
            None,
            "holds",
            symbolic=average_is_proved,
            proves=True,
            note="1 stands for 8 in Theorem 1 while all T_k are at most this. T = 1 attains it. A "
            "certificate in fractions for each T, over all losses and all closed convex sets",
        ),
        form(
            "last iterate",
            BOUND % "u_T",
            None,
            "holds",
            symbolic=last_iterate_is_proved,
            proves=True,
            note="the same with line 14 as printed",
        ),
        scope="algebra",
        kind="sharpened",
    ),
)
