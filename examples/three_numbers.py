"""Three clients hold one number each, here three yearly incomes in euros, and want their mean.

FedElasticNet, one client a round, starts at that mean: all that its Theorem 3.1 then has to bound
is how far the sampling of clients drives the model away. As printed the bound is too small for
(nearly) any three numbers whose largest and smallest are more than 3,000 apart: its constant C_0 is
a mean distance, and what is measured grows like a squared one. Write the same incomes in thousands
of euros, and the printed bound holds. Repaired, C_0 is a mean square, and the currency does not
matter.
"""

import numpy as np

from fedtheory import Uniform, problems, theorems
from fedtheory.algorithms import FedElasticNetDyn

numbers = np.array([31_000.0, 48_000.0, 120_000.0])  # put your own here

problem = problems.Quadratic(np.ones((3, 1, 1)), numbers[:, None])  # f_k(x) = (x - number_k)^2 / 2
method = FedElasticNetDyn(l1=0.1, l2=30.0)
theorem = theorems.get("fedelasticnet/theorem-3.1")
checks = theorem.verify(
    problem, method, sampling=Uniform(1), x0=[numbers.mean()], forms=["printed", "repaired"]
)
print(checks)
