"""Help in two pages: `--help` has what a user needs first, `--help-all` has every option.

A command says which of its options are shown first; all else on the pages is its docstring, its
examples and its options themselves.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand

__all__ = ["HelpfulCommand", "Topic", "Topics"]

_ALL, _TYPED = (
    f"{__name__}.all",
    f"{__name__}.typed",
)  # in the context: the page asked for, the arguments
_EXAMPLES, _WIDE = 3, 76  # on the first page, and their columns


@dataclass(frozen=True)
class Topic:
    """A page about one thing that the command line names, such as a method or a statement.

    Attributes
    ----------
    about : one sentence, in place of the command's
    title : of the group of its own options
    own : its own options, all on the first page
    first : the other options on the first page
    foreign : options that it does not take
    words : dict option -> its sentence on this page, where that is not the usual one
    examples : command lines, beside those of the command that name it
    not_groups : groups of options that it does not take
    """

    about: str
    title: str
    own: tuple[str, ...]
    first: tuple[str, ...]
    foreign: frozenset[str] = frozenset()
    words: Mapping[str, str] = field(default_factory=dict)
    examples: tuple[str, ...] = ()
    not_groups: tuple[str, ...] = ()

    def takes(self, option: Any) -> bool:
        """True for an option that means something here."""
        return (
            option.name not in self.foreign
            and getattr(option, "rich_help_panel", None) not in self.not_groups
        )


@dataclass(frozen=True)
class Topics:
    """The argument that names a topic, and what makes a topic of its value, or None."""

    argument: str
    of: Callable[[str], Topic | None]


class HelpfulCommand(TyperCommand):
    """A command with a first page and a full one; without ``first`` its one page has everything."""

    first: tuple[str, ...] = ()
    topics: Topics | None = None
    _help_all: Any = None

    def get_params(self, ctx: Any) -> Any:
        """Every option, `--help-all` among them."""
        found = super().get_params(ctx)
        return [*found, self._all(ctx)] if self.first else found

    def _all(self, ctx: Any) -> Any:
        if self._help_all is None:
            option: Any = copy.copy(self.get_help_option(ctx))
            option.name, option.opts = "help_all", ["--help-all"]
            option.help, option.callback = "Show all options and examples.", _show_all
            self._help_all = option
        return self._help_all

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = list(args)
        try:
            return super().parse_args(ctx, list(args))
        except Exception as unknown:  # click's, or that of typer's own copy
            name = str(getattr(unknown, "option_name", "")).lstrip("-").replace("-", "_")
            if name and name in self._given(ctx):
                unknown.message = f"No such option: {unknown.option_name}; give it as --given {name}=VALUE"  # type: ignore[attr-defined]
            raise

    def _given(self, ctx: Any) -> list[str]:
        """The words that the first argument's topic says about --given."""
        first = ctx.meta[_TYPED][0]
        topic = None if self.topics is None or first.startswith("-") else self.topics.of(first)
        return [] if topic is None else re.findall(r"\w+", topic.words.get("given", ""))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        name = ctx.info_name
        page = _page(self, ctx) if self.first else self
        TyperCommand.format_help(page, ctx, formatter)
        ctx.info_name = name


