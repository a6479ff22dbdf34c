"""What a run of EFL makes measurable."""
