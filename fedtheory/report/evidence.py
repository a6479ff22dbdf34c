"""The evidence of a verdict for a page: judging, counterexample, worst instance and its command."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedtheory.errors import FedTheoryError
from fedtheory.report.tables import NO_FORM, number
from fedtheory.theory.judge.check import AT_A_POINT, in_words
from fedtheory.theory.judge.registry import paper_of, setting_of
from fedtheory.theory.judge.replay import builtin_witnesses, load, replay

if TYPE_CHECKING:
    from fedtheory.theory.judge.campaign import Row
    from fedtheory.theory.judge.witness import Witness

__all__ = ["HOW", "both_sides", "how", "search_text", "size_options", "told_witness", "witnesses_of", "worst_instance"]

HOW = {  # a check's mode, in words; the strongest first
    "proved": "proved for every instance",
    "symbolic": "identity, proved by SymPy",
    AT_A_POINT: "worst case proved at a point",
    "rational": "in fractions, without rounding",
    "exact": "expectations enumerated",
    "statistical": "Monte Carlo, at 99.9 %",
}
_LONG = 300  # digits of a fraction that is written out


def how(rows: Iterable[Row]) -> list[str]:
    """Say in words what judged these rows, the strongest first."""
    modes = {mode for row in rows for mode in row.modes}
    return [HOW[mode] for mode in HOW if mode in modes] + sorted(modes - set(HOW))


def witnesses_of(rows: Sequence[Row], folder: Path | None = None) -> dict[str, Witness]:
    """name -> witness, of all that come with the papers and of the files that rows name; what cannot be read is left out.

    folder : where the campaign was written: a file that a row names may have moved there with it
    """
    papers = {paper_of(r.statement).id for r in rows}
    out = {w.name: w for id in papers for w in builtin_witnesses(id)}
    for name in {r.witness for r in rows if r.witness and r.witness not in out}:
        for path in (Path(name), *([folder / "witnesses" / Path(name).name] if folder else [])):
            try:
                out[name] = load(path)
                break
            except (FedTheoryError, OSError):
                continue
    return out


def told_witness(name: str, witness: Witness) -> dict[str, Any]:
    """A counterexample for a page: its numbers, both sides, and the command that reruns it."""
    setting = setting_of(witness.statement)
    facts, summary = setting.facts(witness), setting.summary(witness).partition("]: ")[2]
    if set(re.findall(r"(?:^|, )(\w+) = ", summary)) <= {key for key, _ in facts}:
        summary = ""  # it says nothing that the facts do not
    lhs, rhs, sign = both_sides(witness)
    words = [str(v) for v in witness.found_by.values() if isinstance(v, str) and v != "none"]
    return {
        "name": name, "form": witness.form, "rule": witness.rule, "summary": summary,
        "facts": [(key, str(value)) for key, value in facts], "lhs": _fraction(lhs),
        "rhs": _fraction(rhs),
        "numbers": f"{float(lhs):.8g} {sign} {float(rhs):.8g}" if witness.lhs else "", "sign": sign,
        "verdict": witness.verdict, "found_by": "; ".join(words),
        "command": _replays(name, witness.statement),
    }


def both_sides(witness: Witness) -> tuple[Fraction, Fraction, str]:
    """Both sides and their sign; of an equation of a file its own, and not how far they are apart."""
    if witness.rhs == "0" and paper_of(witness.statement).file:
        with suppress(FedTheoryError):
            if both := replay(witness).where.get("sides"):
                return Fraction(both[0]), Fraction(both[1]), "≠"
    lhs, rhs = Fraction(witness.lhs or "0"), Fraction(witness.rhs or "0")
    return lhs, rhs, ">" if lhs > rhs else "<" if lhs < rhs else "="


def _replays(name: str, statement: str) -> str:
    """The command that replays a witness."""
    source = paper_of(statement).file
    return f"fedtheory replay {shlex.quote(name)}" + (f" --paper {shlex.quote(source)}" if source else "")


def _fraction(value: Fraction) -> str:
    text = str(value)
    if len(text) <= _LONG:
        return text
    return f"a fraction of {len(str(abs(value.numerator)))} over {len(str(value.denominator))} digits"


def worst_instance(row: Row, settings: Mapping[str, Any], named: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the instance on which a form comes nearest to failing, or fails most, and its command.

    The command rebuilds the instance; '' for one that only the search found. None where the form was judged on no instance.

    Parameters
    ----------
    settings : of the campaign, which say the size of its battery
    named : dict summary of a witness -> its name
    """
    if not row.worst:
        return None
    name = named.get(row.worst) or named.get(f"{row.statement} [{row.form}]: {row.worst}")
    if name is not None:
        command, instance = _replays(name, row.statement), f"the witness {name}"
    elif "]: " in row.worst or row.worst.startswith("f1 = "):  # of the search: it has no name, as those of the campaign have
        command, instance = "", row.worst.rpartition("]: ")[2]
    else:
        command, instance = _rebuilds(row, settings), row.worst
    slack = number(row.worst_slack)
    return {
        "form": row.form, "rule": row.rule, "instance": instance, "command": command,
        "slack": "" if slack == NO_FORM else slack, "place": in_words(row.worst_where),
        "tightest": "" if row.tightest in ("", row.worst) or math.isnan(
            row.tightness_worst
        ) else row.tightest,
    }


def _rebuilds(row: Row, settings: Mapping[str, Any]) -> str:
    """The command that judges the row's statement on its worst instance again."""
    source = paper_of(row.statement).file
    statement = f"{source}::{row.statement.partition('/')[2]}" if source else row.statement
    return f"fedtheory verify {shlex.quote(statement)} --instance {shlex.quote(row.worst)}{size_options(settings)}"


def size_options(settings: Mapping[str, Any]) -> str:
    """The options of a campaign of that seed and size, where they are not the usual ones."""
    options = f" --seed {settings['seed']}" if settings.get("seed") else ""
    options += f" --scale {settings['scale']:g}" if settings.get("scale", 1.0) != 1.0 else ""
    return options + ("" if settings.get("long_runs", True) else " --no-long-runs")


def search_text(searches: Sequence[Mapping[str, Any]], statement: str, form: str, rule: str) -> str:
    """'1,000 instances searched, none violates it'; '' where there was no search."""
    found = [s for s in searches if (s["statement"], s["form"], s["rule"]) == (statement, form, rule)]
    if not found:
        return ""
    tried, hit = sum(s["evaluations"] for s in found), any(s["found"] for s in found)
    return f"{tried:,} instances searched, {'a counterexample found' if hit else 'none violates it'}" if tried else ""
