"""EFL: the paper, whose statements of one file are judged with those of the room's own dialect."""

from fedtheory.theorems.efl.notation import SYMBOLS
from fedtheory.theory import Paper

__all__ = ["paper"]

paper = Paper(
    "efl",
    "EFL",
    symbols=SYMBOLS,
    about="the convergence theory of EFL (Theorems 1 and 2, Corollary 1, sections 3 and 4, Table 1)",
    printed="with the coefficients of scheme C, where a statement tells the schemes apart",
    rules="the schemes A, B, C of the aggregation coefficients where a statement tells them apart",
    figures="paper_figures.efl",
    witnesses="fedtheory.theorems.efl",
    rule_order=("any", "C", "A", "B", "C-corrected"),
    rule_words={"A": "scheme A", "B": "scheme B", "C": "scheme C", "C-corrected": "scheme C, corrected"},
    rule_short={"C-corrected": "C corr."},
)
