"""`--activity`: how the clients' probability of being active changes with the rounds, read from a line of words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedtheory.errors import FedTheoryError, InvalidInput
from fedtheory.untrusted import ratio, whole

__all__ = ["HELP", "activity_in_words", "activity_of", "check_ever_active"]

HELP = (
    "How activity changes with the rounds, as CLIENT:SHAPE,... (a client's number, or all): its probability of being active, "
    "1 unless --inactive says less, is multiplied in round t = 1, 2, ... by a factor. "
    "shrink=R: R^(t-1); grow=R: 1-R^t; fade=D: D/(D+t-1); away=A-B: 0 in rounds A to B; only=A-B: 0 in all others; "
    "every=M or every=M@A: 1 in rounds A, A+M, ..., else 0 (A=1); cycle=K/M: 1 in the first K of every M rounds, else 0. "
    "Several shapes of one client are multiplied. Example: --activity 0:shrink=0.9,1:away=5-8,2:every=3"
)


def _number(text: str) -> float:
    return float(ratio(text))


def _two(text: str, between: str) -> tuple[int, int]:
    first, sign, last = text.partition(between)
    if not sign:
        raise ValueError(text)
    return whole(first), whole(last)


def _shapes() -> dict[str, tuple[str, Callable[[str], Any]]]:
    """{word: (how its value is written, what is made of it)}."""
    from fedtheory.participation import activity as a

    def every(text: str) -> Any:
        return a.Every(*(_two(text, "@") if "@" in text else (whole(text),)))

    return {
        "shrink": ("shrink=0.9", lambda v: a.Decay(_number(v))), "grow": ("grow=0.9", lambda v: a.Grow(_number(v))),
        "fade": ("fade=20", lambda v: a.Fade(_number(v))), "away": ("away=5-8", lambda v: a.Away(*_two(v, "-"))),
        "only": ("only=5-8", lambda v: a.Only(*_two(v, "-"))), "every": ("every=3 or every=3@2", every),
        "cycle": ("cycle=2/5", lambda v: a.Cycle(*_two(v, "/"))),
    }  # fmt: skip


def activity_of(text: str, clients: int) -> dict[int, list[Any]]:
    """{client: shapes} of --activity."""
    found: dict[int, list[Any]] = {}
    known = _shapes()
    for part in text.split(","):
        who, colon, what = part.strip().partition(":")
        word, equals, value = what.partition("=")
        if not colon or not equals:
            raise InvalidInput(f"--activity {text}: {part.strip()!r} is not client:shape=value, as in 0:shrink=0.9,1:away=5-8")
        if word not in known:
            raise InvalidInput(f"--activity {text}: {word!r} is no shape of activity: use {', '.join(known)}")
        if who != "all" and not (who.isascii() and who.isdecimal() and len(who) <= 20 and int(who) < clients):
            raise InvalidInput(f"--activity {text}: there is no client {who!r}, clients are numbered 0..{clients - 1}, or all")
        written, make = known[word]
        try:
            shape = make(value)
        except FedTheoryError as error:
            raise InvalidInput(f"--activity {text}: {part.strip()}: {error}") from None
        except (ValueError, ZeroDivisionError):
            raise InvalidInput(f"--activity {text}: {value!r} is not what {word} takes: write it as in {written}") from None
        for client in range(clients) if who == "all" else [int(who)]:
            found.setdefault(client, []).append(shape)
    return found


def check_ever_active(law: Any, rounds: int) -> None:
    """Raise `InvalidInput` where a client is surely inactive in every round of the run in which it belongs to it."""
    idle = np.stack([law.law(t)[:, 0] for t in range(1, rounds + 1)])
    never = np.flatnonzero((idle == 1).all(axis=0))
    if len(never):
        raise InvalidInput(
            f"client {never[0]} is never active in {rounds} rounds (P(s = 0) = 1): its loss would be in F and never be seen; change "
            "--activity, make the run longer, or leave the client out of the problem"
        )


def activity_in_words(text: str) -> list[str]:
    """One item a part, for a headline."""
    return [f"activity of {'all' if part.strip().startswith('all:') else 'client ' + part.strip().partition(':')[0]} "
            f"{part.strip().partition(':')[2]}" for part in text.split(",")]  # fmt: skip
