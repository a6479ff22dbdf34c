"""`fedtheory proof`: the list, a walk on its witness and on a problem, the waterfall with its data, and what is refused."""

from __future__ import annotations

import json
import re

import pytest
from command_line import call, refused
from repository import ROOT

from fedtheory.errors import InvalidInput
from fedtheory.plotting import waterfall
from fedtheory.theory.judge import registry

FILE = ROOT / "docs" / "walked_proof.py"


def test_the_list_has_every_proof_and_says_what_has_none():
    rows = json.loads(call("proof", "--json").stdout)
    assert {r["theorem"] for r in rows} == {p.theorem for paper in registry.papers() for p in paper.proofs}
    assert {"fedelasticnet/theorem-3.1", "efl/theorem-1", "fedmls/theorem-1"} <= {r["theorem"] for r in rows}
    text = call("proof").stdout
    assert (
        "Elastic Aggregation has no theorem with a proof in steps" in text
        and "fedtheory verify elastic-aggregation/" in " ".join(text.split())
    )
    assert "FedMLS has no" not in text and max(map(len, text.splitlines())) <= 80


def test_alone_it_walks_the_repaired_proof_and_then_the_printed_one(tmp_path):
    text = call("proof", "theorem-3.1").stdout
    assert text.startswith("86 % of the slack of Theorem 3.1 [repaired]") and max(map(len, text.splitlines())) <= 80
    repaired, printed = text.split("The printed proof, on the same run\n")
    assert "The bound holds: 0.0047166 <= 0.26476" in repaired and "Breaks" not in repaired
    assert printed.startswith("Breaks at the end (division by κ₀T: ")
    assert "The bound fails: 0.0047166 > -1.5626" in printed and "exactly, in fractions" in " ".join(printed.split())
    assert "on record as violated: Lemma B.3, (32), (28), (36), Theorem B.6" in " ".join(printed.split())
    told = json.loads(call("proof", "theorem-3.1", "--json", "--out", tmp_path).stdout)
    assert told["form"] == "repaired" and told["printed"]["form"] == "printed" and told["printed"]["verdict"] == "violated"
    assert {file.name for file in tmp_path.iterdir()} >= {f"proof-theorem-3.1-{form}.json" for form in ("repaired", "printed")}
    alone = call("proof", "theorem-3.1", "--form", "printed").stdout
    assert alone.startswith("Breaks at the end") and "[repaired" not in alone
    assert "The printed proof, on a run of its own" in call("proof", "fedmls/theorem-1").stdout


def test_the_waterfall_stands_above_the_table():
    """Every bar begins where the one above it ends, from what is measured up to the bound."""
    text = call("proof", "theorem-3.1", "--form", "repaired").stdout
    bars = re.findall(r"^(\S.*?)  ( *)([█▏]+)  ([-+.\de]+)", text.partition("step    ")[0], re.MULTILINE)
    assert [bars[0][0], bars[-1][0]] == ["measured", "the bound"] and len(bars) == 9
    told = json.loads(call("proof", "theorem-3.1", "--form", "repaired", "--json").stdout)
    assert float(bars[0][3]) == pytest.approx(told["lhs"], rel=1e-2) and float(bars[-1][3]) == pytest.approx(told["rhs"], rel=1e-2)
    assert sum(float(told) for *_, told in bars[:-1]) == pytest.approx(told["rhs"], rel=2e-2)
    names = max(len(name) + len(pad) for name, pad, *_ in bars[:1])
    start = [len(name) + len(pad) - names for name, pad, *_ in bars]
    end = [at + len(bar.replace("▏", "")) for at, (_, _, bar, _) in zip(start, bars, strict=True)]
    assert start[0] == start[-1] == 0 and start[1:-1] == end[:-2]
    assert end[-1] == max(end) and abs(end[-2] - end[-1]) <= 1


def test_one_round_with_its_numbers():
    text = call("proof", "theorem-3.1", "--round", "2").stdout
    assert (
        "round 2: holds, slack 266.5" in text and "8885 ≤ 9432 + 8.17 − 283 − 5.83" in text and "round 1:" not in text
    )
    assert "8.88·10⁻⁹" in text  # (28) with the numbers of the run for its letters
    rows = json.loads(call("proof", "theorem-3.1", "--details", "--json").stdout)["rows"]
    assert {r["round"] for r in rows} == {1, 2, 3, None}
    assert all(r["slack"] == pytest.approx(r["rhs"] - r["lhs"], rel=1e-9, abs=1e-9 * abs(r["rhs"])) for r in rows)


