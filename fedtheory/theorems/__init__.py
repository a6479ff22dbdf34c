"""The papers' statements, executable. `get` one by its id and `.verify` it on a problem of yours.

Each paper has a room of its own, a folder with the same shape. This file is where the package's entry point finds them;
any other package brings a paper by the same door.
"""

from fedtheory.theorems.efl import PAPER as EFL
from fedtheory.theorems.elastic_aggregation import PAPER as ELASTIC_AGGREGATION
from fedtheory.theorems.fedelasticnet import PAPER as FEDELASTICNET
from fedtheory.theorems.fedmls import PAPER as FEDMLS
from fedtheory.verification.check import Check
from fedtheory.verification.registry import all_statements, get, register
from fedtheory.verification.statement import Form, Statement

PAPERS = (FEDELASTICNET, FEDMLS, EFL, ELASTIC_AGGREGATION)
for _paper in PAPERS:
    register(_paper)

__all__ = ["PAPERS", "Check", "Form", "Statement", "all_statements", "get"]
