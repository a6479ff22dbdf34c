"""Stub."""
def compiled_form(problem): return None
