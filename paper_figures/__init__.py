"""The papers' figures, experiments and findings, and every picture of our documents.

A folder a paper, with drawings in files named after the statements that they show, and in
`figures.py`, `on_request.py`, `headline.py` and `reviews.py` what the paper's `figures` leads to
(`fedtheory.theory.judge.registry.RegisteredPaper.shown`). `python -m paper_figures --help` draws
every figure and table by its name; `paper_figures.map` says which of the papers' own numbers each
one answers.
"""
