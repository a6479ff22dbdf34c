"""Figures inside a page: as small as they get without a loss, with what their files say of them."""

from __future__ import annotations

import base64
import io
import math
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedtheory.errors import DataFileError
from fedtheory.theory.judge.registry import RegisteredPaper
from fedtheory.untrusted import read_json

__all__ = ["pictures"]

VERDICTS = "verdicts"
MAX_JSON = 50_000_000  # bytes of a picture, or of a file beside it
MOST_PIXELS = 20_000_000  # of a picture that is packed again; a few kilobytes may say that they are billions


def pictures(files: Iterable[Path], papers: Sequence[RegisteredPaper]) -> dict[str, list[dict[str, Any]]]:
    """id of a paper -> its figures; '' -> those of no paper. The chart of all verdicts is left out: the page has its own."""
    chosen = [path for path in files if path.suffix == ".png" and path.stem != VERDICTS and path.is_file()]
    chosen = [path for path in chosen if path.stat().st_size <= MAX_JSON]
    owner = _owners(papers) if chosen else {}
    out: dict[str, list[dict[str, Any]]] = {}
    for path in chosen:
        out.setdefault(owner.get(path.stem, ""), []).append(_picture(path))
    return out


def _owners(papers: Sequence[RegisteredPaper]) -> dict[str, str]:
    """name of a figure -> id of its paper; none where there is nothing to draw with."""
    try:
        from fedtheory.report.figures import figures_of

        return {f.name: p.id for p in papers for f in figures_of(p)}
    except ImportError:
        return {}


def _picture(path: Path) -> dict[str, Any]:
    title, caption = _said(path.with_suffix(".json"))
    name = path.stem.replace("_", " ")
    data, width, height = _as_data(path)
    return {
        "name": path.stem, "title": title or f"{name[0].upper()}{name[1:]}", "caption": caption,
        "data": data, "width": width, "height": height,
        "files": f"{path.parent.name}/{path.stem}.png, .pdf and .json",
    }


def _as_data(path: Path) -> tuple[str, int, int]:
    """A data address, and the size in pixels: lossless WebP where that is smaller and Pillow writes
    it, else the PNG as it is."""
    from PIL import Image, features

    content, kind, size = path.read_bytes(), "png", (0, 0)
    try:
        with warnings.catch_warnings(action="error"), Image.open(io.BytesIO(content), formats=("PNG",)) as image:
            size = image.size
            if features.check("webp") and math.prod(size) <= MOST_PIXELS:
                packed = io.BytesIO()
                image.save(packed, "WEBP", lossless=True, method=1)
                if len(packed.getvalue()) < len(content):
                    content, kind = packed.getvalue(), "webp"
    except Exception:  # Pillow meets a damaged file with errors of many kinds, and warnings
        pass  # the bytes go into the page as they are, where a browser shows what it can
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}", *size


def _said(path: Path) -> tuple[str, str]:
    """Title and caption of a figure, from the JSON beside it; '' where it says nothing."""
    try:
        content = read_json(path, MAX_JSON)
    except DataFileError:
        return "", ""
    said = [content.get(key, "") if isinstance(content, dict) else "" for key in ("title", "caption")]
    title, caption = (text if isinstance(text, str) else "" for text in said)
    return title, caption
