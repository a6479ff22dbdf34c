"""Every figure and table of the papers and of our documents, by its name: `python -m paper_figures
--help`.

A module of this folder with a `FIGURE`, or a tuple `FIGURES`, of `fedtheory.plotting.figure.Figure`
is found by itself, and so are the figures and experiments of every registered paper.
`paper_figures.map` says which of the papers' own numbers each one answers.
"""
