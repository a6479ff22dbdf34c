"""Centralised relatives of FedMLS: MOPES (few projections) and MOLES (few linear minimisations),
over general convex sets."""

from fedtheory.central.functions import Function, Joint
from fedtheory.central.moles import MOLES, frank_wolfe_projection
from fedtheory.central.mopes import MOPES, CentralRun, OverAnySet
from fedtheory.central.named_sets import named_set
from fedtheory.central.optimum import optimum_over
from fedtheory.central.plan import Planned, plan
from fedtheory.central.sets import (
    Ball,
    Box,
    Consensus,
    ConstraintSet,
    L1Ball,
    NuclearBall,
    Simplex,
    project_simplex,
)

__all__ = [
    "MOLES", "MOPES", "Ball", "Box", "CentralRun", "Consensus", "ConstraintSet", "Function",
    "Joint", "L1Ball", "NuclearBall", "Planned", "Simplex", "frank_wolfe_projection", "named_set",
    "optimum_over", "plan", "project_simplex",
]

ONE_LOSS = {OverAnySet.name: OverAnySet}  # methods of one loss by name, of which worst cases are asked