def _show_all(ctx: Any, option: Any, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        typer.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


def _page(command: HelpfulCommand, ctx: Any) -> HelpfulCommand:
    """The command as the page that was asked for shows it."""
    full = bool(ctx.meta.get(_ALL))
    named, topic = _topic(command, ctx)
    there = {p.name: p for p in command.get_params(ctx)}
    arguments = [name for name, p in there.items() if p.param_type_name == "argument"]
    rest = there if full else (*topic.first, "help", "help_all")
    names = dict.fromkeys((*arguments, *topic.own, *rest))
    choices, page = _choices(command.callback), copy.copy(command)
    page.first, page.add_help_option, page.params = (), False, []
    for name in (name for name in names if topic.takes(there[name])):
        shown = _shown(there[name], choices.get(name, ()), topic.words.get(name, ""))
        if name not in arguments:
            group = getattr(shown, "rich_help_panel", None)
            group = group if full or (not named and _many(group, topic.first, there)) else None
            others = "Other options" if named and topic.own else None
            shown.rich_help_panel = topic.title if name in topic.own else group or others
        page.params.append(shown)
    page.help = command.help if full and not named else topic.about
    ctx.info_name = f"{ctx.info_name} {named}".strip()  # as the usage line has it
    page.epilog = _epilog(command, named, f"fedtheory {ctx.info_name}", full, topic)
    return page


def _many(group: Any, names: tuple[str, ...], there: Mapping[str, Any]) -> bool:
    """True where the first page has three options of a group, which keeps its title there then."""
    return sum(getattr(there[name], "rich_help_panel", None) == group for name in names) >= 3


def _topic(command: HelpfulCommand, ctx: Any) -> tuple[str, Topic]:
    """The name that is typed, and its topic; '' and the command itself without one."""
    if command.topics is not None:
        typed = list(ctx.meta.get(_TYPED, ()))
        named = command.make_parser(ctx).parse_args(args=typed)[0].get(command.topics.argument)
        topic = command.topics.of(named) if isinstance(named, str) else None
        if topic is not None:
            return str(named), replace(topic, foreign=topic.foreign | {command.topics.argument})
    sentence = inspect.cleandoc(command.help or "").split("\n\n")[0]
    return "", Topic(sentence, "", (), command.first)


def _choices(callback: Any) -> dict[str, tuple[str, ...]]:
    """Option -> the words that it takes, where it takes one of a few."""
    found = {}
    for name, parameter in inspect.signature(callback, eval_str=True).parameters.items():
        todo = [parameter.annotation]
        while todo:
            hint = todo.pop()
            if get_origin(hint) is Literal:
                found[name] = tuple(map(str, get_args(hint)))
            else:
                todo += [a for a in get_args(hint) if get_origin(a) is not None]
    return found


def _shown(param: Any, choices: tuple[str, ...], words: str) -> Any:
    """A copy in few columns: choices and default at the sentence's end, a switch without a type."""
    shown = copy.copy(param)
    text = words or shown.help or ""
    switch = bool(getattr(shown, "is_flag", False))
    if (
        not switch and shown.default is not None and getattr(shown, "show_default", False)
        and "default" not in text
    ):
        text = f"{text.rstrip('. ')} (default {shown.default})."
    if choices:
        shown.metavar = shown.metavar or "NAME"
        default = "".join(re.findall(r" \((default[^()]*)\)\.?\s*$", text))
        told = text.rstrip(". ").removesuffix(f" ({default})")
        unsaid = [c for c in choices if not re.search(rf"(?<![\w-]){re.escape(c)}(?![\w-])", told)]
        brackets = "; ".join(filter(None, (", ".join(choices) if unsaid else "", default)))
        text = f"{told} ({brackets})." if brackets else f"{told}."
    if switch:
        shown.metavar = ""
        text = " ".join((text, *(f"Off: {word}." for word in shown.secondary_opts)))
        shown.secondary_opts = []
    shown.show_default = False
    shown.help = text
    return shown


def _epilog(command: HelpfulCommand, named: str, path: str, full: bool, topic: Topic) -> str:
    """Examples, and on the first page where the rest is."""
    usual = re.findall(r"^`(.*)`$", command.epilog or "", re.M)
    own = (e for e in usual if not named or e.startswith(f"{path} "))
    examples = tuple(dict.fromkeys((*own, *topic.examples)))
    always = topic.examples[:1] or examples[:1]
    short = [line for line in examples if len(line) <= _WIDE or line in always]
    lines = [f"`{line}`" for line in (examples if full else short[:_EXAMPLES])]
    parts = ["  \n".join(["**Examples**", *lines])] if lines else []
    if not full:
        more = [f"All options: `{path} --help-all`"]
        if command.topics is not None and not named:
            name = command.topics.argument
            more.insert(0, f"Options of one {name}: `{path} {name.upper()} --help`")
        parts.append("  \n".join(more))
    return "\n\n".join(parts)
