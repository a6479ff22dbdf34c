"""The audit takes a state's arrays however they are kept, and tells a state that is none once."""

import numpy as np
import pytest

from fedtheory.testing import audit_algorithm, check_algorithm

SLOW = ("convergence",)


def rows_as(keep, read=np.asarray):
    """SCAFFOLD that keeps its c_k by ``keep`` and reads each by ``read``. It is right."""

    def round(state, clients, cohort, learning_rate, local_steps, server_lr):
        x, c = read(state["x"]), read(state["c"])
        old = [read(state["c_k"][k]) for k in range(len(clients))]
        new, moves = [row.copy() for row in old], []
        for k in cohort:
            y = x.copy()
            for _ in range(local_steps):
                y = y - learning_rate * (clients[k].gradient(y) - old[k] + c)
            new[k] = old[k] - c + (x - y) / (local_steps * learning_rate)
            moves.append(y - x)
        change = sum(a - b for a, b in zip(new, old, strict=True))
        return {
            "x": x + server_lr * np.mean(moves, axis=0),
            "c": c + change / len(clients),
            "c_k": keep(new),
        }

    return round


def halves(rows):
    return [[row[:1], row[1:]] for row in rows]


def joined(value):
    return (
        np.concatenate([np.ravel(v) for v in value])
        if isinstance(value, list)
        else np.asarray(value)
    )


KEPT = {
    "list": (list, np.asarray),
    "tuple": (tuple, np.asarray),
    "lists of numbers": (lambda rows: [row.tolist() for row in rows], np.asarray),
    "dict by number": (lambda rows: dict(enumerate(rows)), np.asarray),
    "layers": (halves, joined),
    "array of objects": (lambda rows: np.array([*rows, None], dtype=object)[:-1], np.asarray),
}


@pytest.mark.parametrize("how", KEPT)
def test_a_scaffold_passes_however_it_keeps_its_control_variates(how):
    report = check_algorithm(rows_as(*KEPT[how]), "scaffold", skip=SLOW)
    assert {f.check: f.verdict for f in report.findings}["mean of what is kept"] == "pass"


def test_control_variates_in_tensors_that_want_a_gradient_are_taken():
    torch = pytest.importorskip("torch")

    def tensors(rows):
        return [torch.tensor(row, requires_grad=True) for row in rows]

    def read(value):
        return value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)

    assert check_algorithm(rows_as(tensors, read), "scaffold", skip=SLOW).passed


@pytest.mark.parametrize("how", KEPT)
def test_what_is_wrong_in_a_list_is_seen_in_the_list(how):
    """Of arrays in a list only x was compared: the numbers of the first round went unseen."""
    keep, read = KEPT[how]
    right = rows_as(keep, read)

    def round(state, clients, cohort, learning_rate, local_steps, server_lr):
        after = right(state, clients, cohort, learning_rate, local_steps, server_lr)
        rows = [read(after["c_k"][k]) for k in range(len(clients))]
        rows[cohort[0]] = 2 * rows[cohort[0]]
        return {**after, "c_k": keep(rows)}

    first = audit_algorithm(round, "scaffold", skip=SLOW).failed[0]
    assert (first.check, first.expected[:4]) == ("one local step", "c_k[")


def test_what_a_state_holds_besides_is_its_own_business():
    right = rows_as(list)

    def round(state, clients, cohort, learning_rate, local_steps, server_lr):
        after = right(state, clients, cohort, learning_rate, local_steps, server_lr)
        return {
            **after,
            "layers": ["weight", np.zeros(2)],
            "rng": np.random.default_rng(0),
            "best": np.nan,
        }

    assert check_algorithm(round, "scaffold", skip=SLOW).passed


def test_a_wrong_key_or_shape_is_one_error():
    right = rows_as(list)

    def misspelt(state, clients, cohort, learning_rate, local_steps, server_lr):
        after = right(state, clients, cohort, learning_rate, local_steps, server_lr)
        return {"x": after["x"], "c": after["c"], "ck": after["c_k"]}

    def turned(state, clients, cohort, learning_rate, local_steps, server_lr):
        after = right(state, clients, cohort, learning_rate, local_steps, server_lr)
        return {**after, "c_k": np.array(after["c_k"]).T}

    for adapter, told in (
        (misspelt, "has no 'c_k', which it was handed"),
        (turned, "c_k after round 1 has shape (4, 5), it must have (5, 4)"),
    ):
        report = audit_algorithm(adapter, "scaffold")
        assert [f.check for f in report.findings if f.verdict == "fail"] == ["one local step"]
        assert told in report.failed[0].got and told in report.sentence
        assert {f.verdict for f in report.findings[1:]} == {"not run"}


def test_a_number_of_clients_that_is_written_down_stops_no_other_check():
    right = rows_as(list)

    def round(state, clients, cohort, learning_rate, local_steps, server_lr):
        after = right(state, clients, cohort, learning_rate, local_steps, server_lr)
        return {**after, "c_k": np.resize(after["c_k"], (5, 4))}

    report = audit_algorithm(round, "scaffold", skip=SLOW)
    assert [f.check for f in report.failed] == ["clients come and go"]
    assert "has shape (5, 4), it must have (4, 4)" in report.failed[0].got


@pytest.mark.parametrize("rows", [np.array, list])
def test_control_variates_in_single_precision_are_judged_as_such(rows):
    report = audit_algorithm(
        rows_as(lambda new: rows([r.astype(np.float32) for r in new])), "scaffold"
    )
    assert report.passed and report.rtol == 3e-4


def one_by_one(last):
    def run(start, clients, cohorts, learning_rate, local_steps):
        x = start
        for cohort in cohorts:
            ys = []
            for k in cohort:
                y = x.copy()
                for _ in range(local_steps):
                    y = y - learning_rate * clients[k].gradient(y)
                ys.append(y)
            x = np.average(ys, axis=0, weights=[clients[k].num_examples for k in cohort])
        return last(x)

    return run


@pytest.mark.parametrize(
    "last",
    [
        list,
        lambda x: [x[:1], x[1:]],
        lambda x: x[:, None],
        lambda x: x[None],
        lambda x: [x],
        lambda x: list(x.reshape(4, 1)),
    ],
)
def test_a_last_model_in_parts_is_not_taken_for_the_models_of_as_many_rounds(last):
    assert check_algorithm(one_by_one(last), "fedavg", skip=SLOW).passed
