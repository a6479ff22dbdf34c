"""The reports of a campaign: report.html, one page that opens offline, and report.md."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from fedtheory.provenance import write_atomic
from fedtheory.report.markdown import markdown_report
from fedtheory.report.page import page

if TYPE_CHECKING:
    from fedtheory.theory.judge.campaign import Row

__all__ = ["html_report", "markdown_report", "write_reports"]


@cache
def _environment() -> Environment:
    """The templates; all that is put into them is escaped, unless it is markup made here."""
    loader = PackageLoader("fedtheory.report", "templates")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    folder = resources.files("fedtheory.report") / "templates"
    environment.globals |= {
        "style": Markup((folder / "page.css").read_text(encoding="utf-8")),
        "font": base64.b64encode((folder / "math.woff2").read_bytes()).decode(),
        "script": Markup((folder / "page.js").read_text(encoding="utf-8")),
    }
    return environment


def html_report(
    rows: Sequence[Row], record: Mapping[str, Any], figures: Sequence[Path] = (), folder: Path | None = None
) -> str:
    """The report as one HTML page that needs nothing else: its figures, formulas (MathML), style and script are inside it.

    Parameters
    ----------
    rows, record : of a campaign
    figures : PNG files, other files among them are left out; what a caption says is taken from the JSON file beside each
    folder : where the campaign was written; counterexamples that it found are looked for there
    """
    return _environment().get_template("page.html.j2").render(page(rows, record, figures, folder))


def write_reports(
    out: Path, rows: Sequence[Row], record: Mapping[str, Any], figures: Sequence[Path] = (), campaign: Path | None = None
) -> list[Path]:
    """report.html and report.md under `out`; ``campaign``: the folder that the campaign was written
    to, where that is another."""
    return [
        write_atomic(out / "report.html", html_report(rows, record, figures, campaign or out)),
        write_atomic(out / "report.md", markdown_report(rows, record, figures, out)),
    ]
