"""EFL's figures: bounds against measured distances, biases, plateaus, bits, shifts, and the map of Table 1."""

from fedtheory.plotting.figure import Figure
from fedtheory.theorems.efl.figures import bits, runs, statements, theorem_2, worst_case

FIGURES = (
    Figure(
        "efl_bound_vs_empirical", statements.compute_bounds, statements.draw_bounds,
        quick={"rounds": 500, "departed_rounds": 10_000}, full={"rounds": 10_000, "departed_rounds": 100_000},
        title="EFL's Theorem 1 against exact errors, scheme by scheme", caption=statements.caption_bounds, takes=("problem",),
    ),
    Figure(
        "efl_bias", statements.compute_bias, statements.draw_bias,
        quick={"rounds": 80, "scenarios": 50}, full={"rounds": 2000, "scenarios": 400},
        title="Where EFL's schemes end when clients differ in data and participation", caption=statements.caption_bias,
    ),
    Figure(
        "efl_plateaus", runs.compute_plateaus, runs.draw_plateaus,
        quick={"rounds": 150, "scenarios": 4}, full={"rounds": 5000, "scenarios": 16},
        title="The readings of EFL's compression: which keep a bias", caption=runs.caption_plateaus,
    ),
    Figure(
        "efl_bits", bits.compute, bits.draw, quick={"rounds": 60, "scenarios": 3}, full={"rounds": 400, "scenarios": 10},
        title="Suboptimality against the bits on the wire: compressors, FedElasticNet, EFL", caption=bits.caption,
    ),
    Figure(
        "efl_shift", runs.compute_shift, runs.draw_shift, quick={"rounds": 240}, full={"rounds": 1000, "scenarios": 100},
        title="Clients that leave and arrive: fresh steps, and anchors that stay", caption=runs.caption_shift,
    ),
    Figure(
        "efl_theorem2", theorem_2.compute_theorem2, theorem_2.draw_theorem2, seeded=False,
        title="EFL's Theorem 2: how far the optimum moves, and the printed bounds", caption=theorem_2.caption,
    ),
    Figure(
        "efl_worst_case", worst_case.compute, worst_case.draw,
        quick={"horizons": {1: (1, 2, 4, 8), 2: (1, 2, 4), 4: (1, 2)}},
        full={"horizons": {1: (1, 2, 4, 8, 16), 2: (1, 2, 4, 8), 4: (1, 2, 3, 4)}},
        title="EFL's Theorem 1, the worst of all losses, and one run", caption=worst_case.caption,
    ),
    Figure(
        "efl_table1", statements.compute_table, statements.draw_table, seeded=False, number="Table 1",
        title="Which row of EFL's Table 1 is the smallest", caption=statements.caption_table,
    ),
)  # fmt: skip

__all__ = ["FIGURES"]
