"""Laws of who takes part in a round, and with how many local steps: samples, moments, enumerations.

The modules from the ground up; each imports from those before it only:

    cohorts         who takes part, for many scenarios at once, and the laws of cohorts (Full, Uniform, Bernoulli)
    laws            the law of the local steps that each client completes in one round
    cohort_laws     a law of cohorts as a law of local steps: all of them or none
    irregular       laws of local steps that change from round to round, clients that arrive and leave
    activity        activity that changes with time: decay, growth, a time away, turns
    coefficients    EFL's aggregation coefficients: schemes A, B, C and the corrected C
    positive_part   E[(X - 2)_+ Y] of sums of independent terms, for the moments
    moments         the exact moments of the coefficients
"""

from fedtheory.participation.activity import Away, Cycle, Decay, Every, Fade, Grow, Only, varying
from fedtheory.participation.cohort_laws import AsIrregular, as_irregular
from fedtheory.participation.cohorts import Bernoulli, Cohort, FedDynBernoulli, Full, Sampling, Uniform
from fedtheory.participation.irregular import Irregular, complete, inactive, incomplete, joint_law, windows
from fedtheory.participation.laws import JointLaw, Participation

__all__ = [
    "AsIrregular", "Away", "Bernoulli", "Cohort", "Cycle", "Decay", "Every", "Fade", "FedDynBernoulli", "Full", "Grow", "Irregular",
    "JointLaw", "Only", "Participation", "Sampling", "Uniform", "as_irregular", "complete", "inactive", "incomplete", "joint_law",
    "varying", "windows",
]  # fmt: skip
