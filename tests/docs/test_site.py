"""The README and the site: their commands parse, their code runs, their links lead somewhere, and they name what exists.

The whole site is built by `make docs`; here is what can be known of it without building it.
"""

from __future__ import annotations

import csv
import fnmatch
import importlib
import re
import shlex
import sys
import types
from dataclasses import replace
from functools import cache
from pathlib import Path
from unittest.mock import MagicMock

import click
import matplotlib.pyplot as plt
import numpy as np
import pytest
import typer
from cases import each
from repository import ROOT

import fedtheory
from fedtheory.cli import app
from fedtheory.cli.common import SHIPPED, find_statement, shipped_witnesses
from fedtheory.problems import load_svmlight

DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = sorted(p for p in DOCS.rglob("*.md") if not {"statements", "commands", "api"} & set(p.relative_to(DOCS).parts))
NAMES = [p.relative_to(DOCS).as_posix() for p in PAGES]
STORIES = sorted((DOCS / "papers").glob("*.md"))
WORD = re.compile(r"\b(FILE|FOLDER|NAME|STATEMENT|PAPER|ID)\b")


@cache
def text_of(page):
    return page.read_text()


def blocks(text, *languages):
    """The fenced blocks of these languages."""
    return [body for lang, body in re.findall(r"^ *```\{?([\w-]*)\}?[^\n]*\n(.*?)^ *```", text, re.S | re.M) if lang in languages]


def prose(text):
    """The text without its fenced blocks and code in line."""
    return re.sub(r"`[^`]*`", "", re.sub(r"^ *(```+|~~~+).*?^ *\1", "", text, flags=re.S | re.M))


def commands(text):
    """List the commands that a text shows: in blocks, in indented lines, and as code in a line."""
    shown = "\n".join(blocks(text, "sh", "console", "bash"))
    shown = re.sub(r" *\\\n\s*", " ", shown + "\n" + re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    lines = re.findall(r"^(?:\$ | {4})?(fedtheory .*)$", shown, re.M)
    lines += re.findall(r"`(fedtheory [^`]*)`", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M))
    lines += re.findall(r"\{program-output\} (fedtheory .*)", text)
    return [" ".join(re.sub(r"\s+# .*", "", line).split()) for line in lines]


SHOWN = sorted({(page.relative_to(ROOT).as_posix(), c) for page in (README, *PAGES) for c in commands(text_of(page))})


def test_no_page_holds_the_marks_of_a_merge():
    for page in (*PAGES, *ROOT.glob("*.md")):
        assert not re.search(r"^(<{7}|={7}|>{7})( |$)", text_of(page), re.M), page


def test_every_page_is_in_a_table_of_contents():
    reached, todo = set(), ["index.md"]
    while todo:
        name = todo.pop()
        if name in reached:
            continue
        reached.add(name)
        page = DOCS / name
        for body in blocks(text_of(page), "toctree"):
            for entry in (re.sub(r".*<(.*)>$", r"\1", ln.strip()) for ln in body.splitlines()):
                if entry and not entry.startswith(":"):
                    wanted = (page.parent / f"{entry}.md").resolve()
                    todo += [n for n, p in zip(NAMES, PAGES, strict=True) if fnmatch.fnmatch(str(p), str(wanted))]
    assert set(NAMES) == reached


@each(("page", "command"), SHOWN)
def test_every_command_that_is_shown_is_one(page, command):
    program, *words = shlex.split(command.replace("...", "X"))
    assert program == "fedtheory"
    group = typer.main.get_command(app)
    if not words or words[0].startswith("-"):
        assert not words or words[0] in ("--help", "--version")
        return
    name, *words = words
    assert name in group.commands, f"{page}: there is no command {name}"
    if not words:
        return
    helps = {"--help", "--help-all"}
    if WORD.search(command) or "X" in words or helps & {*words} or "..." in command:
        params = group.commands[name].params
        options = {o for p in params for o in (*p.opts, *p.secondary_opts)} | helps
        assert {w.partition("=")[0] for w in words if re.match(r"--?[a-zA-Z]", w)} <= options
        return
    if "--problem" in words and words[words.index("--problem") + 1].endswith(".json"):
        return  # the file is made by the command before
    found = group.commands[name].make_context(name, words[: words.index(">")] if ">" in words else list(words)).params
    whole = rf"\.py|/$|^[a-z-]+/$|^({'|'.join(SHIPPED)})$"  # a file, or a paper
    if name in ("explain", "verify") and found["statement"] and not re.search(whole, found["statement"]):
        find_statement(found["statement"])
    if name == "replay" and not found["file"].endswith(".json"):
        assert found["file"] in {w.name for w in shipped_witnesses()}


