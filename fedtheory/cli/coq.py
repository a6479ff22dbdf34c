"""`fedtheory replay FILE --coq OUT.v`: a certificate as a theorem that Coq checks."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Any

from fedtheory.cli.common import must_take_files, note, progress, writing
from fedtheory.errors import FedTheoryError, InvalidInput, NotCertified

__all__ = ["ask_coq", "check_coq", "has_theorem"]

LARGE = 1_000_000  # characters of a file that is announced


def check_coq(path: Path | None) -> None:
    """Refuse a file that no theorem can be written to, before any work."""
    if path is not None:
        from fedtheory.worst_cases.coq.check import check_name

        check_name(path)
        if path.is_dir():
            raise InvalidInput(f"--coq {path}: it is a folder; name a file that is to be written")
        must_take_files(path.parent, "--coq")


def has_theorem(found: Any) -> bool:
    """Return True if Coq's side has a theorem of a worst case, or of a quadratic potential."""
    from fedtheory.worst_cases.certificates import QUADRATIC, certificate
    from fedtheory.worst_cases.coq.export import theorem
    from fedtheory.worst_cases.coq.methods import words
    from fedtheory.worst_cases.coq.rates import rate

    proof, method = certificate(found), type(found.question.subject.plain)
    criterion = getattr(found.question, "criterion", None)
    try:
        if proof.question.get("kind") == QUADRATIC:
            rate(proof, method)
        else:
            words(theorem(proof, method, None if isinstance(criterion, str) else criterion))
    except FedTheoryError:  # which says what Coq's side has no word for
        return False
    return True


def ask_coq(
    path: Path | None, found: Any, method: Any, criterion: Any
) -> tuple[dict[str, Any], list[str]]:
    """Ask Coq about the theorem of a certificate, and write it: for --json, and lines to read."""
    if path is None:
        return {}, []
    from fedtheory.worst_cases.coq.check import (
        INSTALL,
        checked,
        commands,
        compiled,
        version,
        write,
    )
    from fedtheory.worst_cases.coq.text import exported

    with progress("writing the theorem"):
        of = exported(found, path.name, method, criterion)
    if len(of.text) > LARGE:
        note(f"{path}: {len(of.text) / 1e6:.1f} MB; Coq may take minutes")
    typed, number = commands(path.name, of.text), version()
    told: dict[str, Any] = {"file": str(path), "theorem": of.name, "commands": typed, "coq": number}
    if number is None:
        where = f"cd {quote(str(path.parent))} && " * (path.parent != Path())
        told["accepted"] = None
        said = f"The theorem: {path}. {INSTALL}. Then type: {where}{typed}"
    else:
        with progress("Coq compiles its library, once"):
            _, library_seconds = compiled()
        with progress("Coq checks the theorem"):
            answer = checked(of.text)
        if not answer.accepted:
            refused = f"Coq {answer.version} refuses the theorem at {answer.said}"
            raise NotCertified(f"{path} is not written: {refused}")
        once = f" (its library was compiled in {library_seconds:.0f} s, once)" * (library_seconds > 0)
        took = f"in {answer.seconds:.1f} s{once}"
        said = f"{path}: accepted by Coq {answer.version} {took}: {of.proved}."
        told |= {
            "accepted": True, "seconds": answer.seconds, "library_seconds": library_seconds,
            "axioms": list(answer.axioms), "proved": of.proved,
        }  # fmt: skip
    with writing(path.parent, "--coq"):
        write(path, of.text)
    return {"coq": told}, [said]
