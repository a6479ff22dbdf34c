"""Steps of a command are found again, by name and number, to the bit, and never taken for others."""

from __future__ import annotations

import base64
import io
import sys
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

from fedtheory.algorithms import Compressed, FedAvg, FedDyn, Scaffold
from fedtheory.errors import DataFileError
from fedtheory.local import LocalSGD
from fedtheory.messages import TopK
from fedtheory.participation import Uniform
from fedtheory.problems import Quadratic, random_quadratic
from fedtheory.simulation import simulate
from fedtheory.simulation.rounds import Job
from fedtheory.store import resumable
from fedtheory.store.result_store import ResultStore
from fedtheory.store.resumable import (
    COMMAND,
    CachedSteps,
    cached_step,
    command_in,
)


class Killed(BaseException):
    pass


class State(NamedTuple):
    x: Any
    last: Any = None


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    for name in ("WAIT", "SHORT"):
        monkeypatch.setattr(resumable, name, -1.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "made" / "kept.steps.sqlite"


def nothing(line):
    pytest.fail(line)


def test_steps_within_a_step_are_known_by_their_place(path):
    made = []

    def leaf(name):
        made.append(name)
        return name

    def command(killed=False):
        for number in range(3):
            found = cached_step(
                "look",
                lambda n=number: [cached_step("part", lambda k=k: leaf((n, k))) for k in range(2)],
            )
            assert found == [(number, 0), (number, 1)]
            if killed and number == 1:
                cached_step("look", lambda: [cached_step("part", lambda: leaf((2, 0))), kill()])

    def kill():
        raise Killed

    with pytest.raises(Killed), CachedSteps(path, 1, tell=nothing):
        command(killed=True)
    with ResultStore(path) as store:
        assert len(store) == 1 + 2 + 1, "the command, two looks without their parts, and a part"
    told = []
    with CachedSteps(path, 1, tell=told.append) as kept:
        command()
        assert (
            kept.begun
            and kept.written
            and told == [f"going on where an earlier process of this command ended: it left {path}"]
        )
        kept.remove()
        assert cached_step("look", lambda: 3) == 3 and not kept.written
    assert made == [(n, k) for n in range(3) for k in range(2)] and not list(path.parent.iterdir())


def test_other_contents_take_nothing_over_and_the_file_says_whose_it_is(path, tmp_path):
    with CachedSteps(path, {"alpha": 1}, "fedtheory verify \x1b[2Ja"):
        assert cached_step("checks", lambda: 1) == 1
    assert command_in(path) == "fedtheory verify [2Ja"
    with CachedSteps(path, {"alpha": 2}, "b", nothing) as kept:
        assert cached_step("checks", lambda: 2) == 2 and not kept.begun
    assert command_in(path) == "b" and command_in(tmp_path / "none") == ""
    (tmp_path / "text").write_text("b")
    assert command_in(tmp_path / "text") == ""


def test_an_optimum_is_that_of_its_problem_whichever_was_asked_for_before(path, monkeypatch):
    """A look that was kept does not ask for what those after it then ask for first."""

    def problem(at):
        return Quadratic(np.ones((1, 1, 1)), np.array([[at]]))

    with CachedSteps(path, 1):
        assert problem(3.0).optimum().x == [3] and problem(5.0).optimum().x == [5]
    monkeypatch.setattr(
        sys.modules["fedtheory.optimum.certify"], "_polish", None
    )  # nothing is certified again
    with CachedSteps(path, 1):
        assert problem(5.0).optimum().x == [5] and problem(3.0).optimum().x == [3]
        assert problem(3.0).optimum().within(1e-12)
    with pytest.raises(TypeError):
        problem(5.0).optimum()


def test_an_error_that_a_file_may_have_led_to_is_told_in_a_line(path, tmp_path):
    with CachedSteps(path, 1):
        cached_step("checks", lambda: [1])
    with (
        pytest.raises(
            DataFileError, match=r"cannot be gone on from \(TypeError: .*delete it to begin again"
        ),
        CachedSteps(path, 1),
    ):
        dict(**cached_step("checks", lambda: {"a": 1}))
    with pytest.raises(TypeError), CachedSteps(tmp_path / "other", 1):
        dict(**cached_step("checks", lambda: [1]))


def test_what_a_file_cannot_hold_is_made_again(path, monkeypatch):
    monkeypatch.setattr(resumable, "LARGEST", 800)
    with CachedSteps(path, 1, tell=nothing, asked=False) as kept:
        large = [np.zeros(100), {"a": (np.zeros(1),)}]
        for value in (
            {1, 2},
            [Fraction(1, 2)],
            np.array(["text"]),
            np.array([Fraction(1)], dtype=object),
            large,
            [State(1)],
        ):
            assert cached_step("it", lambda value=value: value) is value
        assert not kept.written
        cached_step("it", lambda: np.zeros(100))
        assert kept.written


def test_nothing_is_kept_of_the_first_seconds_nor_of_a_short_step(monkeypatch, path):
    with CachedSteps(path, 1, asked=False) as kept:
        monkeypatch.setattr(resumable, "SHORT", 1000.0)
        cached_step("checks", lambda: 1)
        monkeypatch.setattr(resumable, "SHORT", -1.0)
        monkeypatch.setattr(resumable, "WAIT", 1000.0)
        cached_step("checks", lambda: 1)
        assert not kept.written and not path.parent.exists()


VALUES = [
    None, True, 3, 10**30, -0.0, 0.1, float("inf"), float("nan"), "te\ud800xt", [1, (2.5, [])], {"a": {1: 2}, 3: None, ("b",): ()},
    np.float64(0.1), np.float32(np.nan), np.int32(-3), np.bool_(True), np.zeros((0, 3)), np.arange(6.0).reshape(2, 3),
    np.arange(6).reshape(2, 3).T, np.arange(24.0).reshape(4, 6)[::2, ::3], np.array(2.0), np.array([True, False]),
    np.array([0x7FF8000000000123, 0xFFF8000000000001], dtype=np.uint64).view(float), np.arange(3, dtype=">i4"),
]  # fmt: skip


def same(one, two):
    if isinstance(one, dict):
        return (
            type(two) is dict and list(one) == list(two) and all(same(one[k], two[k]) for k in one)
        )
    if isinstance(one, list | tuple):
        return type(one) is type(two) and len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, np.ndarray):
        alike = one.dtype == two.dtype and one.shape == two.shape and two.flags.writeable
        turned = one.flags.f_contiguous and not one.flags.c_contiguous
        return (
            alike
            and one.tobytes() == two.tobytes()
            and turned == (two.flags.f_contiguous and not two.flags.c_contiguous)
        )
    return type(one) is type(two) and repr(one) == repr(two)


