"""What the statements about the main text and B.3 are judged on: local problems, rounds, messages."""
