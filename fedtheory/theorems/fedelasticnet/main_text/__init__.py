"""What the statements about the main text and B.3 are judged on: single local problems, rounds, laws of signs, and messages."""
