"""EFL's theory in pictures."""
