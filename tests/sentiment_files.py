"""Sentiment140's files, with tweets that are made up."""

from __future__ import annotations

import csv
import io

NAME = "training.1600000.processed.noemoticon.csv"
BY_HAND = "testdata.manual.2009.06.14.csv"
PAGE = "http://help.sentiment140.com/for-students"


def as_csv(rows):
    """Rows (polarity, user, text) as the release writes them: six quoted columns, latin-1, no header."""
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerows(
        [p, 1467810369 + i, "Mon Apr 06 22:19:45 PDT 2009", "NO_QUERY", u, t] for i, (p, u, t) in enumerate(rows)
    )
    return out.getvalue().encode("latin1")


def tweets(users=4, each=10):
    """Every account the same number, each tweet of its own words; sorted by polarity, as the release is."""
    rows = [((0, 4)[i % 2], f"user{u}", f"@{u} tweet{i}of{u}, ok!") for u in range(users) for i in range(each)]
    return sorted(rows, key=lambda row: row[0])


def write(folder, rows, ending="", pack=bytes):
    (folder / f"{NAME}{ending}").write_bytes(pack(as_csv(rows)))
    return folder
