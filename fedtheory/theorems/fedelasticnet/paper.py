"""The statements of FedElasticNet that are said in the language of a one-file theorem."""

from fedtheory.theorems.fedelasticnet.exact_identical_clients import StillRun
from fedtheory.theorems.fedelasticnet.exact_witness import as_draw, read_version_1
from fedtheory.theory import Paper, Witness

__all__ = ["FILE"]


def older(witness: Witness) -> Witness:
    """A witness in the fields of `DiagonalWitness` as statements in this language have it."""
    return as_draw(witness, FILE[witness.statement].over)


FILE = Paper(
    "fedelasticnet", "FedElasticNet", tested=True, older=older, version_1=read_version_1,
    worlds=(StillRun,), about="the convergence theory of FedElasticNet (Appendix B)",
    printed="on the printed algorithm (sign rule)",
    rules="the sign rule and the true-gradient rule",
    aliases={
        "fedelasticnet/eq-13": "fedelasticnet/theorem-3.1",
        "fedelasticnet/eq-18": "fedelasticnet/theorem-b1",
        "fedelasticnet/eq-30": "fedelasticnet/lemma-b4",
        "fedelasticnet/eq-31": "fedelasticnet/lemma-b4",
        "fedelasticnet/eq-22": "fedelasticnet/lemma-b2",
    },
    figures="paper_figures.fedelasticnet", witnesses="fedtheory.theorems.fedelasticnet",
    rule_order=("sign", "any", "true-gradient"), rule_short={"true-gradient": "true-gr."},
)
