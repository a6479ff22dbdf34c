"""`fedtheory sweep`: a specification, its cells, their rows, and the table and figure made of them."""
