"""LaTeX as MathML, which a browser and a notebook show without anything else."""

from __future__ import annotations

import re
from functools import cache

__all__ = ["to_mathml"]


@cache
def to_mathml(latex: str) -> str:
    """A <math> element of display style."""
    from latex2mathml.converter import convert

    latex = re.sub(r"\\[Bb]igg?[lr]?\\\|", r"\\|", latex)  # latex2mathml does not know '\|' after a size,
    latex = re.sub(r"\\arg\s*\\(min|max)(?![a-z])", r"\\arg\1", latex)  # nor '\arg' before another operator
    return convert(latex, display="block")
