"""The local solver that the command line names, and the options of those with a memory of past gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedtheory.cli.options import flag, option
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.untrusted import decimal

if TYPE_CHECKING:
    from fedtheory.neural.benchmarks.presets import Preset

__all__ = [
    "MEMORY_OPTIONS", "SOLVER_OPTIONS", "check_solvers", "local_kind", "memory_arguments", "own_steps", "penalty",
    "solver_of", "solvers_in_words", "whose", "work_in_words",
]

_PANEL = "Local momentum and Adam"
MEMORY_OPTIONS = (
    option("local_momentum", float | None, None, "Of momentum: the share of its memory that a step keeps (default 0.9).", _PANEL),
    option("nesterov", bool | None, None, "Of momentum: look ahead, as torch.optim.SGD(nesterov=True) does.", _PANEL, off=True),
    option("betas", str | None, None, "Of adam: what its two means of gradients keep (default 0.9,0.999).", _PANEL),
    option(
        "decoupled_decay", float | None, None,
        "Of adam: AdamW's weight decay, outside of the objective (default 0).", _PANEL,
    ),
)  # fmt: skip
SOLVER_OPTIONS = (
    "local_solver", "local_steps", "local_lr", "batch_size", "epochs", "lr_decay", "local_l1",
)  # fmt: skip
_TAKES = {  # option -> argument
    "momentum": {"local_momentum": "momentum", "nesterov": "nesterov"},
    "adam": {"betas": "betas", "decoupled_decay": "decoupled_decay"},
}


def memory_arguments(kind: str, given: Mapping[str, Any], of: str = "", own: bool = False) -> dict[str, Any]:
    """The arguments of `fedtheory.local.Momentum` or `Adam` that the options give.

    Parameters
    ----------
    of : whose local work it is, in words; '' as the option says it
    own : whether the method has local steps of its own, so that no solver can be named
    """
    takes, found = _TAKES.get(kind, {}), {}
    for name in (o.name for o in MEMORY_OPTIONS if given.get(o.name) is not None):
        if name not in takes:
            owner = next(solver for solver, options in _TAKES.items() if name in options)
            remedy = "leave it out" if own else f"leave it out, or choose --local-solver {owner}"
            raise InvalidInput(f"{flag(name)} does not apply to {of or f'--local-solver {kind}'}: {remedy}")
        found[takes[name]] = _betas(given[name]) if name == "betas" else given[name]
    return found


def _betas(text: str) -> tuple[float, ...]:
    try:
        pair = tuple(decimal(part) for part in text.split(","))
    except ValueError:
        pair = ()
    if len(pair) != 2 or not all(0 <= beta < 1 for beta in pair):
        raise InvalidInput(f"--betas {text}: give two numbers in [0, 1) with a comma, as 0.9,0.999")
    return pair


def _takes_exact(algorithm: Any) -> bool:
    """True if the method can do without gradient steps."""
    from fedtheory import local

    try:
        algorithm.check(local.Exact())
    except MissingCapability:
        return False
    return True


def penalty(algorithm: Any) -> float:
    """Return the curvature that the method's quadratic penalty adds to local work. EFL's elastic
    term is not in it: `step_size` counts that."""
    names = ("local_curvature", "l2", "mu", "alpha")
    return next((float(getattr(algorithm, name)) for name in names if hasattr(algorithm, name)), 0.0)


def own_steps(algorithm: Any) -> str:
    """'sliding' or 'none' for a method with local steps of its own, or without any; else ''."""
    work = getattr(algorithm, "local_work", "")
    return work if work in ("sliding", "none") else ""


def local_kind(o: dict[str, Any], problem: Any, algorithm: Any) -> str:
    """Choose the local solver: as asked for, else what the method trains with."""
    from fedtheory.optimum.on_ball import is_smooth

    own = own_steps(algorithm)
    if own and o["local_solver"] is not None:
        raise InvalidInput(f"--local-solver {o['local_solver']}: {algorithm.name} has local steps of its own; leave the option out")
    usual = own or o["local_solver"] or getattr(algorithm, "local_work", "")
    if usual:
        return usual
    return "exact" if is_smooth(problem) and _takes_exact(algorithm) else "gradient"


def work_in_words(algorithm: Any, solver: Any) -> str:
    """'Local work a round: 5 gradient steps, step size 0.42', for a picture; '' for a method with local work of its own."""
    from fedtheory import local

    if own_steps(algorithm):
        return ""
    if isinstance(solver, local.Exact):
        return "Local work a round: local problems solved exactly"
    kind = {local.GradientSteps: "gradient", local.Momentum: "momentum", local.Adam: "Adam"}.get(type(solver), "SGD")
    epochs, batch = getattr(solver, "epochs", None), getattr(solver, "batch_size", None)
    size = "decreasing step size" if callable(solver.lr) else f"step size {solver.lr:.3g}"
    decay = getattr(solver, "decay", 1.0)
    parts = [
        f"{_many(epochs, 'epoch')} of {kind}" if epochs else _many(solver.steps, f"{kind} step"),
        f"batches of {batch:,}" if batch else "",
        size if decay == 1 else f"{size}, times {decay:g} after every round",
    ]
    return f"Local work a round: {', '.join(part for part in parts if part)}"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def whose(o: dict[str, Any], algorithm: Any, kind: str) -> str:
    """Whose local work it is; a solver that was not asked for is told as the default."""
    default = ", by which the local problems are solved by default" if o["local_solver"] is None else ""
    return algorithm.name if own_steps(algorithm) else f"--local-solver {kind}{default}"


def solver_of(o: dict[str, Any], problem: Any, algorithm: Any, kind: str) -> Any:
    """The local solver that the options name; without --local-lr its step size is 1/(beta + curvature of the penalty)."""
    from fedtheory import local
    from fedtheory.cli.participation import step_size
    from fedtheory.optimum.on_ball import is_smooth

    own, smooth = own_steps(algorithm), is_smooth(problem)
    some = ("local_steps", "local_lr", "lr_decay", "local_l1")
    takes = {"exact": (), "none": (), "sliding": ("batch_size",), "gradient": some}.get(kind, SOLVER_OPTIONS)
    for name in SOLVER_OPTIONS[1:]:
        if o[name] is not None and name not in takes:
            others = ("gradient or " if name in some else "") + "sgd" + (" in its place" if o["local_solver"] else "")
            remedy = "leave it out" if own else f"add --local-solver {others}"
            raise InvalidInput(f"{flag(name)} does not apply to {whose(o, algorithm, kind)}: {remedy}")
    memory = memory_arguments(kind, o, whose(o, algorithm, kind), bool(own))
    if kind in ("exact", "none"):
        return local.Exact()
    if kind == "sliding":
        return local.SubgradientSliding(batch_size=o["batch_size"])
    if o["local_lr"] is None and not smooth:
        raise InvalidInput(f"{problem.name} has no smoothness constant to take a step size from: give one with --local-lr")
    if o["local_lr"] is None and kind == "adam":
        raise InvalidInput(
            "--local-solver adam moves every coordinate by about its step size, however small the gradients are, so that no "
            "constant of the problem says a step size: give one with --local-lr (torch's is 0.001)"
        )
    lr = o["local_lr"] if o["local_lr"] is not None else step_size(algorithm, problem, penalty(algorithm))
    decay = 1.0 if o["lr_decay"] is None else o["lr_decay"]
    common: dict[str, Any] = {"decay": decay, "l1": o["local_l1"] or "subgradient"}
    usual = algorithm.local_steps
    if kind == "gradient":
        return local.GradientSteps(usual if o["local_steps"] is None else o["local_steps"], lr, **common)
    steps = usual if o["local_steps"] is None and o["epochs"] is None else o["local_steps"]
    made = {"sgd": local.SGD, "momentum": local.Momentum, "adam": local.Adam}[kind]
    return made(10 if o["batch_size"] is None else o["batch_size"], lr, epochs=o["epochs"], steps=steps, **common, **memory)


# --- of bench -------------------------------------------------------------------------------------
def check_solvers(presets: Sequence[Preset]) -> None:
    """Raise `InvalidInput` that names the methods which another local solver than SGD is not for,
    and those that are left."""
    refused: dict[str, str] = {}
    for preset in (p for p in presets if p.solver != "sgd"):
        try:
            preset.make_algorithm().check(preset.make_solver())
        except MissingCapability as error:
            refused[preset.method] = str(error).partition(": use ")[0]
    if refused:
        left = dict.fromkeys(p.method for p in presets if p.method not in refused)
        remedy = f"; name the others: --method {','.join(left)}" if left else ""
        said = f"--local-solver {presets[0].solver} is not for {', '.join(refused)}"
        raise InvalidInput(f"{said}: {next(iter(refused.values()))}{remedy}")


def solvers_in_words(presets: Sequence[Preset]) -> list[str]:
    """A sentence for each local solver that is not the papers' SGD."""
    solvers = dict.fromkeys((p.solver, *sorted(p.solver_options.items())) for p in presets if p.solver != "sgd")
    told = [", ".join([str(solver), *(f"{name} {value}" for name, value in arguments)]) for solver, *arguments in solvers]
    return [f"Local work by {how}, from an empty memory in every round, where the paper has plain SGD." for how in told]
