"""EFL's two printed loops with the model held at w*, where no history makes the moves cancel.

Written from Algorithms 1 and 2 in plain fractions; nothing of the library is imported.
"""

from __future__ import annotations

from fractions import Fraction as Q
from itertools import product


def plus(x, y):
    return [a + b for a, b in zip(x, y, strict=True)]


def minus(x, y):
    return [a - b for a, b in zip(x, y, strict=True)]


def mix(rows):
    """Return the mean of clients of weight 1/N."""
    return [sum(column) / len(rows) for column in zip(*rows, strict=True)]


def st(x):
    """Algorithm 2 where it keeps one entry of two: the longer one."""
    first = abs(x[0]) >= abs(x[1])
    return [x[0], Q(0)] if first else [Q(0), x[1]]


LITERAL = {"variant": "literal", "c": [["-14", "-5"], ["-8", "-25"], ["22", "30"]]}
TEXT = {"variant": "text", "c": [["-3", "11"], ["8", "-9"], ["-5", "-2"]]}


def held_moves(data):
    """The server's moves until the residuals come back, from residuals 0; those of the period.

    All curvatures are 1 and w* = 0, so that a client's move is its minimiser.
    """
    x = [[Q(v) for v in row] for row in data["c"]]
    R, R_G, seen, moves = [[Q(0)] * 2 for _ in x], [Q(0)] * 2, [], []
    while (R, R_G) not in seen:
        seen.append((R, R_G))
        D = [plus(r, move) for r, move in zip(R, x)]
        sent = [st(m) for m in D]
        total = plus(R_G, mix(D if data["variant"] == "literal" else sent))
        R, R_G = [minus(m, v) for m, v in zip(D, sent)], minus(total, st(total))
        moves.append(total)
    return moves[seen.index((R, R_G)) :]


def period(a, b, phase):
    """Return what a client with the move (a, b) holds, and what it sends, from any round on.

    ST sends one entry of two, so that the other one is what was not sent since.
    """
    since, out = (1, 1), {}
    while since not in out:
        D = (since[0] * a, since[1] * b)
        if abs(D[0]) == abs(D[1]):
            raise ValueError(f"a tie: {D}")
        first = abs(D[0]) > abs(D[1])
        out[since] = (D, (D[0], Q(0)) if first else (Q(0), D[1]))
        since = (1, since[1] + 1) if first else (since[0] + 1, 1)
    states = list(out)
    found = [out[s] for s in states[states.index(since) :]]
    return found[phase % len(found) :] + found[: phase % len(found)]


def means_of_all_histories(data):
    """The mean moves at w*, over all phases of the clients and all histories of the server, and the
    least gap of a choice.

    The server holds one coordinate back, by what came in since it was last sent: any number of
    rounds ago, up to three periods. Raises `ValueError` on a tie, or where one coordinate might
    never be sent.
    """
    rows = [[Q(v) for v in row] for row in data["c"]]  # w* = 0, curvature 1: the moves
    which, lengths = (
        0 if data["variant"] == "literal" else 1,
        [len(period(*row, 0)) for row in rows],
    )
    whole = lengths[0] * lengths[1] * lengths[2]
    means, gaps = set(), []
    for phases in product(*map(range, lengths)):
        runs = [period(*row, phase) for row, phase in zip(rows, phases)]
        m = [
            [sum(run[t % len(run)][which][i] for run in runs) / 3 for i in (0, 1)]
            for t in range(whole)
        ]
        for j in (0, 1):
            if not always_sent([row[j] for row in m], [row[1 - j] for row in m]):
                raise ValueError(f"coordinate {j} might never be sent")
            for back in range(0, 3 * whole + 1):
                R = [Q(0), Q(0)]
                R[j] = sum((m[-1 - s % whole][j] for s in range(back)), Q(0))
                mean, gap = server_mean(m, R)
                means.add(mean)
                gaps.append(gap)
    return means, min(gaps)


def always_sent(own, other):
    """Return whether a coordinate that is held back is sent some time, whatever is held.

    What comes in adds up, or no R has |R + its sums| <= |the other's| in all rounds of a period.
    """
    if sum(own) != 0:
        return True
    total, low, high = Q(0), [], []
    for x, y in zip(own, other, strict=True):
        total += x
        low.append(-total - abs(y))
        high.append(-total + abs(y))
    return max(low) > min(high)


def server_mean(m, R):
    """The mean of D^G over the period that is reached from what the server holds, and the least gap
    in it."""
    seen, log, t = {}, [], 0
    while (state := (t % len(m), *R)) not in seen:
        seen[state] = len(log)
        D = plus(R, m[t % len(m)])
        log.append((D, abs(abs(D[0]) - abs(D[1]))))
        R = [Q(0), D[1]] if abs(D[0]) > abs(D[1]) else [D[0], Q(0)]
        t += 1
    found = log[seen[state] :]
    return tuple(sum(D[i] for D, _ in found) / len(found) for i in (0, 1)), min(
        gap for _, gap in found
    )
