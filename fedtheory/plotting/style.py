"""One look for all figures: colours that the colour-blind tell apart, one colour for one method,
one line style for one rule.

`tests/plotting/test_style.py` simulates what is seen without red and without green cones, and asks
for a distance between all methods.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from fedtheory.errors import suggest
from fedtheory.provenance import write_atomic

__all__ = [
    "COLOURS", "ELASTIC_NETS", "GREY", "METHOD_COLOURS", "METHOD_MARKERS", "METHOD_NAMES", "SIZES",
    "band", "grows", "headline", "house_style", "legend_below", "log_decades", "method_style",
    "middle", "new_figure", "page_figure", "save", "times",
]

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
# One colour and one marker for one method, whatever figure it is in. An elastic net has the colour
# of the method it is made from.
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
    "scaffnew": "#3366FF",
    "fedavgm": "#0000EE",
    "fedadagrad": "#66EE99",
    "fedadam": "#333366",
    "fedyogi": "#330033",
    "fedbn": "#2288EE",
}
METHOD_MARKERS = dict(zip(METHOD_COLOURS, "^sDodPXv<>hp*8H+x12", strict=True))
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
    "scaffnew": "Scaffnew",
    "fedavgm": "FedAvgM",
    "fedadagrad": "FedAdagrad",
    "fedadam": "FedAdam",
    "fedyogi": "FedYogi",
    "fedbn": "FedBN",
    "algorithm-1": "Algorithm 1",
    "algorithm-2": "Algorithm 2",
    "algorithm-3": "Algorithm 3",
}
ELASTIC_NETS = {"algorithm-1": "fedprox", "algorithm-2": "scaffold", "algorithm-3": "feddyn"}  # FedElasticNet's -> the plain method
_ALSO = {"fedelasticnet-prox": "algorithm-1", "fedelasticnet-scaffold": "algorithm-2", "fedelasticnet-dyn": "algorithm-3"}
for _net, _plain in [*ELASTIC_NETS.items(), *((also, ELASTIC_NETS[net]) for also, net in _ALSO.items())]:
    METHOD_COLOURS[_net], METHOD_MARKERS[_net] = METHOD_COLOURS[_plain], METHOD_MARKERS[_plain]
GREY = "#555555"  # what is said, and what is no method
_RC = {
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E6E6E6",
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.columnspacing": 1.4,
    "lines.markersize": 4,
    "savefig.facecolor": "white",
    "xtick.minor.visible": False,
    "ytick.minor.visible": False,
    "xtick.major.pad": 2,
    "ytick.major.pad": 2,
    "axes.labelpad": 2.5,
    "axes.titlepad": 4,
}
# width and height in inches, then the size of letters and of small ones: a page of ours, the text
# of NeurIPS and a column of ICML (both as tueplots has them), a column of IEEEtran, and a slide of
# 16:9
SIZES = {
    "page": (6.75, 3.9, 8, 7),
    "neurips": (5.5, 3.2, 9, 7),
    "icml": (3.25, 2.3, 8, 6),
    "ieee": (3.5, 2.4, 8, 6),
    "slide": (10.0, 5.6, 15, 12),
}
FIXED = ("slide",)  # as high as it is: words take from the panels' room
ROOM = 0.92  # of a figure's width, for words above it: letters fitted to pixels are up to 6 % wider
_WORD = re.compile(r"(?:\$[^$]*\$|[^ $])+")  # mathematics is not broken


@contextmanager
def house_style(size: str = "page") -> Iterator[None]:
    """Draw inside this context; matplotlib's own settings are left as they were.

    Line widths are those of tueplots for a paper; letters are matplotlib's own, which are
    everywhere, in sizes that a page can bear.

    Parameters
    ----------
    size : one of `SIZES`, for which a figure without a size of its own is made

    Raises
    ------
    UnknownName
        Another size.
    """
    from tueplots import axes

    if size not in SIZES:
        raise suggest(size, list(SIZES), "size of a figure")
    width, height, letters, small = SIZES[size]
    sizes: dict[str, Any] = dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), letters)
    sizes |= dict.fromkeys(("legend.fontsize", "xtick.labelsize", "ytick.labelsize"), small)
    wide = letters / SIZES["page"][2]
    lines = axes.lines(base_width=0.6 * wide, line_base_ratio=2.5)
    with mpl.rc_context({**lines, **_RC, **sizes, "figure.figsize": (width, height)}):
        yield


def new_figure(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Figure, Any]:
    """A figure on the Agg canvas, without pyplot's global state: (figure, array of axes)."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def grows() -> bool:
    """True if a figure becomes taller for words and legends, as on a page; a slide does not."""
    return tuple(mpl.rcParams["figure.figsize"]) not in [SIZES[name][:2] for name in FIXED]


