"""The losses of a worst case, as `fedtheory worst-case --instance FILE` writes and tells them."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from fedtheory.cli.common import emit, out_console, progress, writing
from fedtheory.errors import FedTheoryError, InvalidInput, NotCertified

__all__ = ["check_instance", "check_losses", "replay_instance", "show_instance", "write_instance"]

REPRODUCED = 1e-5  # relative: a run that is further from the solver's value does not reproduce it


def check_instance(path: Path, potential: bool, clients: int = 2) -> None:
    """Refuse, before any work, what no worst losses can be written for."""
    if potential:
        raise InvalidInput("--instance: a potential has no run to reproduce; leave --lyapunov out")
    if path.suffix != ".json":
        raise InvalidInput(f"--instance {path}: write a file NAME.json, which the other commands take as a problem")
    if not path.parent.is_dir():
        raise InvalidInput(f"--instance {path}: there is no folder {path.parent}; make it first")
    if clients < 2:
        raise InvalidInput(f"--instance with --clients {clients}: worst losses are those of at least 2 clients")


def check_losses(question: Any) -> None:
    """Refuse, before any work, a question of which no losses are made."""
    from fedtheory.worst_cases.functions import check_question

    check_question(question)


def write_instance(found: Any, path: Path) -> dict[str, Any]:
    """Make the losses, run the method on them, write them, and say what was measured."""
    from fedtheory.problems import write_problem
    from fedtheory.provenance import provenance
    from fedtheory.worst_cases import worst_function
    from fedtheory.worst_cases.below import KEY, below
    from fedtheory.worst_cases.certificates import certificate, text
    from fedtheory.worst_cases.functions import MOST_RUNS

    with progress("worst function"):
        made = worst_function(found)
        measured = made.measured() if made.ways <= MOST_RUNS else None
        try:
            least = below(made)
        except NotCertified:
            least = None
    told = {
        "clients": made.problem.num_clients, "dimension": made.problem.dim, "ways": made.ways, "measured": measured,
        "solver": found.best, "at_least": None if least is None else str(least.value),
        "reproduced": None if measured is None else abs(measured - found.best) <= REPRODUCED * abs(found.best),
    }  # fmt: skip
    about = {
        "about": "losses on which a method ends with its worst value; it starts at 0",
        "question": {name: text(value) for name, value in certificate(found).question.items()},
        **told, "minimiser": made.optimum, "pieces": list(made.values), "provenance": provenance(),
        **({"begins with": dict(made.begun)} if made.begun else {}), **({} if least is None else {KEY: least.written()}),
    }  # fmt: skip
    with writing(path.parent):
        return told | {"file": str(write_problem(path, made.problem, about)), "run": "" if made.begun else _typed(found.question, path)}


def _typed(q: Any, path: Path) -> str:
    """The command that runs the method on the losses, where it is one of the package; where cohorts are drawn,
    it draws one way of them."""
    from fedtheory.cli.options import flag
    from fedtheory.worst_cases.groups import Groups

    subject = q.subject
    if subject.source or (isinstance(q.losses, Groups) and not q.losses.alike):  # a file has no numbers of samples
        return ""
    options = subject.hyperparameters
    words = ["fedtheory run", subject.name, str(path)]
    if subject.local_steps is not None:
        step = float(subject.solver.lr)
        words.append(f"--local-solver gradient --local-steps {subject.local_steps} --local-lr {step!r}")
    elif subject.local is not None:
        words.append("--local-solver exact")
    if options.get("radius") == inf:
        options["radius"] = 100 * q.distance
    words += [f"{flag(n)} {float(v)!r}" if isinstance(v, Fraction) else f"{flag(n)} {v}" for n, v in options.items() if n != "rounds"]
    words.append(f"--rounds {q.rounds}")
    if q.participants < q.clients:
        words.append(f"--participants {q.participants}")
    return " ".join(words)


def show_instance(told: dict[str, Any], own: str = "") -> None:
    """The run on the worst losses beside the solver's value; ``own``: options of `replay`."""
    console = out_console()
    table = Table("losses on which it comes about", "")
    table.add_row("worst case, by the solver", f"{told['solver']:.9g}")
    if told["measured"] is None:
        table.add_row("a run of the method on them", "not run")
    else:
        runs = "a run of the method on them" if told["ways"] == 1 else f"the mean of all {told['ways']:,} ways to draw cohorts"
        table.add_row(runs, f"{told['measured']:.9g}")
    in_fractions = "not shown: rounding misses a condition" if told["at_least"] is None else f"{float(Fraction(told['at_least'])):.9g}"
    table.add_row("reached in fractions: at least", in_fractions)
    console.print(table)
    if told["measured"] is None:
        console.print(f"Not run: the cohorts can be drawn in {told['ways']:,} ways.", soft_wrap=True)
    if told["reproduced"] is False:
        console.print(f"The run does not reproduce the solver's value: they differ by more than {REPRODUCED:g} of it.")
    sizes = f"{told['clients']} clients, dimension {told['dimension']}; the method starts at 0"
    console.print(f"{sizes}: {told['file']}", soft_wrap=True)
    if told["at_least"] is not None:
        console.print(f"Check it in fractions: fedtheory replay {told['file']}{own}", soft_wrap=True)
    if told["run"]:
        console.print(f"It is a problem for the other commands, too: {told['run']}", soft_wrap=True)


def replay_instance(
    path: Path, question: dict[str, Any], found: Any, as_json: bool, method: Any = None, criterion: Any = None
) -> None:
    """Check in fractions that losses of the class reach the value, and say so."""
    from fedtheory.worst_cases.below import check
    from fedtheory.worst_cases.certificates import in_words

    try:
        check(question, found, method, criterion)
    except FedTheoryError as error:
        raise type(error)(f"{path}: not reached: {error}") from error
    vectors = sum(len(of) for of in found.vectors.values())
    told = {"question": question, "verdict": "reached", "mode": "proved", "claim": {"at least": str(found.value)}, "vectors": vectors}
    if as_json:
        emit(told)
        return
    console = out_console()
    console.print(Text(in_words(question), "bold"), soft_wrap=True)
    console.print(f"at least = {found.value} = {float(found.value):.9g}", soft_wrap=True)
    console.print(f"reached: {vectors} vectors and {len(found.values)} values satisfy every condition of the class, in fractions")
