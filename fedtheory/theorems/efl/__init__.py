"""EFL: elastic term, sparse ternary compression, irregular clients (Ma et al. 2021); all its statements."""

from importlib import import_module

from fedtheory.theorems.efl.paper import paper
from fedtheory.theorems.efl.proofs import PROOFS
from fedtheory.theorems.efl.setting import EFLSetting
from fedtheory.theorems.efl.statements import (
    complete_round,
    compressed_convergence,
    compressed_participation,
    compression,
    corollary_1,
    corollary_1_deadlines,
    costs,
    elastic_stability,
    elastic_term,
    error_feedback,
    limit_points,
    section_3,
    section_4_runs,
    section_4_sentences,
    sections_4_1_and_4_2,
    shift_bound,
    table_1,
    table_1_rows,
    theorem_2,
)

for _file in ("theorem_1", "theorem_1_proof", "theorem_1_recursion"):
    import_module(f"{__name__}.{_file}")

paper.proofs.extend(PROOFS)
PAPER = paper.judged_by(EFLSetting(), (
    *paper.statements, *complete_round.STATEMENTS,
    *sections_4_1_and_4_2.STATEMENTS, *corollary_1.STATEMENTS,
    *corollary_1_deadlines.STATEMENTS, *theorem_2.STATEMENTS, *limit_points.STATEMENTS,
    *elastic_term.STATEMENTS, *elastic_stability.STATEMENTS, *compression.STATEMENTS,
    *error_feedback.STATEMENTS, *compressed_convergence.STATEMENTS,
    *compressed_participation.STATEMENTS, *section_3.STATEMENTS, *section_4_runs.STATEMENTS,
    *section_4_sentences.STATEMENTS, *shift_bound.STATEMENTS, *costs.STATEMENTS,
    *table_1_rows.STATEMENTS, *table_1.STATEMENTS,
))  # fmt: skip

__all__ = ["PAPER"]
