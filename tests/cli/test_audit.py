"""`fedtheory audit`."""

import json

import pytest

from tests.command_line import call, refused

RIGHT = """
import numpy as np

RATE = 0.3


def averaging(state, clients, cohort, learning_rate, local_steps):
    sizes = np.array([clients[k].num_examples for k in cohort])
    models = []
    for k in cohort:
        y = state["x"].copy()
        for _ in range(local_steps):
            y -= learning_rate * clients[k].gradient(y)
        models.append(y)
    return {"x": sizes @ np.array(models) / sizes.sum()}


class Averaging:
    def round(self, state, clients, cohort, learning_rate, local_steps):
        return averaging(state, clients, cohort, learning_rate, local_steps)


def loud(state, clients, cohort, learning_rate, local_steps):
    print("round")
    return averaging(state, clients, cohort, learning_rate, local_steps)


def unweighted(state, clients, cohort, learning_rate, local_steps):
    models = [averaging(state, clients, [k], learning_rate, local_steps)["x"] for k in cohort]
    return {"x": np.mean(models, axis=0)}


class Trainer:
    def __init__(self, model):
        self.model = model

    def round(self, state, clients, cohort, learning_rate, local_steps):
        return state


class Plain:
    def train(self):
        pass


def at_a_rate_of_its_own(state, clients, cohort, local_steps):
    return averaging(state, clients, cohort, RATE, local_steps)
"""


@pytest.fixture
def mine(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(RIGHT)
    return file


def test_one_that_is_right_passes(mine, tmp_path):
    text = call("audit", f"{mine}:averaging", "--as", "fedavg", "--out", tmp_path / "out").stdout
    assert f"{mine}:averaging is fedavg in all" in text.replace("\n", "")
    saved = json.loads((tmp_path / "out" / "audit-fedavg-averaging.json").read_text())
    assert saved["passed"] and saved["provenance"] and saved["checks"]
    call("audit", f"{mine}:Averaging", "--as", "fedavg")


def test_one_that_is_wrong_ends_with_1_and_the_line(mine):
    text = " ".join(call("audit", f"{mine}:unweighted", "--as", "fedavg", code=1).stdout.split())
    assert "Likely mistake: client weights are ignored" in text and "do not apply" in text
    told = json.loads(call("audit", f"{mine}:unweighted", "--as", "fedavg", "--json", code=1).stdout)
    assert told["explanations"][0][0]["name"] == "other-weights"
    call("audit", f"{mine}:unweighted", "--as", "fedavg", "--weighting", "uniform")


def test_a_method_is_taken_in_any_case_and_the_sentence_names_what_was_typed(mine):
    told = json.loads(call("audit", f"{mine}:unweighted", "--as", "FedAvg", "--json", code=1).stdout)
    assert told["method"] == "fedavg" and told["sentence"].startswith(f"{mine}:unweighted is not fedavg: ")


@pytest.mark.parametrize(
    "name, why", [("Trainer", "gives no object without arguments (TypeError: "), ("Plain", "has no method round")]
)
def test_a_class_that_is_no_adapter_is_told_what_one_is(mine, name, why):
    told = refused("audit", f"{mine}:{name}", "--as", "fedavg")
    assert f"{mine}:{name} is a class that {why}" in told
    assert "An adapter is a function round(state, clients, cohort, learning_rate, local_steps, ...)" in told


def test_what_it_has_built_in_is_said(mine):
    assert "settings={'learning_rate': value}" in refused("audit", f"{mine}:at_a_rate_of_its_own", "--as", "fedavg")
    call("audit", f"{mine}:at_a_rate_of_its_own", "--as", "fedavg", "--built-in", "learning_rate=0.3")
    told = call("audit", f"{mine}:at_a_rate_of_its_own", "--as", "fedavg", "--built-in", "learning_rate=0.2", code=1).stdout
    assert "1.5 times as far" in " ".join(told.split())


def test_what_it_prints_is_no_result(mine):
    assert json.loads(call("audit", f"{mine}:loud", "--as", "fedavg", "--json").stdout)["passed"]


def test_the_list_and_the_help_teach():
    text = call("audit", "--list").stdout
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line.strip()}
    assert lines["method"][1] == "weighting" and (lines["fedprox"][1], lines["scaffold"][1]) == ("examples", "uniform")
    assert "fedelasticnet-dyn" in text and "certified optimum" in text and max(map(len, text.splitlines())) <= 80
    told = json.loads(call("audit", "--list", "--json").stdout)
    assert {m["method"] for m in told["methods"]} >= {"scaffold", "fedadam"} and "streams" in told["checks"]
    assert "round(state, clients, cohort" in call("audit", "--help").stdout


def test_the_names_of_a_file_are_listed_once_where_no_adapter_is_near(mine):
    told = refused("audit", f"{mine}:xyzzy", "--as", "fedavg")
    assert "unknown adapter 'xyzzy'" in told and told.count("averaging") == 1


@pytest.mark.parametrize(
    "args, told",
    [
        (["mine.py:averaging"], "--as METHOD is missing"),
        (["--as", "fedavg"], "MODULE:ADAPTER is missing"),
        (["nowhere.py:averaging", "--as", "fedavg"], "no such file"),
        (["no.such.module:averaging", "--as", "fedavg"], "cannot be imported"),
        (["{mine}", "--as", "fedavg"], "name the adapter as well"),
        (["{mine}:averagin", "--as", "fedavg"], "did you mean 'averaging'"),
        (["{mine}:averaging", "--as", "fedav"], "did you mean 'fedavg'"),
        (["{mine}:averaging", "--as", "fedavg", "--built-in", "beta1"], "give NAME=NUMBER"),
        (["{mine}:averaging", "--as", "fedavg", "--skip", "men"], "unknown check 'men'"),
        (["{mine}:averaging", "--as", "fedavg", "--time-limit", "0"], "--time-limit 0.0"),
    ],
)
def test_bad_input_is_one_line(mine, args, told):
    assert told in refused("audit", *(a.replace("{mine}", str(mine)) for a in args))


def test_a_file_that_cannot_be_imported_is_told_with_its_line(tmp_path):
    file = tmp_path / "broken.py"
    file.write_text("x = 1\nraise KeyError('gone')\n")
    assert "line 2 of broken.py: KeyError" in refused("audit", f"{file}:x", "--as", "fedavg")
    file.write_text("def f(:\n")
    assert f"{file}, line 1" in refused("audit", f"{file}:f", "--as", "fedavg")
