"""Brackets left open in LaTeX are found, with their place; closed ones are not."""

from __future__ import annotations

import pytest
from core_forms import form

from fedtheory.errors import InvalidInput
from fedtheory.theory.judge.mathml import unbalanced
from fedtheory.theory.judge.statement import le


@pytest.mark.parametrize(
    "latex",
    [
        "", r"\frac{a}{b}", r"\{x : [0, 1)\}", r"\left[0, \tfrac{1}{2}\right)", r"a \leftarrow b \rightarrow c", r"\big(1",
        r"\begin{cases} a & x \\ b & y \end{cases}", r"\\{a}", r"\left\{x\right.",
    ],
)  # fmt: skip
def test_closed_formulas(latex):
    assert unbalanced(latex) == ""


@pytest.mark.parametrize(
    ("latex", "says"),
    [
        (r"\frac{a}{b", "'{' at character 9 of its formula is not closed, in '"),
        (r"a}", "'}' at character 2 of its formula closes no {, in 'a}'"),
        (r"\left(a", r"'\left' at character 1 of its formula is not closed"),
        (r"a\right)", r"'\right' at character 2 of its formula closes no \left"),
        (r"{\left(a}\right)", r"'}' at character 9 of its formula closes no {"),
        (r"\begin{cases}a", r"'\begin' at character 1"),
        (r"\begin{cases}a\end{array}", r"'\end{array}' at character 15 of its formula closes no \begin"),
        (r"\\\{a}", "'}' at character 6"),
    ],
)
def test_open_formulas(latex, says):
    assert says in unbalanced(latex)
    with pytest.raises(InvalidInput, match=r"form 'printed'.*Close it"):
        form("printed", latex, lambda v: le(0, 1), "open")
