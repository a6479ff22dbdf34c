"""Convex sets by the names that the command line has for them."""

from __future__ import annotations

import re

from fedtheory.central.sets import Ball, Box, Consensus, ConstraintSet, L1Ball, NuclearBall, Simplex
from fedtheory.errors import InvalidInput
from fedtheory.inputs import real_number

__all__ = ["SETS", "named_set", "shape_of"]


def named_set(name: str, problem_dim: int, size: float = 1.0, shape: tuple[int, int] | None = None, clients: int = 1) -> ConstraintSet:
    """A set by the name that the command line has for it.

    Parameters
    ----------
    name : key of `SETS`
    size : float > 0
        Radius, half the side, or sum.
    shape : (rows, columns) of the matrices of 'nuclear-ball'; rows * columns = problem_dim
    clients : blocks of 'consensus'

    Raises
    ------
    InvalidInput
        No such name; a size that is not > 0; a shape that is missing, not wanted, or of another size.
    """
    if name not in SETS:
        raise InvalidInput(f"set = {name!r}: use one of {', '.join(SETS)}")
    size = real_number("set_size", size, above=0)
    if (shape is not None) != (name == "nuclear-ball"):
        given = "is missing" if shape is None else f"= {shape[0]}x{shape[1]} is given"
        raise InvalidInput(f"set_shape {given}: rows and columns belong to 'nuclear-ball', and are needed there, as in 2x3")
    if shape is not None and shape[0] * shape[1] != problem_dim:
        raise InvalidInput(f"set_shape = {shape[0]}x{shape[1]} has {shape[0] * shape[1]} entries, and the problem d = {problem_dim}")
    if name == "box":
        return Box(problem_dim, -size, size)
    if shape is not None:  # of the nuclear ball
        return NuclearBall(shape[0], shape[1], size)
    if name == "consensus":
        return Consensus(clients, problem_dim, size)
    return {"ball": Ball, "simplex": Simplex, "l1-ball": L1Ball}[name](problem_dim, size)


def shape_of(text: str | None) -> tuple[int, int] | None:
    """(2, 3) of '2x3'; None of None. Raises `InvalidInput` on anything else."""
    if text is None:
        return None
    found = re.fullmatch(r"([1-9]\d*)x([1-9]\d*)", text)
    if found is None:
        raise InvalidInput(f"set_shape = {text!r}: write rows and columns, as in 2x3")
    return int(found[1]), int(found[2])


SETS = {
    "ball": "||x|| <= size", "box": "-size <= x_i <= size", "simplex": "x >= 0, sum x_i = size", "l1-ball": "||x||_1 <= size",
    "nuclear-ball": "matrices whose singular values add up to at most size",
    "consensus": "one vector of norm at most size at every client: FedMLS's set, in the product space",
}  # fmt: skip
