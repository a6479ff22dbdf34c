"""`fedtheory audit`: someone's implementation of a method held to the method, check by check."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fedtheory.cli.common import emit, out_console, progress, save, slug, wrote
from fedtheory.errors import DataFileError, InvalidInput, suggest
from fedtheory.report.stacked import plain_table
from fedtheory.untrusted import decimal, whole

if TYPE_CHECKING:
    from fedtheory.testing.audit import AuditReport

__all__ = ["audit", "list_audits", "loaded", "named"]

STYLES = {"pass": "green", "fail": "bold red", "note": "yellow", "does not apply": "dim", "not run": "yellow"}
SHORT = {"fail": "FAIL"}


def list_audits(as_json: bool, out: Path | None) -> int:
    """The methods that can be audited, what an adapter for each is handed, and the checks."""
    from fedtheory.testing.audit import METHODS, check_names, mistakes_of

    methods = [
        {
            "method": m.name, "source": m.source,
            "settings": ["learning_rate", "local_steps", *m.settings], "state": m.state,
            "weighting": m.weighting, "mistakes": [k.words for k in mistakes_of(m.name)],
        }
        for m in METHODS.values()
    ]
    told = {"methods": methods, "checks": check_names()}
    save(out, "audits", told)
    if as_json:
        emit(told)
        return 0
    table = plain_table(("method", "weighting", "settings", "state"), whole=(0, 1))
    for m in METHODS.values():
        table.add_row(m.name, m.weighting, " ".join(("learning_rate", "local_steps", *m.settings)), " ".join(m.state))
    console = out_console()
    console.print(table)
    checks = plain_table(("check", "what passes"), whole=(0,))
    for name, what in check_names().items():
        checks.add_row(name, what)
    console.print()
    console.print(checks)
    return 0


def loaded(where: str) -> Any:
    """The adapter that FILE.py:NAME or MODULE:NAME names."""
    found = named(where, "adapter")
    return _object_of(found, where) if isinstance(found, type) else found


def named(where: str, what: str, is_one: Callable[[Any], bool] = callable) -> Any:
    """The object that FILE.py:NAME or MODULE:NAME names, which is imported.

    is_one : tells what is proposed in place of a name that is not there
    """
    module_name, colon, name = where.rpartition(":")
    if not colon or not module_name or not name:
        raise InvalidInput(f"{where}: name the {what} as well, as in mine.py:my_round or package.module:my_round")
    module = _module(module_name)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            known = [n for n, v in vars(module).items() if is_one(v) and not n.startswith("_")]
            raise suggest(name, known, what, "" if known else f"{module_name} has no {what}")
        found = getattr(found, part)
    return found


def _object_of(made_by: type, where: str) -> Any:
    """An object of a class of adapters."""
    why = "has no method round"
    if hasattr(made_by, "round"):
        try:
            return made_by()
        except Exception as error:  # someone else's code
            why = f"gives no object without arguments ({type(error).__name__}: {error})"
    raise InvalidInput(
        f"{where} is a class that {why}. "
        "An adapter is a function round(state, clients, cohort, learning_rate, local_steps, ...) "
        "that calls it, or an object with init, round and model."
    )


def _module(name: str) -> ModuleType:
    """FILE.py, or a module by its name, imported; what lies beside it can be imported, too."""
    path = Path(name) if name.endswith(".py") else None
    if path is not None and not path.is_file():
        raise DataFileError(f"{path}: no such file; give a Python file")
    beside = os.getcwd() if path is None else str(path.resolve().parent)
    if beside not in sys.path:
        sys.path.insert(0, beside)
    try:
        if path is None:
            return importlib.import_module(name)
        loader = SourceFileLoader(f"fedtheory_audited_{path.stem}", str(path))
        module = ModuleType(loader.name)
        module.__file__ = str(path)
        sys.modules[loader.name] = module  # dataclasses of the file look for it there
        loader.exec_module(module)
        return module
    except SyntaxError as error:
        raise InvalidInput(f"{name}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        where = f", line {frames[-1].lineno} of {Path(frames[-1].filename).name}" if frames else ""
        raise InvalidInput(f"{name} cannot be imported{where}: {type(error).__name__}: {error}") from error


def _settings(pairs: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        try:
            found[name] = whole(text) if text.strip("+-").isdecimal() else decimal(text)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise InvalidInput(f"--built-in {pair}: give NAME=NUMBER, as in beta1=0.9")
    return found


def audit(where: str, as_: str, options: Mapping[str, Any], built_in: Sequence[str], as_json: bool, out: Path | None) -> int:
    """Audit one adapter; 1 where a check fails."""
    from fedtheory.provenance import provenance
    from fedtheory.testing.audit import METHODS, audit_algorithm, check_names

    as_ = as_.lower()
    if as_ not in METHODS:
        raise suggest(as_, list(METHODS), "method", "`fedtheory audit --list` has all")
    settings = _settings(built_in)
    with redirect_stdout(sys.stderr):  # what the implementation prints is no result of ours
        adapter = loaded(where)
    with progress("auditing", len(check_names())) as advance, redirect_stdout(sys.stderr):
        report = audit_algorithm(adapter, as_, settings=settings, **options, progress=lambda _: advance(1))
    report = replace(report, adapter=where)
    told = {**report.to_json(), "provenance": provenance(options.get("seed", 0))}
    file = save(out, f"audit-{slug(as_)}-{slug(where.rpartition(':')[2])}", told)
    if as_json:
        emit({**told, "file": file})
    else:
        _show(report, where)
        wrote([file])
    return 0 if report.passed else 1


def _show(report: AuditReport, where: str) -> None:
    console = out_console()
    console.print(Text(f"{where}, as {report.method} ({report.source})", "bold"))
    table = plain_table(("check", "verdict", "expected", "got"), whole=(0, 1), wide=(2, 3))
    apart = [f for f in report.findings if f.verdict == "does not apply"]
    for f in report.findings:
        verdict = Text(SHORT.get(f.verdict, f.verdict), STYLES[f.verdict])
        if f.verdict == "does not apply":
            continue
        if f.verdict == "not run":
            table.add_row(f.check, verdict, "", Text(f.hint))
            continue
        hint = "" if report.explanations or f.verdict == "pass" or not f.hint else f": {f.hint}"
        table.add_row(f.check, verdict, Text(f.expected), Text(f.got + hint))
    console.print(table)
    if apart:
        console.print(Text(f"do not apply (--json says why): {', '.join(f.check for f in apart)}", "dim"))
    console.print()
    console.print(Text(report.sentence))
