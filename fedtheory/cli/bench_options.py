"""The options of `fedtheory bench`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Option

from fedtheory.cli.app import SHARED, Address, Engine
from fedtheory.cli.common import Folder, Json, Seed
from fedtheory.cli.local_solvers import memory_arguments
from fedtheory.errors import InvalidInput
from fedtheory.untrusted import decimal

__all__ = ["Options", "check_options", "numbers", "run_options", "seeds"]


@dataclass(frozen=True)
class Options:
    """What the command takes beside its table. ``memory``: the options of momentum and Adam."""

    data: Annotated[Path | None, Option(help="Folder with the data sets' published files.")] = None
    dataset: Annotated[str | None, Option(
        "--dataset", "--rows", help="Only these data sets, as mnist,cifar10.",
    )] = None
    split: Annotated[str | None, Option(help="Only these splits, as iid,dirichlet-0.3.")] = None
    method: Annotated[str | None, Option(
        help="Only these columns, as fedprox,algorithm-1.",
    )] = None
    rounds: Annotated[int | None, Option(
        "--rounds", "-T", help="Rounds (default: the paper's).",
    )] = None
    epochs: Annotated[int | None, Option(
        help="Local epochs (default: the preset's, which the table names).",
    )] = None
    clip: Annotated[float | None, Option(
        help="Clip gradients at this norm, before weight decay; FedDyn's public code does at 10 "
        "(default: no).",
    )] = None
    cohorts: Annotated[Literal["drawn", "feddyn"], Option(
        help="Who takes part: drawn with --seed (default), or FedDyn's public code's draws (Table "
        "2's).",
    )] = "drawn"
    augment: Annotated[bool, Option(
        "--augment",
        help="Mirror and crop CIFAR's training images at random, as FedDyn's public code does.",
    )] = False
    verify: Annotated[bool, Option(
        "--verify/--no-verify",
        help="Hold data files against the release's checksums, or read them as they are.",
    )] = True
    quick: Annotated[bool, Option(
        "--quick",
        help="Ten clients, three rounds of one epoch (figures: fewer rounds and seeds); without "
        "--data on scikit-learn's digits.",
    )] = False
    network: Annotated[str | None, Option(
        help="'table': what the printed table was made with (default); 'text': the text's; or a "
        "model.",
    )] = None
    device: Annotated[str, Option("--device", help="cpu, cuda or cuda:0.")] = "cpu"
    dtype: Annotated[Literal["float32", "float64"], Option(
        "--dtype", help="Of models and inputs.",
    )] = "float32"
    autocast: Annotated[Literal["bfloat16"] | None, Option(
        help="Mixed precision of training's forward and backward passes (default: none).",
    )] = None
    precision: Annotated[Literal["highest", "tf32"], Option(
        help="Of float32 products in training on a GPU; tf32 rounds their factors to 11 binary "
        "digits.",
    )] = "highest"
    threads: Annotated[int | None, Option(
        help="Threads of torch on the CPU (default: the cores).",
    )] = None
    evaluate_every: Annotated[int | None, Option(
        help="Rounds between two tests of the model (default 1; 10 for efl-table2).",
    )] = None
    resume: Annotated[bool, Option(
        "--resume/--no-resume", help="Go on with the runs in the output folder.",
    )] = True
    tensorboard: Annotated[Path | None, Option(
        help="Folder to write TensorBoard scalars to.",
    )] = None
    report: Annotated[bool, Option(
        "--report", help="Run nothing: the table of what is measured by now.",
    )] = False
    local_solver: Annotated[Literal["sgd", "momentum", "adam"], Option(
        help="Local work in place of the papers' SGD; it needs --lr.",
    )] = "sgd"
    lr: Annotated[str | None, Option(
        help="Step sizes of local work, with commas (default: the preset's).",
    )] = None
    l1: Annotated[str | None, Option(
        help="FedElasticNet's lambda_1, with commas (default: Table 5's).",
    )] = None
    l2: Annotated[str | None, Option(
        help="Its lambda_2, also FedProx's and FedDyn's weight, with commas (default: Table 5's).",
    )] = None
    epsilon: Annotated[str | None, Option(
        help="What smaller numbers are cut off by, with commas (default: Table 5's).",
    )] = None
    seeds: Annotated[str | None, Option(help="Several seeds, as 0,1,2: means and ranges.")] = None
    record: Annotated[str | None, Option(
        help="More metrics (`fedtheory list metrics`), as test_accuracy_all, in runs of their own.",
    )] = None
    workers: Annotated[int, Option(
        min=1, rich_help_panel=SHARED, help="Runs at the same time, one torch thread each.",
    )] = 1
    engine: Engine = "local"
    address: Address = None
    seed: Seed = 0
    json: Json = False
    out: Folder = Path("results/bench")
    memory: Mapping[str, Any] = field(default_factory=dict)

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
        """Of `Preset`: the local solver, where another than the papers' is asked for."""
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


def numbers(option: str, text: str) -> list[float]:
    """Values with commas, each once.

    Raises `InvalidInput` for what is no number, below 0 or infinite, and for a learning rate of 0.
    """
    out = []
    for part in text.split(","):
        try:
            value = decimal(part)
        except ValueError:
            wrong = f"--{option} {text}: {part.strip()!r} is no number"
            raise InvalidInput(f"{wrong}; give one or several with commas, as 1e-4,1e-2") from None
        if not math.isfinite(value) or value < 0 or (option == "lr" and value == 0):
            raise InvalidInput(f"--{option} {part.strip()}: use a finite number {'> 0' if option == 'lr' else '>= 0'}")
        out.append(value)
    return list(dict.fromkeys(out))


def seeds(text: str) -> list[int]:
    """Whole numbers with commas, each once.

    Raises `InvalidInput` for anything else, and below 0.
    """
    parts = [p.strip() for p in text.split(",")]
    if wrong := [p for p in parts if not (p.isascii() and p.isdecimal() and len(p) <= 300)]:
        raise InvalidInput(f"--seeds {text}: {wrong[0]!r} is no whole number >= 0; give them with commas, as 0,1,2")
    return list(dict.fromkeys(map(int, parts)))