def small_run_on_a_small_cluster(monkeypatch, request):
    """The names that the page on sweeps takes for granted: a small run, and a Dask cluster of threads for that of a queue."""
    distributed = pytest.importorskip("distributed")
    from concurrent.futures import ThreadPoolExecutor

    from fedtheory.algorithms import FedAvg
    from fedtheory.parallel import chosen_engine
    from fedtheory.problems import LeastSquares
    from fedtheory.simulation import simulate

    def small(problem, algorithm, rounds, scenarios, workers):
        assert (rounds, scenarios, workers) == (100, 1000, 8)
        assert chosen_engine(1) is not None  # one that was set where this is called
        simulate(problem, algorithm, 2, scenarios=4, workers=2)

    def cluster(**_):
        return SmallCluster(n_workers=1, processes=False, dashboard_address=None)

    class SmallCluster(distributed.LocalCluster):
        def scale(self, jobs):
            super().scale(min(jobs, 2))

    active = distributed.Client(cluster())
    request.addfinalizer(active.shutdown)
    problem = LeastSquares([np.eye(2)] * 2, [np.ones(2), np.zeros(2)])
    monkeypatch.setitem(sys.modules, "dask_jobqueue", types.SimpleNamespace(SLURMCluster=cluster))
    return {"simulate": small, "problem": problem, "FedAvg": FedAvg, "my_executor": ThreadPoolExecutor(1)}


@pytest.mark.parametrize("name", [n for n in NAMES if "```python" in text_of(DOCS / n) and "lessons" not in n])
def test_the_python_of_a_page_runs(name, capsys, monkeypatch, request, tmp_path):
    names = {}
    plt.close("all")  # what another page has drawn
    if name == "sweeps.md":
        names = small_run_on_a_small_cluster(monkeypatch, request)
    if name == "your/theorem.md":
        monkeypatch.chdir(ROOT / "examples")  # where its files are
    if name == "your/problem.md":
        monkeypatch.chdir(tmp_path)
        Path("FILE.csv").write_text("a,b,target\n0,2,3\n0,5,6\n")
    if name == "your/network.md":
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("MPLBACKEND", "Agg")
        board = MagicMock()
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", types.SimpleNamespace(SummaryWriter=board))
    for code in blocks(text_of(DOCS / name), "python"):
        if "torch" in code:
            pytest.importorskip("torch").manual_seed(0)
        exec(compile(code, name, "exec"), names)
    printed = capsys.readouterr().out
    if name == "your/problem.md":
        assert "fedelasticnet/theorem-3.1 [repaired, sign rule]: holds" in printed
        assert load_svmlight("FILE.svmlight").features.tolist() == [[0, 2], [0, 5]]
    if name == "your/network.md":
        made, told = list(csv.DictReader(Path("run.csv").open())), board.return_value.add_scalar.call_args_list
        first, metrics = names["run"].metrics, names["again"].metrics
        assert made == [{"round": str(t), **{name: str(v[t, 0]) for name, v in first.items()}} for t in (0, 1, 2, 3)]
        assert [c.args for c in told] == [(name, metrics[name][t, 0], t) for t in (1, 2, 3) for name in metrics]
        board.assert_called_once_with("board", purge_step=1)
        start, end, size = map(float, re.search(r"\[(\S+) +(\S+) *\] \(1, (\d+)\)", printed).groups())
        assert end < start / 3 and size == 4 * 32 + 33
        drawn = {line.get_label(): line.get_ydata() for line in names["plt"].gca().get_lines()}
        names["plt"].close("all")
        assert [*drawn] == ["FedAvg", "SCAFFOLD", "FedDyn", "FedElasticNet"] and Path("accuracy.png").stat().st_size > 5000
        assert all(len(y) == 21 and y[-1] > 0.5 for y in drawn.values())
    if name == "your/theorem.md":
        from fedtheory.theory import study

        assert "gradient-descent/rate [repaired, any rule]: holds" in printed
        [row] = study(names["potentials"], 60, 0).rows
        assert (row.verdict, row.form) == ("holds", "lowers") and "proved" in row.modes
        found = study(names["paper"], 120, 0)
        assert {row.form: row.verdict for row in found.rows} == {"printed": "violated", "repaired": "holds"}
        assert "f1 = x²/2, start 1: lhs 0 > rhs -1/2" in str(found) and "violated at half = 1001/2000" in str(found)


