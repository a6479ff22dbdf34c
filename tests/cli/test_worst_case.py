"""`fedtheory worst-case` and the check of its certificates, as a reader calls them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from cases import each
from command_line import call, refused

TENTH = ("--group", "9/10: L=1 mu=1/10", "--group", "1/10: L=100 mu=1")


def test_groups_of_clients(tmp_path):
    words = ("worst-case", "fedavg", "--step", "1/20", "--criterion", "distance", *TENTH, "--out", str(tmp_path))
    told = json.loads(call(*words, "--json").stdout)
    assert told["solver"] == pytest.approx((1 - 0.19 / 20) ** 2, rel=1e-6)  # mu of the mean is 19/100
    assert told["asked"]["groups"]["2"] == {
        "share": "1/10", "clients": 2, "smoothness": "100", "strong convexity": "1", "lipschitz": None,
    }  # fmt: skip
    shown = " ".join(call(*words).stdout.split())
    assert "share 9/10, 2 clients or more: losses of smoothness 1 and strong convexity 1/10" in shown
    path = told["certificate"]
    assert "group 2: share 1/10 clients 2 smoothness 100 strong convexity 1" in " ".join(call("replay", path).stdout.split())
    call("replay", path, "--proof", str(tmp_path / "proof.tex"))
    assert "of group 2" in (tmp_path / "proof.tex").read_text()
    weights = ("--group", "1/2, one client: L=1", "--group", "1/2 one client: L=3 mu=1", "--step", "1/4")
    shown = " ".join(call("worst-case", "scaffold", *weights, "--out", str(tmp_path)).stdout.split())
    assert "share 1/2, one client: losses of smoothness 3 and strong convexity 1" in shown
    assert len(list(tmp_path.glob("*.json"))) == 2
    read = json.loads(Path(path).read_text())
    read["question"]["groups"]["2"]["smoothness"] = "99"
    Path(path).write_text(json.dumps(read))
    assert "not proved" in refused("replay", path)


def test_a_bound_is_proved_written_and_checked(tmp_path):
    told = json.loads(call("worst-case", "fedavg", "-K", "2", "-T", "1", "--step", "1/2", "--out", str(tmp_path), "--json").stdout)
    assert told["status"] == "proved" and told["solver"] <= told["bound"] <= told["solver"] * (1 + 1e-6)
    checked = json.loads(call("replay", told["certificate"], "--json").stdout)
    assert checked["verdict"] == "proved" and checked["claim"]["bound"] == told["bound_exact"]
    shown = " ".join(call("replay", told["certificate"]).stdout.split())
    assert "none negative" in shown and "D >= 0" in shown


@each(
    ("words", "has"),
    [
        (["fedavg", "--step", "1/4"], True),
        (["feddyn", "--alpha", "1", "--lyapunov"], True),
        (["fedavg", "--step", "1/4", "-N", "3", "-P", "2"], False),
        (["scaffold", "--step", "1/4", "--given", "initial=1/2"], False),
        (["scaffold", "-K", "2", "--step", "1/4", "-N", "3", "-P", "2", "--lyapunov"], False),
    ],
)
def test_coq_is_named_where_it_has_a_theorem(words, has, tmp_path):
    said = call("worst-case", *words, "--out", tmp_path).stdout
    assert "replay it with --proof proof.tex" in said
    assert ("replay it with --coq proof.v" in said) is has


def test_a_file_for_coq_is_not_taken_in_vain(tmp_path):
    losses = tmp_path / "worst.json"
    call("worst-case", "fedavg", "--step", "1/4", "--instance", losses, "--out", tmp_path)
    for option in (["--coq", tmp_path / "a.v"], ["--proof", tmp_path / "a.tex"]):
        said = " ".join(refused("replay", losses, *option).split())
        assert "holds the losses of a worst case, not a proof; name the certificate" in said
    (tmp_path / "a.v").mkdir()
    [proof] = tmp_path.glob("fedavg*.json")
    said = " ".join(refused("replay", proof, "--coq", tmp_path / "a.v").split())
    assert "it is a folder; name a file" in said


def test_growth_with_where_the_method_begins_is_told(tmp_path):
    words = ["scaffold", "-K", "2", "--step", "1/4", "--given", "initial=1/2", "--out", tmp_path]
    said = " ".join(call("worst-case", *words).stdout.split())
    assert "at x* and by 0.0" in said and "with the mean of ||c_k - grad f_k(x*)||^2." in said


def test_the_settings_of_a_method_are_in_its_help():
    page = call("worst-case", "scaffold", "--help-all").stdout
    said = " ".join(page.replace("│", " ").split())
    assert "Another setting of scaffold: option, server_lr, send, control, initial" in said
    assert "--given initial=gradient" in call("worst-case", "scaffold", "--help").stdout
    told = " ".join(call("worst-case", "scaffold", "--server-lr", "1/2", code=2).stderr.replace("│", " ").split())
    assert "No such option: --server-lr; give it as --given server_lr=VALUE" in told
    assert "--given" not in call("worst-case", "scaffold", "--momentum", "1/2", code=2).stderr


@pytest.mark.parametrize(("given", "beta"), [((), "9/10"), (("--given", "momentum=1/2"), "1/2")])
def test_the_momentum_that_a_bound_is_of_is_named_and_bounds_differ_by_it(given, beta, tmp_path):
    """Two rounds of step h: x_2 - x_0 along one gradient is (2 + beta) h of it, so that the worst gap is 1/(2 + 4 h (2 + beta))."""
    words = ["fedavgm", "--rounds", "2", "--step", "1/4", *given, "--out", tmp_path]
    assert f"momentum = {beta}, step = 1/4" in call("worst-case", *words).stdout
    (path,) = tmp_path.glob("fedavgm-*.json")
    assert f"momentum{beta.replace('/', '_')}" in path.name
    said = call("replay", path).stdout
    assert f"momentum: {beta}" in said
    bound = Fraction(re.search(r"bound = (\S+)", said)[1])
    worst = 1 / (2 + 4 * Fraction(1, 4) * (2 + Fraction(beta)))
    assert 0 <= bound - worst < Fraction(1, 10**7)


def test_local_steps_and_growth_are_told(tmp_path):
    """T_1 = ceil(4 lambda^2 K/(2 D)) = 4 for lambda = D = 1, K = 2; the start's and the heterogeneity's parts add up to the bound."""
    shown = " ".join(call("worst-case", "fedmls", "-T", "2", "--lam", "1", "--D", "1", "--out", str(tmp_path)).stdout.split())
    assert "T = 2, T_k = 4, lam = 1, D = 1" in shown
    told = json.loads(call("worst-case", "fedavg", "-K", "2", "--step", "1/2", "--out", str(tmp_path), "--json").stdout)
    assert sum(told["grows_with"].values()) == pytest.approx(told["bound"], rel=1e-12)


def test_the_best_quadratic_potential(tmp_path):
    words = ("worst-case", "feddyn", "-N", "10", "-P", "3", "--lyapunov", "--alpha", "1", "--out", str(tmp_path))
    told = json.loads(call(*words, "--json").stdout)
    assert told["status"] == "proved" and told["at_least"] <= told["solver"] <= told["rho"] < 1
    shown = " ".join(call(*words).stdout.split())
    assert "the best quadratic V" in shown and "So E V falls like" in shown and "fedtheory replay" in shown


def test_the_best_quadratic_potential_is_written_as_it_is_proved(tmp_path):
    """Every coefficient of V to twelve digits, or as the fraction that it is; the fractions are where the text says."""
    words = ("worst-case", "feddyn", "--alpha", "1", "--lyapunov", "--out", str(tmp_path))
    told = json.loads(call(*words, "--json").stdout)
    every = [Fraction(x) for of in told["potential"].values() for x in of.values()]
    shown = " ".join(call(*words).stdout.split())
    of_v = shown.partition("V = ")[2].partition(" Its coefficients are fractions")[0]
    written = [Fraction(x) for x in re.findall(r"(?:^|[+-] |\()(-?\d[\d./e-]*) ", of_v)]
    assert len(written) == len(every) > 3 and "the certificate and --json have them whole" in shown
    assert all(abs(abs(a) - abs(b)) <= 1e-11 * abs(b) for a, b in zip(written, every, strict=True))


def test_the_best_quadratic_potential_of_groups(tmp_path):
    words = ("worst-case", "scaffold", "-K", "2", "--step", "1/40", *TENTH[:2], "--group", "1/10: L=10 mu=1")
    told = json.loads(call(*words, "--lyapunov", "--out", str(tmp_path), "--json").stdout)
    assert told["at_least"] <= told["solver"] <= told["rho"] < 1 and list(told["asked"]["groups"]) == ["1", "2"]
    assert told["stands_for"]["c_k(1)"] == {"c_k(1)": "1", "c_k(2)": "-1"} and "deviation 2" in told["potential"]
    shown = " ".join(call(*words, "--lyapunov", "--out", str(tmp_path)).stdout.split())
    assert "share 1/10, 2 clients or more: losses of smoothness 10" in shown and "in each group equal ones" in shown
    assert "proved" in call("replay", told["certificate"]).stdout


def test_a_changed_certificate_is_refused(tmp_path):
    for mu in ("1", "1/2"):
        call("worst-case", "fedprox", "--mu", mu, "--out", str(tmp_path))
    assert len(list(tmp_path.glob("*.json"))) == 2, "another question, another file"
    path = tmp_path / "fedprox-K1-T1-gap-L1-sc0-mu1-zeta1-R1.json"
    read = json.loads(path.read_text())
    read["multipliers"]["start"] = "1/1000"
    path.write_text(json.dumps(read))
    assert "not proved" in refused("replay", str(path))


@each(
    ("words", "says"),
    [
        (["fedavg", "-P", "3"], "a tree of cohorts is computed for at most 6"),
        (["fedavg", "-N", "6", "-P", "3", "-T", "3"], "take fewer --rounds or clients"),
        (["fedmls", "-N", "6", "-P", "3"], "FedMLS needs every client in every round"),
        (["feddyn", "-K", "3"], "solves its local problems exactly; leave local steps out"),
        (["fedelasticnet-dyn", "-K", "3"], "solves its local problems exactly; leave local steps out"),
        (["fedavg", "-N", "3", "-P", "4"], "at most all take part"),
        (["subgradient", "--lyapunov"], "about losses with bounded subgradients, and a least rho about smooth ones"),
        (["feddyn", "--lyapunov", "--rounds", "5"], "--rounds 5 with --lyapunov"),
        (["feddyn", "--lyapunov", "--criterion", "gradient"], "--criterion gradient with --lyapunov"),
        (["feddyn", "--lyapunov", "--heterogeneity", "2"], "--heterogeneity 2 with --lyapunov"),
        (["feddyn", "--lyapunov", "-K", "3"], "solves its local problems exactly"),
        (["fedavg", "--step", "1e9"], "--step 1e9: write a number such as"),
        (["fedavg", "--step", "1/0"], "--step 1/0"),
        (["subgradient", "--smoothness", "1"], "convex with gradients of at most G"),
        (["fedsgd"], "unknown method"),
        (["subgradient", "--distance", "0"], "--distance 0: the default of step is a multiple of it; take one above 0, or give step"),
        (["subgradient", "--distance", "-1"], "--distance -1: the default of step is a multiple of it; take one above 0"),
        (["fedmls", "-T", "3", "--distance", "0"], "--distance 0: the default of lam is a multiple of it; take one above 0, or"),
        (["fedavg", *TENTH, "--lyapunov", "-P", "3"], "--participants 3 < clients = 20: of groups potentials are found where"),
        (["fedavg", *TENTH, "--lyapunov", "--smoothness", "2"], "--smoothness with --group"),
        (["fedavg", *TENTH, "-P", "10"], "no cohorts are drawn; leave participants out"),
        (["fedavg", *TENTH, "-N", "15"], "--clients 15: the shares 9/10, 1/10 are whole numbers of clients of a multiple of 10"),
        (["fedavg", "--step", "1", "--group", "1/2: L=1", "--group", "1/2: G=1", "--instance", "w.json"],
         "where the losses of some groups are smooth and those of others need not be"),
        (["fedavg", *TENTH, "--smoothness", "2"], "--smoothness with --group: say it in every group"),
        (["mopes", *TENTH], "--group"),
        (["fedavg", *TENTH[:2]], "the shares of the groups add up to 9/10"),
        (["fedavg", "--group", "1/2 L=1"], "write a share and numbers L, mu or G"),
        (["fedavg", "--group", "1: M=1"], "write a share and numbers L, mu or G"),
        (["fedavg", "--group", "1: L=1 L=2"], "a number is given twice"),
        (["fedavg", "--group", "1: L=x"], "write a number such as"),
        (["fedavg", "--group", "1, 0 clients: L=1"], "--clients 0"),
        (["fedavg", "--group", "1: L=1 G=1"], "convex with gradients of at most G"),
    ],
)
def test_what_is_refused(words, says):
    assert says in " ".join(refused("worst-case", *words).split())


def test_the_worst_losses_are_written_run_and_checked(tmp_path):
    path = tmp_path / "worst.json"
    words = ("worst-case", "fedavg", "-N", "2", "-K", "2", "-T", "2", "--step", "1/2", "--out", str(tmp_path), "--instance", str(path))
    told = json.loads(call(*words, "--json").stdout)
    made = told["instance"]
    assert made["reproduced"] and made["measured"] == pytest.approx(told["solver"], rel=1e-6) and made["file"] == str(path)
    shown = " ".join(call(*words).stdout.split())
    assert "a run of the method on them" in shown and "reached in fractions: at least" in shown
    checked = json.loads(call("replay", str(path), "--json").stdout)
    assert checked["verdict"] == "reached" and checked["claim"]["at least"] == made["at_least"]
    assert "satisfy every condition of the class" in " ".join(call("replay", str(path)).stdout.split())
    typed = made["run"].split()[1:]
    assert typed[:2] == ["run", "fedavg"] and made["run"] in shown
    run = json.loads(call(*typed, "--json", "--no-figures", "--out", str(tmp_path)).stdout)
    assert run["metrics"]["suboptimality"][-1][0] == pytest.approx(told["solver"], rel=1e-6)
    assert json.loads(call("solve", str(path), "--json").stdout)["optimum"]["gap"] <= 1e-12
    assert "--ridge does not apply" in refused("solve", str(path), "--ridge", "1")
    held = json.loads(path.read_text())
    held["in fractions"]["at least"] = str(told["bound"] + 1e-6)
    path.write_text(json.dumps(held))
    assert "not reached: the file claims" in " ".join(refused("replay", str(path)).split())


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (["scaffold", "-K", "2", "-T", "2", "--step", "1/3"], 2), (["fedprox", "--mu", "1/2"], 1), (["feddyn", "-T", "2"], 2),
        (["fedprox", "-K", "2", "--step", "1/2"], 1), (["subgradient", "-T", "2"], 2), (["fedmls", "-T", "3"], 3),
    ],
)  # fmt: skip
def test_the_run_that_is_told_is_the_one_that_was_measured(words, steps, tmp_path):
    path = tmp_path / "worst.json"
    told = json.loads(call("worst-case", *words, "-N", "2", "--out", str(tmp_path), "--instance", str(path), "--json").stdout)
    typed = told["instance"]["run"].split()[1:]
    run = json.loads(call(*typed, "--json", "--no-figures", "--out", str(tmp_path)).stdout)
    gaps = run["metrics"]["suboptimality"]
    assert len(gaps) == steps + 1 and gaps[-1][0] == pytest.approx(told["solver"], rel=1e-6)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-N", "2", "-P", "1", "-T", "2"], "the mean of all 4 ways to draw cohorts"),
        (["-N", "30", "-P", "15", "--criterion", "distance"], "Not run: the cohorts can be drawn in 155,117,520 ways."),
    ],
)
def test_worst_losses_where_cohorts_are_drawn(words, says, tmp_path):
    path = tmp_path / "worst.json"
    told = call("worst-case", "fedavg", "--step", "1/2", *words, "--out", str(tmp_path), "--instance", str(path))
    shown = " ".join(told.stdout.split())
    assert says in shown and "reached in fractions: at least" in shown and f"--participants {words[3]}" in shown
    assert json.loads(call("replay", str(path), "--json").stdout)["verdict"] == "reached"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["feddyn", "--lyapunov", "--instance", "a.json"], "a potential has no run"),
        (["fedavg", "--instance", "a.txt"], "--instance a.txt: write a file NAME.json"),
        (["fedelasticnet-dyn", "--instance", "a.json"], "no worst function of fedelasticnet-dyn, whose value is an upper bound only"),
        (["mopes", "--instance", "a.json"], "whose value is that of any convex set"),
        (["fedavg", "--instance", "nowhere/a.json"], "there is no folder nowhere"),
        (["fedavg", "-N", "1", "--instance", "a.json"], "worst losses are those of at least 2 clients"),
    ],
)
def test_worst_losses_that_are_refused(words, says, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert says in " ".join(refused("worst-case", *words).split())


OTHERS = """

