"""EFL: elastic term, sparse ternary compression, irregular clients (Ma et al. 2021); all its statements."""

from fedtheory.theorems.efl.paper import paper

paper.read(__name__, first=(
    "theorem_1", "theorem_1_proof", "complete_round", "section_4_rates", "theorem_2",
    "limit_points", "elastic_term", "compression", "error_feedback", "compressed_convergence",
    "section_3", "section_4_sentences", "shift_bound", "costs", "table_1",
))

from fedtheory.theorems.efl.proofs import PROOFS  # noqa: E402 - after the statements
from fedtheory.theorems.efl.runs_world import Runs  # noqa: E402

paper.proofs.extend(PROOFS)
paper.step_sizes = Runs.step_sizes
PAPER = paper

__all__ = ["PAPER"]
