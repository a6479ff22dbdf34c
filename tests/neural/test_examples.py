"""The examples of networks, run as a user runs them: what they print, what they find, and the answers that are known."""

from __future__ import annotations

import io
import re
import runpy
import sys
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib").use("Agg")
FOLDER = Path(__file__).parents[2] / "examples"


@cache
def ran(name):
    """Run an example once; return its names, its lines, and the first bytes of its picture."""
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as printed:
        picture = Path(folder) / "picture.png"
        patch.setattr(sys, "argv", [f"{name}.py", str(picture)])
        names = runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
        return names, printed.getvalue().splitlines(), picture.read_bytes()[:4]


@pytest.mark.parametrize("name", ["transformer", "fine_tuning"])
def test_an_example_is_short_and_ends_with_its_finding_and_a_picture(name):
    assert len((FOLDER / f"{name}.py").read_text().splitlines()) < 125
    names, lines, picture = ran(name)
    assert len(lines) == 6 and lines[4] == names["finding"](names["found"]) and picture == b"\x89PNG"


def test_what_the_transformer_is_asked_is_determined():
    """Every letter that counts is the one a word and a space before it; nothing counts before the first space."""
    names, _, _ = ran("transformer")
    rng = np.random.default_rng(1)
    for word in names["WORDS"]:
        inputs, padding, following = names["texts"](rng, 50, word)
        asked = ~padding
        asked[:, :word] = False
        assert ((following != names["IGNORED"]) == asked).all() and (inputs[:, word] == names["SPACE"]).all()
        back = np.hstack([inputs[:, :word], inputs[:, :-word]])  # word + 1 places back from the letter that is asked for
        assert (following == back)[asked].all() and (inputs != names["SPACE"])[:, :word].all()
        assert {*padding.sum(axis=1)} == {0, 1, 2, 3, 4} and (np.diff(padding.astype(int)) >= 0).all()


def test_the_transformer_looks_at_nothing_later():
    import torch

    names, _, _ = ran("transformer")
    torch.manual_seed(0)
    module, text = names["Transformer"]().eval(), torch.randint(0, 8, (1, names["LENGTH"]))
    other, padding = text.clone(), torch.zeros(1, names["LENGTH"], dtype=torch.bool)
    other[0, 9:] = (other[0, 9:] + 1) % 8
    before, after = module(text, padding), module(other, padding)
    assert torch.allclose(before[..., :9], after[..., :9], atol=1e-6) and not torch.allclose(before[..., 9:], after[..., 9:], atol=1e-2)


def test_feddyn_learns_to_copy_what_fedavg_on_its_writers_does_not():
    names, lines, _ = ran("transformer")
    avg, dyn, mixed = (accuracy[-1] for accuracy in names["found"].values())
    assert dyn.min() > 0.97 and mixed.min() > 0.9 and avg.mean() < 0.96 and avg[-1] < 0.85 < avg[0]
    shown = [float(v) for v in re.findall(r"\d\.\d{3}", lines[1])]
    assert np.allclose(shown, [*avg, avg.mean()], atol=6e-4)


def test_the_head_alone_is_trained_and_sent():
    names, lines, _ = ran("fine_tuning")
    head, whole, new = names["found"].values()
    assert (head["trained"], whole["trained"]) == (128 * 5 + 5, 14_853) and new["trained"] == whole["trained"]
    for run in (head, whole):  # ten clients, up and down, 32 bits a number, 12 rounds
        assert np.isclose(run["megabits"][-1], run["trained"] * 2 * 10 * 32 * 12 / 1e6)
    assert head["megabits"][-1] < whole["megabits"][1] and head["accuracy"][-1] > whole["accuracy"][1] + 0.3
    assert f"{head['accuracy'][-1]:.1%} accuracy with {head['megabits'][-1]:.1f} megabits" in lines[4]
