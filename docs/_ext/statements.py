"""The directive `statement`: a statement of a paper as the registry has it, so that a page cannot drift from the code.

    ```{statement} fedelasticnet/theorem-3.1
    :forms: printed, repaired
    :rule: sign
    :witness:
    ```

renders each form's formula, the verdict on record, its note and the commands that rerun its witnesses. Without `:forms:` the
first form and the one called 'repaired' are shown, and the others are folded. `:witness:` adds the numbers of the first
witness, `:brief:` leaves out formulas and other forms. A statement or a form that is not there ends the build.
"""

from __future__ import annotations

from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from record import headline, markdown, table
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class StatementDirective(SphinxDirective):
    """See the head of this file."""

    required_arguments = 1
    option_spec: ClassVar = {
        "forms": directives.unchanged, "rule": directives.unchanged, "witness": directives.flag, "brief": directives.flag,
    }  # fmt: skip

    def run(self) -> list[nodes.Node]:
        forms = [f.strip() for f in self.options.get("forms", "").split(",") if f.strip()]
        flags = {name: name in self.options for name in ("witness", "brief")}
        lines = "\n".join(markdown(self.arguments[0], forms, self.options.get("rule", ""), **flags)).split("\n")
        box = nodes.container(classes=["statement"])
        self.set_source_info(box)
        self.state.nested_parse(StringList(lines, self.env.docname), self.content_offset, box)
        return [box]


class PaperDirective(SphinxDirective):
    """`headline PAPER`: what is found of it, in a sentence; `verdicts PAPER`: all its statements with what is on record."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        lines = {"headline": headline, "verdicts": table}[self.name](self.arguments[0])
        box = nodes.container(classes=[self.name])
        self.state.nested_parse(StringList(lines, self.env.docname), self.content_offset, box)
        return [box]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("statement", StatementDirective)
    for name in ("headline", "verdicts"):
        app.add_directive(name, PaperDirective)
    return {"parallel_read_safe": True}