def method_style(method: str, paired: bool = False) -> dict[str, Any]:
    """Keyword arguments of a line: colour, line style and name. ``paired``: its elastic net is
    drawn solid beside it, so dashed."""
    line = "--" if paired and method in ELASTIC_NETS.values() else "-"
    return {"color": METHOD_COLOURS[method], "linestyle": line, "label": METHOD_NAMES[_ALSO.get(method, method)]}


def page_figure(
    rows: int = 1, columns: int = 1, ratio: float = 0.75, width: float = 1.0, more: float = 0.0, **options: Any
) -> tuple[Figure, Any]:
    """A figure as wide as a page of text (ICML's, by tueplots): (figure, array of axes).

    ratio : height of a panel over its width
    width : share of the page's
    more : inches added to the height, for legends
    """
    from tueplots import figsizes

    size = figsizes.icml2024_full(rel_width=width, nrows=rows, ncols=columns, height_to_width_ratio=ratio)
    wide, high = size["figure.figsize"]
    return new_figure(wide, high + more, rows, columns, **options)


def _lines(figure: Figure, text: str, size: float, weight: str) -> list[str]:
    """The text in lines that fit the figure's width at any resolution."""
    room = figure.get_figwidth() * 72 * ROOM
    font = FontProperties(size=size, weight=weight)

    def width(words: list[str]) -> float:
        line = " ".join(words)
        return text_to_path.get_text_width_height_descent(line, font, line.count("$") > 1)[0]

    out: list[str] = []
    for paragraph in text.replace(" %", "\N{NO-BREAK SPACE}%").split("\n"):
        words = _WORD.findall(paragraph)
        letter = width(words) / max(len(paragraph), 1)
        while words:
            ends = np.cumsum([len(word) + 1 for word in words])
            n = max(int((ends * letter <= room).sum()), 1)  # about, as letters differ
            while n < len(words) and width(words[: n + 1]) <= room:
                n += 1
            while n > 1 and width(words[:n]) > room:
                n -= 1
            out.append(" ".join(words[:n]))
            words = words[n:]
        if not paragraph.strip():
            out.append("")
    return out


def headline(figure: Figure, finding: str, detail: str = "") -> None:
    """The finding in bold above everything, and under it what was run; both broken into lines, and
    the figure made taller for them."""
    size = mpl.rcParams["font.size"] / 8  # of a page of ours
    bold = _lines(figure, finding, 9.5 * size, "bold")
    small = _lines(figure, detail, 7 * size, "normal") if detail else []
    above, gap = (13.5 * len(bold) + 9.5 * len(small) + 8) * size / 72, 13.5 * len(bold) * size / 72
    height = figure.get_figheight() + above * grows()
    figure.set_figheight(height)
    figure.text(0.01, 1 - 0.03 / height, "\n".join(bold), va="top", fontsize=9.5 * size, fontweight="bold", linespacing=1.15)
    if small:
        top = 1 - (0.05 + gap) / height
        figure.text(0.01, top, "\n".join(small), va="top", fontsize=7 * size, color=GREY, linespacing=1.15)
    engine: Any = figure.get_layout_engine()  # one that makes room, `constrained` or `tight`: both know the rectangle
    if engine is not None:
        engine.set(rect=(0, 0, 1, 1 - above / height))


