"""The statements of FedElasticNet that are said in the language of a one-file theorem."""

from fedtheory.theorems.fedelasticnet.merged_clients import MergedClients
from fedtheory.theory import Paper

__all__ = ["FILE"]

FILE = Paper(
    "fedelasticnet", "FedElasticNet", tested=True,
    worlds=(MergedClients,), about="the convergence theory of FedElasticNet (Appendix B)",
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
