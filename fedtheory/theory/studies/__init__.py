"""Search for counterexamples, shrink them, and find out how tight a statement is and what it
needs."""
