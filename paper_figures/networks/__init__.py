"""Runs, pictures and words that the papers' figures and tables of trained networks share."""
