"""The pictures that docs/ keeps: drawn from the same code as the figures, at the size of a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtheory.plotting.figure import Figure
from fedtheory.plotting.style import house_style, save

__all__ = ["PICTURES", "Picture", "draw"]


@dataclass(frozen=True)
class Picture:
    """One PNG of docs/.

    Attributes
    ----------
    file : its name without .png
    figure : the figure it is
    effort : keyword arguments of the figure's ``compute``; None: its full ones
    """

    file: str
    figure: str
    effort: Mapping[str, Any] | None = None
    dpi: int = 150


PICTURES = (
    Picture("bound_vs_empirical", "bound_vs_empirical_summary"),
    Picture("which_lambda_2", "which_lambda_2"),
    Picture("worst_case_vs_bound", "worst_case_vs_bound"),
    Picture("fedelasticnet_drift", "drift_without_end"),
    Picture("efl_bound_vs_empirical", "efl_bound_vs_empirical", {}),
    Picture("efl_bits", "efl_bits", {}),
    Picture("fedmls_bound_over_k", "fedmls_bound_over_k"),
    Picture("fedelasticnet_lambda_1", "fedelasticnet_figure3", dpi=110),
    Picture("fedelasticnet_sent", "fedelasticnet_table2", dpi=110),
    Picture("efl_own_models", "efl_table2"),
    Picture("elastic_aggregation_settings", "elastic_aggregation_settings", dpi=110),
    Picture("rates", "rates"),
    Picture("rates_summary", "rates_summary"),
)


def draw(picture: Picture, known: Mapping[str, Figure], out: Path, runs: Any) -> list[Path]:
    """The PNG alone."""
    figure = known[picture.figure]
    data = (
        runs.data(figure) if picture.effort is None
        else figure.compute(seed=runs.seed, **picture.effort)
    )
    with house_style():
        return save(figure.draw(data), out / picture.file, picture.dpi, ("png",))
