"""FedElasticNet, Appendix B: every numbered statement, as printed and as repaired.

Reading adopted throughout: what Algorithm 3 stores and the paper writes grad L_k(theta_k^{t-1}) is g_k (line 5); gradients at
theta_k^t and theta_tilde_k^t in (11), (23)-(39) are gradients of L_k, since (15) and (16) are applied to them. "As printed" takes
sign(0) = 0, expectations over everything random, and (1/m) sum_k where an index k is left free.
"""

from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.proofs import PROOFS
from fedtheory.theorems.fedelasticnet.statements import (
    STATEMENTS,
)  # before SETTING, which asks what FILE holds

from fedtheory.theorems.fedelasticnet.setting import SETTING  # isort: skip

__all__ = ["PAPER"]

FILE.proofs.extend(PROOFS)
PAPER = FILE.judged_by(SETTING, STATEMENTS)
