"""The chart of a campaign: every statement as printed and as repaired."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.report import figures_verdicts

__all__ = ["FIGURE"]


def compute(campaign: Path | None = None) -> dict[str, Any]:
    """The tiles of a campaign's JSON."""
    if campaign is None:
        raise InvalidInput(
            "verdicts: no campaign to draw; run `fedtheory verify` first, or name its JSON with "
            "--campaign"
        )
    try:
        return figures_verdicts.compute(json.loads(campaign.read_text()))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataFileError(
            f"{campaign}: is not the JSON of a campaign ({error}); `fedtheory verify` writes one"
        ) from error


FIGURE = replace(figures_verdicts.FIGURE, compute=compute, takes=("campaign",))
