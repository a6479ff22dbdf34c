"""Help: `--help` fits two screens, `--help-all` has every option, a method's page has its own."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
from command_line import refused
from typer.main import get_command
from typer.testing import CliRunner

from fedtheory import algorithms
from fedtheory.central.plan import METHODS as CENTRAL
from fedtheory.cli import app
from fedtheory.cli.app import TASKS
from fedtheory.cli.central import TAKES
from fedtheory.cli.options import RENAMED, SET_OPTIONS, flag, hyperparameters
from fedtheory.cli.topics import METHODS_OF_PAPERS
from fedtheory.theory.judge.registry import all_statements, setting_of

COMMANDS = get_command(app).commands
SCREENS, OF_A_TOPIC = 48, 60  # two screens of 24 lines; a method has all its options on its page
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")


@cache
def page(*args, columns=80):
    """Return what the command prints, each page once; the run must succeed."""
    done = CliRunner().invoke(
        app, [str(a) for a in args], env={"COLUMNS": str(columns)}, prog_name="fedtheory"
    )
    assert done.exit_code == 0, done.output
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)  # FORCE_COLOR may be set


def groups(text):
    """{title: the options that its rows begin with} of a help page."""
    found = {}
    for title, rows in re.findall(r"╭─ (.+?) ─+╮\n(.*?)╰─", text, re.S):
        found[title] = {
            flags[0] for row in rows.splitlines() if (flags := re.findall(r"^│ (--[\w-]+)", row))
        }
    return found


def flags(name):
    return {
        o for p in COMMANDS[name].params for o in (*p.opts, *p.secondary_opts) if o.startswith("-")
    }


def listed(text):
    """All options that a page lists."""
    return set().union(*groups(text).values())


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", [80, 120, 200])
def test_the_first_page_fits_two_screens(command, columns):
    text = page(command, "--help", columns=columns)
    lines = text.splitlines()
    assert len(lines) <= SCREENS and max(map(len, lines)) <= columns
    last = [line.strip() for line in lines if line.strip()][-1]
    assert last == f"All options: fedtheory {command} --help-all"
    examples = text.partition("Examples")[2].split("Options of one")[0].split("All options")[0]
    assert 2 <= examples.count("fedtheory ") <= 3
    sentence = lines[3].strip()
    assert sentence.endswith(".") and lines[4].strip() == "", "one sentence, on one line"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_first_page_has_what_is_shown_first_and_nothing_else(command):
    names = {p.name: p for p in COMMANDS[command].params}
    first = COMMANDS[command].first
    assert set(first) <= set(names) and len(set(first)) == len(first) <= 12
    shown = listed(page(command, "--help"))
    assert shown == {max(names[n].opts, key=lambda o: o.startswith("--")) for n in first} | {
        "--help",
        "--help-all",
    }


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("command", COMMANDS)
def test_the_full_page_lists_every_option_unbroken(command, columns):
    text = page(command, "--help-all", columns=columns)
    assert max(map(len, text.splitlines())) <= columns and "…" not in text
    assert flags(command) | {"--help", "--help-all"} <= {*OPTION.findall(text)}
    told = " ".join(text.split())
    assert all(
        example in told for example in re.findall(r"^`(.*)`$", COMMANDS[command].epilog, re.M)
    )


COMPRESSED = {
    "up": ("compressor", "client_feedback"), "down": ("down_compressor", "server_feedback"),
    "control": ("control_compressor",), "model": (),
}  # fmt: skip


def fields_of(method):
    """The flags of a method's fields, read from its class; and the other words for some of them."""
    if method in CENTRAL:  # as `fedtheory.cli.central` takes them, and the set
        names = {*TAKES, "noise", *(o.name for o in SET_OPTIONS)} - (
            {"allowance"} if method == "mopes" else set()
        )
    else:
        names = {RENAMED.get(f.name, f.name) for f in fields(algorithms.get(method))}
        names |= {name for message in algorithms.get(method).compresses for name in COMPRESSED[message]}
        names |= {"l2_over_beta"} if "l2" in names else set()
        names |= {"epsilon", "noise"} if method == "fedmls" else set()
    return {flag(name) for name in names - {"rounds", "allow_long"}}  # these are of every run


