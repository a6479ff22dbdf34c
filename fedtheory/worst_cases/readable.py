"""A certificate to be read: its inequalities with their multipliers, and the squares, in LaTeX, and
as a script that checks itself with SymPy alone.

The script holds the vectors' names, where each gradient was taken, the multipliers and the squares;
it writes the conditions of the class down by itself, and knows nothing of this package.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.provenance import write_atomic
from fedtheory.worst_cases.bounds import asked_points, assumed
from fedtheory.worst_cases.bounds import family as family_of
from fedtheory.worst_cases.certificates import (
    QUADRATIC,
    Certificate,
    asked_question,
    in_words,
    quadratic_question,
)
from fedtheory.worst_cases.classes import Losses, Point
from fedtheory.worst_cases.criteria import CRITERIA, name_of
from fedtheory.worst_cases.gram import DEVIATION, MEAN, Quadratic, Vector
from fedtheory.worst_cases.groups import Group, Groups
from fedtheory.worst_cases.identity import Factors, Family
from fedtheory.worst_cases.programme import Solution, maximise
from fedtheory.worst_cases.quadratic_potentials import SIZE
from fedtheory.worst_cases.runs import STATE, X_STAR

__all__ = ["Readable", "fewest", "inequalities", "latex", "of_certificate", "script", "write_proof"]

BY_SHARES = (
    " $F$ is the mean of the losses with the groups' shares; with these the means of the "
    "gradients at $x^*$ add up to 0."
)
COMMON = ("x0", X_STAR)  # what all clients have alike, without a gradient
RELATIVE = "Positions are relative to $x^*$."
MEANS = (
    r"$\overline{v}$ is the mean of $v$ over the clients, $\widetilde v=v-\overline v$, "
    "and a product of vectors of the clients is the mean of their products."
)
TIMES_S = (
    "Below all of this is multiplied by a number s > 0. The multipliers called V are the "
    "coefficients of s V, and the squares of letters without a bar or a tilde add up to s (V "
    "- ||x - x*||^2){}"
)
LESS = ", less the inequalities called N, which are between losses, with their multipliers"
# by what share the number that is sought may be worse with fewer inequalities
LOOSER = Fraction(1, 10**6)


@dataclass(frozen=True)
class Readable:
    """A proof of one inequality.

    Attributes
    ----------
    title, claim : what is proved of what, in words
    losses : the class, or groups of clients with one each
    points : where losses are asked, the optimum first
    family : the identity: its start plus multipliers times terms is a sum of squares
    multipliers, factors : of the proof
    one : there is one client, or each has vectors of its own: nothing deviates from the mean
    """

    title: str
    claim: str
    losses: Losses
    points: Sequence[Point[Vector]]
    family: Family
    multipliers: Mapping[str, Fraction]
    factors: Mapping[str, Factors]
    one: bool = False

    @property
    def conditions(self) -> dict[str, tuple[Point[Vector], Point[Vector]]]:
        """The conditions between two points that have a multiplier, by name."""
        named = {p.name: p for p in self.points}
        pairs = {f"{i}, {j}": (named[i], named[j]) for i in named for j in named if i != j}
        return {name: pairs[name] for name in self.multipliers if name in pairs}

    @property
    def alone(self) -> dict[str, Quadratic]:
        """The conditions at one point that have a multiplier, by name: of F above its least
        value, and of gradients below G."""
        named = {name for p in self.points for name in (f"F({p.name})", f"|{p.name}|")}
        return {name: -self.family.terms[name] for name in self.multipliers if name in named}

    @property
    def others(self) -> dict[str, Fraction]:
        """The other multipliers, by name."""
        shown = self.conditions.keys() | self.alone.keys()
        return {name: x for name, x in self.multipliers.items() if name not in shown}


def inequalities(family: Family, multipliers: Collection[str]) -> list[str]:
    """The inequalities of a proof: what has a multiplier that must not be negative, by name."""
    return [name for name in multipliers if name not in family.signed]


def fewest(family: Family, goal: str, solution: Solution) -> Solution:
    """A proof of nearly the same number by as few inequalities as can be found, one after the other
    left out.

    The smallest multipliers are tried first; the number may be worse by the share `LOOSER`.
    """
    found, left = solution, dict(family.terms)
    least = solution.best - float(LOOSER) * abs(solution.best)
    order = sorted(solution.numbers, key=lambda name: abs(solution.numbers[name]))
    kept = {name: term for name, term in left.items() if name in solution.numbers or name == goal}
    for name in [None, *order]:
        if name == goal:
            continue
        fewer = kept if name is None else {n: term for n, term in kept.items() if n != name}
        with suppress(NotCertified):
            tried = maximise(replace(family, terms=fewer, signed=family.signed & set(fewer)), goal)
            if tried.best >= least:
                found, kept = tried, fewer
    return found


# --- LaTeX ----------------------------------------------------------------------------------------
def latex(proof: Readable) -> str:
    """The proof as a LaTeX article."""
    names = _symbols(proof)
    kept = {n for block, of in proof.family.names.items() if block != MEAN for n in of}
    apart = set() if proof.one else {n for p in proof.points for n in p.gradient.deviation} | kept
    groups, weighed = (
        (", those of its group if there are several", BY_SHARES) if _groups(proof) else ("", "")
    )
    lines = [
        r"\documentclass{article}", r"\usepackage[T1]{fontenc}", r"\usepackage{amsmath,amssymb}",
        r"\begin{document}", rf"\section*{{{_escaped(proof.title)}}}", _escaped(proof.claim), "",
        *([] if X_STAR in names else [RELATIVE]),
        *([] if proof.one else [MEANS.replace("the clients,", f"the clients{groups},")]),
        r"Decimals are rounded: the certificate has the fractions." + weighed,
        r"Losses are asked at", r"\begin{align*}",
        " \\\\\n".join(
            rf"x_{{{names[p.name]}}} &= {_vector(p.at, names, apart)}" for p in proof.points
        ),
        r"\end{align*}",
        rf"The conditions of the class{'es' * bool(groups)}, {_classes(proof)}, with "
        "their multipliers:",
        r"\begin{align*}",
        " \\\\\n".join(
            rf"{_number(proof.multipliers[name])}:\quad & "
            rf"{_condition(i, j, proof.losses.of(i), names)}"
            for name, (i, j) in proof.conditions.items()
        ) or "&",
        r"\end{align*}",
    ]  # fmt: skip
    if proof.alone:
        known = ("F(", "$F^*$ is the least value of $F$"), ("|", "gradients are bounded")
        told = " and ".join(
            words for kind, words in known if any(name.startswith(kind) for name in proof.alone)
        )
        lines += [
            f"At one point, as {told}:",
            r"\begin{align*}",
            " \\\\\n".join(
                rf"{_number(proof.multipliers[name])}:\quad & {_form(q, names)} \ge 0"
                for name, q in proof.alone.items()
            ),
            r"\end{align*}",
        ]
    if proof.others:
        told = "; ".join(f"{_escaped(name)}: ${_number(x)}$" for name, x in proof.others.items())
        lines += [rf"Other multipliers: {told}."]
    lines += [
        r"The identity that these multipliers are put into begins with", r"\[",
        _form(proof.family.start, names), r"\]", r"and leaves the sum of squares",
        r"\begin{align*}", _squares(proof.factors, names) or "0", r"\end{align*}",
        r"\end{document}", "",
    ]  # fmt: skip
    found = "\n".join(lines)
    own = r"\\overline\{(g_\{[^}]*\}|\\mathit\{[^}]*\})\}"  # of one client the mean is itself
    return re.sub(own, r"\1", found) if proof.one else found


def _symbols(proof: Readable) -> dict[str, str]:
    """Subscripts of points and vectors."""
    every = {p.name for p in proof.points} | {n for of in proof.family.names.values() for n in of}
    every |= {X_STAR for p in proof.points if X_STAR in p.at.mean}
    gradients = {
        n for p in proof.points for of in (p.gradient.mean, p.gradient.deviation) for n in of
    }
    kept = {
        n: STATE + n for n in every - gradients - {p.name for p in proof.points}
        if not n.startswith(STATE)
    }
    return (
        kept | {
            name: re.sub(r"[^A-Za-z0-9*,.+()-]", "", str(name).replace("g*", "*"))
            for name in every - set(kept)
        }
    )


def _groups(proof: Readable) -> list[Group]:
    """The groups of clients; none where all have one class."""
    return list(proof.losses.groups) if isinstance(proof.losses, Groups) else []


def _classes(proof: Readable) -> str:
    of = [
        f"of group {i} (a share of {g.share}) ${_class(g.losses)}$"
        for i, g in enumerate(_groups(proof), 1)
    ]
    return ", ".join(of) or f"${_class(proof.losses)}$"


def _escaped(text: str) -> str:
    return re.sub(r"([&%$#_{}])", r"\\\1", text.replace("\\", " ")).replace("^", r"\^{}")


def _number(x: Fraction) -> str:
    if x.denominator == 1:
        return str(x.numerator)
    if len(str(x)) > 14:
        return f"{float(x):.9g}"
    return ("-" if x < 0 else "") + rf"\tfrac{{{abs(x.numerator)}}}{{{x.denominator}}}"


def _sum(parts: Sequence[tuple[Fraction, str]]) -> str:
    out = ""
    for c, what in parts:
        size = "" if abs(c) == 1 and what else _number(abs(c))
        out += (" - " if c < 0 else " + " if out else "") + size + what
    return out.strip() or "0"


def _letter(name: str, names: Mapping[str, str]) -> str:
    if name in COMMON:
        return "(x_0-x_*)" if name == "x0" and X_STAR in names else f"x_{name[1]}"
    if (name := names[name] if names.get(name, "").startswith(STATE) else name).startswith(STATE):
        return rf"\mathit{{{_escaped(name.removeprefix(STATE))}}}"
    return rf"g_{{{names.get(name, name)}}}"


def _vector(v: Vector, names: Mapping[str, str], apart: Collection[str]) -> str:
    """A vector; ``apart``: names of those of which every client has its own."""
    whole = [n for n, c in v.mean.items() if v.deviation.get(n) == c]
    parts = [(v.mean[n], _letter(n, names)) for n in whole]
    means = {n: c for n, c in v.mean.items() if n not in whole}
    parts += [
        (c, rf"\overline{{{_letter(n, names)}}}" if n in apart else _letter(n, names))
        for n, c in means.items()
    ]
    parts += [
        (c, rf"\widetilde{{{_letter(n, names)}}}") for n, c in v.deviation.items() if n not in whole
    ]
    return _sum(parts)


def _class(losses: Losses) -> str:
    parts = [rf"L={_number(losses.smoothness)}"] if losses.smoothness is not None else []
    parts += [rf"\mu={_number(losses.strong_convexity)}"] if losses.strong_convexity else []
    return (
        ",\\ ".join(
            parts + ([rf"G={_number(losses.lipschitz)}"] if losses.lipschitz is not None else [])
        ) or "convex"
    )


def _condition(i: Point[Vector], j: Point[Vector], losses: Losses, names: Mapping[str, str]) -> str:
    a, b = names[i.name], names[j.name]
    base = rf"f_{{{a}}} \ge f_{{{b}}} + \langle g_{{{b}}}, x_{{{a}}}-x_{{{b}}}\rangle"
    if losses.smoothness is None:
        return base
    L, mu = losses.smoothness, losses.strong_convexity
    half = _number(Fraction(1, 2) / L)
    if mu == 0:
        return base + rf" + {half}\|g_{{{a}}}-g_{{{b}}}\|^2"
    share = 1 / (2 * (1 - mu / L))
    return base + (
        rf" + {_number(share / L)}\|g_{{{a}}}-g_{{{b}}}\|^2 + "
        rf"{_number(share * mu)}\|x_{{{a}}}-x_{{{b}}}\|^2"
        rf" - {_number(2 * share * mu / L)}\langle g_{{{a}}}-g_{{{b}}}, x_{{{a}}}-x_{{{b}}}\rangle"
    )


def _of_block(block: str, name: str, names: Mapping[str, str]) -> str:
    if block == SIZE[0]:
        return "1"
    letter = _letter(name, names)
    if block == MEAN:
        return letter if name in COMMON else rf"\overline{{{letter}}}"
    return rf"\widetilde{{{letter}}}" if block.startswith(DEVIATION) else letter


def _form(q: Quadratic, names: Mapping[str, str]) -> str:
    parts = [(c, rf"f_{{{names.get(p, p)}}}") for p, c in q.values.items()]
    for (block, x, y), c in q.gram.items():
        a, b = _of_block(block, x, names), _of_block(block, y, names)
        parts.append((c, rf"\|{a}\|^2" if x == y else rf"\langle {a},{b}\rangle"))
    return _sum([*parts, *([(Fraction(q.constant), "")] if q.constant else [])])


def _squares(factors: Mapping[str, Factors], names: Mapping[str, str]) -> str:
    parts = []
    for block, of in factors.items():
        for i, d in enumerate(of.diagonal):
            if d:
                column = [
                    (row[i], _of_block(block, name, names))
                    for name, row in zip(of.names, of.lower, strict=True) if row[i]
                ]
                parts.append((d, rf"\big\|{_sum(column)}\big\|^2"))
    return " \\\\\n".join("&{}+" + _sum([part]) for part in parts)


# --- a script -------------------------------------------------------------------------------------
PRODUCTS = """ <a, b> of vectors of the clients is the mean over the clients of <a_k, b_k>, which is the
product of their means plus the mean product of their deviations."""
HEAD = '''"""{title}

