"""FedMLS and MOPES (gradient sliding): all statements."""

from fedtheory._moved import names_before

__getattr__ = names_before(__name__)