@pytest.mark.parametrize("method", [*algorithms.names(), *CENTRAL])
def test_the_page_of_a_method_has_exactly_its_options(method):
    text = page("run", method, "--help")
    assert len(text.splitlines()) <= OF_A_TOPIC and max(map(len, text.splitlines())) <= 80
    assert groups(text).get(f"Options of {method}", set()) == fields_of(method)
    everybody = {
        flag(name) for name in (*hyperparameters(), "l2_over_beta", *(o.name for o in SET_OPTIONS))
    }
    of_a_run = {
        "--rounds",
        "--allow-long",
        "--radius",
    }  # a nonsmooth problem has a ball, whatever the method
    assert listed(text) & everybody <= fields_of(method) | of_a_run
    assert (
        listed(page("run", method, "--help-all")) & everybody
        == fields_of(method) & everybody | of_a_run
    )
    assert f"All options: fedtheory run {method} --help-all" in text


@pytest.mark.parametrize("method", [*algorithms.names(), *CENTRAL])
def test_an_option_that_is_not_on_the_page_of_a_method_is_refused(method, tmp_path):
    full = listed(page("run", method, "--help-all"))
    values = {
        "--l1": "1", "--server-tau": "1", "--momentum": "0.5", "--set": "ball",
        "--local-solver": "exact", "--local-steps": "2", "--epochs": "2", "--participants": "1",
        "--inactive": "0.5", "--lr-schedule": "inverse", "--betas": "0.9,0.99",
    }  # fmt: skip
    smooth = method not in ("fedmls", "subgradient", *CENTRAL)
    needed = (
        re.findall(rf"fedtheory run {method} \S+(.*)", page("run", method, "--help"))[-1].split()
        if smooth
        else []
    )
    needed = [word for word in needed if not word.startswith("--local")]
    missing = [name for name in values if name not in full]
    assert missing
    for name in missing:
        given = [*needed, name, values[name]]
        told = refused(
            "run",
            method,
            "quadratic" if smooth else "lad",
            "--rounds",
            1,
            "--no-figures",
            "--out",
            tmp_path,
            *given,
        )
        assert name in told and not any(tmp_path.iterdir()), told


def test_defaults_and_needs_stand_on_the_page_of_a_method():
    text = " ".join(page("run", "feddyn", "--help", columns=200).split())
    assert "The penalty's weight (needed)." in text and "default own)" in text
    text = " ".join(page("run", "fedmls", "--help", columns=200).split())
    assert (
        "in units of G ||x_0 - x*|| (default 0.2)" in text and "in units of G (default 0)" in text
    )
    assert "threshold" not in text, "which epsilon is to other methods"
    text = " ".join(page("run", "fedelasticnet-dyn", "--help", columns=200).split())
    assert "(default 0.0)" in text and "accuracy" not in text


def test_every_needed_option_has_an_example():
    for method in algorithms.names():
        if method in ("fedmls", "subgradient"):  # a theorem says their numbers
            continue
        text = " ".join(page("run", method, "--help", columns=200).split()).partition("Examples")[2]
        needed = [flag(h.name) for h in hyperparameters().values() if method in h.required]
        assert all(
            f"{name} " in text or (name == "--l2" and "--l2-over-beta" in text) for name in needed
        )


def test_an_unknown_name_is_told_with_the_nearest():
    assert "fedavg" in refused("run", "fedavgg", "--help") and "scaffold" in refused(
        "worst-case", "scafold", "--help"
    )
    assert "theorem-3.1" in refused("verify", "theorem-3.11", "--help")


BOUNDED = {
    "fedavg": {"--step"}, "scaffold": {"--step"}, "fedprox": {"--mu", "--step"},
    "feddyn": {"--alpha", "--step"}, "fedelasticnet-dyn": {"--l2", "--step"},
    "subgradient": {"--step"}, "fedmls": {"--lam", "--D"}, "mopes": {"--lam", "--D"},
}  # fmt: skip


