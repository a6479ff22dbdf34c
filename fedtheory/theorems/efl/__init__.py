"""EFL: elastic term, sparse ternary compression, irregular clients (Ma et al. 2021); all its statements."""

from fedtheory.theorems.efl.paper import paper

paper.read(__name__, first=(
    "theorem_1", "theorem_1_proof", "theorem_1_recursion", "complete_round",
    "sections_4_1_and_4_2", "corollary_1", "theorem_2", "limit_points", "elastic_term",
    "elastic_stability", "compression", "error_feedback", "compressed_convergence",
    "compressed_participation", "section_3", "section_4_runs", "section_4_sentences",
    "shift_bound", "costs", "table_1_rows", "table_1",
))

from fedtheory.theorems.efl.proofs import PROOFS  # noqa: E402 - after the statements

paper.proofs.extend(PROOFS)
PAPER = paper

__all__ = ["PAPER"]
