"""Worst cases of federated methods over all losses of a class, each with a proof that is checked in fractions."""

from fedtheory.worst_cases.bounds import WorstCase, worst_case
from fedtheory.worst_cases.certificates import Certificate, certificate, load, verify, write
from fedtheory.worst_cases.classes import Losses
from fedtheory.worst_cases.functions import WorstFunction, worst_function
from fedtheory.worst_cases.groups import Group
from fedtheory.worst_cases.quadratic_potentials import QuadraticPotential, quadratic_potential
from fedtheory.worst_cases.traced import Contraction

__all__ = [
    "Certificate", "Contraction", "Group", "Losses", "QuadraticPotential", "WorstCase", "WorstFunction",
    "certificate", "load", "quadratic_potential", "verify", "worst_case", "worst_function", "write",
]
