"""EFL's figures, which a campaign draws: bounds against measured distances, biases, plateaus, bits,
shifts, and the map of Table 1."""

from fedtheory.plotting.figure import Figure
from paper_figures.efl import (
    bits,
    compressed_convergence,
    learning_rate_after_shift,
    scheme_limit,
    table_1,
    theorem_1,
    theorem_1_worst,
    theorem_2,
)

FIGURES = (
    Figure.of(
        theorem_1, "efl_bound_vs_empirical", quick={"rounds": 500, "departed_rounds": 10_000},
        full={"rounds": 10_000, "departed_rounds": 100_000},
        title="EFL's Theorem 1 against exact errors, scheme by scheme", takes=("problem",),
    ),
    Figure.of(
        scheme_limit, "efl_bias", quick={"rounds": 80, "scenarios": 50},
        full={"rounds": 2000, "scenarios": 400},
        title="Where EFL's schemes end when clients differ in data and participation",
    ),
    Figure.of(
        compressed_convergence, "efl_plateaus", quick={"rounds": 150, "scenarios": 4},
        full={"rounds": 5000, "scenarios": 16},
        title="The readings of EFL's compression: which keep a bias",
    ),
    Figure.of(
        bits, "efl_bits", quick={"rounds": 60, "scenarios": 3},
        full={"rounds": 400, "scenarios": 10},
        title="Suboptimality against the bits on the wire: compressors, FedElasticNet, EFL",
    ),
    Figure.of(
        learning_rate_after_shift, "efl_shift", quick={"rounds": 240},
        full={"rounds": 1000, "scenarios": 100},
        title="Clients that leave and arrive: fresh steps, and anchors that stay",
    ),
    Figure.of(
        theorem_2, "efl_theorem2", seeded=False,
        title="EFL's Theorem 2: how far the optimum moves, and the printed bounds",
    ),
    Figure.of(
        theorem_1_worst, "efl_worst_case",
        quick={"horizons": {1: (1, 2, 4, 8), 2: (1, 2, 4), 4: (1, 2)}},
        full={"horizons": {1: (1, 2, 4, 8, 16), 2: (1, 2, 4, 8), 4: (1, 2, 3, 4)}},
        title="EFL's Theorem 1, the worst of all losses, and one run",
    ),
    Figure.of(
        table_1, "efl_table1", seeded=False, number="Table 1",
        title="Which row of EFL's Table 1 is the smallest",
    ),
)  # fmt: skip

__all__ = ["FIGURES"]
