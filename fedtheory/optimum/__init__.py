"""Certified optima: a solver's point, a polish, and a lower bound on F* that holds in float64."""

from fedtheory.optimum.certify import Optimum, assess, certify

__all__ = ["Optimum", "assess", "certify"]
