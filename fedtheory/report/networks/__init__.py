"""The papers' figures and tables of trained networks: their runs, their pictures and their words,
by the papers' own numbers."""

from __future__ import annotations

from fedtheory.plotting.figure import Figure

__all__ = ["figures"]


def figures() -> dict[str, Figure]:
    """Every figure by its name, as 'fedelasticnet_figure3'."""
    from fedtheory.report.networks import (
        efl_elastic_term,
        efl_networks,
        elastic_aggregation_networks,
        fedelasticnet_accuracy,
        fedelasticnet_costs,
        fedelasticnet_lambda1,
        fedelasticnet_text,
        fedelasticnet_updates,
    )

    several = (fedelasticnet_accuracy, fedelasticnet_costs, fedelasticnet_lambda1, efl_networks, efl_elastic_term)
    found = [figure for module in (*several, elastic_aggregation_networks) for figure in module.FIGURES]
    return {f.name: f for f in (*found, fedelasticnet_updates.FIGURE, fedelasticnet_text.FIGURE)}
