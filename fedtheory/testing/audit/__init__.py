"""The audit: is someone's implementation of a federated method that method, and if not, which line of it is wrong?

from fedtheory.testing import check_algorithm

def round(state, clients, cohort, learning_rate, local_steps, mu):
    ...

check_algorithm(round, "fedprox")
"""

from fedtheory.testing.audit.audit import audit_algorithm, check_algorithm, check_names
from fedtheory.testing.audit.clients import Client, Task
from fedtheory.testing.audit.finding import Finding
from fedtheory.testing.audit.methods import METHODS
from fedtheory.testing.audit.mistakes import MISTAKES, Mistake, mistakes_of
from fedtheory.testing.audit.ours import from_algorithm
from fedtheory.testing.audit.report import AuditReport

__all__ = [
    "METHODS", "MISTAKES", "AuditReport", "Client", "Finding", "Mistake", "Task", "audit_algorithm",
    "check_algorithm", "check_names", "from_algorithm", "mistakes_of",
]
