"""The options of `fedtheory bench`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedtheory.cli.local_solvers import memory_arguments
from fedtheory.errors import InvalidInput

__all__ = ["Options", "run_options"]


@dataclass(frozen=True)
class Options:
    """The options of a command line, by name. ``memory``: of momentum and Adam."""

    data: Path | None
    dataset: str | None
    split: str | None
    method: str | None
    rounds: int | None
    epochs: int | None
    clip: float | None
    cohorts: str
    augment: bool
    verify: bool
    quick: bool
    network: str | None
    device: str
    dtype: str
    threads: int | None
    evaluate_every: int | None
    resume: bool
    tensorboard: Path | None
    only_report: bool
    seed: int
    json: bool
    out: Path
    autocast: str | None = None
    lr: str | None = None
    l1: str | None = None
    l2: str | None = None
    epsilon: str | None = None
    seeds: str | None = None
    record: str | None = None
    precision: str = "highest"
    local_solver: str = "sgd"
    memory: Mapping[str, Any] = field(default_factory=dict)
    workers: int = 1
    engine: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        elsewhere = self.workers > 1 or self.engine != "local"
        if elsewhere and self.device != "cpu":
            asked = f"--workers {self.workers}" if self.workers > 1 else f"--engine {self.engine}"
            raise InvalidInput(f"{asked} with --device {self.device}: processes share no GPU here; leave one of them out")
        if elsewhere and self.tensorboard is not None:
            raise InvalidInput("--tensorboard with other processes: one run at a time writes it; leave --workers and --engine out")

    @property
    def swept(self) -> tuple[str, ...]:
        """The options whose values differ from the paper's, each a column of the table."""
        return tuple(name for name in ("lr", "l1", "l2", "epsilon") if getattr(self, name) is not None)

    def solver_fields(self) -> dict[str, Any]:
        """Of `Preset`: the local solver, where another than the papers' is asked for.

        Raises
        ------
        InvalidInput
            Options of another solver; no --lr with a solver whose steps are not SGD's.
        """
        from fedtheory.local import Adam, Momentum

        arguments = memory_arguments(self.local_solver, self.memory)
        if self.local_solver == "sgd":
            return {}
        made = {"momentum": Momentum, "adam": Adam}[self.local_solver]
        made(1, 1e-12, steps=1, **arguments)  # refuses what is out of range whatever the step size
        if self.lr is None:
            usual = {"momentum": "0.01 with a momentum of 0.9", "adam": "0.001"}[self.local_solver]
            raise InvalidInput(
                f"--local-solver {self.local_solver}: the papers' step sizes are those of plain "
                f"SGD, so that this one needs its own: add --lr, for example {usual}"
            )
        return {"solver": self.local_solver, **({"solver_options": arguments} if arguments else {})}


def check_options(o: Options) -> None:
    """Raise `InvalidInput` for numbers out of range, and for a precision that is not there or does
    not go with the type of numbers."""
    from fedtheory.neural.device import as_device, as_dtype, check_precision

    for name, value in (("rounds", o.rounds), ("epochs", o.epochs), ("threads", o.threads), ("evaluate-every", o.evaluate_every)):
        if value is not None and value < 1:
            raise InvalidInput(f"--{name} {value}: it must be at least 1")
    if o.autocast is not None and o.dtype != "float32":
        raise InvalidInput(f"--autocast {o.autocast} with --dtype {o.dtype}: mixed precision is for float32; leave one of them out")
    check_precision(o.precision, as_device(o.device), as_dtype(o.dtype))  # CUDA that is not there is told before data are read


def run_options(table: str, o: Options, going_on: bool = False) -> dict[str, Any]:
    """Return what `run_preset` takes beside the setting.

    going_on : the same command was cut short before
    """
    options: dict[str, Any] = {"rounds": o.rounds, "device": o.device, "dtype": o.dtype, "resume": o.resume}
    options |= {} if o.autocast is None else {"autocast": o.autocast}
    options |= {} if o.precision == "highest" else {"precision": o.precision}
    options["evaluate_every"] = o.evaluate_every or (10 if table == "efl-table2" and not o.quick else 1)
    if o.quick:
        options |= {"most": 200, "most_tested": 1000}
    if o.quick and o.data is None:  # all data sets' runs on the digits have one name, and are made again where the last ones ended
        options |= {"resume": o.resume and going_on, "replace_others": True}
    return options
