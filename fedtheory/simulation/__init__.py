"""The only round loop, what it measures, and how a run goes on after a break."""

from fedtheory.simulation.metrics import METRICS
from fedtheory.simulation.resume import Resume
from fedtheory.simulation.simulate import Trajectory, check_start, simulate

__all__ = ["METRICS", "Resume", "Trajectory", "check_start", "simulate"]
