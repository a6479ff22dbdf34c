"""EFL's figures and the finding on it."""