class Other(Heavy):
    def round(self, state, clients):
        return super().round(state._replace(m=2 * state.m), clients)


class Nothing:
    pass


@dataclass(frozen=True, kw_only=True)
class Bare(Heavy):
    b: float


class Misspelt(Heavy):
    def round(self, state, clients):
        clients.minimise(LocalObjective(center=clients.broadcast(state.x), mu=1), start=clients.broadcast(state.x))
        return state
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A folder with a method of one's own: FedAvg with server momentum."""
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[1] / "server_momentum.py").read_text()
    (tmp_path / "mine.py").write_text(text + OTHERS)
    return tmp_path / "mine.py"


def test_a_method_of_ones_own_is_bounded_and_its_certificate_checked(mine):
    words = ("worst-case", "mine.py:Heavy", "-N", "2", "-T", "2", "-K", "2", "--step", "1/4", "--given", "beta=1/3", "--out", "o")
    told = json.loads(call(*words, "--json").stdout)
    assert told["method"] == "heavy" and told["every_number_of_clients"] and told["solver"] <= told["bound"]
    assert told["asked"]["options"] == {"aggregation": "samples", "send": "model", "beta": "1/3", "step": "1/4"}
    assert told["asked"]["source"].startswith("mine.py:Heavy, sha256 ")
    shown = " ".join(call(*words).stdout.split())
    path = told["certificate"]
    assert "FedAvg with server momentum." in shown and f"fedtheory replay {path} --method mine.py:Heavy" in shown
    refusal = refused("replay", path)
    assert "is about mine.py:Heavy: name its file as well, --method mine.py:Heavy; the file is run" in refusal
    assert "not proved" not in refusal
    assert "missing.json: no such file" in refused("replay", "missing.json", "--proof", "proof.tex")
    checked = json.loads(call("replay", path, "--method", "mine.py:Heavy", "--json").stdout)
    assert checked["verdict"] == "proved" and checked["made_with_these_files"] is True
    assert checked["claim"]["bound"] == told["bound_exact"]
    assert "is not the one" not in call("replay", path, "--method", "mine.py:Heavy").stdout
    assert "not proved: L D L' of the block" in refused("replay", path, "--method", "mine.py:Other")
    assert "unknown option of fedavg 'beta'" in refused("replay", path, "--method", "fedavg")