@pytest.mark.parametrize("value", [*VALUES, VALUES], ids=lambda v: repr(v)[:20])
def test_a_value_comes_back_to_the_bit(value, path):
    with CachedSteps(path, 1):
        assert cached_step("it", lambda: value) is value
    with CachedSteps(path, 1):
        assert same(cached_step("it", lambda: pytest.fail("it was kept")), value)


def npy(array):
    np.save(file := io.BytesIO(), array, allow_pickle=True)
    return {"array": base64.b64encode(file.getvalue()).decode()}


def header(text):
    head = text.encode().ljust(118) + b"\n"
    return {
        "array": base64.b64encode(
            b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head
        ).decode()
    }


@pytest.mark.parametrize(
    "told",
    [
        npy(np.array([print], dtype=object)), npy(np.array(["text"])), npy(np.zeros(2, dtype="M8[s]")), {"array": "no base64"},
        {"array": base64.b64encode(b"PK\x03\x04").decode()}, {"array": 3}, {}, {"tuple": 1}, {"dict": [[[], 1]]}, {"a": 1, "b": 2},
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }"),
        header("{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }"), header("{'descr': '<f8', 'shape': ((("), header("(" * 90),
    ],
    ids=str,
)  # fmt: skip
def test_no_code_and_no_bomb_comes_from_a_file(told, path):
    with CachedSteps(path, 1):
        cached_step("it", lambda: 1)
    with ResultStore(path) as store:
        (key,) = [k for (k,) in store._database.execute("SELECT key FROM cells") if k != COMMAND]
        store.put(key, told)
    with (
        pytest.raises(
            DataFileError, match=r"a step in it cannot be read .* delete it to begin again"
        ),
        CachedSteps(path, 1),
    ):
        cached_step("it", lambda: 1)


METHODS = {
    "FedAvg": (FedAvg(), {"client_bits": True, "record": ("objective", "bits", "entropy")}),
    "compressed": (Compressed(Scaffold(), TopK(2), feedback=True), {"local_solver": LocalSGD(2, 0.1)}),
    "FedDyn": (FedDyn(0.5), {"chunk": 2, "record": ("distance",), "keep_states": False}),
}


@pytest.mark.parametrize("name", METHODS)
def test_a_run_that_nobody_watches_is_a_step(name, path, monkeypatch):
    method, options = METHODS[name]
    options = {"scenarios": 5, "keep_states": True, **options}

    def run():
        return simulate(random_quadratic(4, 3, seed=1), method, 6, sampling=Uniform(2), **options)

    alone = run()
    with CachedSteps(path, 1):
        run()
    monkeypatch.setattr(Job, "_run", None)  # no round is run again
    with CachedSteps(path, 1):
        found = run()
    for a, b in ((alone.metrics, found.metrics), (alone.client_bits, found.client_bits)):
        assert same(a, b)
    for a, b in zip([*(alone.states or ()), alone.final], [*(found.states or ()), found.final]):
        assert type(a) is type(b) and same(tuple(a), tuple(b))