def test_on_a_problem_with_a_waterfall_drawn_from_its_data_alone(tmp_path):
    stem = tmp_path / "picture.png"
    done = call(
        "proof",
        "theorem-3.1",
        "--problem",
        "quadratic",
        "-P",
        "2",
        "--rounds",
        "3",
        "--mode",
        "exact",
        "--figure",
        stem,
        "--json",
    )
    result = json.loads(done.stdout)
    assert stem.stat().st_size > 5000 and result["adds_up"] and result["verdict"] == "holds"
    kept = json.loads(stem.with_suffix(".json").read_text())
    assert kept["steps"] == result["steps"] and kept["provenance"]["versions"]
    lost = [s["lost"] for s in kept["steps"] if s["lost"] is not None]
    assert sum(lost) == pytest.approx(kept["rhs"] - kept["lhs"], rel=1e-9)
    [axes] = waterfall.draw(kept).axes
    bars = [(p.get_x(), p.get_width()) for p in axes.patches]
    shown = [
        s["lost"] for s in kept["steps"] if s["lost"] is not None and abs(s["lost"]) > waterfall.SMALL * kept["rhs"]
    ]
    assert [w for _, w in bars[1:-1]] == pytest.approx(shown) and bars[-1] == pytest.approx((0, kept["rhs"]))
    assert bars[0] == pytest.approx((0, kept["lhs"])) and bars[1][0] == pytest.approx(kept["lhs"])
    with pytest.raises(InvalidInput, match="have no weights"):
        waterfall.draw({**kept, "steps": [{**s, "lost": None} for s in kept["steps"]]})


def test_a_step_that_breaks_is_drawn_as_one(tmp_path):
    call("proof", "theorem-3.1", "--form", "printed", "--figure", tmp_path / "broken", "--out", tmp_path)
    kept = json.loads((tmp_path / "broken.json").read_text())
    labels = [t.get_text() for t in waterfall.draw(kept).axes[0].get_yticklabels()]
    assert labels[0] == "measured" and labels[-2:] == ["division by κ₀T", "the bound"]
    assert (tmp_path / "broken.pdf").exists() and (tmp_path / "proof-theorem-3.1-printed.json").exists()


def test_the_printed_proof_is_drawn_beside_the_repaired_one(tmp_path):
    told = " ".join(call("proof", "theorem-3.1", "--figure", tmp_path / "w.png").stdout.split())
    assert (tmp_path / "w.png").exists() and (tmp_path / "w-printed.png").exists()
    kept = json.loads((tmp_path / "w-printed.json").read_text())
    figure = waterfall.draw(kept)
    assert figure.get_suptitle() == "The printed bound is -1.56, the run measures 0.0047"
    assert "division by κ₀T" in figure.axes[0].get_title("right").replace("\n", " ")
    sentence = "wrong from its first line (Lemma B.3, on other runs), and what falsifies the theorem on this run is the last"
    assert f"{sentence} (division by κ₀T)" in told


def test_a_file_of_ones_own():
    text = call("proof", f"{FILE}::rate", "--form", "repaired").stdout
    assert "walked-proof/rate [repaired]" in text and "exactly, in fractions" in " ".join(text.split())
    told = call("proof", f"{FILE}::rate", "--problem", "quadratic", "--clients", "2", "--round", "2").stdout
    assert "monotone" in told and "round 2: holds" in told


def test_of_a_file_the_only_theorem_with_a_proof_is_meant():
    assert "walked-proof/rate [repaired]" in call("proof", FILE, "--form", "repaired").stdout


def test_the_other_papers_on_a_problem():
    efl = json.loads(call("proof", "efl/theorem-1", "--problem", "quadratic", "--rounds", "3", "--json").stdout)
    mls = json.loads(
        call(
            "proof", "fedmls/theorem-1", "--problem", "two-client-pull", "--radius", "4", "--epsilon", "1", "--json"
        ).stdout
    )
    for result in (efl, mls):
        assert (
            result["adds_up"]
            and result["verdict"] == "holds"
            and not [s for s in result["steps"] if s["verdict"] == "violated"]
        )


def test_the_help_has_examples():
    text = call("proof", "--help").stdout
    assert "fedtheory proof theorem-3.1" in " ".join(text.split()) and "waterfall" in text


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("lemma-b4",), "has no proof in steps: those that have one are fedelasticnet/theorem-3.1"),
        (("theorem-3.2",), "did you mean"),
        (("theorem-3.1", "--form", "repared"), "did you mean 'repaired'"),
        (("theorem-3.1", "--round", "9"), "--round 9: the run has the rounds 1 to 3"),
        (("theorem-3.1", "--participants", "2"), "--participants: only with a problem"),
        (("theorem-3.1", "--l1", "2"), "--l1: only with a problem"),
        (("--round", "2"), "--round: only with a theorem"),
        (("theorem-3.1", "--figure", "x.jpg"), "write it as NAME.png, NAME.pdf or NAME.svg"),
        (("theorem-3.1", "--witness", "nowhere.json"), "no such file"),
        (("theorem-3.1", "--witness", "fedelasticnet-eq-28-printed-sign"), "is about one round"),
        (("theorem-3.1", "--witness", "fedelasticnet-no"), "unknown file or witness"),
        (("theorem-3.1", "--problem", "quadratic", "--witness", "any"), "not with --problem"),
        (("theorem-3.1", "--problem", "quadratic", "--l2-over-beta", "20"), "lambda_2/beta > 26.8614 is not met: it is 20"),
        (("theorem-3.1", "--problem", "quadratic", "--rounds", "0"), "--rounds 0: it must be an integer >= 1"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, tuple) else "",
)  # fmt: skip
def test_what_is_refused(arguments, why):
    assert why in refused("proof", *arguments)
