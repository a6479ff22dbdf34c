"""The output of `fedtheory sweep`: the best setting, its table and figure, and its messages."""

from __future__ import annotations

import json
from datetime import datetime

import matplotlib.colors
import pytest
from command_line import call
from sweep_at_hand import SPEC, rows

from fedtheory.cli.common import out_console, problem_of
from fedtheory.cli.sweep import figure
from fedtheory.cli.sweep.options import as_keys
from fedtheory.cli.sweep.said import table_of
from fedtheory.cli.sweep.spec import EXAMPLE
from fedtheory.cli.sweep.table import Group, best_of
from fedtheory.plotting import style


@pytest.fixture
def spec(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(SPEC)
    return file


def setting(alpha, gap, to, bits=100.0, rounds=20.0, certain=2e-16, seeds=3):
    values = {"suboptimality": gap, "bits_to_target": to, "bits": bits, "rounds_done": rounds, "certain_to": certain}
    return Group("run", {"method": "feddyn", "alpha": alpha}, values={k: [v] * seeds for k, v in values.items()})


def test_the_best_setting_is_not_decided_by_rounding():
    """Worked out by hand: 0.1 and 1.0 are both 0 to within what F* is known to, and 0.1 reaches the target with fewer bits."""
    good, noisy, far = setting(0.1, -2.8e-17, to=30.0), setting(1.0, -5.6e-17, to=50.0), setting(10.0, 1e-9, to=10.0)
    assert best_of([noisy, far, good]) is good
    late = setting(0.1, 1e-16, to=float("inf"))
    assert best_of([late, noisy]) is noisy
    assert best_of([setting(2.0, 1e-18, 30.0, bits=90.0), good]).keys["alpha"] == 2.0
    assert best_of([good, setting(3.0, 2e-16, 30.0, rounds=10.0)]).keys["alpha"] == 3.0
    assert best_of([setting(4.0, 3e-16, to=1.0), noisy]) is noisy, "a difference above it counts"
    good.diverged = 1
    assert best_of([far, good]) is far and best_of([good]) is None


def test_the_best_network_is_the_most_accurate_and_among_equals_the_one_that_sends_less():
    told = ((0.9, 9.0), (0.9, 5.0), (0.8, 1.0))
    a, b, c = (Group("network", {"l1": i}, {"test_accuracy": [t], "nonzeros": [n]}) for i, (t, n) in enumerate(told))
    assert best_of([a, b, c]) is b


def test_a_row_says_what_its_optimum_is_known_to_and_table_json_and_figure_have_the_same_best(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text(
        'target = 1e-6\n[[run]]\nmethod = "feddyn"\nproblem = "diabetes"\nparticipants = 5\nrounds = 800\nalpha = [0.1, 0.2, 0.3]\n'
    )
    told = call("sweep", file, "--out", tmp_path, "--workers", 1, "--no-figures").stdout
    found = rows(tmp_path)
    optimum = problem_of("diabetes", {}, 0).optimum()
    proved = optimum.value - optimum.lower_bound
    assert all(proved <= float(r["certain_to"]) < 1e-14 for r in found)
    assert all(float(r["suboptimality"]) < float(r["certain_to"]) for r in found), "all are 0 as far as can be told"
    least = min(found, key=lambda r: float(r["bits_to_target"]))
    (best,) = json.loads((tmp_path / "sweep.json").read_text())["best"]
    assert best["setting"] == {"alpha": float(least["alpha"])} and best["bits_to_target"] == float(least["bits_to_target"])
    assert "<9" in told and "among equals the fewest bits to the target" in " ".join(told.split())


def test_the_whole_example_goes_together_when_it_is_uncommented(tmp_path):
    pytest.importorskip("torch")
    head, networks = EXAMPLE.split("# [[network]]")
    (tmp_path / "s.toml").write_text(head + "[[network]]" + networks.replace("\n# ", "\n"))
    assert "136 cells, of which 0 are known" in call("sweep", tmp_path / "s.toml", "--dry-run", "--out", tmp_path).stdout


def test_a_dry_run_says_what_is_known_and_makes_no_store(spec, tmp_path):
    dry = ("sweep", spec, "--dry-run", "--out", tmp_path)
    assert "8 cells, of which 0 are known" in call(*dry).stdout and not list(tmp_path.glob("*.sqlite"))
    call("sweep", spec, "--out", tmp_path, "--workers", 1, "--no-figures")
    spec.write_text(SPEC.replace("alpha = [0.5, 2]", "alpha = [0.5, 1, 2]"))
    assert "10 cells, of which 8 are known" in call(*dry).stdout
    (tmp_path / "sweep.cells.sqlite").write_bytes(b"none of ours")
    assert json.loads(call(*dry, "--json").stdout)["known"] == 0


def test_a_table_of_an_earlier_command_is_named(spec, tmp_path):
    pytest.importorskip("pyarrow")
    sweep = ("sweep", spec, "--out", tmp_path, "--workers", 1, "--no-figures")
    assert "earlier command" not in call(*sweep).stderr
    told = " ".join(call(*sweep, "--format", "parquet").stderr.split())
    when = f"{datetime.fromtimestamp((tmp_path / 'sweep.csv').stat().st_mtime):%d %B %Y, %H:%M}"
    assert f"sweep.csv is by an earlier `fedtheory sweep --format csv`, of {when}, and left as it was." in told


def test_seeds_are_spoken_of_where_there_are_some(spec, tmp_path):
    sweep = ("sweep", spec, "--out", tmp_path, "--workers", 1, "--no-figures")
    assert "medians over seeds" in " ".join(call(*sweep).stdout.split())
    assert json.loads((tmp_path / "sweep.json").read_text())["provenance"]["seed"] == "varied"
    spec.write_text(SPEC.replace("seed = [0, 1]", "seed = 1"))
    assert "over seeds" not in call(*sweep).stdout
    assert json.loads((tmp_path / "sweep.json").read_text())["provenance"]["seed"] == 1


@pytest.mark.parametrize(
    "said, keys",
    [
        ("--data needs --loss: logistic", "data needs loss: logistic"),
        ("feddyn needs --alpha, as in --alpha 0.1", "feddyn needs alpha, as in alpha = 0.1"),
        ("--alpha-dirichlet belongs to --partition dirichlet", 'alpha_dirichlet belongs to partition = "dirichlet"'),
        ("pass --allow-long to go on; see `fedtheory run --alpha 1`", "pass allow_long = true to go on; see `fedtheory run --alpha 1`"),
        ("--out x --nothing 3", "--out x --nothing 3"),
    ],
)
def test_messages_name_keys_as_the_specification_does(said, keys):
    assert as_keys("run", said) == keys


@pytest.mark.parametrize("width", [60, 80, 110])
def test_no_word_of_the_table_is_broken_on_a_narrow_terminal(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    best = [
        {"kind": "run", "problem": "diabetes", "participants": p, "method": "fedelasticnet-scaffold", "settings": 9, "diverged": 1,
         "failed": 0, "setting": {"local_lr": 0.1, "local_steps": 5, "server_lr": 0.25},
         "suboptimality": 1.2e-13, "certain_to": 9e-16, "bits": 1.3e7,
         "rounds_to_target": float("inf"), "bits_to_target": float("inf")} for p in (2, 5)
    ]  # fmt: skip
    console = out_console()
    with console.capture() as told:
        console.print(table_of("run", best, console.width))
    lines = [line.strip() for line in told.get().splitlines()]
    assert "diabetes, P = 2" in lines and lines.count("local_lr = 0.1, local_steps = 5, server_lr = 0.25") == 2
    assert sum(line.startswith("fedelasticnet-scaffold") for line in lines) == 2 and max(map(len, lines)) <= width


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """The axes of a figure that is drawn of groups."""
    made = []
    monkeypatch.setattr(style, "save", lambda fig, stem: (fig.canvas.draw(), made.append(fig), [])[-1])

    def draw(found, target=None):
        figure.draw(found, "", target, tmp_path / "sweep")
        return made[-1].axes[0], [t.get_text() for t in made[-1].legends[0].get_texts()]

    return draw


def settings_at(ax):
    """Return where the points stand."""
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if line.get_markersize() == 5 and len(line.get_xdata())]


def rings_at(ax):
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines if line.get_markersize() == 11]


def test_the_figure_has_the_bits_until_the_target_across_and_what_never_reaches_it_in_a_strip(drawn):
    found = [setting(0.1, -2.8e-17, to=300.0), setting(1.0, -5.6e-17, to=500.0), setting(10.0, 1e-3, to=float("inf"))]
    for group, size in zip(found, (2, 5, 5)):
        group.keys |= {"problem": "diabetes", "participants": size}
    ax, legend = drawn(found, 1e-6)
    assert ax.get_xlabel() == "bits until the target" and ax.get_title("left") == "diabetes"
    (first, second, never) = settings_at(ax)
    assert first == (300, 2e-16) and second == (500, 2e-16) and never[0] > 500 and never[1] == 1e-3
    assert rings_at(ax) == [first]
    told = {t.get_text() for t in ax.texts}
    assert {"never", "target 1e-6", "0 to within what F* is known to"} <= told
    (caption,) = [t for t in told if t.startswith("best of FedDyn")]
    assert "alpha = 0.1" in caption.replace("\N{NO-BREAK SPACE}", " ") and legend == ["FedDyn", "P = 2", "P = 5"]
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    assert left < 300 and never[0] < right and low < 2e-16 and high > 1e-3, "no point stands on an axis"
    assert max(float(tick) for tick in ax.get_xticks()) < never[0], "bits are not told where they are none"


@pytest.mark.parametrize("name", ["fedelasticnet-dyn", "algorithm-3"])
def test_without_a_target_it_has_all_bits_across_and_elastic_nets_have_names_and_colours_of_their_own(drawn, name):
    plain, net = setting(0.1, 1e-3, to=0.0, seeds=1), setting(0.1, 1e-4, to=0.0, seeds=1)
    for group, method in ((plain, "feddyn"), (net, name)):
        group.values.pop("bits_to_target")
        group.keys |= {"problem": "diabetes", "method": method}
    ax, legend = drawn([plain, net])
    assert ax.get_xlabel() == "bits sent and received" and legend == ["FedDyn", "FedElasticNet, Algorithm 3"]
    colours = {matplotlib.colors.to_hex(line.get_color()) for line in ax.lines if line.get_markersize() == 5}
    assert len(colours) == 2 and "seeds" not in " ".join(t.get_text() for t in ax.figure.texts)
    assert not {"never", "0 to within what F* is known to"} & {t.get_text() for t in ax.texts}


def test_the_figure_of_networks_makes_not_much_of_little_and_says_on_what_they_ran(drawn):
    pair = [
        Group("network", {"table": "t", "method": method, "dataset": "digits", "split": "iid"}, {"test_accuracy": [y], "nonzeros": [x]})
        for method, x, y in (("feddyn", 17_000.0, 0.921), ("fedprox", 17_001.0, 0.922))
    ]
    ax, _ = drawn(pair)
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    assert right > 4 * left and high - low > 0.1 and ax.get_title("left") == "t, digits, iid"