def test_the_readme_is_short_and_what_it_shows_is_what_comes_back():
    """Its theorem, its wrong SCAFFOLD and what is said of them, and the two commands of a clone."""
    readme = text_of(README)
    assert len(readme.split()) < 700 and max(map(len, readme.splitlines())) <= 100
    assert "`make verify`" in readme and "`make test`" in readme
    theorem, line = blocks(readme, "python")
    assert theorem == (ROOT / "examples/my_lemma.py").read_text()
    wrong = (ROOT / "examples/my_scaffold.py").read_text()
    assert line.rstrip() == wrong.rstrip().splitlines()[-1]
    refuted, named = blocks(readme, "text")

    from fedtheory.testing import audit_algorithm
    from fedtheory.theory import study

    names: dict = {}
    exec(compile(theorem, "my_lemma.py", "exec"), names)
    assert " ".join(refuted.split()) in " ".join(str(study(names["paper"], 120, 0)).split())
    exec(compile(wrong, "my_scaffold.py", "exec"), names)
    told = replace(audit_algorithm(names["mine"], "scaffold"), adapter="examples/my_scaffold.py:mine")
    assert named.split() == told.sentence.split()
    right = wrong.replace("c + np.mean(changes, axis=0)", "c + np.sum(changes, axis=0) / len(clients)")
    exec(compile(right, "my_scaffold.py", "exec"), names)
    assert audit_algorithm(names["mine"], "scaffold").passed


def test_every_picture_of_the_gallery_has_the_code_that_draws_it():
    from paper_figures.known import known

    parts = re.split(r"^## ", text_of(DOCS / "gallery.md"), flags=re.M)[1:]
    pictures = {p.name for p in DOCS.glob("*.png")} - {p.name for p in DOCS.glob("networks_*.png")}
    assert {name for part in parts for name in re.findall(r"\]\((\w+\.png)\)", part)} == pictures
    for part in parts:
        [code] = blocks(part, "sh", "python")
        for figure in re.findall(r"python -m paper_figures (\w+)", code):
            assert figure in known()
        assert re.match(r"fedtheory |python -m paper_figures |import ", code)


def test_what_only_an_owner_can_fill_in_is_marked():
    """One word in every place, and the page that says so."""
    files = ["README.md", "pyproject.toml", "CITATION.cff"]
    files += [f"docs/{name}.md" for name in ("index", "quickstart", "cite", "your/network")]
    assert all("OWNER" in text_of(ROOT / name) for name in files)
    listed = re.findall(r"^- `(.*?)`", text_of(DOCS / "cite.md").partition("## Before the first release")[2], re.M)
    assert sorted(listed) == sorted(files)


