"""The papers' statements, executable. `get` one by its id and `.verify` it on a problem of yours.

Each paper has a room of its own, a folder with the same shape. This file is where the package's entry point finds them;
any other package brings a paper by the same door.
"""

import json
from pathlib import Path

from fedtheory.theorems.efl import PAPER as EFL
from fedtheory.theorems.elastic_aggregation import PAPER as ELASTIC_AGGREGATION
from fedtheory.theorems.fedelasticnet import PAPER as FEDELASTICNET
from fedtheory.theorems.fedmls import PAPER as FEDMLS
from fedtheory.theory.judge.check import Check
from fedtheory.theory.judge.registry import all_statements, get, register
from fedtheory.theory.judge.statement import Form, Statement

PAPERS = (FEDELASTICNET, FEDMLS, EFL, ELASTIC_AGGREGATION)
# What `Form.formula` makes with SymPy, whose import takes longer than what shows it
# (`make formulas`).
_MADE = json.loads(Path(__file__).with_name("formulas.json").read_text(encoding="utf-8"))
for _statement in (s for paper in PAPERS for s in register(paper).statements):
    for _form in _statement.forms:
        if (_name := f"{_statement.id} [{_form.name}]") in _MADE:
            vars(_form)["latex"] = _MADE[_name]

__all__ = ["PAPERS", "Check", "Form", "Statement", "all_statements", "get"]
