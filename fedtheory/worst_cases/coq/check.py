"""A theorem's file with the library beside it, and Coq's word on them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fedtheory.errors import InvalidInput, NotCertified
from fedtheory.provenance import write_atomic

LIBRARY = "Fedtheory"  # its logical name, and the folder that it is written to
SECONDS = 900  # that Coq may take for one file
INSTALL = (
    "Coq is not installed (no coqc on the PATH): `apt install coq` on Debian and Ubuntu, "
    "`brew install coq` elsewhere"
)
AXIOMS = frozenset(
    {  # those that Coq's own real numbers rest on
        "ClassicalDedekindReals.sig_forall_dec",
        "ClassicalDedekindReals.sig_not_dec",
        "FunctionalExtensionality.functional_extensionality_dep",
    }
)
HEADS = ("Axioms:", "Closed under the global context")  # of what `Print Assumptions` says
_NEEDS = re.compile(rf"^From {LIBRARY} Require (?:Import|Export) ([\w ]+)\.", re.MULTILINE)
_STATES = re.compile(r"^Definition (\w+) : Prop :=", re.MULTILINE)
ASKED = """From Stated Require theorem.
Definition said : Stated.theorem.{name} := Stated.theorem.proof.
Print Assumptions said.
"""  # by full names, in a file that imports nothing: what the theorem's own prints is no matter
_SAID = re.compile(
    r'File "[^"]*?([^/"]+)", line (\d+), characters [^\n]*\n(?:Error:)?\s*(.*)', re.DOTALL
)


@dataclass(frozen=True)
class Answer:
    """Coq's answer about a theorem.

    Attributes
    ----------
    version : of Coq
    accepted : True if its kernel accepts the theorem, from no axioms but those of the real numbers
    seconds : that it took for the theorem
    axioms : that the theorem rests on
    said : where and why it is refused; '' where it is accepted
    """

    version: str
    accepted: bool
    seconds: float
    axioms: tuple[str, ...]
    said: str


def library() -> dict[str, str]:
    """name -> text of the library's files."""
    return {file.stem: file.read_text() for file in sorted(Path(__file__).parent.glob("*.v"))}


def definitions_lines(name: str = "definitions") -> int:
    """The number of lines of a file that a reader of a theorem must believe."""
    return len(library()[name].splitlines())


def needed(text: str, files: Mapping[str, str]) -> list[str]:
    """The library's files that a text needs, each after those that it needs itself."""
    found: dict[str, None] = {}
    for names in _NEEDS.findall(text):
        for name in filter(files.__contains__, names.split()):
            found |= dict.fromkeys([*needed(files[name], files), name])
    return list(found)


def commands(file: str, text: str) -> str:
    """Return the commands by which Coq checks a file with a text, in its folder."""
    files = " ".join(needed(text, library()))
    of = f"-Q {LIBRARY} {LIBRARY}"
    return f"for f in {files}; do coqc {of} {LIBRARY}/$f.v || break; done; coqc {of} {file}"


def check_name(path: Path) -> None:
    """Refuse a file name that Coq takes for no module.

    Raises
    ------
    InvalidInput
        It, and a name that will do.
    """
    if path.suffix != ".v" or not re.fullmatch(r"[A-Za-z_]\w*", path.stem, re.ASCII):
        better = re.sub(r"\W+", "_", path.stem, flags=re.ASCII).lstrip("_0123456789") or "theorem"
        raise InvalidInput(
            f"{path}: Coq wants a name of letters, digits and _ that ends in .v, "
            f"such as {path.with_name(better)}.v"
        )
    if (folder := path.parent / LIBRARY).exists() and not folder.is_dir():
        raise InvalidInput(
            f"{folder} is no folder, and the library is written there: write {path.name} elsewhere"
        )


def write(path: Path, text: str) -> None:
    """Write a theorem, and what it needs of the library beside it, each file whole or not at all."""
    check_name(path)
    files = library()
    for name in needed(text, files):
        write_atomic(path.parent / LIBRARY / f"{name}.v", files[name])
    write_atomic(path, text)


def version() -> str | None:
    """The version of the coqc that is found; None where there is none."""
    if shutil.which("coqc") is None:
        return None
    return _coqc(Path.cwd(), ["--print-version"], SECONDS).stdout.split(" ")[0].strip()


