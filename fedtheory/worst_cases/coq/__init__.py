"""A certificate as a theorem that Coq's kernel checks: its text, the library that it needs, and the check."""
