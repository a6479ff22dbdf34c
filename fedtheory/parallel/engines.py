"""Engines: this machine's processes, Dask, Ray, joblib's active backend, or one's own executor.

    from joblib import parallel_config
    with parallel_config("dask"):             # an engine of joblib's, as for scikit-learn
        simulate(problem, FedAvg(), 100, scenarios=1000, workers=8)

    with use_engine("dask", address="tcp://10.0.0.7:8786"):
        ...
    with use_engine(mpi4py.futures.MPIPoolExecutor()):
        ...
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from fedtheory.errors import InvalidInput
from fedtheory.parallel.engine import Engine, Executors

if TYPE_CHECKING:
    from fedtheory.parallel.backends import Joblib

__all__ = ["ENGINES", "chosen_engine", "use_engine"]

ENGINES = ("local", "dask", "ray")


_chosen: ContextVar[Engine | None] = ContextVar("engine", default=None)


def chosen_engine(workers: int) -> Engine | Joblib | None:
    """The engine that is in use: that of `use_engine`, then joblib's active backend, then so many processes of this machine.

    None where there is none and ``workers`` is 1: the work is then done in this process.
    """
    if (engine := _chosen.get()) is not None:
        return engine
    backend, jobs = _joblibs() if "joblib" in sys.modules else (None, 1)
    if backend is not None:
        from fedtheory.parallel.backends import of_joblib

        return of_joblib(backend, max(workers, 1))
    from fedtheory.parallel.local import Local

    workers = workers if workers > 1 else jobs
    return Local(workers) if workers > 1 else None


def _joblibs() -> tuple[Any, int]:
    """joblib's active backend and its number of jobs, where `parallel_config` names them: (None,
    jobs) for its own processes."""
    import joblib
    from joblib.parallel import get_active_backend

    backend, jobs = get_active_backend()
    jobs = 1 if jobs in (None, 1) else joblib.effective_n_jobs(jobs)
    return (None, jobs) if type(backend).__name__ in ("LokyBackend", "SequentialBackend") else (backend, jobs)


@contextmanager
def use_engine(engine: str | Engine | Executor, address: str | None = None, workers: int | None = None) -> Iterator[Engine | None]:
    """Within the block, tasks run there.

    Parameters
    ----------
    engine : 'local', 'dask', 'ray', an executor, or an `Engine`
        'local': the processes of this machine, which is the default as well.
    address : str
        Of a cluster that runs: Dask's scheduler ('tcp://host:8786', or the file of
        --scheduler-file), or Ray's ('auto', 'host:6379'). Without it one is started on this
        machine, and ended with the block.
    workers : int
        Processes of a cluster that is started here; default: one a core.

    Raises
    ------
    InvalidInput
        An engine that there is not, an address where none is taken, a cluster that does not answer.
    MissingCapability
        The engine's package is not installed.
    FedTheoryError
        Ray does not start on this machine.
    """
    if isinstance(engine, str):
        if engine not in ENGINES:
            raise InvalidInput(f"engine = {engine!r}: there are {', '.join(ENGINES)}")
        if engine == "local":
            if address is not None:
                raise InvalidInput(f"address = {address!r}: engine 'local' is this machine; take 'dask' or 'ray', or leave it out")
            yield None
            return
        from fedtheory.parallel import backends

        start: Any = {"dask": backends.dask_engine, "ray": backends.ray_engine}[engine]
        with start(address, workers) as made, _in_use(made):
            yield made
    elif isinstance(engine, Engine | Executor):
        made = engine if isinstance(engine, Engine) else Executors(engine, workers)
        with _in_use(made):
            yield made
    else:
        raise InvalidInput(f"engine = {engine!r}: give {', '.join(map(repr, ENGINES))}, a concurrent.futures.Executor or an Engine")


@contextmanager
def _in_use(engine: Engine) -> Iterator[None]:
    token = _chosen.set(engine)
    try:
        yield
    finally:
        _chosen.reset(token)
