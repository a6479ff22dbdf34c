"""Tables of a terminal; for a narrow one, short columns side by side, and under each row what needs the whole width."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from rich.cells import cell_len
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

__all__ = ["NARROW", "Stacked", "items", "plain_table"]

NARROW = 110  # columns of a terminal under which long texts stand below their row
GAP = 2


def plain_table(
    headings: Iterable[str], right: Collection[int] = (), whole: Collection[int] = (), wide: Collection[int] = (),
    dim: Collection[int] = (),
) -> Table:
    """Columns without lines below bold headings.

    Parameters
    ----------
    right, whole, wide, dim : numbers of the columns that are aligned to the right, that are never
        broken, that share the rest of the width, and that are grey
    """
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1))
    for i, heading in enumerate(headings):
        table.add_column(
            heading, justify="right" if i in right else "left", no_wrap=i in whole,
            overflow="ellipsis" if i in whole else "fold", ratio=1 if i in wide else None,
            style="dim" if i in dim else "",
        )
    return table


def items(words: Iterable[str], width: int, indent: int = 2) -> str:
    """Words as lines that fit the width less the indent; none is broken at a space inside it."""
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and cell_len(longer) > width - indent:
            lines.append(word)
        else:
            lines[-1] = longer
    return "\n".join(lines)


class Stacked:
    """Rows of short cells in aligned columns, each with a text below it; a first cell without room has a line of its own.

    Parameters
    ----------
    headings : one for each column, of one or two lines; all '' for none
    right : numbers of the columns that are aligned to the right
    """

    def __init__(self, headings: Sequence[str], right: Sequence[int] = ()) -> None:
        self.headings, self.right = [Text(h, "bold") for h in headings], set(right)
        self.rows: list[tuple[list[Text], list[Text]]] = []

    def add_row(self, *cells: str | Text, below: Sequence[str | Text] = ()) -> None:
        """A row, or one text over the whole width, and the paragraphs under it."""
        self.rows.append(([_text(c) for c in cells], [_text(b, "dim") for b in below if str(b)]))

    def _widths(self, width: int) -> list[int]:
        cells = [self.headings, *(row for row, _ in self.rows if len(row) == len(self.headings))]
        own = [max(max(cell_len(part) for part in row[i].plain.split("\n")) for row in cells) for i in range(len(self.headings))]
        rest = sum(own[1:]) + GAP * (len(own) - 1)
        return [max(1, min(own[0], width - rest)), *own[1:]]

    def __rich_console__(self, console: Any, options: Any) -> Any:
        widths = self._widths(options.max_width)
        if any(h.plain for h in self.headings):
            yield self._line(self.headings, widths, "bottom")
        for cells, below in self.rows:
            first: Any = cells[0]  # a text, or the table that makes a line of the cells
            if len(cells) == len(widths) > 1:
                if cell_len(cells[0].plain) > widths[0]:
                    yield first
                    cells = [Text(), *cells[1:]]
                first = self._line(cells, widths)
            yield first
            for text in below:
                yield Padding(text, (0, 0, 0, GAP))

    def _line(self, cells: Sequence[Text], widths: Sequence[int], vertical: Any = "top") -> Table:
        grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1), highlight=False)
        for i, width in enumerate(widths):
            grid.add_column(width=width, justify="right" if i in self.right else "left", vertical=vertical, overflow="fold")
        grid.add_row(*cells)
        return grid


def _text(value: str | Text, style: str = "") -> Text:
    return value if isinstance(value, Text) else Text(value, style)
