"""EFL's statements on a problem of a user's: what each kind of view needs of it, and how it is made from it."""
