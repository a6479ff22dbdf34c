"""Several processes, on this machine or on others: independent tasks, chunks of scenarios, and the engines that run them."""

from fedtheory.parallel.board import Board
from fedtheory.parallel.engine import Engine
from fedtheory.parallel.engines import chosen_engine, use_engine
from fedtheory.parallel.local import stop_workers
from fedtheory.parallel.progress import Progress
from fedtheory.parallel.scenarios import fetch, run_processes, stow
from fedtheory.parallel.tasks import as_finished, held_back, interrupted

__all__ = [
    "Board", "Engine", "Progress", "as_finished", "chosen_engine", "fetch", "held_back", "interrupted",
    "run_processes", "stop_workers", "stow", "use_engine",
]