@pytest.mark.parametrize("method", BOUNDED)
def test_the_page_of_a_worst_case_has_the_options_of_its_method(method):
    text = page("worst-case", method, "--help")
    assert len(text.splitlines()) <= SCREENS
    assert groups(text)[f"Options of {method}"] == BOUNDED[method] | {"--given"}
    others = {name for of in BOUNDED.values() for name in of} - BOUNDED[method]
    assert not others & listed(page("worst-case", method, "--help-all"))


@pytest.mark.parametrize(
    "statement",
    [
        "theorem-3.1",
        "fedmls/theorem-1",
        "fedmls/mopes-bound",
        "fedmls/moles-bound",
        "efl/theorem-1",
        "elastic-aggregation/sign",
    ],
)
@pytest.mark.parametrize("command", ["verify", "proof"])
def test_the_page_of_a_statement(command, statement):
    text = page(command, statement, "--help")
    assert len(text.splitlines()) <= OF_A_TOPIC
    (own,) = [options for title, options in groups(text).items() if title.startswith("Options of")]
    by_flag = {o: p for p in COMMANDS[command].params for o in p.opts}
    assert {by_flag[o].rich_help_panel for o in own} <= {
        "Hyperparameters",
        "Nonsmooth problems",
        "MOPES and MOLES",
    }
    assert not own & {"--details", "--quick"} and "--problem" in listed(text)
    full = listed(page(command, statement, "--help-all"))
    assert not full & {
        "--workers",
        "--budget",
        "--engine",
        "--l1" if "theorem-3.1" != statement else "--server-tau",
    }


def test_the_page_of_every_statement_has_its_example_and_the_options_in_it():
    for statement in all_statements():
        text = page("verify", statement.id, "--help")
        assert len(text.splitlines()) <= OF_A_TOPIC, statement.id
        setting, words = setting_of(statement), " ".join(text.split())
        about = setting.about(statement)
        example = "" if about.refusal else about.example or ""
        assert statement.id in words and example in words.partition("Examples")[2], statement.id
        assert set(re.findall(r"--[a-z0-9-]+", example)) <= listed(text), statement.id


def test_every_paper_has_its_method():
    assert {s.id.partition("/")[0] for s in all_statements()} == set(METHODS_OF_PAPERS)
    assert {*METHODS_OF_PAPERS.values()} <= {*algorithms.names()}


def test_the_help_of_all_has_every_command_under_a_task():
    text = page("--help")
    assert len(text.splitlines()) <= SCREENS and max(map(len, text.splitlines())) <= 80
    titles = [title for title in re.findall(r"╭─ (.+?) ─+╮", text) if title != "Options"]
    assert titles == list(TASKS)
    assert re.findall(r"^│ ([a-z][a-z-]+) ", text, re.M) == list(
        get_command(app).list_commands(None)
    )
    assert set(COMMANDS) == {*get_command(app).list_commands(None)}


def printed(*args, **env):
    """stdout of a process without a terminal, in an environment of which nothing is about one."""
    about = ("COLUMNS", "TERMINAL_WIDTH", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS")
    there = {k: v for k, v in os.environ.items() if k not in about} | env
    command = [sys.executable, "-m", "fedtheory", *args]
    done = subprocess.run(command, env=there, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize("columns", [None, "40"])
def test_help_needs_no_terminal(columns):
    text = printed("run", "--help", **({"COLUMNS": columns} if columns else {}))
    assert "--help-all" in text and "\x1b" not in text
    assert max(map(len, text.splitlines())) <= int(columns or 80)


def test_help_without_rich():
    for more, there in (("--help", False), ("--help-all", True)):
        text = printed("run", more, TYPER_USE_RICH="0")
        assert ("--control-compressor" in text) == there and "--rounds" in text


def test_the_pages_of_the_documentation_have_every_option(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs/_ext"))
    pages = importlib.import_module("generated").commands()
    for name in COMMANDS:
        assert flags(name) | {"--help-all"} <= {*OPTION.findall(pages[name])}
