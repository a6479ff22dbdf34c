"""The discrete part of the instances that the search for violations tries."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EDGE_SHAPES", "Shape", "default_shapes"]


@dataclass(frozen=True)
class Shape:
    """The discrete part of an instance: m clients, P a round, dimension d, T rounds (run) or the cohorts before the round.

    With ``cohorts=None`` a statement about one round is tried from arbitrary states.
    """

    m: int
    P: int
    d: int
    T: int = 1
    cohorts: tuple[tuple[int, ...], ...] | None = ()
    starts: int = 1  # equally likely starts of a run
    same: bool = False  # the d coordinates are copies of one: what a missing factor d needs
    edge: bool = False  # lambda_1 is the slope of one client at the start; several kinds are nearly linear
    copies: tuple[int, ...] | None = None  # the m clients come in so many identical ones of each kind

    @property
    def rows(self) -> int:
        """Clients that differ."""
        return self.m if self.copies is None else len(self.copies)

    def __str__(self) -> str:
        state = "any state" if self.cohorts is None else f"after {[list(c) for c in self.cohorts]}" if self.cohorts else "start"
        if self.cohorts is not None and len(self.cohorts) > 4:
            state = f"after {len(self.cohorts)} rounds"
        state = state if self.starts == 1 else f"{self.starts} starts"
        kinds = f" ({'+'.join(map(str, self.copies))} identical)" if self.copies else ""
        edge = ", a client on the edge of moving" if self.edge else ""
        return f"m={self.m}{kinds} P={self.P} d={self.d}{' (copies)' if self.same else ''} T={self.T} {state}{edge}"


# Nearly linear losses with slopes on both sides of lambda_1 in a long run; one of many clients a round.
EDGE_SHAPES = (
    Shape(2, 2, 1, 80, edge=True),
    Shape(1000, 1, 1, 160, edge=True, copies=(1000,)),
    Shape(1000, 1, 1, 160, starts=2, edge=True, copies=(1000,)),
)
RUN_SHAPES = (
    Shape(1, 1, 1, 60),
    Shape(2, 1, 1, 6),
    Shape(2, 2, 1, 40),
    *EDGE_SHAPES,
    Shape(1, 1, 1, 60, starts=2),
    Shape(3, 3, 1, 12),
    Shape(3, 1, 1, 4),
    Shape(2, 1, 2, 4),
    Shape(3, 2, 1, 4),
    Shape(4, 1, 1, 3),
    Shape(1, 1, 2, 12),
)
LONG_RUN_SHAPES = (
    Shape(1, 1, 1, 12),
    Shape(1, 1, 1, 160),
    Shape(2, 1, 1, 5),
    Shape(2, 2, 1, 12),
    Shape(2, 2, 1, 120),
    Shape(2, 1, 1, 9),
    Shape(3, 3, 1, 60),
    Shape(3, 1, 1, 6),
    Shape(3, 2, 1, 6),
    Shape(1, 1, 1, 160, starts=2),
    *EDGE_SHAPES,
    Shape(7, 7, 1, 400, edge=True, copies=(1, 6)),
)
REACHED_SHAPES = (
    Shape(1, 1, 1),
    Shape(1, 1, 1, cohorts=((0,),)),
    Shape(1, 1, 1, cohorts=((0,), (0,))),
    Shape(2, 1, 1),
    Shape(2, 2, 1),
    Shape(2, 1, 1, cohorts=((0,),)),
    Shape(2, 2, 1, cohorts=((0, 1),)),
    Shape(2, 1, 1, cohorts=((0,), (1,))),
    Shape(3, 1, 1, cohorts=((0,), (1,))),
    Shape(2, 1, 1, cohorts=((0,), (1,), (0,))),
    Shape(2, 1, 2, cohorts=((0,), (1,))),
    Shape(1, 1, 7, cohorts=((0,),) * 28, same=True),
    Shape(1, 1, 6, cohorts=((0,),) * 59, same=True),
)
_FREE = ((1, 1, 1), (2, 1, 1), (2, 2, 1), (3, 1, 1), (3, 2, 1), (1, 1, 2), (2, 1, 2), (3, 2, 2), (2, 1, 3), (4, 2, 1))
FREE_SHAPES = (*(Shape(m, P, d, cohorts=None) for m, P, d in _FREE), Shape(1, 1, 7, cohorts=None, same=True))


def default_shapes(scope: str, hunt: bool) -> tuple[Shape, ...]:
    """Simplest first. When hunting for a witness, states of real runs come before arbitrary ones; to test that nothing is found,
    arbitrary states come first, since they include the others."""
    if scope == "run":
        return LONG_RUN_SHAPES if hunt else RUN_SHAPES
    return REACHED_SHAPES + FREE_SHAPES if hunt else FREE_SHAPES + REACHED_SHAPES[5:6]
