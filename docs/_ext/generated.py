"""Pages that are made from the code before the build: one a command, one a public module, one a paper with all its statements.

Which modules are public says the table of `docs/reference/public_names.md`; that it agrees with their `__all__` is tested.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

NAMES = "reference/public_names.md"


def public_names(text: str) -> dict[str, list[str]]:
    """Module -> names, as the table of public names says."""
    return {module: re.findall(r"`(\w+)`", names) for module, names in re.findall(r"^\| \[?`([\w.]+)`[^|]*\| (.*) \|$", text, re.M)}


def commands() -> dict[str, str]:
    """Command -> its page, from the application itself by Typer's own writer."""
    from typer import Context
    from typer.cli import get_docs_for_click
    from typer.main import get_command

    from fedtheory.cli import app

    group: Any = get_command(app)
    context = Context(group, info_name="fedtheory")
    pages = {}
    for name, command in group.commands.items():
        if not command.hidden:
            text = get_docs_for_click(obj=command, ctx=context, name=name, call_prefix="fedtheory")
            pages[name] = _as_page(text)
    return pages


def _as_page(text: str) -> str:
    """Typer's Markdown as a page: headings from the first level on, metavariables that are no HTML, examples to copy."""
    text = re.sub(r"^#(#+) ", r"\1 ", text, flags=re.M)
    text = text.replace("```console\n$ ", "```text\n")
    body, mark, examples = text.partition("**Examples**")
    if mark:
        lines = re.findall(r"^`(.*)`$", examples, re.M)
        text = f"{body}**Examples**\n\n```console\n" + "\n".join(f"$ {ln}" for ln in lines) + "\n```\n"
    return text


def module_page(module: ModuleType, names: list[str], first: dict[int, str]) -> str:
    """One module: its docstring, a table of its names, and what is documented here and not in a module before it."""
    name = module.__name__
    head = f"{name}\n{'=' * len(name)}\n\n.. currentmodule:: {name}\n\n.. automodule:: {name}\n   :no-members:\n\n"
    here, there, modules, values = [], [], [], []
    for name in names:
        value = getattr(module, name)
        home = first.get(id(value))
        if isinstance(value, ModuleType):
            modules.append(f":doc:`{value.__name__}`" if value.__name__ in first.values() else f"``{value.__name__}``")
        elif not (inspect.isclass(value) or inspect.isroutine(value)):
            values.append((name, value))
        elif home == module.__name__:
            here.append(name)
        else:
            there.append(f":py:obj:`{name} <{home}.{name}>`")
    table = ".. autosummary::\n   :nosignatures:\n\n" + "".join(f"   {n}\n" for n in here) + "\n" if here else ""
    lines = [f"``{n}``: {_brief(v)}" for n, v in values]
    also = f"\nAlso here, and described where they are at home: {', '.join(there)}.\n\n" if there else ""
    also += f"\nModules: {', '.join(modules)}.\n\n" if modules else ""
    also += "".join(f"- {line}\n" for line in lines) + "\n" if lines else ""
    body = ""
    for name in here:
        kind = "autoclass" if inspect.isclass(getattr(module, name)) else "autofunction"
        if kind == "autoclass" and issubclass(getattr(module, name), BaseException):
            kind = "autoexception"
        body += f".. {kind}:: {name}\n" + ("   :members:\n" if kind == "autoclass" else "") + "\n"
    return head + table + also + body


def _brief(value: Any) -> str:
    text = " ".join(repr(value).split())
    if len(text) <= 80 and "`" not in text:
        return f"``{text}``"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if hasattr(value, "__len__") else "")


def modules(table: dict[str, list[str]]) -> dict[str, str]:
    """Module -> its page."""
    loaded = {name: importlib.import_module(name) for name in table}
    first: dict[int, str] = {}
    for name, module in sorted(loaded.items(), key=lambda item: -item[0].count(".")):  # the deepest public module is the home
        if name in ("fedtheory.theory.judge.registry",):
            continue
        for attribute in table[name]:
            value = getattr(module, attribute)
            if not isinstance(value, ModuleType):
                first.setdefault(id(value), name)
    return {name: module_page(module, table[name], first) for name, module in loaded.items()}


def statements() -> dict[str, str]:
    """Paper -> a page with all its statements."""
    from record import anchor

    from fedtheory.theory.judge.registry import papers

    pages = {}
    for paper in papers():
        told = f"Every form, as it is on record. `fedtheory verify {paper.id}/` judges them anew."
        lines = [f"# All statements of {paper.title}", "", told, ""]
        for s in paper.statements:
            lines += [f"({anchor(s.id)})=", f"## `{s.id.partition('/')[2]}`", "", f"```{{statement}} {s.id}", ":witness:", "```", ""]
        pages[paper.id] = "\n".join(lines)
    return pages


def write(app: Sphinx) -> None:
    from sphinx.ext.autodoc.mock import mock

    source = Path(app.srcdir)
    table = public_names((source / NAMES).read_text())
    pages = {f"reference/commands/{name}.md": text for name, text in commands().items()}
    with mock(app.config.autodoc_mock_imports):  # torch need not be there
        pages |= {f"reference/api/{name}.rst": text for name, text in modules(table).items()}
    pages |= {f"reference/statements/{name}.md": text for name, text in statements().items()}
    for folder in ("reference/commands", "reference/api", "reference/statements"):
        (source / folder).mkdir(parents=True, exist_ok=True)
        for file in (source / folder).iterdir():
            if str(file.relative_to(source)) not in pages:
                file.unlink()
    for name, text in pages.items():
        file = source / name
        if not file.exists() or file.read_text() != text:  # an unchanged page is not built again
            file.write_text(text)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write, priority=100)
    return {"parallel_read_safe": True}
