"""The papers' statements, executable. `get` one by its id and `.verify` it on a problem of yours."""

from fedtheory.theorems import efl as _efl
from fedtheory.theorems import fedelasticnet as _fedelasticnet
from fedtheory.theorems.elastic_aggregation.statements import all_clients as _elastic_aggregation
from fedtheory.theorems.fedmls.statements import theorem_1_proof as _fedmls
from fedtheory.verification.statement import Check, Form, Statement, all_statements, get

_fedelasticnet.load()
_fedmls.load()
_efl.load()
_elastic_aggregation.load()

__all__ = ["Check", "Form", "Statement", "all_statements", "get"]
