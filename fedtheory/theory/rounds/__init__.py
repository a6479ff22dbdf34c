"""Rounds and runs of a method on instances in fractions, and the quantities a statement is
given."""