{claim}

Checks itself with SymPy alone: every condition that is used is written down here, from where each
gradient was taken; multipliers of conditions must be at least 0, and what is left must be the sum of squares.
Inner products are symbols.{means}
"""

from sympy import Rational as R, Symbol, expand

MEAN, DEVIATION = "mean", "deviation"  # nothing deviates where there is one client
'''
BODY = '''

def product(block, x, y):
    """The symbol of an inner product."""
    return Symbol(f"{block} <{min(x, y)}, {max(x, y)}>")


def inner(a, b):
    """Of two vectors, given by their coefficients in the means and in the deviations."""
    return sum(
        p * q * product(block, x, y) for block in BLOCKS for x, p in a.get(block, {}).items() for y, q in b.get(block, {}).items()
    )


def minus(a, b):
    """The difference of two vectors."""
    out = {block: dict(of) for block, of in a.items()}
    for block, of in b.items():
        for name, q in of.items():
            out.setdefault(block, {})[name] = out.get(block, {}).get(name, 0) - q
    return out


def value(point):
    """The loss at a point; of all clients together, or of a group, the mean of theirs."""
    return Symbol(f"f({point})")


def condition(i, j):
    """A form that is at least 0 for every loss of the class."""
    (x, g, group), (y, h, same) = POINTS[i], POINTS[j]
    assert group == same, "a condition is one between points of one group"
    apart, turned, (L, MU) = minus(x, y), minus(g, h), CLASSES[group]
    out = value(i) - value(j) - inner(h, apart)
    if L is None:
        return out - MU / 2 * inner(apart, apart)
    share = 1 / (2 * (1 - MU / L))
    return out - share / L * inner(turned, turned) - share * MU * inner(apart, apart) + 2 * share * MU / L * inner(turned, apart)


left = START - sum(m * condition(i, j) for (i, j), m in MULTIPLIERS.items())
left += sum(m * term for m, term, _ in OTHERS.values()) - sum(m * form for m, form in ALONE.values())
squares = sum(d * sum(a * b * product(block, x, y) for x, a in v.items() for y, b in v.items()) for block, d, v in SQUARES)
inequalities = [*MULTIPLIERS.values(), *(m for m, _ in ALONE.values())]
inequalities += [m for m, _, free in OTHERS.values() if not free]
assert all(m >= 0 for m in inequalities), "a multiplier is negative"
assert all(d >= 0 for _, d, _ in SQUARES), "a square is taken away"
assert expand(left - squares) == 0, "the identity does not hold"
print("The identity holds. Inequalities:", len(inequalities), "squares:", len(SQUARES))
'''


def script(proof: Readable) -> str:
    """The proof as a script."""
    losses = proof.losses
    means = "" if proof.one else PRODUCTS
    lines = [HEAD.format(title=_quoted(proof.title), claim=_quoted(proof.claim), means=means)]
    blocks = sorted({_block(p.gradient.block) for p in proof.points})
    lines.append(f"BLOCKS = (MEAN,{'' if proof.one else ' ' + ', '.join(blocks)})")
    classes = [g.losses for g in _groups(proof)] or [losses]
    told = [f"({_rational(of.smoothness)}, {_rational(of.strong_convexity)})" for of in classes]
    lines.append(f"CLASSES = [{', '.join(told)}]  # L and mu of each group of clients")
    lines.append(
        "POINTS = {  # where each loss was asked, relative to the optimum, its gradient "
        "there, and the group"
    )
    lines.append("    # the clients' gradients at the optimum add up to 0, with their weights")
    lines += [
        f"    {p.name!r}: ({_table(p.at)}, {_table(p.gradient)}, {p.group})," for p in proof.points
    ]
    lines.append("}")
    body = BODY
    at = body.index("\n\nleft =")
    lines.append(body[:at])
    lines.append("\n\nSTART = " + _expression(proof.family.start))
    lines.append("MULTIPLIERS = {")
    lines += [
        f"    ({i.name!r}, {j.name!r}): {_rational(proof.multipliers[n])},"
        for n, (i, j) in proof.conditions.items()
    ]
    lines.append(
        "}\nALONE = {  # at one point: F is at least F*, or a gradient is bounded; "
        "what is at least 0"
    )
    lines += [
        f"    {name!r}: ({_rational(proof.multipliers[name])}, {_expression(q)}),"
        for name, q in proof.alone.items()
    ]
    lines.append(
        "}\nOTHERS = {  # multiplier, what it stands before, and whether it may be negative"
    )
    lines += [
        f"    {name!r}: ({_rational(x)}, {_expression(proof.family.terms[name])}, "
        f"{name in proof.family.signed}),"
        for name, x in proof.others.items()
    ]
    lines.append("}\nSQUARES = [")
    for block, of in proof.factors.items():
        for i, d in enumerate(of.diagonal):
            if d:
                row = ", ".join(
                    f"{n!r}: {_rational(r[i])}" for n, r in zip(of.names, of.lower, strict=True)
                    if r[i]
                )
                lines.append(f"    ({block!r}, {_rational(d)}, {{{row}}}),")
    lines.append("]")
    return "\n".join(lines) + body[at:]


def _quoted(text: str) -> str:
    return text.replace("\\", " ").replace('"""', "'''")