def test_classes_and_criteria_of_one_name_do_not_overwrite_each_others_certificates(mine):
    """Heavy and Other are both called heavy; a file in another folder may have the same class."""
    Path("sub").mkdir()
    Path("sub/mine.py").write_text(mine.read_text())
    for file in ("goal.py", "sub/goal.py"):
        Path(file).write_text("def last(q):\n    return q.sq(q.x[-1] - q.x[0])\n")
    of = [["mine.py:Heavy"], ["mine.py:Other"], ["sub/mine.py:Heavy"]]
    words = [*of, *([*of[0], "--criterion", f"{file}:last"] for file in ("goal.py", "sub/goal.py"))]
    words += [[*method, "--lyapunov"] for method in (of[0], of[2])]
    told = [json.loads(call("worst-case", *more, "-N", "2", "--step", "1/4", "--out", "o", "--json").stdout) for more in words]
    paths = [Path(t["certificate"]) for t in told]
    assert len(set(paths)) == len(list(Path("o").glob("*.json"))) == 7
    assert paths[0].name.startswith("mine-Heavy-K1-T1-gap-") and paths[2].name.startswith("sub-mine-Heavy-K1-T1-gap-")
    assert "-T1-goal-last-" in paths[3].name and "-T1-sub-goal-last-" in paths[4].name
    for path, t in zip(paths[:2], told, strict=False):
        cls = t["asked"]["source"].partition(",")[0]
        assert json.loads(call("replay", path, "--method", cls, "--json").stdout)["verdict"] == "proved"


