"""`fedtheory sweep`: a specification, its cells, their rows, the table and figure of them."""
