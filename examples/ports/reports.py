"""The ports with where they were reported: what docs/audit.md tells, and what the audit is expected to name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from examples.ports import adaptive, fedavg, feddyn, fedprox, in_torch, scaffold

__all__ = ["FALSE_ALARMS", "READ", "REPORTS", "Report"]


@dataclass(frozen=True)
class Report:
    """One public report.

    Attributes
    ----------
    port : what `fedtheory.testing.check_algorithm` takes
    method : what it is held to
    did : what the code did, in a line of Markdown
    mistakes : names that the audit has to give, both where two lines are wrong
    status : what became of it, as read in November 2026
    """

    port: Callable[..., Any]
    method: str
    repository: str
    number: str
    url: str
    did: str
    mistakes: tuple[str, ...]
    status: str


REPORTS = (
    Report(
        fedavg.fedlab_305, "fedavg", "SMILELab-FL/FedLab", "#305", "https://github.com/SMILELab-FL/FedLab/issues/305",
        "x = (1/P) ∑ y, whatever the sizes: the weighting method is never called", ("other-weights",),
        "fixed on the main branch (June 2023); release 1.3.0 is from before",
    ),
    Report(
        fedavg.pytorch_27, "fedavg", "AshwinRJ/Federated-Learning-PyTorch", "#27",
        "https://github.com/AshwinRJ/Federated-Learning-PyTorch/issues/27",
        "plain mean of the clients' state dicts, also for the unequal split", ("other-weights",), "open",
    ),
    Report(
        fedavg.flame_95, "fedavg", "cisco-open/flame", "PR #95", "https://github.com/cisco-open/flame/pull/95",
        "the sum is not begun anew: x ← x + ∑ p_k y_k", ("model-added",), "fixed (April 2022)",
    ),
    Report(
        in_torch.fedlab_280, "fedprox", "SMILELab-FL/FedLab", "#280", "https://github.com/SMILELab-FL/FedLab/issues/280",
        "`loss = f + penalty`, then `loss = f` (in `FedProxClientTrainer`; the serial trainer, which simulations use, was right)",
        ("penalty-none",), "fixed in 1.3.0 (October 2022)",
    ),
    Report(
        in_torch.fl_bench_165, "fedprox", "KarhouTam/FL-bench", "#165", "https://github.com/KarhouTam/FL-bench/issues/165",
        "`list(model.parameters())` holds the live tensors: the gradient is μ(w − w)", ("penalty-none",), "fixed (March 2025)",
    ),
    Report(
        in_torch.flower_1654, "fedprox", "adap/flower", "baselines, PR #1654", "https://github.com/adap/flower/pull/1654",
        "the received parameters are a generator, which the first batch uses up", ("penalty-none",), "fixed (February 2023)",
    ),
    Report(
        in_torch.openfl_823, "fedprox", "securefederatedai/openfl", "tutorial, #823",
        "https://github.com/securefederatedai/openfl/issues/823",
        "the optimiser is right, and is handed the live tensors as the old weights: μ(w − w)", ("penalty-none",),
        "a pull request (#1634, May 2025) exists; whether it was merged we did not see",
    ),
    Report(
        fedprox.flower_2210, "fedprox", "adap/flower", "baselines, PR #2210", "https://github.com/adap/flower/pull/2210",
        "(μ/2) ‖w − w⁰‖, not squared", ("penalty-norm",), "fixed (September 2023)",
    ),
    Report(
        fedprox.feddyn_1, "fedprox", "alpemreacar/FedDyn", "FedProx, #1", "https://github.com/alpemreacar/FedDyn/issues/1",
        "`=` for `+=`: of the penalty −μ⟨w, x⟩ is left", ("penalty-overwritten",),
        "fixed (January 2022); the author says that it came in when the code was cleaned, and that the paper's runs were right",
    ),
    Report(
        scaffold.plato_382, "scaffold", "TL-System/plato", "#382", "https://github.com/TL-System/plato/issues/382",
        "c ← c + (1/N) ∑ c_k⁺: the whole control variate is sent, not its change", ("control-sent-whole",),
        "a pull request (#386, October 2025) answers it",
    ),
    Report(
        scaffold.plato_386, "scaffold", "TL-System/plato", "PR #386", "https://github.com/TL-System/plato/pull/386",
        "the same, and c_k⁺ = c_k − c + (x − y)/E with E epochs", ("control-sent-whole", "learning-rate-not-divided"),
        "this is what the pull request replaces",
    ),
    Report(
        scaffold.pfllib_160, "scaffold", "TsingZ0/PFLlib", "#160", "https://github.com/TsingZ0/PFLlib/issues/160",
        "divisor B η, where K = B E: the epochs E are left out", ("local-steps-not-divided",), "fixed (January 2024)",
    ),
    Report(
        scaffold.ki_ljl_1, "scaffold", "ki-ljl/Scaffold-Federated-Learning", "#1",
        "https://github.com/ki-ljl/Scaffold-Federated-Learning/issues/1",
        "divisor E η, where K = B E: the batches B are left out", ("local-steps-not-divided",), "fixed (May 2022)",
    ),
    Report(
        scaffold.fl4health_64, "scaffold", "VectorInstitute/FL4Health", "PR #64", "https://github.com/VectorInstitute/FL4Health/pull/64",
        "K = examples × epochs, where it is batches × epochs", ("control-over-examples",), "found in review (October 2023)",
    ),
    Report(
        scaffold.fedbiomed_734, "scaffold", "fedbiomed/fedbiomed", "#734", "https://github.com/fedbiomed/fedbiomed/issues/734",
        "y ← y − η (g + c_k − c)", ("correction-sign",), "fixed by the developers, whose change this is (4.3, March 2023)",
    ),
    Report(
        scaffold.niid_bench_8, "scaffold", "Xtra-Computing/NIID-Bench", "#8", "https://github.com/Xtra-Computing/NIID-Bench/issues/8",
        "c and all c_k begin as the weights of one fresh network", ("controls-begin-elsewhere",),
        "not fixed in the newest version that we read (December 2023)",
    ),
    Report(
        scaffold.niid_bench_12, "scaffold", "Xtra-Computing/NIID-Bench", "#12", "https://github.com/Xtra-Computing/NIID-Bench/issues/12",
        "c ← c + (1/P) ∑ (c_k⁺ − c_k), P the cohort's size", ("control-over-cohort",), "fixed (August 2022)",
    ),
    Report(
        scaffold.scaffold_pytorch_1, "scaffold", "KarhouTam/SCAFFOLD-PyTorch", "#1",
        "https://github.com/KarhouTam/SCAFFOLD-PyTorch/issues/1",
        "c_k is replaced before c_k⁺ − c_k is worked out, which is 0: c stays 0", ("c-never-updated",), "fixed (May 2022)",
    ),
    Report(
        feddyn.fedlab_319, "feddyn", "SMILELab-FL/FedLab", "#319", "https://github.com/SMILELab-FL/FedLab/issues/319",
        "h ← h − (α/N) (∑ y − x), for ∑ (y − x)", ("h-of-models",),
        "fixed on the main branch (July 2023); release 1.3.0 is from before",
    ),
    Report(
        adaptive.flower_893, "fedadam", "adap/flower", "PR #893", "https://github.com/adap/flower/pull/893",
        "v ← β₂ v + (1 − β₂) m², for Δ²; the step itself was right", ("square-of-momentum",),
        "fixed by #895 in 0.18.0 (December 2021)",
    ),
    Report(
        adaptive.flower_885, "fedyogi", "adap/flower", "PR #885", "https://github.com/adap/flower/pull/885",
        "v ← v + (1 − β₂) Δ² sign(v − Δ²): v is negative, √v is NaN", ("yogi-sign",), "fixed in 0.18.0 (October 2021)",
    ),
    Report(
        adaptive.fedmllm_4, "fedadam", "1xbq1/FedMLLM", "#4", "https://github.com/1xbq1/FedMLLM/issues/4",
        "v ← β₂ v + (1 − β₂) m², and m = Δ in the first round", ("momentum-first", "square-of-momentum"),
        "the author calls it a variant (March 2026); v begins at τ² there, as Reddi et al. print, and at 0 in the port",
    ),
)  # fmt: skip

READ = (  # in the code itself; we know of no report
    Report(
        in_torch.fedlab, "feddyn", "SMILELab-FL/FedLab", "1.3.0", "https://github.com/SMILELab-FL/FedLab",
        "the penalty is made of a copy by `.data`, which has no gradient; h as in #319", ("local-plain", "h-of-models"),
        "the first line also on the main branch",
    ),
    Report(
        scaffold.pfl_research, "scaffold", "apple/pfl-research", "0.6.0", "https://github.com/apple/pfl-research",
        "c_k⁺ = c_k − c + (y − x)/(K η)", ("control-update-sign",), "so since the first public version",
    ),
    Report(
        scaffold.plato_after_386, "scaffold", "TL-System/plato", "after PR #386", "https://github.com/TL-System/plato/pull/386",
        "y ← y − η g + η (c − c_k) and c_k⁺ = c + (x − y)/(K η)", ("correction-sign", "control-with-c"),
        "as the pull request was merged; later versions may differ",
    ),
    Report(
        feddyn.pfllib, "feddyn", "TsingZ0/PFLlib", "November 2025", "https://github.com/TsingZ0/PFLlib",
        "(α/2) ‖y − x‖, not squared, and h_k ← h_k − α (y − x)", ("penalty-norm",), "",
    ),
    Report(
        adaptive.flower_fedadam, "fedadam", "adap/flower", "1.41.0", "https://github.com/adap/flower/pull/4362",
        "η √(1 − β₂^(t+1))/(1 − β₁^(t+1)) in round t; Reddi et al. do not correct, and Kingma and Ba have t", ("bias-corrected-late",),
        "since 1.13.0; the difference decays with the rounds",
    ),
)  # fmt: skip

FALSE_ALARMS = (
    Report(
        fedprox.fedtorch_11, "fedprox", "MLOPTPSU/FedTorch", "#11", "https://github.com/MLOPTPSU/FedTorch/issues/11",
        "the norm is unsquared in the loss that is logged; the step adds μ(y − x) by hand", (), "",
    ),
    Report(
        feddyn.feddyn_2, "feddyn", "alpemreacar/FedDyn", "#2", "https://github.com/alpemreacar/FedDyn/issues/2",
        "(α/2) ‖y‖² is missing from the loss; it is the optimiser's weight decay", (), "",
    ),
    Report(
        feddyn.feddyn_3, "feddyn", "alpemreacar/FedDyn", "#3", "https://github.com/alpemreacar/FedDyn/issues/3",
        "there is no h; it is worked out as the mean of what the clients keep", (), "",
    ),
)  # fmt: skip
