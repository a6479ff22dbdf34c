"""The instances of the main text and B.3: local problems, rounds, messages."""
