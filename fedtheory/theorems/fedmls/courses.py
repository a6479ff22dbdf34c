"""A run of FedMLS as the proof of Theorem 1 looks at it: all of its rounds at once."""

from fedtheory.errors import InvalidInput
from fedtheory.theorems.fedmls.on_a_problem import UsersRuns
from fedtheory.theorems.fedmls.one_dimension import OneDimension
from fedtheory.theorems.fedmls.quantities import MLSView
from fedtheory.theory import Case, Witness
from fedtheory.theory.judge.proof import Course, Proof
from fedtheory.theory.judge.registry import get

WALKED = {"printed": "joint G", "repaired": "repaired"}  # the variant in which a form is walked


def _course(name: str, run: MLSView) -> Course:
    return Course(name, run.rule, run.K, (), lambda: run, run.exact)


def course(case: Case, proof: Proof) -> Course:
    """The run of a user's problem.

    Raises
    ------
    InvalidInput
        An assumption that fails, with value and limit.
    NotCertified
        No optimum on the ball that is certified.
    """
    run = UsersRuns(case, proof.theorem).for_form(get(proof.theorem).form(proof.form))
    if isinstance(run, str):
        raise InvalidInput(f"{proof.theorem} [{proof.form}] does not apply: {run}")
    c = run.constants
    size = f"N = {c.N}, d = {run.x.shape[1]}, K = {c.K}, lambda = {c.lam:.4g}"
    name = f"{case.problem.name}: {size}, {int(c.total_steps):,} local steps a client"
    return _course(name + ("" if run.exact else f", {run.x.shape[-1]} scenarios"), run)


def replayed(witness: Witness, proof: Proof) -> Course:
    """The run of a witness in fractions, in one dimension.

    Raises
    ------
    InvalidInput
        A witness of another reading, or with more local steps than fractions can carry.
    """
    variant = witness.data.get("variant")
    if variant not in WALKED.values():
        raise InvalidInput(
            f"{witness.name} is the reading {variant!r}: a proof is walked for 'printed' and for "
            "'repaired'"
        )
    data = {**witness.data, "variant": WALKED[proof.form]}
    run = OneDimension.of(data).in_fractions(whole=True)
    n = run.constants.N
    name = f"{n} client{'s' * (n > 1)}, d = 1, K = {run.K} (in fractions)"
    return _course(name, run)
