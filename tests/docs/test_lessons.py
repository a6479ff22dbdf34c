"""The lessons run: every cell of every text notebook, in this process, and every exercise has a folded solution."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import jupytext
import pytest
from repository import ROOT

LESSONS = sorted((ROOT / "docs" / "lessons").glob("[0-9]*.md"))
EXERCISE = re.compile(r"^### Exercise (\d+)\.(\d+)\b", re.M)
SHOWN = ("_repr_html_", "_repr_markdown_", "_repr_latex_")


def cells(path: Path) -> list:
    return jupytext.read(path).cells


def tags(cell) -> set[str]:
    return set(cell.metadata.get("tags", ()))


def show(value: object) -> None:
    """Show the value of a cell's last line as a notebook does."""
    for name in SHOWN:
        if hasattr(value, name):
            getattr(value, name)()
    repr(value)


def run(source: str, name: str, namespace: dict) -> None:
    """A cell as Jupyter runs it: statements, and then the value of the last line is shown."""
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    if last is not None:
        show(eval(compile(ast.Expression(last.value), name, "eval"), namespace))


@pytest.mark.parametrize("path", LESSONS, ids=[p.stem for p in LESSONS])
def test_every_cell_of_a_lesson_runs(path, coqs_cache, tmp_path, monkeypatch):
    import matplotlib

    monkeypatch.chdir(tmp_path)  # and a lesson leaves nothing there
    monkeypatch.setenv("FEDTHEORY_LESSONS", "strict")
    namespace: dict = {"__name__": "__main__"}
    with matplotlib.rc_context():
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt

        try:
            for number, cell in enumerate(cells(path)):
                if cell.cell_type == "code":
                    run(cell.source, f"{path.name}, cell {number}", namespace)
            assert plt.get_fignums(), f"{path.name} draws nothing"
        finally:
            plt.close("all")
    assert not list(tmp_path.iterdir())


def checks(path: Path) -> list[str]:
    """The lines that stand alone in a lesson's code and assert something, with nobody to catch it."""
    nodes = [node for c in cells(path) if c.cell_type == "code" for node in ast.parse(c.source).body]
    return [ast.unparse(n) for n in nodes if not isinstance(n, ast.With | ast.FunctionDef) and "assert " in ast.unparse(n)]


@pytest.mark.parametrize("path", LESSONS, ids=[p.stem for p in LESSONS])
def test_no_check_stops_who_changes_a_lesson(path):
    assert checks(path) == []


def test_who_changes_the_clients_is_told_which_numbers_no_longer_apply(tmp_path, monkeypatch, capsys):
    import matplotlib

    [drift] = [path for path in LESSONS if path.stem == "1_drift"]
    code = [cell.source for cell in cells(drift) if cell.cell_type == "code"]
    upto = next(n for n, source in enumerate(code) if "with numbers_of_the_text" in source) + 1
    changed = [source.replace("h, c = np.array([1.0, 3.0])", "h, c = np.array([1.0, 2.0])") for source in code[:upto]]
    assert changed != code[:upto]
    with matplotlib.rc_context():
        matplotlib.use("Agg")
        for strict in (False, True):
            namespace: dict = {"__name__": "__main__"}
            monkeypatch.setenv("FEDTHEORY_LESSONS", "strict" if strict else "")
            for source in changed[:-1]:
                run(source, "a cell", namespace)
            if strict:
                with pytest.raises(AssertionError):
                    run(changed[-1], "a cell", namespace)
            else:
                run(changed[-1], "a cell", namespace)
                assert "You changed the lesson: these numbers of the text no longer apply" in capsys.readouterr().out


@pytest.mark.parametrize("path", LESSONS, ids=[p.stem for p in LESSONS])
def test_every_exercise_has_a_solution_that_is_folded_and_run(path):
    exercises: dict[str, int] = {}
    current = None
    for cell in cells(path):
        if cell.cell_type == "markdown":
            for line in cell.source.splitlines():
                if line.startswith("#"):
                    match = EXERCISE.match(line)
                    current = f"{match[1]}.{match[2]}" if match else None
                    if match:
                        exercises[current] = 0
        elif current is not None:
            assert {"hide-cell", "solution"} <= tags(cell), f"{path.name}, exercise {current}: its solution stands open"
            exercises[current] += 1
    number = path.stem.partition("_")[0]
    assert list(exercises) == [f"{number}.{i}" for i in range(1, len(exercises) + 1)]
    assert len(exercises) >= 3
    missing = [name for name, solutions in exercises.items() if not solutions]
    assert not missing, f"{path.name}: exercises without a solution: {missing}"


@pytest.mark.parametrize("path", LESSONS, ids=[p.stem for p in LESSONS])
def test_a_lesson_has_one_title_with_its_number_and_every_picture_is_described(path):
    prose = [line for c in cells(path) if c.cell_type == "markdown" for line in c.source.splitlines()]
    titles = [line for line in prose if line.startswith("# ")]
    assert len(titles) == 1 and titles[0].startswith(f"# {path.stem[0]}. ")
    for cell in cells(path):
        if cell.cell_type == "code" and ("plt.subplots" in cell.source or "plt.figure" in cell.source):
            assert cell.metadata["mystnb"]["image"]["alt"], f"{path.name}: a picture without a description"


def test_the_index_names_every_lesson():
    index = (LESSONS[0].parent / "index.md").read_text()
    for path in LESSONS:
        assert f"]({path.name})" in index
        assert f"\n{path.stem}\n" in index
        assert f"<{path.name}>`" in index, "and has a link that downloads it"
