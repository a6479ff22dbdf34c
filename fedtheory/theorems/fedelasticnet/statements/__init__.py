"""FedElasticNet's statements, in the order of the paper: Appendix B and (11) to (17) first, then the rest of the main text and B.3."""

from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements import (
    algorithm_1,
    algorithm_1_bias,
    algorithm_2,
    algorithm_2_at_rest,
    concentration,
    dynamics,
    equations_11_to_17,
    equations_19_to_22,
    everybody,
    lemma_b5,
    lemmas_b3_b4,
    local_problem,
    messages,
    objective,
    regression,
    scaffold_steps,
    table_1,  # noqa: F401 - declares claims
    theorem_3_1,
    theorem_b6,
    theorem_c,
    theorem_d,
    theorem_e,
    threshold,
)
from fedtheory.theory import AuthoredStatement
from fedtheory.theory.judge.statement import Statement

__all__ = ["STATEMENTS"]


def said_in(*files):
    """Statements that these files declare, in order."""
    made = (value for file in files for value in vars(file).values())
    return [s.statement for s in made if isinstance(s, AuthoredStatement)]


STATEMENTS = (
    *equations_11_to_17.STATEMENTS,
    *equations_19_to_22.STATEMENTS,
    *lemmas_b3_b4.STATEMENTS,
    *lemma_b5.STATEMENTS,
    *theorem_b6.STATEMENTS,
    theorem_3_1.theorem_3_1.statement,
    theorem_3_1.theorem_b1.statement,
    theorem_3_1.eq_42.statement,
    theorem_3_1.theorem_a.statement,
    theorem_3_1.theorem_b.statement,
    theorem_c.theorem_c.statement,
    *theorem_e.STATEMENTS,
    *said_in(algorithm_1, algorithm_1_bias, dynamics, theorem_d),
    *theorem_d.STATEMENTS,
    *said_in(algorithm_2, algorithm_2_at_rest, threshold, regression, objective, local_problem),
    *said_in(scaffold_steps, everybody, concentration, messages),
    *(s for s in FILE.declared if isinstance(s, Statement)),  # the claims
)