def _kept() -> Path:
    """The folder in the user's cache of the library as this Coq compiles it."""
    coqc = Path(shutil.which("coqc") or "coqc").resolve()
    of = (version(), str(coqc), coqc.stat().st_mtime_ns, library())
    name = f"coq-{hashlib.sha256(repr(of).encode()).hexdigest()[:16]}"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "fedtheory", name)


@cache
def _of_this_process() -> tempfile.TemporaryDirectory[str]:
    """A folder for the library if no cache can be written, which ends with the process."""
    return tempfile.TemporaryDirectory(prefix="fedtheory-coq-")


def compiled() -> tuple[Path, float]:
    """The folder of the compiled library, and the seconds that this took: 0 if it was there.

    Raises
    ------
    NotCertified
        Coq does not accept the library, as one of another version may not.
    """
    folder, begun = _kept(), time.monotonic()
    if folder.is_dir():
        return folder, 0.0
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = folder.with_suffix(".lock").open("w")
    except OSError:
        folder = Path(_of_this_process().name, folder.name)
        lock = folder.with_suffix(".lock").open("w")
    with lock, tempfile.TemporaryDirectory(dir=folder.parent, prefix=".coq-") as temporary:
        with suppress(ModuleNotFoundError):  # Windows has no such lock: each then compiles its own
            import fcntl

            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():  # another process has compiled it while this one waited
            return folder, 0.0
        _compile(Path(temporary, LIBRARY))
        os.replace(temporary, folder)
    return folder, time.monotonic() - begun


def _compile(folder: Path) -> None:
    """Compile the library in a folder of its name."""
    files = library()
    for name in needed(f"From {LIBRARY} Require Import {' '.join(files)}.", files):
        file = write_atomic(folder / f"{name}.v", files[name])
        ended = _coqc(folder.parent, ["-noglob", str(file)])
        if ended.returncode or not file.with_suffix(".vo").exists():
            raise NotCertified(
                f"Coq {version()} refuses {LIBRARY}/{name}.v at {_why(ended.stderr)}: take Coq 8.16"
            )


def checked(text: str, seconds: float = SECONDS) -> Answer:
    """Ask Coq about the text of a theorem, and stop it after so many seconds.

    Raises
    ------
    InvalidInput
        Coq is not installed, or takes longer.
    """
    if (number := version()) is None:
        raise InvalidInput(INSTALL)
    folder, _ = compiled()
    name = _STATES.search(text)
    with tempfile.TemporaryDirectory(prefix="fedtheory-coq-") as temporary:
        file, question = Path(temporary, "theorem.v"), Path(temporary, "asked.v")
        file.write_text(text)
        question.write_text(ASKED.format(name=name[1] if name else "statement"))
        begun, stated = time.monotonic(), ["-Q", temporary, "Stated"]
        ended, where = _coqc(folder, [*stated, str(file)], seconds), ""
        if not ended.returncode:
            ended, where = _coqc(folder, [*stated, str(question)], seconds), "its end, "
        took = time.monotonic() - begun
    said, told = where + _why(ended.stderr) if ended.returncode else "", ended.stdout.strip()
    axioms = tuple(
        line.split()[0]
        for line in told.splitlines()
        if not line.startswith(" ") and line not in HEADS
    )
    if not said and not told.startswith(HEADS):
        said = "its end: it says nothing of axioms"
    elif not said and (more := sorted(set(axioms) - AXIOMS)):
        said = f"its end: it rests on more than the real numbers, {', '.join(more)}"
    return Answer(number, not said, took, axioms, said)


def _coqc(
    folder: Path, arguments: list[str], seconds: float = SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run coqc in a folder, without a user's settings."""
    command = ["coqc", "-q", "-Q", LIBRARY, LIBRARY, *arguments]
    try:
        return subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InvalidInput(
            f"Coq has not ended after {seconds:g} seconds: take fewer rounds or local steps"
        ) from None


def _why(stderr: str) -> str:
    """'line 12: ...' of what coqc wrote where it refuses a file."""
    found = _SAID.search(stderr)
    said = " ".join((found[3] if found else stderr).split())[:300] or "without a word"
    return f"line {found[2]}: {said}" if found else said