def slugs(page):
    """The anchors of a page's headings, as MyST makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text_of(page), flags=re.S | re.M), re.M):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        found.add(re.sub(r"[^\w\- ]", "", text).replace(" ", "-"))
    return found


@each("page", [README, ROOT / "CONTRIBUTING.md", *PAGES])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text_of(page))):
        if re.match(r"https?:|mailto:", target):
            continue
        path, _, anchor = target.partition("#")
        if path.startswith("api/") or "reference/api/" in path:  # made from the table of public names
            module = path.rpartition("/")[2].removesuffix(".rst")
            assert module in public_names(), target
            continue
        where = page if not path else (page.parent / path)
        assert where.exists(), f"{target} is not there"
        if anchor and where.suffix == ".md":
            assert anchor in slugs(where), f"{target}: no such heading"


@pytest.mark.parametrize("page", [p for p in PAGES if "```{statement}" in text_of(p)], ids=lambda p: p.name)
def test_statements_on_a_page_are_those_of_the_registry(page, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    made = importlib.import_module("record")
    for argument, options in re.findall(r"^```\{statement\} (\S+)\n(.*?)^```", text_of(page), re.S | re.M):
        given = dict(re.findall(r"^:(\w+): ?(.*)$", options, re.M))
        forms = [f.strip() for f in given.get("forms", "").split(",") if f.strip()]
        lines = made.markdown(argument, forms, given.get("rule", ""), "witness" in given, brief=True)
        verdicts = [v for f in find_statement(argument).forms if f.name in (forms or ["repaired"]) for v in f.established.values()]
        assert all(any(v in line for line in lines) for v in verdicts if not given.get("rule"))
        if "witness" in given:
            assert any(line.startswith("| left side") for line in lines), f"{argument}: :witness: shows no witness"


def test_formulas_are_broken_into_rows_that_lose_nothing(monkeypatch):
    from fedtheory.theory.judge.registry import all_statements

    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    formulas = importlib.import_module("formulas")

    def plain(latex):
        latex = re.sub(r"\\(begin|end)\{aligned\}|\\\\ |&|\{\}|\\q?quad\b|\\ |\s", "", latex)
        return latex

    rows = []
    for form in (f for s in all_statements() for f in s.forms if r"\begin" not in f.latex):
        broken = formulas.broken(form.latex)
        assert plain(broken) == plain(form.latex)
        for row in broken.split(r"\\ &") if "aligned" in broken else []:
            rows.append(formulas.width(row))
            assert row.count("{") - row.count("}") in (0,) or "begin{aligned}" in row or "end{aligned}" in row
    assert rows and np.median(rows) <= 31


@cache
def public_names():
    """Module -> names, as the site's table has them."""
    table = text_of(DOCS / "reference/public_names.md")
    rows = re.findall(r"^\| \[`([\w.]+)`\]\(api/\1\.rst\) \| (.*) \|$", table, re.M)
    return {module: set(re.findall(r"`(\w+)`", names)) for module, names in rows}


def test_the_table_of_public_names_names_what_exists():
    named = public_names()
    assert len(named) > 30
    for module, names in named.items():
        loaded = importlib.import_module(module)
        for name in names:
            assert hasattr(loaded, name), f"{module}.{name}"
    for module in (m for m in named if ".neural" not in m or m == "fedtheory.neural.data"):
        public = set(importlib.import_module(module).__all__) - {"__version__"}
        assert public == named[module], f"{module}: the site's table and __all__ differ"


def test_the_page_that_says_how_to_cite_has_this_version():
    page = text_of(DOCS / "cite.md")
    assert f"version = {{{fedtheory.__version__}}}" in page


def test_pages_are_made_for_every_command_and_every_module(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    generated = importlib.import_module("generated")
    table = generated.public_names(text_of(DOCS / "reference/public_names.md"))
    assert {m: set(n) for m, n in table.items()} == public_names()
    shown = {n for n, c in typer.main.get_command(app).commands.items() if not c.hidden}
    pages = generated.commands()
    assert set(pages) == shown
    for name, text in pages.items():
        assert text.startswith(f"# `fedtheory {name}`") and "--help" in text
    assert "$ fedtheory verify" in pages["verify"]
    page = generated.module_page(sys.modules["fedtheory.errors"], table["fedtheory.errors"], {id(click): "x"})
    assert all(name in page for name in table["fedtheory.errors"])
