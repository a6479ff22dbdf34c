"""The look of every figure, and the curves of one run."""
