"""Trained networks: the package's own figures, which `fedtheory bench` draws as well."""

from __future__ import annotations

from fedtheory.report.networks import figures

__all__ = ["FIGURES"]

FIGURES = tuple(figures().values())
