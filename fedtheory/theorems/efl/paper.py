"""EFL: the paper, whose statements of one file are judged with those of the room's own dialect."""

from fedtheory.theorems.efl.notation import SYMBOLS
from fedtheory.theory import Paper

__all__ = ["paper"]

paper = Paper("efl", "EFL", symbols=SYMBOLS)
