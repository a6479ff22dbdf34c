"""A certificate as a theorem that Coq's kernel checks."""
