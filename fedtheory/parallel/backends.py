"""Engines of other packages: Dask, Ray, and the backends that others register with joblib."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from fedtheory.errors import FedTheoryError, InvalidInput, MissingCapability
from fedtheory.parallel.engine import Engine

__all__ = ["Dask", "Joblib", "Ray", "dask_engine", "of_joblib", "ray_engine"]

WAIT = 10  # seconds for a cluster to answer
RETRIES = 3  # of a task whose worker died, by the cluster of another
LOOK = 2.0  # seconds between two looks at whether there are workers


def _missing(package: str, extra: str) -> MissingCapability:
    """The engine's package is not there."""
    return MissingCapability(f"engine {extra!r} needs {package}: pip install 'fedtheory[{extra}]'")


# --- Dask -----------------------------------------------------------------------------------------
class Dask(Engine):
    """The workers of a `distributed.Client`."""

    name = "dask"

    def __init__(self, client: Any, cluster: Any = None) -> None:
        from distributed import KilledWorker
        from distributed.client import FutureCancelledError

        self._client, self._cluster, self.shares_files = client, cluster, cluster is not None  # one that was started here
        self._size, self._looked = len(cluster.workers) if cluster else 0, time.monotonic()
        self._theirs: dict[Future, Any] = {}
        self.lost = (KilledWorker, FutureCancelledError)

    @property
    def workers(self) -> int:
        """Threads of all workers; while a queue has started none, room for a few tasks."""
        return sum(self._client.nthreads().values()) or 2

    def look_after(self) -> None:
        """A worker that dies while it starts, as under load with a task that kills it, is given up
        by its nanny: start others.

        The cluster counts nannies that have given up as workers: they are let go first, and others
        started at the next look.
        """
        if self._cluster is None or time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        if not self._client.nthreads():
            nannies = list(self._cluster.workers.values())
            given_up = nannies and all(nanny.status.name == "failed" for nanny in nannies)
            self._cluster.scale(0 if given_up else self._size)

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future:
        """Its own executor leaves a future open for ever when a result is lost with its worker."""
        ours: Future = Future()
        self._theirs[ours] = theirs = self._client.submit(call, *arguments, pure=False, retries=RETRIES)

        def ended(theirs: Any) -> None:
            try:
                ours.set_result(theirs.result())
            except BaseException as error:
                ours.set_exception(error)
            self._theirs.pop(ours, None)

        theirs.add_done_callback(ended)
        return ours

    def abandon(self, futures: Iterable[Future]) -> None:
        """Those that have begun end by themselves: Dask cannot stop them."""
        for future in futures:
            if (theirs := self._theirs.pop(future, None)) is not None:
                theirs.cancel()


@contextmanager
def dask_engine(address: str | None, workers: int | None) -> Iterator[Dask]:
    """Connected to the scheduler, or with a cluster of this machine's processes."""
    try:
        import dask
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as error:
        raise _missing("dask.distributed", "dask") from error
    if address is None:
        options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "silence_logs": logging.CRITICAL}
        deaths = {
            "distributed.deploy.lost-worker-timeout": "1s",  # after which others may be started in their place
            "distributed.scheduler.allowed-failures": 0,  # tasks of a lost worker are done again here, and counted
        }
        with dask.config.set(deaths):
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Port .* is already in use")  # another cluster's on this machine
                cluster = LocalCluster(n_workers=workers or os.cpu_count(), **options)
            with cluster, Client(cluster, set_as_default=False) as client:
                yield Dask(client, cluster)
        return
    where = {"scheduler_file": address} if Path(address).is_file() else {"address": address}
    try:
        client = Client(**where, timeout=WAIT, set_as_default=False)
    except (OSError, ValueError, ImportError) as error:
        raise InvalidInput(f"address = {address!r}: no Dask scheduler answered within {WAIT} seconds ({error})") from error
    with client:
        yield Dask(client)


# --- Ray ------------------------------------------------------------------------------------------
class Ray(Engine):
    """The workers of the Ray cluster that this process is connected with."""

    name = "ray"

    def __init__(self, started_here: bool = False) -> None:
        import ray
        from ray.exceptions import NodeDiedError, OutOfMemoryError, WorkerCrashedError

        self._ray, self.shares_files = ray, started_here
        self._remote = ray.remote(max_retries=0 if started_here else RETRIES)(_called)
        self._references: dict[Future, Any] = {}
        self.lost = (NodeDiedError, OutOfMemoryError, WorkerCrashedError)

    @property
    def workers(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0)) or 2

    def submit(self, call: Callable[..., Any], *arguments: Any) -> Future:
        reference = self._remote.remote(call, *arguments)
        future = reference.future()
        self._references[future] = reference
        future.add_done_callback(lambda done: self._references.pop(done, None))
        return future

    def abandon(self, futures: Iterable[Future]) -> None:
        """End them where they are."""
        for future in futures:
            if (reference := self._references.pop(future, None)) is not None:
                self._ray.cancel(reference, force=True)


def _called(call: Callable[..., Any], *arguments: Any) -> Any:
    return call(*arguments)


@contextmanager
def ray_engine(address: str | None, workers: int | None) -> Iterator[Ray]:
    """Connected to a cluster, or to one of this machine's processes, which ends with the block."""
    try:
        import ray
    except ModuleNotFoundError as error:
        raise _missing("ray", "ray") from error
    if ray.is_initialized():  # by who calls this
        yield Ray()
        return
    here = {"num_cpus": workers, "include_dashboard": False} if address is None else {}
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    _start_ray(address, **here)
    try:
        yield Ray(started_here=address is None)
    finally:
        ray.shutdown()


def _start_ray(address: str | None, **options: Any) -> None:
    """Connect with the cluster at that address, or with one that is started here."""
    import ray

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address, **options, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # a bare one where its processes are not there after 30 seconds
        told = " ".join(str(error).split()).partition(". ")[0] or type(error).__name__
        if address is not None:
            raise InvalidInput(f"address = {address!r}: no Ray cluster answered ({told})") from error
        raise FedTheoryError(
            f"Ray did not start on this machine ({told}): take fewer workers, end what else runs "
            "here, or give the address of a cluster that runs"
        ) from error


# --- joblib's -------------------------------------------------------------------------------------
class Joblib:
    """Another backend of joblib's, such as 'threading', or one that somebody registered. A lost
    worker is that backend's affair."""

    def __init__(self, backend: Any, workers: int) -> None:
        self._backend, self.workers = backend, workers
        self.name = type(backend).__name__
        self.same_machine = self.shares_files = self.name in ("ThreadingBackend", "MultiprocessingBackend")

    def results(self, call: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[Any]:
        """Yield what the call makes of each argument, in any order."""
        from joblib import Parallel, delayed

        options = {"n_jobs": self.workers, "backend": self._backend, "batch_size": 1}
        if self._backend.supports_return_generator:
            yield from Parallel(**options, return_as="generator_unordered")(delayed(call)(a) for a in arguments)
            return
        todo = iter(arguments)
        while some := list(islice(todo, 2 * self.workers)):
            yield from Parallel(**options)(delayed(call)(a) for a in some)


def of_joblib(backend: Any, workers: int) -> Engine | Joblib:
    """The engine of a backend of joblib's."""
    kind = type(backend).__name__
    if kind == "DaskDistributedBackend":
        return Dask(backend.client)
    if kind == "RayBackend":
        import ray

        if not ray.is_initialized():
            _start_ray(None)
        return Ray()
    return Joblib(backend, workers)
