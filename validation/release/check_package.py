"""Build the sdist and the wheel, check both, and try the wheel in a clean environment on every
Python there is: `make package`.

A Python is one of the commands python3.11, python3.12... on PATH or among pyenv's versions, or one
that is named:

    python validation/release/check_package.py [PYTHON...]
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEAST = (3, 11)  # `requires-python`
SMOKE = Path(__file__).with_name("smoke.py")
# what a packager needs of the sdist, and what a user needs of the wheel
IN_SDIST = ("LICENSE", "README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml", "constraints.txt", "tests/", "docs/", "examples/")
IN_WHEEL = (
    "fedtheory/py.typed", "fedtheory/theorems/fedelasticnet/witnesses/", "fedtheory/theorems/formulas.json",
    "fedtheory/report/formulas.json", "paper_figures/fedelasticnet/figures.py",
)  # fmt: skip
NEVER = ("results/", ".venv/", "dist/", "__pycache__/")


def run(*command: str | Path, **more: object) -> None:
    subprocess.run([str(part) for part in command], check=True, **more)  # type: ignore[call-overload]


def works(python: Path) -> bool:
    """Return whether this Python starts.

    pyenv puts a command on PATH for every version, whether it is switched on or not.
    """
    return subprocess.run([python, "-c", ""], capture_output=True).returncode == 0


def pythons() -> list[str]:
    """One of every python3.N, N >= 11, on PATH or among pyenv's versions."""
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [Path(f) for f in os.environ.get("PATH", "").split(os.pathsep)] + sorted(installed.glob("*/bin"))
    found: dict[int, Path] = {}
    for folder in folders:
        for path in sorted(folder.glob("python3.*")):
            match = re.fullmatch(r"python3\.(\d+)", path.name)
            if match and (3, int(match[1])) >= LEAST and int(match[1]) not in found and works(path):
                found[int(match[1])] = path
    return [str(found[minor]) for minor in sorted(found)]


def lacking(names: list[str], wanted: tuple[str, ...]) -> list[str]:
    return [w for w in wanted if not any(n == w or n.startswith(w) for n in names)]


def built(out: Path) -> tuple[Path, Path]:
    """The sdist and the wheel, made and checked."""
    run(sys.executable, "-m", "build", "--outdir", out, ROOT, stdout=subprocess.DEVNULL)
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
    run(Path(sys.executable).with_name("check-wheel-contents"), wheel)
    with tarfile.open(sdist) as archive:
        in_sdist = [n.partition("/")[2] for n in archive.getnames()]
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = archive.namelist()
    missing = [f"sdist: {n}" for n in lacking(in_sdist, IN_SDIST)] + [f"wheel: {n}" for n in lacking(in_wheel, IN_WHEEL)]
    too_much = [n for n in (*in_sdist, *in_wheel) if any(n.startswith(never) or f"/{never}" in n for never in NEVER)]
    if missing or too_much:
        raise SystemExit(f"missing: {', '.join(missing) or 'nothing'}; not to be there: {', '.join(too_much[:5]) or 'nothing'}")
    size = wheel.stat().st_size / 2**20
    print(f"{sdist.name} ({len(in_sdist)} files), {wheel.name} ({len(in_wheel)} files, {size:.1f} MiB)", flush=True)
    return sdist, wheel


def tried(wheel: Path, python: str, folder: Path) -> None:
    """The wheel alone in a new environment, outside the checkout."""
    start = time.perf_counter()
    run(python, "-m", "venv", folder / "venv")
    inside = folder / "venv" / "bin" / "python"
    run(inside, "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    run(inside, "-m", "pip", "check", "--disable-pip-version-check", stdout=subprocess.DEVNULL)
    shutil.copy(SMOKE, folder / "smoke.py")
    shutil.copy(ROOT / "examples" / "descent_lemma.py", folder / "descent_lemma.py")
    run(inside, "-W", "error::DeprecationWarning:fedtheory", "smoke.py", cwd=folder, env=clean)
    print(f"{python}: the wheel works, {time.perf_counter() - start:.0f} s", flush=True)


def main() -> None:
    chosen = sys.argv[1:] or pythons()
    if not chosen:
        raise SystemExit("no python3.11 or later on PATH: name one, as in check_package.py /path/to/python3.12")
    out = ROOT / "dist"
    shutil.rmtree(out, ignore_errors=True)
    _, wheel = built(out)
    for python in chosen:
        with tempfile.TemporaryDirectory() as folder:
            tried(wheel, python, Path(folder))


if __name__ == "__main__":
    main()