def test_a_file_that_has_changed_is_told(mine):
    call("worst-case", "mine.py:Heavy", "-N", "2", "--out", "o")
    (path,) = mine.parent.glob("o/*.json")
    mine.write_text(mine.read_text() + "\n# another line\n")
    shown = " ".join(call("replay", path, "--method", "mine.py:Heavy").stdout.split())
    assert "The file of mine.py:Heavy is not the one that the certificate was made with; it is proved for this" in shown
    told = json.loads(call("replay", path, "--method", "mine.py:Heavy", "--json").stdout)
    assert told["verdict"] == "proved" and told["made_with_these_files"] is False
    mine.write_text(mine.read_text().replace("HeavyState(state.x + m, m)", "HeavyState(state.x + 2 * m, m)"))
    assert "not proved" in refused("replay", path, "--method", "mine.py:Heavy")


def test_the_worst_losses_of_a_method_of_ones_own(mine):
    words = ("worst-case", "mine.py:Heavy", "-N", "2", "-P", "1", "-T", "2", "--out", "o", "--instance", "worst.json")
    told = json.loads(call(*words, "--json").stdout)["instance"]
    assert told["reproduced"] and told["run"] == "" and told["ways"] == 4
    assert "fedtheory replay worst.json --method mine.py:Heavy" in " ".join(call(*words).stdout.split())
    checked = json.loads(call("replay", "worst.json", "--method", "mine.py:Heavy", "--json").stdout)
    assert checked["verdict"] == "reached" and checked["claim"]["at least"] == told["at_least"]
    assert "--method mine.py:Heavy" in refused("replay", "worst.json")
    assert "not reached" in refused("replay", "worst.json", "--method", "mine.py:Other")


