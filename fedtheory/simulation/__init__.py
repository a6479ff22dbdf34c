"""The only round loop, what it measures, and how a run goes on after a break."""

from fedtheory.simulation.metrics import METRICS
from fedtheory.simulation.simulate import Trajectory, check_start, simulate
from fedtheory.store.checkpoints import Resume

__all__ = ["METRICS", "Resume", "Trajectory", "check_start", "simulate"]