def legend_below(figure: Figure, axes: Iterable[Any], columns: int = 4, **options: Any) -> Any:
    """One legend for several panels, each name once, in as many columns as the figure's width has room for."""
    seen: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            seen.setdefault(label, handle)
    for count in range(min(columns, max(1, len(seen))), 0, -1):
        made = figure.legend(seen.values(), seen.keys(), loc="outside lower center", ncols=count, **options)
        if count == 1 or made.get_window_extent().width <= figure.bbox.width:
            break
        made.remove()
    return made


def log_decades(ax: Any) -> None:
    """A logarithmic axis up the side that begins and ends at a power of ten, so that at least two ticks have labels."""
    ax.set_yscale("log", nonpositive="mask")
    ax.minorticks_off()
    drawn = [np.asarray(line.get_ydata(), dtype=float) for line in ax.get_lines()]
    each = np.concatenate([y[np.isfinite(y) & (y > 0)] for y in drawn] or [np.ones(0)])
    if each.size:
        low, high = np.floor(np.log10(each.min())), np.ceil(np.log10(each.max()))
        ax.set_ylim(10.0**low, 10.0 ** max(high, low + 1))


def middle(values: Any, axis: int = -1, share: float = 0.8) -> dict[str, np.ndarray]:
    """Return the 'low', 'middle' and 'high' that `band` draws of many seeds. They are the median
    and the ends of that share of the values around it."""
    values = np.asarray(values, dtype=float)
    low, median, high = np.quantile(values, [(1 - share) / 2, 0.5, (1 + share) / 2], axis=axis)
    return {"low": low, "middle": median, "high": high}


def band(ax: Any, x: Any, values: Any, floor: float | None = None, **style: Any) -> Any:
    """A line of medians, and a band around it that holds 80 % of the values; returns the line.

    values : (..., S), one entry a seed, or what `middle` returned
    floor : smaller numbers are drawn there, on log axes
    """
    ends = values if isinstance(values, Mapping) else middle(values)
    low, median, high = (np.asarray(ends[name], dtype=float) for name in ("low", "middle", "high"))
    if floor is not None:
        low, median, high = (np.maximum(v, floor) for v in (low, median, high))
    (line,) = ax.plot(x, median, **style)
    if (high > low).any():
        ax.fill_between(x, low, high, color=line.get_color(), alpha=0.18, linewidth=0, zorder=line.get_zorder() - 0.5)
    return line


def times(value: float) -> str:
    """A factor as a sentence has it: 0.0042, 1.4, 19, 1,800, 5.3 × 10⁹."""
    if not np.isfinite(value):
        return "infinitely many" if value > 0 else "no"
    if abs(value) >= 1e7:
        digits, _, power = f"{value:.1e}".partition("e+")
        return f"{digits} × 10{str(int(power)).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"
    return f"{float(f'{value:.2g}'):,.0f}" if abs(value) >= 10 else f"{value:.2g}"


def save(figure: Figure, stem: Path, dpi: int = 130, formats: tuple[str, ...] = ("png", "pdf")) -> list[Path]:
    """Write the figure as stem.png and stem.pdf, each whole or not at all."""
    paths = []
    for suffix in formats:
        buffer = BytesIO()
        dateless = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(suffix)  # the same picture is the same file
        figure.savefig(buffer, format=suffix, dpi=dpi, metadata=dateless)
        with mpl.rc_context({"figure.autolayout": False, "figure.constrained_layout.use": False}):
            # laid out by now, whatever the format; with the engine "none" it would be drawn for the layout again
            figure.set_layout_engine(None)
        paths.append(write_atomic(stem.with_name(f"{stem.name}.{suffix}"), buffer.getvalue()))
    return paths