def _block(block: str) -> str:
    return "DEVIATION" if block == DEVIATION else repr(block)


def _rational(x: Any) -> str:
    if x is None:
        return "None"
    x = Fraction(x)
    return f"R({x.numerator}, {x.denominator})"


def _table(v: Vector) -> str:
    blocks = (("MEAN", v.mean), (_block(v.block), v.deviation))
    return (
        "{" + ", ".join(
            f"{b}: {{{', '.join(f'{n!r}: {_rational(c)}' for n, c in of.items())}}}"
            for b, of in blocks
        ) + "}"
    )


def _expression(q: Quadratic) -> str:
    parts = [f"{_rational(c)} * value({p!r})" for p, c in q.values.items()]
    parts += [f"{_rational(c)} * product({b!r}, {x!r}, {y!r})" for (b, x, y), c in q.gram.items()]
    return " + ".join([*parts, *([_rational(q.constant)] if q.constant else [])]) or "R(0, 1)"


WRITERS: Mapping[str, Callable[[Readable], str]] = {".tex": latex, ".py": script}


def of_certificate(found: Certificate, method: Any = None, criterion: Any = None) -> Readable:
    """The proof that a certificate of a worst case, or of a quadratic potential, is.

    Parameters
    ----------
    method, criterion : the class and the function, where they are none of the package's

    Raises
    ------
    InvalidInput
        A certificate of another kind.
    MissingCapability
        Cohorts over several rounds, whose vectors are those of every client and history.
    """
    claim = ", ".join(f"{name} = {x}" for name, x in found.claim.items())
    told = in_words({
        n: v for n, v in found.question.items() if n not in ("kind", "method", "source")
    })
    name = str(found.question.get("source", found.question.get("method"))).partition(", sha256")[0]
    if found.question.get("kind") == QUADRATIC:
        of = quadratic_question(found.question, method)
        system, family = (
            of.system(found.question["values"] is True),
            of.family(found.claim["rho"], found.question["values"] is True)
        )
        points, losses, one = list(system.run.points.values()), of.losses, of.clients == 1
        V, vectors = system.written(found.multipliers)
        title, noise = f"A quadratic potential of {name}", " + c zeta^2" * (not system.fixed)
        zeta = " and zeta^2 = mean ||grad f_k(x*)||^2" * (not system.fixed)
        claim = (
            f"E V+ <= rho V{noise} from every state and V >= ||x - x*||^2, with {claim}{zeta}, for "
            f"V = {V}. {vectors}. "
        )
        claim += TIMES_S.format(LESS * any(n.startswith("N ") for n in found.multipliers))
    elif found.question.get("kind") == "worst-case":
        q = asked_question(found.question, method, criterion)
        if q.tree:
            raise MissingCapability(
                "the proof of cohorts over several rounds is too large to be read; take all "
                "clients, or one round"
            )
        points, family, losses, one = asked_points(q), family_of(q), q.losses, q.clients == 1
        title = f"A worst case of {name}"
        claim = (
            f"{CRITERIA.get(name_of(q.criterion), name_of(q.criterion))} is at most {claim} after "
            f"T = {q.rounds} rounds, where "
        )
        claim += f"||x_0 - x*|| <= {q.distance}"
        claim += "" if q.heterogeneity is None else f" and the mean of ||grad f_k(x*)||^2 is at most {q.heterogeneity}^2"
        claim += "".join(f" and {told}" for told in assumed(q).values())
    else:
        raise InvalidInput(
            "a proof to read is made of worst cases, quadratic potentials and statements"
        )
    return Readable(
        title, f"Proved: {claim}. In numbers: {told}.", losses, points, family, found.multipliers,
        found.factors, one
    )


def write_proof(path: Path, proof: Readable) -> Path:
    """Write a proof as NAME.tex or NAME.py.

    Raises
    ------
    InvalidInput
        Another ending.
    """
    if path.suffix not in WRITERS:
        raise InvalidInput(
            f"{path}: write the proof as NAME.tex, in LaTeX, or NAME.py, a script "
            "that checks itself"
        )
    return write_atomic(path, WRITERS[path.suffix](proof))
