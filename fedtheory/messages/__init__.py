"""What is sent over the wire, and how much of it."""

from fedtheory.messages.measures import entropy_bits, nonzeros

__all__ = ["entropy_bits", "nonzeros"]
