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
from fedtheory.theory.judge.registry import Paper

for _file in ("theorem_1", "theorem_1_proof", "theorem_1_recursion"):
    import_module(f"{__name__}.{_file}")

PAPER = Paper(
    "efl", "EFL",
    "the convergence theory of EFL (Theorems 1 and 2, Corollary 1, sections 3 and 4, Table 1)",
    (
        *(s.statement for s in paper.statements.values()), *complete_round.STATEMENTS,
        *sections_4_1_and_4_2.STATEMENTS, *corollary_1.STATEMENTS,
        *corollary_1_deadlines.STATEMENTS, *theorem_2.STATEMENTS, *limit_points.STATEMENTS,
        *elastic_term.STATEMENTS, *elastic_stability.STATEMENTS, *compression.STATEMENTS,
        *error_feedback.STATEMENTS, *compressed_convergence.STATEMENTS,
        *compressed_participation.STATEMENTS, *section_3.STATEMENTS, *section_4_runs.STATEMENTS,
        *section_4_sentences.STATEMENTS, *shift_bound.STATEMENTS, *costs.STATEMENTS,
        *table_1_rows.STATEMENTS, *table_1.STATEMENTS,
    ),
    EFLSetting(),
    printed="with the coefficients of scheme C, where a statement tells the schemes apart",
    rules="the schemes A, B, C of the aggregation coefficients where a statement tells them apart",
    figures="fedtheory.theorems.efl.figures", headline="fedtheory.theorems.efl.headline",
    witnesses="fedtheory.theorems.efl", rule_order=("any", "C", "A", "B", "C-corrected"),
    rule_words={
        "A": "scheme A", "B": "scheme B", "C": "scheme C", "C-corrected": "scheme C, corrected"
    },
    rule_short={"C-corrected": "C corr."}, proofs=PROOFS,
)

__all__ = ["PAPER"]