def test_a_criterion_of_ones_own_and_a_proof_to_read(mine):
    """||x_3 - x_2||^2 of gradient descent with step 1/2 is at most 1/16, and the script checks itself."""
    Path("goal.py").write_text("def last_step(q):\n    return q.sq(q.x[-1] - q.x[-2])\n")
    run = ("-T", "3", "--step", "1/2", "--heterogeneity", "0")
    words = ("worst-case", "fedavg", *run, "--criterion", "goal.py:last_step", "--out", "o")
    every, fewest = (json.loads(call(*words, *more, "--json").stdout) for more in ((), ("--fewest",)))
    assert every["solver"] == pytest.approx(1 / 16, rel=1e-6) and 1 / 16 <= every["bound"] < 0.06251
    path = fewest["certificate"]
    assert "--criterion goal.py:last_step" in refused("replay", path)
    for name in ("p.py", "p.tex"):
        call("replay", path, "--criterion", "goal.py:last_step", "--proof", name)
    told = subprocess.run([sys.executable, "p.py"], capture_output=True, text=True, check=True).stdout
    [count] = re.findall(r"inequalities in the proof *. (\d+)", call(*words, "--fewest").stdout)
    assert told.startswith(f"The identity holds. Inequalities: {count} squares")
    assert r"\begin{" in Path("p.tex").read_text()
    script = Path("p.py").read_text()
    Path("p.py").write_text(script.replace("START = ", "START = -1 + ", 1))
    assert subprocess.run([sys.executable, "p.py"], capture_output=True, check=False).returncode != 0
    Path("goal.py").write_text("def last_step(q):\n    return 2 * q.sq(q.x[-1] - q.x[-2])\n")
    assert "not proved" in refused("replay", path, "--criterion", "goal.py:last_step")


