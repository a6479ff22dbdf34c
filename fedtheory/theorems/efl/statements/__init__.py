"""EFL's statements, in the order of the paper."""
