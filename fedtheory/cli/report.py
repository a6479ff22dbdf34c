"""`fedtheory report`: the page of a saved campaign, written again."""

from __future__ import annotations

from pathlib import Path

from fedtheory.cli.common import check_out, emit, progress, with_ours, writing, wrote
from fedtheory.errors import MissingCapability

__all__ = ["report"]


def report(campaign: Path, out: Path | None, paper: Path | None, as_json: bool) -> None:
    """Write report.html and report.md from a campaign's file and the figures beside it.

    Parameters
    ----------
    campaign : what `fedtheory verify` wrote
    out : folder; default the one that the campaign is in
    paper : the Python file that its statements are from, where they are from one
    """
    if paper is not None:
        from fedtheory.theory.judge.registry import load_file

        load_file(paper)
    from fedtheory.report.saved import read_campaign

    rows, record = with_ours(lambda: read_campaign(campaign))
    folder = check_out(campaign.parent if out is None else out) or Path()
    figures = sorted((campaign.parent / "figures").glob("*.png"))
    try:
        with writing(folder), progress("writing the report"):
            from fedtheory.report.html import write_reports

            files = write_reports(folder, rows, record, figures, campaign.parent)
    except ImportError as error:
        raise MissingCapability(f"the report needs {error.name}, which is not installed: `pip install {error.name}`") from error
    if as_json:
        emit({"campaign": campaign, "rows": len(rows), "figures": len(figures), "files": files})
        return
    drawn = f", with {len(figures)} figures" if figures else f"; no figures lie in {campaign.parent / 'figures'}"
    wrote(files, drawn)
