"""A page on the reviews of a paper: the points in our words, the answers with the verdicts on record, and the commands."""

from __future__ import annotations

from typing import Any

from fedtheory.theory.judge.registry import RegisteredPaper
from fedtheory.theory.judge.reviews import KINDS, told

__all__ = ["page"]

WIDTH = 98


def page(paper: RegisteredPaper) -> str:
    """The page as Markdown."""
    found = [told(p, paper.id) for p in paper.shown("reviews")]
    out = [
        f"# What the reviewers of the {paper.title} paper asked",
        "",
        *_wrapped(
            f"{len(found)} points, in our words. Each says what settles it, the answer in a line, and the commands that show it; the "
            f"first takes seconds. Verdicts are those on record. `fedtheory reviews {paper.id}` prints this page, `fedtheory reviews "
            f"{paper.id} ID --run` runs a point's first command, `fedtheory experiment` lists the experiments. The page is written by "
            f"`fedtheory reviews {paper.id} --out docs`; a test compares the two."
        ),
        "",
        "| what settles it | points |",
        "| --- | --- |",
        *(f"| {words} | {', '.join(p['id'] for p in found if p['kind'] == kind)} |" for kind, words in KINDS.items()),
    ]
    reviewer = ""
    for p in found:
        if p["id"].split(".")[0] != reviewer:
            reviewer = p["id"].split(".")[0]
            out += ["", f"## Reviewer {reviewer[1:]}"]
        out += ["", *_wrapped(f"**{p['id']}** {p['asks']} *({KINDS[p['kind']]})*"), "", *_wrapped(p["answer"])]
        out += ["", *_wrapped(p["more"])] if p["more"] else []
        out += ["", *(f"    {c}" for c in p["commands"])] if p["commands"] else []
    return "\n".join(out) + "\n"


def _wrapped(text: Any) -> list[str]:
    """Lines below a hundred characters, none of which begins as a list or a heading would."""
    lines, line = [], ""
    for word in str(text).split():
        if line and len(line) + 1 + len(word) > WIDTH and word not in ("+", "-", "*") and word[0] != "#":
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]
