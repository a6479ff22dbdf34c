"""EFL's figures and tables of trained networks, which no campaign draws."""

from paper_figures.efl import elastic_term, few_classes

__all__ = ["ON_REQUEST"]

ON_REQUEST = (*few_classes.FIGURES, *elastic_term.FIGURES)
