"""The core: statements, what judges them, the papers that bring them, and the witnesses that are
left. It names none of them."""

from fedtheory.theory.judge.check import (
    CONFIDENCE,
    Check,
    judge,
    judge_statistical,
    judge_view,
    judge_worst,
)
from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.own_run import Bound, bound, check_run
from fedtheory.theory.judge.proof import Proof, Step
from fedtheory.theory.judge.proof_report import Walk
from fedtheory.theory.judge.proof_trace import proofs_of, walk, walk_witness
from fedtheory.theory.judge.record import OwnRun, Record
from fedtheory.theory.judge.registry import all_statements, get, papers, register
from fedtheory.theory.judge.setting import About, Case, Joined, Plan, Setting
from fedtheory.theory.judge.statement import Form, Mutant, Sides, Statement, Worst, eq, le
from fedtheory.theory.judge.symbolic import Letters
from fedtheory.theory.judge.verify import verify
from fedtheory.theory.judge.view import ClosedView, DataInstance

__all__ = [
    "CONFIDENCE", "About", "Bound", "Case", "Check", "Checks", "ClosedView", "DataInstance", "Form",
    "Joined", "Letters", "Mutant", "OwnRun", "Plan", "Proof", "Record", "Setting", "Sides",
    "Statement", "Step", "Walk", "Worst", "all_statements", "bound", "check_run", "eq", "get",
    "judge", "judge_statistical", "judge_view", "judge_worst", "le", "papers", "proofs_of",
    "register", "verify", "walk", "walk_witness",
]  # fmt: skip
