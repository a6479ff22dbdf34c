"""The outcome of walking a proof: each step in each round, and what the final bound loses in each
step."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

import numpy as np

from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.mathml import to_mathml
from fedtheory.theory.judge.proof import Proof, Step
from fedtheory.theory.judge.registry import get, paper_of, rule_words
from fedtheory.theory.judge.substitution import Put
from fedtheory.theory.judge.summary import apart

__all__ = ["Place", "Tally", "Walk", "share_in_words"]

_PICTURE = "fedtheory.plotting.waterfall"  # by its name: nothing is drawn before it is asked for
_WORDS = (
    (Fraction(1, 4), "a quarter"), (Fraction(1, 3), "a third"), (Fraction(1, 2), "half"),
    (Fraction(2, 3), "two thirds"),
    (Fraction(3, 4), "three quarters"),
)  # fmt: skip


def share_in_words(share: float) -> str:
    """0.66 is 'two thirds', 0.58 is '58 %'."""
    if share >= 0.985:
        return "nearly all"
    near = [words for value, words in _WORDS if abs(float(value) - share) <= 0.012]
    return near[0] if near else f"{100 * share:.0f} %"


@dataclass(frozen=True)
class Place:
    """One step in one round, or at the end.

    Attributes
    ----------
    t : the round; None at the end
    lhs, rhs : expectations of the two sides
    check : the verdict on every state of the round
    put : what its formula with numbers is made from
    """

    t: int | None
    lhs: Any
    rhs: Any
    check: Check
    put: Put

    @property
    def slack(self) -> Any:
        return self.rhs - self.lhs

    @property
    def at(self) -> str:
        """'round 3', or 'the end'."""
        return "the end" if self.t is None else f"round {self.t}"


@dataclass(frozen=True)
class Tally:
    """One step over the whole run.

    Attributes
    ----------
    weight : what one unit of its slack adds to the slack of the bound, in each of its places; None
        where it has none
    places : the step in each round
    lost : weight times the slack, summed over the rounds; None without a weight
    error : standard error of that, of scenarios
    """

    step: Step
    weight: Any
    places: Sequence[Place]
    lost: Any = None
    error: float = 0.0

    @property
    def worst(self) -> Place:
        """The first round in which it fails, else the one in which it is tightest."""
        broken = (p for p in self.places if p.check.verdict == "violated")
        tightest = min(self.places, key=lambda p: np.nan_to_num(p.check.slack, nan=np.inf))
        return next(broken, tightest)

    @property
    def one_weight(self) -> float | list[float] | None:
        """One number where it is the same in every round; None without a weight."""
        each = None if self.weight is None else [float(w) for w in self.weight]
        return each[0] if each and len(set(each)) == 1 else each

    @property
    def verdict(self) -> str:
        """'violated' where it fails in some round; else 'holds', or 'inconclusive' where a round
        could not be settled; 'chance' of what scenarios are off."""
        if self.step.only_drawn:
            return "chance"
        verdicts = {p.check.verdict for p in self.places}
        return next((v for v in ("violated", "inconclusive") if v in verdicts), "holds")


@dataclass(frozen=True, repr=False)
class Walk:
    """A proof, walked along one run.

    Attributes
    ----------
    instance, rule, horizon : what was run
    exact : whether expectations are over all that can happen; else scenarios
    check : the verdict on the final bound at the horizon
    lhs, rhs, slack : of the final bound
    tallies : one a step, in the order of the proof
    unexplained : the slack that the weights do not account for: 0 but for rounding; None where no
        step has a weight
    formula : LaTeX of the final bound
    """

    proof: Proof
    instance: str
    rule: str
    horizon: int
    exact: bool
    check: Check
    lhs: Any
    rhs: Any
    slack: Any
    tallies: Sequence[Tally]
    unexplained: Any = None
    formula: str = ""

    # --- what it says -----------------------------------------------------------------------------
    @property
    def name(self) -> str:
        """'Theorem 3.1, (13) [repaired]'."""
        return f"{self.source} [{self.proof.form}]"

    @property
    def source(self) -> str:
        """The paper's name of the theorem; of a file the statement's id."""
        id = self.proof.theorem
        return id if paper_of(id).file else get(id).source.partition(",")[0] or id

    @property
    def adds_up(self) -> bool:
        """True if the weights account for the whole slack of the bound, up to rounding."""
        if self.unexplained is None:
            return True
        if isinstance(self.unexplained, Fraction):
            return self.unexplained == 0
        return abs(float(self.unexplained)) <= 1e-8 * (self._all_lost + self._sides)

    @property
    def _all_lost(self) -> float:
        """The sizes of all that the steps lose."""
        return sum(abs(float(t.lost)) for t in self.tallies if t.lost is not None)

    @property
    def _sides(self) -> float:
        """The sizes of both sides."""
        return abs(float(self.lhs)) + abs(float(self.rhs))

    @property
    def broken(self) -> list[Tally]:
        """The steps that fail in some round, in the order of the proof."""
        return [t for t in self.tallies if t.verdict == "violated"]

    def share(self, tally: Tally) -> float | None:
        """Give the part of the bound's slack that a step loses; None without a weight, or where the
        bound has no slack."""
        lost = self._clean(tally.lost)
        return None if lost is None or not self.slack > 0 else lost / float(self.slack)

    def parts(self) -> list[tuple[str, Any]]:
        """(lemma or step, what it loses), with the lines of a lemma added up; in the order of the
        proof."""
        out: dict[str, Any] = {}
        for t in self.tallies:
            if t.lost is not None:
                label = t.step.part_of or t.step.label
                out[label] = out.get(label, 0) + t.lost
        return [
            (label, value if isinstance(value, Fraction) else self._clean(value))
            for label, value in out.items()
        ]

    @property
    def headline(self) -> str:
        """One sentence: where the proof breaks, or where the bound is lost."""
        if self.broken:
            return self._breaks()
        if self.unexplained is not None and not self.adds_up:
            return (
                f"The weights do not add up: they leave {float(self.unexplained):.3g} of the slack "
                f"{float(self.slack):.3g} of {self.name} unexplained."
            )
        chance = {
            t.step.label: float(t.lost) for t in self.tallies
            if t.step.only_drawn and t.lost is not None
        }
        parts = sorted(((float(v), k) for k, v in self.parts() if k not in chance), reverse=True)
        if not parts:
            tight = [t for t in self.tallies if t.step.over != "end"]
            nearest = min(tight, key=lambda t: t.worst.check.slack) if tight else None
            tail = f", nearest to equality in {nearest.step.label}" if nearest else ""
            open = any(t.verdict == "inconclusive" for t in self.tallies)
            found = (
                f"No step of {self.name} is seen to fail" if open
                else f"Every step of {self.name} holds"
            )
            return (
                f"{found} on this run{tail}; they have no weights, so nobody says where "
                "the bound is lost."
            )
        total = float(self.slack) - sum(chance.values())
        exact = isinstance(self.slack, Fraction)
        if not (self.slack > 0 if exact else total > 1e-12 * self._sides):
            return self._without_slack(parts)
        (most, label), rest = parts[0], parts[1:]
        share = share_in_words(most / total)
        inside = self._line_of(label, most)
        more = bool(rest) and rest[0][0] > 0.03 * total
        tail = f", {share_in_words(rest[0][0] / total)} {self._where(rest[0][1])}" if more else ""
        verb = "are" if share.endswith("s") else "is"
        aside = ", chance aside," if any(abs(c) > 0.01 * total for c in chance.values()) else ""
        return (
            f"{share[0].upper() + share[1:]} of the slack of {self.name}{aside} {verb} lost "
            f"{self._where(label)}{inside}{tail}."
        )

    def _without_slack(self, parts: Sequence[tuple[float, str]]) -> str:
        """Say why nothing is left between both sides: no step loses anything, or losses cancel."""
        most = max(abs(value) for value, _ in parts)
        if most <= 1e-9 * self._sides:
            return f"{self.name} is attained on this run: no step loses anything."
        left, right = apart(float(self.lhs), float(self.rhs))
        return (
            f"{self.name} has no slack on this run, {left} against {right}, though steps lose up "
            f"to {most:.3g}: others give it back."
        )

    def _where(self, label: str) -> str:
        """'in Lemma B.5', or what the step says."""
        return next(
            (t.step.where for t in self.tallies if t.step.label == label and t.step.where),
            f"in {label}"
        )

    def _line_of(self, label: str, whole: float) -> str:
        lines = [
            (float(t.lost), t.step.label) for t in self.tallies
            if t.step.part_of == label and t.lost is not None
        ]
        if len(lines) < 2 or not whole > 0:
            return ""
        most, line = max(lines)
        return f" (most of it in {line})" if most > 0.5 * whole else ""

    def _breaks(self) -> str:
        first, more = self.broken[0], self.broken[1:]
        place = first.worst
        if place.put.relation == "==":
            sides = f"the sides differ by {place.check.lhs:.4g}"
        else:
            left, right = apart(place.check.lhs, place.check.rhs)
            sides = f"lhs {left} > rhs {right}"
        fail = "fail" if len(more) > 1 else "fails"
        others = f"; {', '.join(t.step.label for t in more)} {fail}, too" if more else ""
        bound = {"violated": "fails", "holds": "holds all the same"}.get(
            self.check.verdict, "is not settled"
        )
        where = (
            f"{first.step.label}, {place.at}" if place.t
            else f"the end ({first.step.label}: {first.step.words})"
        )
        left, right = apart(float(self.lhs), float(self.rhs))
        return f"Breaks at {where}: {sides}{others}. The bound {bound}: {left} against {right}."

    def held_here(self) -> list[Tally]:
        """The steps that hold on this run, and are on record as violated: they fail on another
        one."""
        def on_record(step: Step) -> str | None:
            if not (step.statement and step.form):
                return None
            verdicts = get(step.statement).form(step.form).established
            return verdicts.get(self.rule, verdicts.get("any"))

        return [t for t in self.tallies if t.verdict == "holds" and on_record(t.step) == "violated"]

    # --- tables -----------------------------------------------------------------------------------
    def _clean(self, lost: Any) -> float | None:
        """0 for what is rounding only."""
        if lost is None:
            return None
        return 0.0 if abs(float(lost)) <= 1e-12 * self._all_lost else float(lost)

    def steps(self) -> list[dict[str, Any]]:
        """A row a step: its worst round, both sides there, and what the bound loses in it over all
        rounds."""
        return [
            {
                "step": t.step.label, "part_of": t.step.part_of, "statement": t.step.statement,
                "form": t.step.form, "words": t.step.words, "formula": self._formula(t.step),
                "verdict": t.verdict, "worst": t.worst.at, "lhs": float(t.worst.lhs),
                "rhs": float(t.worst.rhs), "weight": t.one_weight, "lost": self._clean(t.lost),
                "error": t.error, "share": self.share(t),
            }
            for t in self.tallies
        ]  # fmt: skip

    def rows(self, round: int | None = None) -> list[dict[str, Any]]:
        """A row a step and round, in the order of the proof; ``pandas.DataFrame(walk.rows())`` is a
        table of them.

        Parameters
        ----------
        round : one round only, with what stands at the end where it is the last one
        """
        out, places = [], [(t, i, p) for t in self.tallies for i, p in enumerate(t.places)]
        for t, i, p in places:
            if round is not None and (p.t or self.horizon) != round:
                continue
            lost = None if t.weight is None else float(p.slack * t.weight[i])
            share = None if lost is None or not self.slack > 0 else lost / float(self.slack)
            out.append({
                "round": p.t, "step": t.step.label, "formula": self._formula(t.step),
                "numbers": p.put.latex(), "lhs": float(p.lhs), "rhs": float(p.rhs),
                "slack": float(p.slack), "lost": lost, "share": share, "verdict": p.check.verdict,
            })  # fmt: skip
        return out

    def _formula(self, step: Step) -> str:
        if step.formula or not (step.statement and step.form):
            return step.formula
        return get(step.statement).form(step.form).latex

    def data(self) -> dict[str, Any]:
        """All of it as JSON has it; the waterfall is drawn from this alone."""
        return {
            "theorem": self.proof.theorem, "name": self.name, "source": self.source,
            "form": self.proof.form, "rule": self.rule,
            "rule_words": "" if self.rule == "any" else rule_words(self.rule, self.proof.theorem),
            "instance": self.instance, "rounds": self.horizon, "exact": self.exact,
            "headline": self.headline, "note": self.proof.note, "verdict": self.check.verdict,
            "lhs": float(self.lhs), "rhs": float(self.rhs), "slack": float(self.slack),
            "unexplained": None if self.unexplained is None else float(self.unexplained),
            "adds_up": self.adds_up, "formula": self.formula, "steps": self.steps(),
        }  # fmt: skip

    def waterfall(self) -> Any:
        """A matplotlib figure: from what is measured up to the bound, a bar a step.

        Raises `InvalidInput` for a proof whose steps have no weights.
        """
        return importlib.import_module(_PICTURE).draw(self.data())

    def __str__(self) -> str:
        lines = [self.headline, self.instance]
        for row in self.steps():
            lost = "" if row["lost"] is None else f"{row['lost']:10.3g}"
            sides = f"{row['lhs']:10.3g} {row['rhs']:10.3g} {lost}"
            lines.append(f"  {row['step']:22.22} {row['verdict']:12} {row['worst']:>9} {sides}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Walk({self.proof.theorem} [{self.proof.form}] on {self.instance}: {self.headline})"

    def _repr_html_(self) -> str:
        """A row a step, for notebooks; below a fold of it why it is used, and its formula."""
        head = "".join(
            f"<th>{h}</th>" for h in ("step", "verdict", "worst", "lhs", "rhs", "lost", "share")
        )
        body = "".join(self._html_row(row) for row in self.steps())
        caption = f"<p><b>{escape(self.headline)}</b><br>{escape(self.instance)}</p>"
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        return f'{caption}<div style="overflow-x:auto">{table}</div>'

    def _html_row(self, row: dict[str, Any]) -> str:
        share = "" if row["share"] is None else f"{100 * row['share']:.1f} %"
        lost = "" if row["lost"] is None else f"{row['lost']:.4g}"
        verdict = f"<b>{row['verdict']}</b>" if row["verdict"] == "violated" else row["verdict"]
        indent = "&nbsp;&nbsp;" if row["part_of"] else ""
        formula = (
            f'<div style="overflow-x:auto; max-width:26em">{_formula(row["formula"])}</div>'
            if row["formula"] else ""
        )
        label = f"<summary>{indent}{escape(row['step'])}</summary>"
        step = f"<details style='max-width:26em'>{label}{escape(row['words'])}{formula}</details>"
        texts = (step, verdict, row["worst"], f"{row['lhs']:.4g}", f"{row['rhs']:.4g}", lost, share)
        return (
            "<tr>" + "".join(f'<td style="text-align:left">{text}</td>' for text in texts) + "</tr>"
        )


def _formula(latex: str) -> str:
    """MathML; of LaTeX that cannot be read, the source."""
    try:
        return to_mathml(latex)
    except Exception:  # latex2mathml's own, or what it meets in a formula that is none
        return f"<code>{escape(latex)}</code>"
