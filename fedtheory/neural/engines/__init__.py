"""How the gradients of many models are computed at once."""

from fedtheory._moved import names_before

__getattr__ = names_before(__name__)
