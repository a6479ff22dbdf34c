"""The directive `statement`: a statement of a paper as the registry has it, so that a page cannot drift from the code.

    ```{statement} fedelasticnet/theorem-3.1
    :forms: printed, repaired
    :rule: sign
    :witness:
    ```

renders each form's formula, the verdict on record, its note and the commands that rerun its witnesses. Without `:forms:` the
first form and the one called 'repaired' are shown, and the others are folded. `:witness:` adds the numbers of the first
witness. A statement or a form that is not there ends the build.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from formulas import broken
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

_GREEK = (
    "alpha|beta|gamma|delta|epsilon|eta|theta|kappa|lambda|mu|nu|xi|rho|sigma|tau|phi|psi|omega|chi|zeta|Gamma|Delta|Theta|Lambda|Sigma|Phi|Omega"
)
_SCRIPT = r"(?:\^\{[^}]*\}|\^[\w*+]+|_[A-Za-z0-9*]+)*"
_BADGES = {"holds": "success", "violated": "danger", "open": "warning"}


def typeset(words: str) -> str:
    """A sentence of a note as Markdown: `kappa_0`, `theta^{t-1}` and `C_0` typeset, all else as it stands."""
    out, at = [], 0
    for found in re.finditer(rf"(?<![\w`.\[-])(?<![a-z]/)((?:{_GREEK})|[A-Za-z](?=[_^]))(?:_tilde)?{_SCRIPT}(?![\w`/])", words):
        out += [_plain(words[at : found.start()]), f"${_symbol(found[0])}$"]
        at = found.end()
    return "".join([*out, _plain(words[at:])])


def _plain(text: str) -> str:
    """Text whose signs Markdown takes for nothing else."""
    return re.sub(r"([\\*_\[\]<>|$`~#])", r"\\\1", text)


def _symbol(text: str) -> str:
    name, tail = re.fullmatch(r"([A-Za-z]+)((?:[_^].*)?)", text).groups()  # type: ignore[union-attr]
    if tail.startswith("_tilde"):
        name, tail = rf"\tilde{{{_letter(name)}}}", tail.removeprefix("_tilde")
    else:
        name = _letter(name)
    tail = re.sub(r"([_^])([A-Za-z0-9*+]+)", lambda m: f"{m[1]}{{{m[2]}}}", tail)
    return name + tail.replace("*", r"\ast ")


def _letter(name: str) -> str:
    return "\\" + ("varepsilon" if name == "epsilon" else name) if len(name) > 1 else name


@cache
def _witnesses() -> dict[tuple[str, str], list[Any]]:
    from fedtheory.verification.replay import builtin_witnesses

    found: dict[tuple[str, str], list[Any]] = {}
    for w in builtin_witnesses():
        found.setdefault((w.statement, w.form), []).append(w)
    return found


def markdown(name: str, forms: Sequence[str] = (), rule: str = "", witness: bool = False) -> list[str]:
    """The lines that the directive stands for.

    Raises
    ------
    fedtheory.errors.UnknownName
        No such statement.
    ExtensionError
        No such form.
    """
    from fedtheory.verification.registry import get

    statement = get(name)
    known = {f.name: f for f in statement.forms}
    missing = [f for f in forms if f not in known]
    if missing:
        raise ExtensionError(f"{statement.id} has no form {', '.join(map(repr, missing))}: it has {', '.join(known)}")
    shown = [known[f] for f in forms] or [f for n, f in enumerate(statement.forms) if n == 0 or f.name == "repaired"]
    folded = [f for f in statement.forms if f not in shown]
    lines = [f"**{_plain(statement.title[:1].upper() + statement.title[1:])}** ({_plain(statement.source)})", ""]
    for f in shown:
        lines += [*_form(statement, f, rule, witness), ""]
    if folded:
        lines += [f"::::{{dropdown}} {len(folded)} other form{'s' if len(folded) > 1 else ''}, and what is assumed"]
        for f in folded:
            lines += [*_form(statement, f, "", False), ""]
        lines += [*(f"- {typeset(a)}" for a in statement.assumptions), "", "::::"]
    lines += ["", "```console", f"$ fedtheory explain {statement.id}", "```"]
    return lines


def _form(statement: Any, form: Any, rule: str, numbers: bool) -> Iterator[str]:
    from fedtheory.verification.registry import rule_words
    from fedtheory.verification.statement import WORDINGS

    recorded = {r: v for r, v in form.established.items() if not rule or r in (rule, "any")} or form.established
    verdicts = " ".join(
        f"{{bdg-{_BADGES[v]}}}`{v}{'' if r == 'any' else f' ({rule_words(r, statement.id)})'}`" for r, v in recorded.items()
    )
    yield f"{{.form}}\n**{_plain(form.name)}** {verdicts}"
    yield ""
    if form.wording:
        yield f"*{_plain(WORDINGS[form.wording])}*"
        yield ""
    if form.latex.strip():
        for latex in form.latex.split(r"\text{; ") if r"\text{; " in form.latex else [form.latex]:
            yield from ("```{math}", broken(latex), "```", "")
    if form.note:
        yield typeset(re.sub(r"^[a-z](?=[a-z]* )", lambda m: m[0].upper(), form.note)) + "."
        yield ""
    if form.worst is not None:
        yield (
            f"Of all problems of the class ({typeset(form.worst.at)}) the worst comes to {float(form.worst.share()):.3g} of this bound: "
            "proved in fractions."
        )
        yield ""
    witnesses = [w for w in _witnesses().get((statement.id, form.name), ()) if w.verdict == "violated"]
    witnesses = [w for w in witnesses if not rule or w.rule in (rule, "any")] or witnesses
    if witnesses and numbers:
        yield from _facts(witnesses[0])
    if witnesses:
        yield from ("```console", *(f"$ fedtheory replay {w.name}" for w in witnesses), "```")


def _facts(witness: Any) -> Iterator[str]:
    """The numbers of a witness, and both of its sides."""
    from fedtheory.verification.registry import setting_of

    setting, lhs, rhs = setting_of(witness.statement), Fraction(witness.lhs), Fraction(witness.rhs)
    rows = [*setting.facts(witness), ("left side", _number(lhs)), ("right side", _number(rhs))]
    yield from ("", f"| A witness | {typeset(setting.summary(witness).split(']: ', 1)[-1])} |", "|---|---|")
    for name, value in rows:
        yield f"| {typeset(str(name))} | {typeset(' '.join(str(value).split()))} |"
    yield ""


def _number(x: Fraction) -> str:
    text = str(x)
    return text if len(text) <= 12 else f"{float(x):.6g}" + (f" = {text}" if len(text) <= 40 else "")


class StatementDirective(SphinxDirective):
    """See the head of this file."""

    required_arguments = 1
    option_spec: ClassVar = {"forms": directives.unchanged, "rule": directives.unchanged, "witness": directives.flag}

    def run(self) -> list[nodes.Node]:
        forms = [f.strip() for f in self.options.get("forms", "").split(",") if f.strip()]
        lines = "\n".join(markdown(self.arguments[0], forms, self.options.get("rule", ""), "witness" in self.options)).split("\n")
        box = nodes.container(classes=["statement"])
        self.set_source_info(box)
        self.state.nested_parse(StringList(lines, self.env.docname), self.content_offset, box)
        return [box]


def table(paper: str) -> list[str]:
    """All statements of a paper with the verdicts on record, as a Markdown table under a line that counts them."""
    from fedtheory.verification.registry import paper as paper_named

    rows, counts = [], {"hold": 0, "fail": 0, "are not judged": 0}
    for s in paper_named(paper).statements:
        printed, repaired = s.as_printed, next((f for f in s.forms if f.name == "repaired"), None)
        if printed is not None and not printed.wording:
            verdicts = set(printed.established.values())
            counts["fail" if "violated" in verdicts else "are not judged" if "open" in verdicts else "hold"] += 1
        cells = [_verdicts(f) if f is not None else "" for f in (printed, repaired)]
        rows.append(f"| `{s.id.partition('/')[2]}` | {typeset(s.title)} | {' | '.join(cells)} |")
    told = ", ".join(f"{n} {what}" for what, n in counts.items() if n)
    head = f"Of the statements that the paper prints, {told}. " if told else "The paper prints no formula that could be judged as it stands. "
    return [
        head + f"`fedtheory list {paper}/` prints this table, `fedtheory verify {paper}/` judges it anew.", "",
        "| statement | what it says | as the paper has it | repaired |", "|---|---|---|---|", *rows,
    ]  # fmt: skip


def _verdicts(form: Any) -> str:
    verdicts = set(form.established.values())
    if len(verdicts) == 1:
        return f"{{bdg-{_BADGES[v]}}}`{v}`" if (v := verdicts.pop()) else ""
    return " ".join(f"{{bdg-{_BADGES[v]}}}`{v}` ({_plain(r)})" for r, v in form.established.items())


class VerdictsDirective(SphinxDirective):
    """All statements of a paper, in its order, with the verdicts on record."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        box = nodes.container(classes=["verdicts"])
        self.state.nested_parse(StringList(table(self.arguments[0]), self.env.docname), self.content_offset, box)
        return [box]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("statement", StatementDirective)
    app.add_directive("verdicts", VerdictsDirective)
    return {"parallel_read_safe": True}
