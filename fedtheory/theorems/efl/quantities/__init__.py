"""Measurable quantities of a run of EFL."""