@each(
    ("words", "says"),
    [
        (["mine.py"], "name the class as well, as in mine.py:MyMethod"),
        (["mine.py:Nope"], "unknown method 'Nope': known: Bare, FedAvg, Heavy, Misspelt, Other"),
        (["mine.py:Nothing"], "mine.py:Nothing is no method: a class of fedtheory.algorithms.Algorithm is needed"),
        (["other.py:Heavy"], "other.py: no such file; give a Python file"),
        (["os:path"], "os:path is no method"),
        (["mine.py:Heavy", "--given", "gamma=1"], "unknown option of heavy 'gamma': known: aggregation, beta, send, step"),
        (["mine.py:Heavy", "--given", "beta"], "write it as --given NAME=VALUE"),
        (["mine.py:Bare"], "heavy needs b: give a number, on the command line by --given b=..."),
        (["mine.py:Misspelt", "--step", "1/4"], "mine.py, line"),
        (["mine.py:Misspelt", "--step", "1/4"], "LocalObjective takes no mu: it takes center, linear, curvature"),
        (["mine.py:Heavy", "--given", "beta=x"], "--given beta=x: it must be a finite number"),
        (["mine.py:Heavy", "--alpha", "1"], "unknown option of heavy 'alpha'"),
        (["mine.py:Heavy", "--step", "0"], "the size of local steps must be above 0"),
    ],
)
def test_what_is_no_method_of_ones_own(words, says, mine):
    assert says in " ".join(refused("worst-case", *words).split())


def test_the_line_of_a_round_that_is_not_linear_is_told(mine):
    mine.write_text(mine.read_text().replace("clients.mean(clients.send(y) - w)", "clients.mean(abs(clients.send(y) - w))"))
    said = refused("worst-case", "mine.py:Heavy", "-N", "2")
    assert re.search(r"heavy: mine.py, line \d+, `m = self.beta \* state.m \+ clients.mean\(abs\(.*\)\)`: compares a vector", said)
