"""Symbols, a short constructor, builders of views from a file's data, and instances of EFL."""

from fractions import Fraction

from fedtheory.theory import wrong

NINE_TENTHS = wrong("nine tenths of it", share=Fraction(9, 10))
HALF = wrong("half of it", share=Fraction(1, 2))
FLIPPED = wrong("the other way round")
SYMBOLS = {
    "N, p^k": "problem.num_clients, problem.weights",
    "E, s_tau^k": "cohort.max_steps, cohort.steps",
    "p_tau^k": "fedtheory.participation.coefficients",
    "eta_tau": "LocalSGD.lr",
    "ST": "fedtheory.messages.compressors.ST",
    "R^k, R^G": "EFLState.residuals, EFLState.server_residual",
    "u^k, v^k": "EFLState.u, EFLState.v",
}


