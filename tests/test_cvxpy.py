"""cvxpy comes without scipy.stats, and whatever takes that gets it."""

import subprocess
import sys
from textwrap import dedent

import pytest


def said(code: str, *paths: str) -> str:
    begin = "".join(f"import sys; sys.path.insert(0, {path!r})\n" for path in paths)
    return subprocess.run([sys.executable, "-c", begin + dedent(code)], capture_output=True, text=True, check=True).stdout.strip()


def test_an_optimum_and_a_worst_case_need_no_statistics():
    code = """
        import sys
        from fedtheory import worst_case
        from fedtheory.problems import generators
        problem = generators.random_quadratic(3, 2, seed=0)
        print(problem.optimum().solver, f"{float(worst_case('fedavg').bound):.4f}", "scipy.stats" in sys.modules)
    """
    assert said(code) == "cvxpy with Clarabel + Newton polish 0.1667 False"


def test_the_atom_that_takes_a_function_of_them_has_it_when_it_is_called():
    code = """
        import sys
        from fedtheory._cvxpy import cvxpy
        cp = cvxpy()
        import numpy as np
        one, other = np.diag([0.25, 0.75]), np.diag([0.5, 0.5])
        x, y = cp.Variable((2, 2), symmetric=True), cp.Variable((2, 2), symmetric=True)
        x.value, y.value = one, other
        value = cp.quantum_rel_entr(x, y).value
        from scipy import stats
        print(abs(value - stats.entropy([0.25, 0.75], [0.5, 0.5])) < 1e-12, stats.norm.cdf(0))
    """
    assert said(code) == "True 0.5"


@pytest.mark.parametrize(
    "takes",
    ["from scipy.stats import entropy, norm", "import scipy.stats.distributions\nfrom scipy.stats import entropy, norm",
     "from scipy import stats\nentropy, norm = stats.entropy, stats.norm"],
)  # fmt: skip
def test_a_cvxpy_that_takes_more_of_them_gets_that(tmp_path, takes):
    (tmp_path / "cvxpy.py").write_text(f"{takes}\n")
    code = """
        from fedtheory._cvxpy import cvxpy
        made = cvxpy()
        import scipy.stats as real
        print(made.norm is real.norm, made.entropy([1, 3]) == real.entropy([1, 3]), type(real).__name__)
    """
    assert said(code, str(tmp_path)) == "True True module"
