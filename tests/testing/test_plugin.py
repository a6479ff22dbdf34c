"""The pytest plugin in runs of its own: the fixture, the marker, the figures, and that it costs nothing where it is not used."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import repository
from _pytest.pytester import SysModulesSnapshot

pytest_plugins = ["pytester"]
PLUGIN = ("-p", "no:fedtheory", "-p", "fedtheory.pytest_plugin", "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def modules_stay(monkeypatch):
    """Keep what an inner run imports: a second copy of a package has other classes than the first.

    The inner runs' own files go, so that each imports its own.
    """
    before = set(sys.modules)
    monkeypatch.setattr(SysModulesSnapshot, "restore", lambda snapshot: None)
    yield
    for name in set(sys.modules) - before:
        if name == "feddyn" or name.startswith(("test_", "conftest")):
            del sys.modules[name]


def run(pytester, text, *options):
    pytester.makepyfile(text)
    return pytester.runpytest_inprocess(*PLUGIN, *options)


def test_the_package_brings_the_plugin():
    project = tomllib.loads((repository.ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"fedtheory": "fedtheory.pytest_plugin"}


def test_it_imports_nothing_heavy():
    code = (
        "import sys, pytest; before = set(sys.modules); import fedtheory.pytest_plugin; "
        "print(sorted({m.partition('.')[0] for m in set(sys.modules) - before}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "['fedtheory']"


def test_the_fixture_runs_through_all_kinds_each_certified(pytester):
    result = run(pytester, """
        def test_it(federated_problem):
            problem = federated_problem
            best = problem.optimum()
            assert 0 <= best.value - best.lower_bound <= 1e-9
            assert problem.gradient(best.x).shape == (problem.num_clients, problem.dim)
            assert (problem.name == "unequal") == (max(problem.weights) - min(problem.weights) > 1e-9)
        """, "-v")  # fmt: skip
    result.assert_outcomes(passed=5)
    kinds = re.findall(r"test_it\[(.+)\] PASSED", result.stdout.str())
    assert kinds == ["quadratic", "identical", "unequal", "logistic", "steep-and-flat"]


def test_what_a_test_does_to_a_problem_ends_with_it(pytester):
    result = run(pytester, """
        import numpy as np
        import pytest

        pytestmark = pytest.mark.federated_problem("quadratic")

        def test_first(federated_problem):
            federated_problem.weights = np.array([1.0, 0, 0, 0])
            with pytest.raises(ValueError, match="read-only"):
                federated_problem.hessians[0] = 0

        def test_second(federated_problem): assert max(federated_problem.weights) == 0.25
        """)  # fmt: skip
    result.assert_outcomes(passed=2)


def test_kinds_are_chosen_by_marker_or_parameter(pytester):
    result = run(pytester, """
        import pytest

        @pytest.mark.federated_problem("quadratic", "unequal")
        def test_marked(federated_problem): pass

        @pytest.mark.parametrize("federated_problem", ["identical"], indirect=True)
        def test_given(federated_problem): assert federated_problem.name == "identical"

        @pytest.mark.parametrize(("federated_problem", "rounds"), [("quadratic", 3)], indirect=["federated_problem"])
        def test_both(federated_problem, rounds): assert rounds == 3
        """, "--strict-markers")  # fmt: skip
    result.assert_outcomes(passed=4)


def test_a_fixture_of_the_users_own_stays(pytester):
    pytester.makeconftest("import pytest\n\n@pytest.fixture\ndef federated_problem(): return 7")
    run(pytester, "def test_it(federated_problem): assert federated_problem == 7").assert_outcomes(passed=1)


def test_an_unknown_kind_is_named(pytester):
    result = run(pytester, """
        import pytest

        @pytest.mark.federated_problem("cubic")
        def test_it(federated_problem): pass
        """)  # fmt: skip
    assert "'cubic' is no kind; use one of quadratic" in result.stdout.str() + result.stderr.str()
    assert result.ret != 0


FAILING = """
    import numpy as np
    import pytest
    from fedtheory.testing import assert_bound_holds, assert_rate, assert_statement

    T = np.arange(1, 201)

    @pytest.mark.parametrize("power", [0.5])
    def test_rate(power): assert_rate(3 * T**-power, -1, window=(10, 200), first_round=1)

    def test_bound(tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert_bound_holds(3 / T, 2 / T)

    def test_statement():
        from fedtheory import problems
        from fedtheory.algorithms import FedDyn
        problem = problems.Quadratic(np.ones((2, 1, 1)), np.array([[0.0], [4.0]]))
        run = {"x": np.linspace(0, 9, 30)[:, None], "h": np.zeros((30, 1))}
        assert_statement("fedelasticnet/theorem-e", run, problem, FedDyn(2.0))

    def test_other(): assert 1 == 2

    def test_passes(): pass
    """


def test_every_failed_rate_or_bound_leaves_its_figure_and_data(pytester):
    folder = pytester.path / "plots"
    result = run(pytester, FAILING, "--rate-plots", "plots")
    result.assert_outcomes(failed=4, passed=1)
    names = [p.name for p in sorted(folder.glob("*.png"))]
    assert [re.split(r"[-.]", n.partition("-test_")[2])[0] for n in names] == ["bound", "rate", "statement"]
    told = result.stdout.str()
    for name in names:
        stem = folder / name.removesuffix(".png")
        assert f"plots/{name}, with its data" in told
        assert stem.with_name(f"{stem.name}.png").read_bytes()[:4] == b"\x89PNG"
        table = stem.with_name(f"{stem.name}.csv").read_text().splitlines()
        facts = json.loads(stem.with_name(f"{stem.name}.json").read_text())
        assert len([line for line in table if not line.startswith("#")]) > 20
        assert facts["failure"]["title"] and facts["provenance"]["versions"]["fedtheory"]
    rate = next(folder.glob("*test_rate-0.5*.csv")).read_text().splitlines()
    assert rate[0] == "x,mean" and rate[1] == "1.0,3.0" and len(rate) == 201


def test_a_statement_that_was_not_compared_leaves_no_empty_figure(pytester):
    text = FAILING.replace("FedDyn(2.0))", "FedDyn(1.5))")  # outside the theorem's assumptions
    result = run(pytester, text, "--rate-plots", "plots", "-k", "test_statement")
    result.assert_outcomes(failed=1)
    told = result.stdout.str()
    assert "not applicable" in told and "no figure: InvalidInput: nothing was compared" in told
    assert not list(pytester.path.glob("plots/*"))


def test_without_the_option_nothing_is_written(pytester):
    run(pytester, FAILING, "-k", "bound").assert_outcomes(failed=1)
    assert not list(pytester.path.glob("**/*.png"))


def test_a_folder_that_cannot_be_written_hides_no_failure(pytester):
    (pytester.path / "plots").write_text("a file")
    result = run(pytester, FAILING, "--rate-plots", "plots", "-k", "bound")
    result.assert_outcomes(failed=1)
    assert "no figure: " in result.stdout.str() and "Bound violated." in result.stdout.str()


# --- the template ---------------------------------------------------------------------------------
TEMPLATE = Path(repository.ROOT) / "examples/ci_template"
MISTAKES = {
    "the control variate is never updated": ("g[cohort] -= alpha * moved", "pass"),
    "h is never updated": ("h = h - alpha * moved.sum(axis=0) / len(start)", "pass"),
    "sign of the stored gradient": ("gradients(y) - g", "gradients(y) + g"),
    "the server leaves out h": (".mean(axis=0) - h / alpha", ".mean(axis=0)"),
}


def template(pytester, change=("", ""), chosen="steep and not mean"):
    before, after = change
    for file in TEMPLATE.glob("*.py"):
        text = file.read_text()
        if file.name == "feddyn.py":
            assert before in text
            text = text.replace(before, after) if before else text
            text = text.replace("local_steps=40", "local_steps=25")  # enough, and quicker
        (pytester.path / file.name).write_text(text)
    pytester.syspathinsert()
    return pytester.runpytest_inprocess(*PLUGIN, "-k", chosen, "-x")


def test_the_readme_of_the_template_names_every_file():
    files = {str(file.relative_to(TEMPLATE)) for file in TEMPLATE.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
    told = re.findall(r"^\| `([^`]+)` \|", (TEMPLATE / "README.md").read_text(), re.MULTILINE)
    assert set(told) == files - {"README.md"} and len(told) == len(set(told))


def test_the_template_passes_as_it_stands(pytester):
    template(pytester, chosen="steep").assert_outcomes(passed=3)


def test_the_template_is_twenty_lines_of_test():
    lines = (TEMPLATE / "test_feddyn.py").read_text().split('"""')[2].splitlines()
    assert len([line for line in lines if line.strip()]) <= 20 and max(map(len, lines)) <= 100


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_template_fails_on_mistakes(pytester, mistake):
    assert template(pytester, MISTAKES[mistake]).parseoutcomes().get("failed", 0) == 1


HIDDEN = {
    "h is divided by the cohort's size, not by the number of all clients": (
        "moved.sum(axis=0) / len(start)",
        "moved.sum(axis=0) / len(cohort)",
    ),
    "alpha is left out of h": ("h - alpha * moved", "h - moved"),
}


@pytest.mark.parametrize("mistake", HIDDEN)
def test_what_only_the_templates_audit_sees(pytester, mistake):
    """Both converge all the same, and keep the bound; one round by itself shows them."""
    result = template(pytester, HIDDEN[mistake], chosen="steep and not mean or reference")
    result.assert_outcomes(passed=2, failed=1)
    assert mistake in result.stdout.str()


def test_the_templates_audit_passes_it(pytester):
    template(pytester, chosen="reference").assert_outcomes(passed=1)


def test_the_templates_workflow_runs_it():
    workflow = (TEMPLATE / ".github/workflows/theory.yml").read_text()
    assert "pip install -r requirements.txt" in workflow and "pytest --rate-plots rate-plots" in workflow
    needed = [line for line in (TEMPLATE / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line.split()[0] for line in needed] == ["fedtheory", "pytest"]
