"""The core: statements, what judges them, the papers that bring them, and the witnesses that are left. It names none of them."""

from fedtheory.verification.check import CONFIDENCE, Check, judge, judge_statistical, judge_view, judge_worst
from fedtheory.verification.checks import Checks
from fedtheory.verification.closed import Letters, closed
from fedtheory.verification.joined import Joined
from fedtheory.verification.own_run import Bound, bound, check_run
from fedtheory.verification.proof import Proof, Step
from fedtheory.verification.record import OwnRun, Record
from fedtheory.verification.registry import Paper, all_statements, get, papers, register
from fedtheory.verification.setting import Case, ClosedView, DataInstance, Plan, Setting
from fedtheory.verification.statement import Form, Mutant, Sides, Statement, Worst, eq, form, le
from fedtheory.verification.verify import verify
from fedtheory.verification.walk import proofs_of, walk, walk_witness
from fedtheory.verification.walked import Walk

__all__ = [
    "CONFIDENCE", "Bound", "Case", "Check", "Checks", "ClosedView", "DataInstance", "Form", "Joined", "Letters", "Mutant",
    "OwnRun", "Paper", "Plan", "Proof", "Record", "Setting", "Sides", "Statement", "Step", "Walk", "Worst", "all_statements",
    "bound", "check_run", "closed", "eq", "form", "get", "judge", "judge_statistical", "judge_view", "judge_worst", "le",
    "papers", "proofs_of", "register", "verify", "walk", "walk_witness",
]  # fmt: skip
