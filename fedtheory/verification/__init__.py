"""Statements, what judges them, and where they are looked up."""

from fedtheory.verification.verify import (
    CONFIDENCE,
    Checks,
    assumption_failure,
    check_view,
    judge_statistical,
    reachable_states,
    verify,
)

__all__ = ["CONFIDENCE", "Checks", "assumption_failure", "check_view", "judge_statistical", "reachable_states", "verify"]
