"""One look for all figures: colours that the colour-blind tell apart, one colour for one method, one line style for one rule.

`tests/plotting/test_style.py` simulates what is seen without red and without green cones, and asks for a distance between all methods.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedtheory.provenance import write_atomic

__all__ = [
    "COLOURS", "ELASTIC_NETS", "LINESTYLES", "METHOD_COLOURS", "METHOD_MARKERS", "METHOD_NAMES", "RULE_NAMES", "headline",
    "house_style", "method_style", "new_figure", "save", "thresholds",
]  # fmt: skip

COLOURS = {
    "measured": "#000000",
    "printed": "#D55E00",
    "repaired": "#0072B2",
    "theorem A": "#009E73",
    "theorem B": "#CC79A7",
    "theorem E": "#5D3A9B",
    "worst case": "#7F0000",
    "first": "#999999",
    "floor": "#E69F00",
    "last": "#56B4E9",
    "holds": "#0072B2",
    "violated": "#D55E00",
    "inconclusive": "#F0E442",
    "not applicable": "#DDDDDD",
}
LINESTYLES = {"sign": "--", "true-gradient": "-"}
RULE_NAMES = {"sign": "sign rule", "true-gradient": "true-gradient rule"}
# One colour and one marker for one method, whatever figure it is in. An elastic net has the colour of the method it is made from.
METHOD_COLOURS = {
    "fedavg": "#555555",
    "fedprox": "#E69F00",
    "scaffold": "#009E73",
    "feddyn": "#0072B2",
    "fedmls": "#332288",
    "efl": "#661100",
    "elastic-aggregation": "#994F00",
    "vrl-sgd": "#88CCEE",
    "fedgate": "#CC79A7",
    "mime": "#6699CC",
    "apfl": "#EE7733",
    "fedamp": "#BBBBBB",
    "subgradient": "#0B3D2E",
}
METHOD_MARKERS = dict(zip(METHOD_COLOURS, "^sDovPXv<>hp*", strict=True))
METHOD_NAMES = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "scaffold": "SCAFFOLD",
    "feddyn": "FedDyn",
    "fedmls": "FedMLS",
    "efl": "EFL",
    "elastic-aggregation": "Elastic Aggregation",
    "vrl-sgd": "VRL-SGD",
    "fedgate": "FedGATE",
    "mime": "MIME",
    "apfl": "APFL",
    "fedamp": "FedAMP",
    "subgradient": "subgradient steps",
    "algorithm-1": "Algorithm 1",
    "algorithm-2": "Algorithm 2",
    "algorithm-3": "Algorithm 3",
}
ELASTIC_NETS = {"algorithm-1": "fedprox", "algorithm-2": "scaffold", "algorithm-3": "feddyn"}  # FedElasticNet's -> the plain method
_ALSO = {"fedelasticnet-prox": "algorithm-1", "fedelasticnet-scaffold": "algorithm-2", "fedelasticnet-dyn": "algorithm-3"}
for _net, _plain in [*ELASTIC_NETS.items(), *((also, ELASTIC_NETS[net]) for also, net in _ALSO.items())]:
    METHOD_COLOURS[_net], METHOD_MARKERS[_net] = METHOD_COLOURS[_plain], METHOD_MARKERS[_plain]
_RC = {
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.8,
    "savefig.facecolor": "white",
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw inside this context; matplotlib's own settings are left as they were."""
    with mpl.rc_context(_RC):
        yield


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure on the Agg canvas, without pyplot's global state: (figure, array of axes)."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def method_style(method: str, paired: bool = False) -> dict[str, Any]:
    """Keyword arguments of a line: colour, line style and name. ``paired``: its elastic net is drawn solid beside it, so dashed."""
    line = "--" if paired and method in ELASTIC_NETS.values() else "-"
    return {"color": METHOD_COLOURS[method], "linestyle": line, "label": METHOD_NAMES[_ALSO.get(method, method)]}


def headline(figure: Figure, finding: str, detail: str = "") -> None:
    """The finding in bold above everything, and under it what was run."""
    figure.suptitle(f"\n{detail}", x=0.01, ha="left", fontsize=8.5, color="#444444", linespacing=1.9)
    figure.text(0.01, 1 - 0.06 / figure.get_figheight(), finding, ha="left", va="top", fontsize=12, fontweight="bold")


def save(figure: Figure, stem: Path, dpi: int = 130, formats: tuple[str, ...] = ("png", "pdf")) -> list[Path]:
    """Write the figure as stem.png and stem.pdf, each whole or not at all."""
    paths = []
    for suffix in formats:
        buffer = BytesIO()
        figure.savefig(buffer, format=suffix, dpi=dpi)
        figure.set_layout_engine("none")  # laid out by now; the layout does not depend on the format
        paths.append(write_atomic(stem.with_name(f"{stem.name}.{suffix}"), buffer.getvalue()))
    return paths


def thresholds(ax: Any, values: dict[str, float], labels: bool = False) -> None:
    """Thin vertical lines at the least lambda_2/beta of each theorem."""
    last = max(values.values(), default=0.0)
    for name, value in values.items():
        right = value == last  # the last two lines are close: their labels stand on either side
        ax.axvline(value, color="#555555", linewidth=0.8, linestyle=":")
        if labels:
            ax.annotate(
                f"{name} {value:.3f}",
                (value, 0),
                xycoords=("data", "axes fraction"),
                xytext=(2 if right else -2, 4),
                textcoords="offset points",
                rotation=90,
                ha="left" if right else "right",
                va="bottom",
                fontsize=7,
                color="#555555",
            )
