"""Who takes part in a round, and with how many local steps: laws, samples, exact enumerations and moments."""

from fedtheory.participation.cohort_laws import AsIrregular, as_irregular
from fedtheory.participation.irregular import Irregular, complete, inactive, incomplete, joint_law, windows
from fedtheory.participation.step_laws import JointLaw, Participation

__all__ = [
    "AsIrregular", "Irregular", "JointLaw", "Participation", "as_irregular", "complete", "inactive", "incomplete",
    "joint_law", "windows",
]  # fmt: skip
