"""`fedtheory verify FILE.py::NAME --given NAME=VALUE`: what is proved of a statement with other numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.text import Text

from fedtheory.cli.common import emit, facts, out_console, progress, statements_in, writing, wrote
from fedtheory.cli.options import given_values
from fedtheory.errors import InvalidInput

__all__ = ["prove_with"]


def prove_with(file: Path, name: str, given: list[str], as_json: bool, out: Path | None) -> None:
    """Prove the forms of a statement and find the best values of their constants, with numbers of a user's.

    given : NAME=VALUE each, as `AuthoredStatement.at` takes them, or a declared constant
    """
    from fedtheory.theory.studies.certificates import certificate, write
    from fedtheory.theory.studies.words import proof_told
    from fedtheory.worst_cases.numbers import exact

    [paper] = list[Any](statements_in(file, name))
    statement = paper.authored[name]
    numbers: Mapping[str, Any] = given_values(given) or {}
    if statement.rules:
        raise InvalidInput(
            f"--given with {statement.id}: numbers are given to a statement about one method, and it has rules"
        )
    constants = {n: exact(n, v) for n, v in numbers.items() if n in statement.constants}
    of = statement.at(**{n: v for n, v in numbers.items() if n not in constants})
    folder, told, files = (
        out or Path("results") / file.stem / "proofs",
        list[dict[str, Any]](),
        list[Path](),
    )
    with progress("proofs", len(statement.forms)) as bar:
        for form in statement.forms:
            found = proved_with(of, form, constants)
            for proof in (found["proof"], *(b.proof for b in found["best"])):
                if proof is not None:
                    asked = "-".join(
                        (
                            statement.id,
                            form,
                            *(f"{n}-{v}" for n, v in [*numbers.items(), *proof.constants.items()]),
                        )
                    )
                    with writing(folder):
                        files.append(
                            write(
                                folder / f"{re.sub('[^a-z0-9]+', '-', asked.lower())}.json",
                                certificate(of, proof),
                            )
                        )
            told.append({"form": form, **found})
            bar()
    if as_json:
        emit({
            "statement": statement.id, "given": {n: str(v) for n, v in numbers.items()}, "files": [str(f) for f in files],
            "forms": [{
                "form": one["form"], "why_not": one["why"],
                "proved": one["proof"] and one["proof"].told, "follows": one["proof"] and one["proof"].follows,
                "best_constants": [{
                    "constant": b.constant, "best": b.best, "proved": str(b.proved), "for": b.words,
                    "free": [{n: str(v) for n, v in case.items()} for case in b.proof.chosen],
                } for b in one["best"]],
            } for one in told],
        })  # fmt: skip
        return
    console = out_console()
    with_these = ", ".join(f"{n} = {v}" for n, v in numbers.items())
    console.print(
        Text(f"{statement.id} with {with_these}: {statement.title}", "bold"), soft_wrap=True
    )
    rows = []
    for one in told:
        rows += [("not proved", f"{one['form']}: {one['why']}")] if one["proof"] is None else []
        rows += proof_told(one["form"], one["proof"], one["best"])
    console.print(facts(rows))
    wrote(files)


def proved_with(of: Any, form: str, constants: Mapping[str, Any]) -> dict[str, Any]:
    """The proof of a form, or why there is none, and the best values of its constants that were not given."""
    from fedtheory.errors import FedTheoryError
    from fedtheory.theory.rounds.vector_proofs import best_constants, proved

    out: dict[str, Any] = {"proof": None, "why": "", "best": []}
    try:
        out["best"] = best_constants(of, form, constants)
        out["proof"] = proved(of, form, constants)
    except FedTheoryError as error:
        out["why"] = str(error)
    return out
