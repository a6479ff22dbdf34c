"""The audit on the federated methods of packages that are installed here: which are the method that
they are named after.

    python validation/audits/real_packages.py [--package flwr] [--out validation/audits/real_packages]

It audits what it finds (flwr; pfl and fedlab, which need torch), and writes OUT.md and OUT.json. A
run takes two to ten minutes. Packages that are not installed keep the rows that OUT.json has of
them, each with its version and day. What is audited stands in package_cases.py.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from fedtheory.provenance import provenance, write_atomic, write_json
from fedtheory.testing.audit import AuditReport, audit_algorithm

sys.path.insert(0, str(Path(__file__).resolve().parent))
from package_cases import NEEDS_TORCH, PACKAGES, Case, has

HERE = Path(__file__).resolve().parent

LIMIT = 300.0
COMMAND = "python validation/audits/real_packages.py"


def row_of(case: Case, report: AuditReport, seconds: float) -> dict[str, Any]:
    """One line of the table, with every check of it."""
    version = metadata.version(case.package)
    versions = {case.package: version, **({"torch": metadata.version("torch")} if has("torch") else {})}
    return {
        "package": case.package, "version": version, "versions": versions, "day": datetime.now(UTC).date().isoformat(),
        "what": case.what, "method": case.method, "note": case.note, "remark": case.remark, "asked": case.options,
        "seconds": round(seconds, 1), **report.to_json(), "adapter": case.what,
    }  # fmt: skip


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("_", "\\_")


def _named(row: dict[str, Any]) -> str:
    """An implementation, with what was changed or chosen here, and what it is held to."""
    what = f"`{row['what']}`" if " " not in row["what"] else _cell(row["what"])
    asked = ", ".join(f"{k} = {v}" for k, v in row["asked"].items() if k != "settings")
    return what + (f", {_cell(row['note'])}" if row["note"] else "") + (f" ({asked})" if asked else "")


def _section(name: str, rows: list[dict[str, Any]]) -> list[str]:
    """A package: what differs, what there is to say of it, and what passes."""
    lines = ["", f"## {name} {' and '.join(sorted({r['version'] for r in rows}))}"]
    differs = [r for r in rows if not r["passed"]]
    remarks = list(dict.fromkeys(r["remark"] for r in differs if r["remark"]))
    if differs:
        lines += ["", "| implementation | held to | fails | what gives all its numbers |", "|---|---|---|---|"]
    for r in differs:
        applied = [c for c in r["checks"] if c["verdict"] in ("pass", "fail", "note", "not run")]
        bad = [c for c in applied if c["verdict"] in ("fail", "not run")]
        said = " *or* ".join(" *and* ".join(_cell(m["words"]) for m in e) for e in r["explanations"])
        mark = f" ({remarks.index(r['remark']) + 1})" if r["remark"] else ""
        lines.append(
            f"| {_named(r)} | {r['method']} | {len(bad)} of {len(applied)}{mark} "
            f"| {said or 'no known mistake, nor two of them'} |"
        )
    lines += [*([""] if remarks else []), *(f"{i}. {text}" for i, text in enumerate(remarks, start=1))]
    passed = [r for r in rows if r["passed"]]
    if passed:
        lines += ["", "Pass in all checks that apply:", ""]
        lines += [
            f"- {_named(r)}" + (f": {r['method']}" if r["method"] not in r["what"].lower() else "") for r in passed
        ]
    return lines


def table(rows: list[dict[str, Any]], command: str, python: str) -> str:
    """The rows as a page in Markdown."""
    days = sorted({r["day"] for r in rows})
    failed = [r for r in rows if not r["passed"]]
    lines = [
        "# The audit on packages as they are installed",
        "",
        f"{len(rows)} implementations were held to their methods: {len(rows) - len(failed)} pass, {len(failed)} do not.",
        "A pass says that in every check that applies the numbers are the method's, to rounding (pfl, which",
        "computes in single precision: to 3e-4). A failure says which change of the method gives all the numbers",
        "that came out instead. Each row was run with the versions that stand here, and says nothing of others.",
        "Not every difference is a mistake: some are a package's choice. Where a row has a change made here, the",
        "change is ours.",
        "",
        f"    {command}",
        "",
        f"Run on {' and '.join(days)}, Python {python}. All checks of each row are in `real_packages.json`.",
    ]
    for name in dict.fromkeys(r["package"] for r in rows):
        lines += _section(name, [r for r in rows if r["package"] == name])
    return "\n".join(lines) + "\n"


def main(
    package: Annotated[list[str] | None, typer.Option(help="Only these: " + ", ".join(PACKAGES))] = None,
    out: Annotated[Path, typer.Option(help="Files to write, without their endings")] = HERE / "real_packages",
) -> None:
    """Audit the federated methods of installed packages."""
    console = Console(stderr=True)
    unknown = [p for p in package or [] if p not in PACKAGES]
    if unknown:
        console.print(f"--package {unknown[0]}: use {', '.join(PACKAGES)}", style="red")
        raise typer.Exit(2)
    data = out.with_suffix(".json")
    kept = json.loads(data.read_text(encoding="utf-8"))["rows"] if data.exists() else []
    rows = []
    for name in PACKAGES:
        there = has(name) and (name not in NEEDS_TORCH or has("torch"))
        if not there or (package and name not in package):
            rows += [r for r in kept if r["package"] == name]
            console.print(f"{name}: {'left out' if there else 'not installed'}")
            continue
        for cases in PACKAGES[name]:
            for case in cases():
                console.print(f"{name}: {case.what} as {case.method}")
                begun = time.perf_counter()
                report = audit_algorithm(case.adapter, case.method, time_limit=LIMIT, **case.options)
                rows.append(row_of(case, report, time.perf_counter() - begun))
                console.print(f"    {report.sentence}", highlight=False)
    if not rows:
        console.print("none of flwr, pfl and fedlab is installed: pip install flwr", style="red")
        raise typer.Exit(2)
    told = provenance(seed=0)
    write_json(data, {"provenance": told, "rows": rows})
    write_atomic(out.with_suffix(".md"), table(rows, COMMAND, told["python"]))
    sys.stdout.write(f"{out.with_suffix('.md')}\n")


if __name__ == "__main__":
    typer.run(main)
