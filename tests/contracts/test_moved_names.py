"""Public names stay importable where they were: the same objects, with a warning that says where they are now.

`old_public_names.json` lists what every module of the package had in `__all__` before the modules moved into their rooms.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import fedtheory
from fedtheory._moved import GOES_IN, GONE, MOVED, NAMES, install, live

OLD = {module: names.split() for module, names in json.loads(Path(__file__).with_name("old_public_names.json").read_text()).items()}
PACKAGE = Path(fedtheory.__file__).parent
HERE = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}  # for other processes


def exists(module: str) -> bool:
    """Whether there is a file or a package of that name."""
    place = PACKAGE.parent.joinpath(*module.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


def imported(module: str, needs_torch: bool = True):
    if needs_torch and ".neural" in module:
        pytest.importorskip("torch")
    return import_module(module)


def resolved(full: str):
    """The object that a name in full stands for now."""
    place, _, name = full.rpartition(".")
    return getattr(import_module(place), name)


def told(said, start: str) -> list[str]:
    return [str(w.message) for w in said if w.category is DeprecationWarning and str(w.message).startswith(start)]


@pytest.mark.parametrize("old", sorted(MOVED))
def test_a_moved_module_gives_the_objects_of_its_new_places(old, monkeypatch):
    places = [imported(place) for place in MOVED[old]]
    names = [name for name in OLD[old] if f"{old}.{name}" not in GONE]
    monkeypatch.delitem(sys.modules, old, raising=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        module = import_module(old)
        again = import_module(old)
        found = {name: getattr(module, name) for name in names}
    about = told(said, f"{old} has moved")
    assert again is module and about == [
        f"{old} has moved: import its names from {' and '.join(MOVED[old])}; the old name goes in fedtheory {GOES_IN}"
    ]
    for name, value in found.items():
        full = f"{old}.{name}"
        if full in NAMES:
            assert value is resolved(NAMES[full])
            assert NAMES[full].rpartition(".")[0] in told(said, f"{full} has moved")[0]
        else:
            assert value is next(vars(place)[name] for place in places if name in vars(place)), name


@pytest.mark.parametrize("module", sorted(set(OLD) - set(MOVED)))
def test_a_module_that_stayed_has_the_names_it_had(module):
    here = imported(module)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = {name: getattr(here, name) for name in OLD[module] if f"{module}.{name}" not in GONE}
    elsewhere = {name for name in found if f"{module}.{name}" in NAMES and name not in vars(here)}
    about = [text for text in told(said, f"{module}.") if text.split(" has moved")[0] not in MOVED]  # a module tells once a process
    assert len(about) == len(elsewhere)
    for name in elsewhere:
        new = NAMES[f"{module}.{name}"]
        assert found[name] is resolved(new)
        assert new.rpartition(".")[0] in told(said, f"{module}.{name} has moved")[0]


def test_what_is_gone_says_what_does_its_work_now(monkeypatch):
    monkeypatch.setitem(GONE, "fedtheory.cohorts.Full", "use something else")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for full, instead in GONE.items():
            module, _, name = full.rpartition(".")
            with pytest.raises(AttributeError) as failed:
                getattr(imported(module), name)
            assert str(failed.value) == f"{full} is gone: {instead}"


def test_the_warning_is_about_the_line_that_imports(tmp_path):
    script = tmp_path / "script.py"
    lines = [
        "import numpy",
        "from fedtheory.cohorts import Uniform",
        "from fedtheory.cohorts import Full",
        "from fedtheory.enclosures import Ball",
        "import fedtheory.theorems.fedmls",
        "fedtheory.theorems.fedmls.k_min",
    ]
    script.write_text("\n".join(lines))
    done = subprocess.run([sys.executable, "-W", "default", script], capture_output=True, text=True, check=True, env=HERE)
    shown = [line.removeprefix(f"{script}:") for line in done.stderr.splitlines() if "DeprecationWarning: fedtheory" in line]
    starts = [
        "2: fedtheory.cohorts has", "4: fedtheory.enclosures has", "4: fedtheory.enclosures.Ball has",
        "6: fedtheory.theorems.fedmls.k_min has",
    ]  # fmt: skip
    shown = [line.replace("DeprecationWarning: ", "") for line in shown]
    assert [line.partition(" moved")[0] for line in shown] == starts
    assert shown[2].endswith(
        f"import it from fedtheory.optimum.intervals, where it is called Enclosure; the old name goes in fedtheory {GOES_IN}"
    )


def test_the_table_is_one_of_modules_that_are_gone_and_of_modules_that_exist():
    assert not [old for old in MOVED if exists(old)]
    assert not [place for places in MOVED.values() for place in places if not exists(place)]
    assert not [new for new in NAMES.values() if not exists(new.rpartition(".")[0])]
    assert not [old for old in OLD if old not in MOVED and not exists(old)], "a module that is gone and in no table"
    assert set(MOVED) <= set(OLD), "an old module that never was"
    assert {*NAMES, *GONE} <= {f"{old}.{name}" for old, names in OLD.items() for name in names}, "an old name that never was"
    assert not set(NAMES) & set(GONE)


# Package and names of `from package import names`, over several lines where brackets or backslashes say so.
FROM = re.compile(r"\bfrom[\s\\]+([\w.]+)[\s\\]+import\b(\s*\((?:[^()#]|#[^\n]*)*\)|(?:[^\n\\]|\\[\s\S])*)")


def may_import_what_moved(text: str) -> bool:
    """False only of a file that cannot: to read all files as Python takes seconds."""
    if any(old in text and re.search(rf"\b{re.escape(old)}\b", text) for old in MOVED):
        return True
    return any(f"{package}.{name}" in MOVED for package, names in FROM.findall(text) for name in re.findall(r"\w+", names))


def imports_from_where_things_were(text: str, place: str) -> list[str]:
    """'place:line: module' of every import of a module that moved."""
    used = []
    for node in ast.walk(ast.parse(text)) if may_import_what_moved(text) else ():
        if isinstance(node, ast.ImportFrom) and node.module:
            named = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            named = {alias.name for alias in node.names}
        else:
            continue
        used += [f"{place}:{node.lineno}: {name}" for name in sorted(named & set(MOVED))]
    return used


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_import_from_where_things_were_is_seen(old):
    package, _, name = old.rpartition(".")
    for line in (
        f"import {old}", f"import os, {old} as it", f"from {old} import a", f"from {package} import {name}",
        f"from {package} import (\n    other,  # (as it was)\n    {name} as it,\n)", f"from {package} \\\n    import {name}",
    ):  # fmt: skip
        assert imports_from_where_things_were(f"def f():\n    {line}\n", "here") == [f"here:2: {old}"], line


def test_nothing_here_imports_from_where_things_were():
    root, used = PACKAGE.parent, []
    files = [f for folder in ("fedtheory", "validation", "paper_figures", "tests") for f in sorted((root / folder).rglob("*.py"))]
    for file in files:
        used += imports_from_where_things_were(file.read_text(), str(file.relative_to(root)))
    assert len(files) > 100 and not used


def test_what_never_was_is_not_there():
    with pytest.raises(ModuleNotFoundError):
        import_module("fedtheory.nowhere")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ImportError, match="nothing"):
            exec("from fedtheory.cohorts import nothing")
        with pytest.raises(ModuleNotFoundError):
            import_module("fedtheory.cohorts.inner")
        moved = import_module("fedtheory.cohorts")
    with pytest.raises(AttributeError, match=r"its names have moved to fedtheory\.participation\.cohorts"):
        _ = moved.nothing
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = import_module("fedtheory.theorems.fedmls").nothing


def test_a_star_import_gives_what_it_gave():
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec("from fedtheory.enclosures import *", names)
    from fedtheory.optimum.intervals import Enclosure

    assert names["Ball"] is Enclosure and set(OLD["fedtheory.enclosures"]) <= set(names)


def test_it_is_installed_once():
    before = list(sys.meta_path)
    install(fedtheory.__version__)
    assert sys.meta_path == before


def test_old_names_live_until_the_release_that_the_warning_names(monkeypatch):
    assert live(fedtheory.__version__) and live("0.1.9") and not live(GOES_IN) and not live("0.2.1.dev0") and not live("1.0")
    with pytest.warns(DeprecationWarning, match=f"goes in fedtheory {GOES_IN}"):
        _ = import_module("fedtheory.theorems.fedmls").SYMBOLS
    monkeypatch.setattr(fedtheory, "__version__", GOES_IN + ".0")
    with pytest.raises(AttributeError, match="has no attribute 'SYMBOLS'"):
        _ = import_module("fedtheory.theorems.fedmls").SYMBOLS
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if type(f).__name__ != "_Finder"])
    install(fedtheory.__version__)
    assert not any(type(f).__name__ == "_Finder" for f in sys.meta_path)


def test_the_import_loads_nothing_but_the_standard_library_and_two_modules():
    code = "import sys; before = set(sys.modules); import fedtheory; print(*sorted(set(sys.modules) - before))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=HERE
    )
    names = run.stdout.split()
    own = {n for n in names if n.partition(".")[0] not in sys.stdlib_module_names}
    assert own == {"fedtheory", "fedtheory._moved"}
    slow = {"asyncio", "sqlite3", "http", "multiprocessing", "concurrent", "inspect", "dataclasses"}
    assert not {n.partition(".")[0] for n in names} & slow
