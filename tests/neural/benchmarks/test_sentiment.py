"""The network that reads tweets: padding, and EFL's rows on Sentiment140 trained on made tweets."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sentiment_files import PAGE, write
from typer.testing import CliRunner

from fedtheory.cli import app
from fedtheory.errors import InvalidInput
from fedtheory.neural import data, models
from fedtheory.neural.benchmarks import presets
from fedtheory.neural.benchmarks import run as bench

torch = pytest.importorskip("torch")


def test_padding_changes_nothing():
    """A row alone, beside longer ones, and with any number of zeros after it: the same output and the same gradient."""
    module = models.get("word-lstm").build(vocabulary=9, embedding=4, hidden=5).double()
    plain = models.get("char-lstm").build(num_classes=2, vocabulary=9, embedding=4, hidden=5).double()
    plain.load_state_dict(module.state_dict())  # the same parameters, by the same names
    g = torch.Generator().manual_seed(0)
    for length in (1, 3, 7):
        x = torch.randint(1, 9, (6, length), generator=g)
        padded = torch.nn.functional.pad(x, (0, 4))
        torch.testing.assert_close(module(x), plain(x), rtol=0, atol=1e-13)
        torch.testing.assert_close(module(padded), plain(x), rtol=0, atol=1e-13)
        assert (plain(padded) - plain(x)).abs().min() > 1e-4  # what reading the last place, padding and all, would give
    mixed = torch.zeros(2, 7, dtype=torch.int64)
    mixed[0, :2], mixed[1] = torch.tensor([3, 4]), torch.arange(1, 8)
    torch.testing.assert_close(module(mixed)[0], plain(mixed[:1, :2])[0], rtol=0, atol=1e-13)
    before = module(mixed).detach()
    module(mixed).square().sum().backward()
    gradient = module.embedding.weight.grad
    assert (
        not gradient[0].any() and gradient[8].abs().sum() == 0 and all(gradient[i].abs().sum() > 0 for i in range(1, 8))
    )
    with torch.no_grad():
        module.embedding.weight[0] += 100.0
    assert torch.equal(module(mixed), before)
    with torch.no_grad():
        module.embedding.weight[4] += 1.0
    assert not torch.equal(module(mixed)[0], before[0])


def learnable(users=100, each=64, seed=0):
    """Tweets whose polarity is that of one of their words."""
    g = np.random.default_rng(seed)
    rows = []
    for u in range(users):
        for _ in range(each):
            good = g.random() < 0.2 + 0.6 * u / users
            words = [f"w{i}" for i in g.integers(30, size=g.integers(1, 6))]
            words[g.integers(len(words))] = "love" if good else "hate"
            rows.append((4 if good else 0, f"user{u}", " ".join(words)))
    return sorted(rows, key=lambda row: row[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("data")
    (path / "sent140").mkdir()
    write(path / "sent140", learnable())
    return path


FEDAVG = presets.get("efl/sent140/non-iid/10-of-100/fedavg")


def test_every_row_of_efl_has_a_setting(folder):
    assert bench.unrun_rows("efl-table2") == []
    found = bench.load_data("sent140", folder, progress=False)
    assert len(found.users) == 100 and found.by_user().sizes.tolist() == [50] * 100
    problem = FEDAVG.make_problem(found)
    v = len(found.vocabulary)
    assert v == 34 and problem.num_clients == 100 and problem.dim == v * 100 + 2 * 400 * (100 + 100 + 2) + 101 * 2
    assert len(FEDAVG.make_problem(found, most_tested=7).test[0]) == 7
    with pytest.raises(InvalidInput, match="word-lstm reads texts, and digits has none: use another --network"):
        replace(FEDAVG.quick(digits=True), network="word-lstm").make_problem(data.digits())


def test_it_is_learnt_and_a_run_goes_on(folder, tmp_path):
    """The polarity's two words are found out; a run that was cut ends with the same numbers."""
    found = data.load_sentiment140(folder / "sent140", clients=10, samples=50, length=6)
    preset = replace(FEDAVG, clients=10, cohort=5, epochs=4, rounds=5)
    whole = bench.run_preset(preset, found, tmp_path / "whole", progress=False)
    accuracy = whole.series("test_accuracy")
    assert accuracy[-1] > 0.9, accuracy
    bench.run_preset(preset, found, tmp_path / "cut", rounds=2, progress=False)
    again = bench.run_preset(preset, found, tmp_path / "cut", progress=False)
    assert again.metrics == whole.metrics and again.rounds == 5


def test_the_command(folder, tmp_path):
    chosen = ["--dataset", "sent140", "--method", "fedgate"]
    args = ["bench", "efl-table2", "--quick", *chosen, "--data", folder, "--out", tmp_path]
    result = CliRunner().invoke(app, [*map(str, args), "--json"])
    assert result.exit_code == 0, result.output + str(result.exception)
    found = json.loads(result.stdout)
    assert [(r["network"], r["rounds"], r["error"]) for r in found["rows"]] == [("word-lstm", 3, None)]
    assert all(0 < r["measured"] <= 1 for r in found["rows"])
    assert any("no GloVe" in note for note in found["notes"])
    (folder / "empty").mkdir(exist_ok=True)
    args[args.index(folder)] = folder / "empty"
    missing = CliRunner().invoke(app, list(map(str, args)))
    assert (
        missing.exit_code == 2
        and PAGE in " ".join(missing.stderr.split())
        and "or leave sent140 out" in " ".join(missing.stderr.split())
    )
