"""Errors and reasons on the command line name its own options: a table of provoked errors, and rules that hold for all of them."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from cases import each
from command_line import call, refused

from fedtheory.cli import app
from fedtheory.cli.wording import check_digits, in_cli_words
from fedtheory.errors import InvalidInput
from fedtheory.problems import Problem

TABLE = [  # the command, what its error says
    ("run fedavg least-squares --ridge 0 --clients 3 --dimension 40 --local-solver exact", "add curvature or set --ridge above 0"),
    ("run fedavg quadratic --local-solver gradient --local-lr 50", "lower --local-lr (below"),
    ("run fedelasticnet-dyn quadratic --l1 1 --l2 1e-9 --local-solver gradient --local-lr 50", "or raise --l2 or --l2-over-beta"),
    ("run fedavg quadratic --local-solver sgd", "use --local-solver gradient or exact"),
    ("run fedavg quadratic --local-solver local-sgd --batch-size 3", "leave --batch-size out"),
    ("run mime logistic --local-solver sgd --local-lr 0.1 --momentum 2", "--momentum 2.0: the momentum"),
    ("run fedavg quadratic --participants 9", "--participants 9 with m = 5 clients"),
    ("run elastic-aggregation quadratic --server-tau -1", "--server-tau -1.0: the offset tau"),
    ("run fedavg logistic --local-solver sgd --epochs 2 --local-steps 3", "--epochs 2, --local-steps 3: give exactly one"),
    ("run fedavg logistic --local-solver gradient --local-steps 0", "--local-steps 0: it must be an integer >= 1"),
    ("run fedavg logistic --local-solver gradient --local-lr 0", "--local-lr 0.0: the local step size"),
    ("run fedavg logistic --local-solver sgd --batch-size 0", "--batch-size 0: it must be"),
    ("run fedavg logistic --local-solver sgd --lr-decay -1", "--lr-decay -1.0: it must lie in (0, 1]"),
    ("run scaffold logistic --server-lr 0", "--server-lr 0.0: the server's step size"),
    ("run fedelasticnet-dyn quadratic --l1 1 --l2 -1", "--l2 -1.0: lambda_2"),
    ("run fedelasticnet-dyn quadratic --l1 1 --l2-over-beta 0", "--l2-over-beta, which makes --l2 0.0: lambda_2"),
    ("run fedavg quadratic --rounds 0", "--rounds 0: it must"),
    ("run fedavg quadratic --scenarios 0", "--scenarios 0: it must"),
    ("run efl quadratic --compressor top-k", "as in --compressor top-k:q=0.1"),
    ("run fedavg quadratic --compressor st:q=0.1 --send model", "use --send update, or --no-client-feedback"),
    ("run feddyn quadratic --alpha 1 --compressor st:q=0.1 --send model", "--send model: with a compressor, use --send update"),
    ("verify theorem-3.1 --problem quadratic --compressor st:q=0.5", "about messages that are sent whole; leave it out"),
    ("verify theorem-e --problem quadratic --compressor st:q=0.5", "--compressor st:q=0.5: the statement is about messages that are"),
    ("verify feddyn-every-lambda --problem quadratic --compressor st:q=0.5", "the statement is about messages that are sent whole"),
    ("run fedavg quadratic --no-client-feedback", "--client-feedback is about what a compressor leaves out: give one"),
    ("run efl quadratic --compressor st", "and q is missing, as in --compressor st:q=0.1"),
    ("run efl quadratic --compressor st:q=0.1 --down-compressor st:q=0", "--down-compressor st:q=0: q is 0"),
    ("run fedavg logistic --local-solver adam", "no constant of the problem says a step size: give one with --local-lr"),
    ("run fedavg logistic --local-solver sgd --betas 0.9,0.9", "--betas does not apply to --local-solver sgd: leave it out, or choose"),
    ("run fedavg logistic --nesterov", "does not apply to --local-solver gradient, by which the local problems are solved by default"),
    ("run efl logistic --betas 0.9,0.9", "--betas does not apply to --local-solver local-sgd"),
    ("run mopes lad --betas 0.9,0.9", "--betas does not apply to mopes: leave it out"),
    ("run fedmls lad --nesterov", "--nesterov does not apply to fedmls: leave it out"),
    ("run fedavg logistic --local-solver adam --local-lr 0.1 --betas 1,0", "--betas 1,0: give two numbers in [0, 1)"),
    ("run fedavg logistic --local-solver momentum --local-momentum 1", "--local-momentum 1.0: it must lie in (0, 1)"),
    ("run scaffold logistic --local-solver momentum", "divides by the local step size: use"),
    ("run feddyn diabetes --alpha 1 --local-lr 0.1", "solved by default: add --local-solver gradient or sgd"),
    ("run fedavg logistic --local-solver gradient --epochs 2", "--local-solver gradient: add --local-solver sgd in its place"),
    ("run fedavg diabetes -P 0", "--participants 0: it must be an integer from 1 to m = 5"),
    ("run efl quadratic -P 0", "--participants 0: it must be an integer from 1 to m = 5"),
    ("verify theorem-3.1 -P 0", "--participants 0: it must be an integer from 1 to m = 5"),
    ("run feddyn diabetes", "feddyn needs --alpha: give a number > 0, as in --alpha 0.1"),
    ("run apfl diabetes", "apfl needs --alpha: give a number from 0 to 1, as in --alpha 0.5"),
    ("run fedelasticnet-dyn quadratic", "--l1 is a number >= 0, as in --l1 0.1; --l2 is a number > 0, as in --l2-over-beta 30"),
    ("run subgradient lad --step -1", "--step -1.0: it must"),
    ("run fedmls lad --epsilon 1e-9", "a larger --epsilon or fewer --rounds, or pass --allow-long to go on"),
    ("verify elastic-aggregation/stability --tau 0.3", "--ridge; a method's tau is --server-tau"),
    ("solve digits --clients 9999", "--clients 9999"),
    ("solve digits --held-out 2", "--held-out 2.0: "),
    ("solve digits --ridge -1", "--ridge -1.0: it must"),
    ("solve digits --partition dirichlet --alpha-dirichlet 0", "--alpha-dirichlet 0.0: it must"),
    ("solve digits --partition classes --classes 99", "--classes 99"),
    ("solve quantile --tau 2", "--tau 2.0: "),
    ("solve nesterov-worst --for-epsilon 2", "--for-epsilon 2.0: the instance"),
    ("solve lad --radius 1e-9 --gap 1e-30", "Allow a larger --gap"),
    ("solve diabetes --radius 3", "leave out --radius"),
    ("verify eq-28 --problem quadratic --clients 60 -P 20", "cohorts are too many to enumerate (limit 4096): take fewer --clients"),
    ("verify theorem-3.1 --mode exact --rounds 90 -P 2", "or use --mode monte-carlo"),
    ("verify theorem-3.1 -P 9", "--participants 9 with m = 5 clients"),
]  # fmt: skip


def flags_of(command):
    import typer.main

    found = typer.main.get_command(app).commands[command].params
    return {o for p in found for o in (*p.opts, *p.secondary_opts)}


@pytest.mark.parametrize(("args", "says"), TABLE, ids=[t[0] for t in TABLE])
def test_errors_name_the_command_lines_options(args, says, tmp_path):
    out = ("--out", tmp_path) if args.startswith("run") else ()
    text = refused(*args.split(), *out)
    assert says in text
    assert set(re.findall(r"(?<!\w)--[a-z][\w-]*", text)) <= flags_of(args.split()[0]), "it names options of this command only"
    python = set(re.findall(r"(?<![(\w:])(\w+)=", text))
    assert not {f"--{name.replace('_', '-')}" for name in python} & flags_of(args.split()[0]), "no argument of the library is left"


def test_an_option_is_named_only_where_it_applies():
    assert "set ridge > 0" in refused("solve", "separable"), "this problem takes no --ridge"
    text = refused("run", "fedavg", "quadratic", "--local-solver", "gradient", "--local-lr", 50)
    assert "lambda_2" not in text and "--l2" not in text, "fedavg has none"


@pytest.mark.parametrize("word", ["alpha is 0.0", "alpha = 0.0"])
def test_of_two_options_the_one_with_the_value_is_named(word):
    options = {"alpha": "--alpha", "alpha_dirichlet": "--alpha-dirichlet"}
    for name, flag in options.items():
        other = next(n for n in options if n != name)
        assert in_cli_words(f"{word}: it must", options, {name: 0, other: 1.5}).startswith(f"{flag} 0.0: it must")


def test_a_file_is_refused_with_what_this_command_can_do(tmp_path):
    data = tmp_path / "small.svm"
    data.write_text("1 3:1\n2 1:1\n")
    common = ("solve", "--data", data, "--loss", "logistic")
    assert "pass --dimension 3 or more" in refused(*common, "--dimension", 2)
    assert refused(*common, "--dimension", 10**9).rstrip().endswith("the limit is 2: take a smaller file")
    data.write_text("a,b,y\n1,2,1\n3,4,2\n")
    assert "t = numpy.loadtxt(" in refused(*common) and "skiprows=1" in refused(*common)


def test_one_scenario_is_refused_before_the_optimum_is_certified(monkeypatch):
    monkeypatch.setattr(Problem, "optimum", None)
    for mode in ("auto", "monte-carlo"):
        told = refused("verify", "theorem-3.1", "--problem", "diabetes", "-P", 2, "--mode", mode, "-S", 1)
        assert "--scenarios 1: it must be an integer >= 2; a mean needs at least two runs" in told


def test_confidence_and_horizons_stand_at_the_top():
    common = ("verify", "theorem-3.1", "--problem", "quadratic", "-P", 2)
    assert "judged at T = 1 to 3 " in " ".join(call(*common).stdout.split())
    told = " ".join(call(*common, "--mode", "monte-carlo", "--rounds", 7).stdout.split())
    assert "scenarios decided, each form by itself at 99.9 % judged at T = 1 to 7 " in told
    assert "judged at" not in call("verify", "eq-28", "--problem", "quadratic", "-P", 2).stdout


def test_pictures_are_drawn_whatever_the_environment_says_of_windows(tmp_path):
    command = [sys.executable, "-m", "fedtheory", "run", "fedavg", "quadratic", "--rounds", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, env={**os.environ, "MPLBACKEND": "nonsense"}, capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "run-fedavg-quadratic.png").exists(), done.stderr


def test_separable_data_of_a_file_point_to_the_option(tmp_path):
    data = tmp_path / "small.svm"
    data.write_text("1 1:1\n2 1:-1\n1 1:2\n2 1:-3\n")
    assert "set --ridge above 0" in refused("solve", "--data", data, "--loss", "logistic", "--clients", 2)


def test_reasons_of_checks_name_options_too():
    args = ("verify", "theorem-3.1", "--problem", "quadratic", "-P", 2, "--rounds", 4, "--mode", "monte-carlo", "--scenarios", 2)
    text = " ".join(call(*args).stdout.split())
    assert "inconclusive" in text and "raise --scenarios" in text


@each(
    ("text", "says"),
    [
        (
            "K = 9: ask for a larger epsilon or fewer scenarios, or pass allow_long=True to go on",
            "K = 9: ask for a larger --epsilon or fewer --scenarios, or pass --allow-long to go on",
        ),
        ("make FedMLS with skip_last=False", "make FedMLS with --no-skip-last"),
        ("use zero='one' (plain averaging there)", "use --zero one (plain averaging there)"),
        ("LAD(clients=5, dim=3): the gap", "LAD(clients=5, dim=3): the gap"),
        ("mu = min_k mu_k = 0: add a ridge", "mu = min_k mu_k = 0: set --ridge above 0"),
        ("lambda_2/beta = 3 is not above 27", "lambda_2/beta = 3 is not above 27"),
        ("use fedtheory.local.LocalSGD(steps=7, ...)", "use fedtheory.local.LocalSGD(steps=7, ...)"),
        ("clients stop: use fedtheory.local.LocalSGD(steps=7, ...)", "clients stop: use --local-solver local-sgd --local-steps 7"),
        ("Sides(lhs=[f(1)], scale=2, mu=0): use le", "Sides(lhs=[f(1)], scale=2, mu=0): use le"),
        ("cut short: Huber(ridge=1, mu=0, ...", "cut short: Huber(ridge=1, mu=0, ..."),
        ("Exact takes none: use GradientSteps, SGD or LocalSGD", "Exact takes none: use --local-solver gradient, sgd or local-sgd"),
        ("of one length: use GradientSteps(E, lr), or LocalSGD(E, lr)", "of one length: use --local-solver gradient or local-sgd"),
        ("of one step; a: use LocalSGD(1, 1.0)", "of one step; a: use LocalSGD(1, 1.0)"),
        ("a kernel: SGD needs one, use SGDFast or Exact.of", "a kernel: SGD needs one, use SGDFast or Exact.of"),
        ("index 0: write it so, or pass zero_based=True", "index 0: write it so"),
    ],
)
def test_what_is_translated_and_what_is_not(text, says):
    names = "allow_long skip_last zero clients dimension mu ridge local_solver local_steps epsilon scenarios".split()
    assert in_cli_words(text, {n: f"--{n.replace('_', '-')}" for n in names}) == says


@pytest.mark.parametrize("kind", ["integer", "integer range", "float"])
def test_digits_are_checked_with_a_typer_whose_options_keep_no_annotation(kind):
    old = SimpleNamespace(opts=["--rounds", "-T"], type=SimpleNamespace(name=kind))  # as in 0.19
    with pytest.raises(InvalidInput, match="digits 0 to 9"):
        check_digits([old], ["--rounds", "1_0"])
    check_digits([old], ["-T10"])
    text = SimpleNamespace(opts=["--name"], type=SimpleNamespace(name="text"))
    check_digits([text], ["--name", "1_0"])
