"""A user's first steps with the installed package alone.

`check_package.py` runs them in a clean environment.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path


def command(*words: str) -> str:
    """The standard output of a `fedtheory` command."""
    program = Path(sys.executable).with_name("fedtheory")
    return subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout


def main() -> None:
    import fedtheory

    here = Path(fedtheory.__file__).parent
    assert Path(sys.prefix) in here.parents, f"{here} is not in {sys.prefix}: not the installed package"
    assert fedtheory.__version__ == metadata.version("fedtheory") == command("--version").split()[1]
    assert resources.files("fedtheory").joinpath("py.typed").is_file()
    assert not {"torch", "cvxpy", "matplotlib"} & set(sys.modules), "import fedtheory loads too much"
    statements = json.loads(command("list", "--json"))
    assert len(statements) > 100
    checked = json.loads(command("verify", "theorem-3.1", "--problem", "diabetes", "--participants", "2", "--json"))
    assert checked["as_recorded"] and checked["provenance"]["commit"] is None
    witness = json.loads(command("list", "witnesses", "--json"))[0]
    command("replay", witness["name"] if isinstance(witness, dict) else witness)
    assert json.loads(command("experiment", "--json")) and json.loads(command("reviews", "--json"))
    figures = [sys.executable, "-m", "paper_figures", "efl_theorem2", "--quick", "--out", "results"]
    subprocess.run(figures, check=True, capture_output=True)
    command("draw", "results/efl_theorem2.json")
    mine = json.loads(command("verify", "descent_lemma.py", "--json", "--out", "results"))
    assert mine["complete"], "a theorem in a file"
    assert Path("results", "report.html").is_file()


if __name__ == "__main__":
    main()
