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
    Figure(
        "efl_bound_vs_empirical", theorem_1.compute, theorem_1.draw,
        quick={"rounds": 500, "departed_rounds": 10_000},
        full={"rounds": 10_000, "departed_rounds": 100_000},
        title="EFL's Theorem 1 against exact errors, scheme by scheme", caption=theorem_1.caption,
        takes=("problem",),
    ),
    Figure(
        "efl_bias", scheme_limit.compute, scheme_limit.draw,
        quick={"rounds": 80, "scenarios": 50}, full={"rounds": 2000, "scenarios": 400},
        title="Where EFL's schemes end when clients differ in data and participation",
        caption=scheme_limit.caption,
    ),
    Figure(
        "efl_plateaus", compressed_convergence.compute, compressed_convergence.draw,
        quick={"rounds": 150, "scenarios": 4}, full={"rounds": 5000, "scenarios": 16},
        title="The readings of EFL's compression: which keep a bias",
        caption=compressed_convergence.caption,
    ),
    Figure(
        "efl_bits", bits.compute, bits.draw, quick={"rounds": 60, "scenarios": 3},
        full={"rounds": 400, "scenarios": 10},
        title="Suboptimality against the bits on the wire: compressors, FedElasticNet, EFL",
        caption=bits.caption,
    ),
    Figure(
        "efl_shift", learning_rate_after_shift.compute, learning_rate_after_shift.draw,
        quick={"rounds": 240}, full={"rounds": 1000, "scenarios": 100},
        title="Clients that leave and arrive: fresh steps, and anchors that stay",
        caption=learning_rate_after_shift.caption,
    ),
    Figure(
        "efl_theorem2", theorem_2.compute, theorem_2.draw, seeded=False,
        title="EFL's Theorem 2: how far the optimum moves, and the printed bounds",
        caption=theorem_2.caption,
    ),
    Figure(
        "efl_worst_case", theorem_1_worst.compute, theorem_1_worst.draw,
        quick={"horizons": {1: (1, 2, 4, 8), 2: (1, 2, 4), 4: (1, 2)}},
        full={"horizons": {1: (1, 2, 4, 8, 16), 2: (1, 2, 4, 8), 4: (1, 2, 3, 4)}},
        title="EFL's Theorem 1, the worst of all losses, and one run",
        caption=theorem_1_worst.caption,
    ),
    Figure(
        "efl_table1", table_1.compute, table_1.draw, seeded=False, number="Table 1",
        title="Which row of EFL's Table 1 is the smallest", caption=table_1.caption,
    ),
)  # fmt: skip

__all__ = ["FIGURES"]
