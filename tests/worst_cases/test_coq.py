"""Certificates as theorems of Coq: what they say, what Coq accepts, and what it refuses."""

from __future__ import annotations

import functools
import json
import re
import shutil
from dataclasses import replace
from fractions import Fraction as F
from typing import ClassVar

import pytest
from cases import each
from command_line import call, refused
from one_coqc import HEAD, bare, run
from repository import ROOT
from server_momentum import Heavy

from fedtheory.algorithms import FedAvg, FedProx
from fedtheory.cli.audit import named
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.worst_cases import Group, Losses, certificate, quadratic_potential, worst_case, write
from fedtheory.worst_cases.bounds import walked
from fedtheory.worst_cases.coq import check
from fedtheory.worst_cases.coq.export import theorem
from fedtheory.worst_cases.coq.text import exported, text_of
from fedtheory.worst_cases.gram import Vector, own
from fedtheory.worst_cases.methods import source_of


def with_coq(test):
    """A test that asks Coq, with the library that is compiled once."""
    absent = shutil.which("coqc") is None
    marked = pytest.mark.skipif(absent, reason="coqc is not installed: apt install coq")(test)
    return pytest.mark.usefixtures("coqs_cache")(marked)
STEP = F(1, 4)


def own_method():
    return named(str(ROOT / "examples/own_method.py:RelaxedAveraging"), "method")


@functools.cache
def proved(method, K=1, T=1, criterion="gap", **given):
    """A certificate, and the class or function that it is about where that is no name."""
    found = certificate(worst_case(method, local_steps=K, rounds=T, criterion=criterion, **given))
    return (
        found,
        None if isinstance(method, str) else method,
        None if isinstance(criterion, str) else criterion,
    )


def proved_as(*args, **given):
    """The same with the name of a file."""
    found, *own = proved(*args, **given)
    return found, "theorem.v", *own


def written(method, K=1, T=1, criterion="gap", **given):
    """The text of its theorem."""
    return text_of(theorem(*proved(method, K, T, criterion, **given)), "theorem.v")


class ProxOfOnesOwn(FedProx):
    """FedProx by another name."""

    name: ClassVar[str] = "prox-of-ones-own"


class Digit(FedAvg):
    """FedAvg under a name that begins with a digit."""

    name: ClassVar[str] = "3pc"


class Counting(Heavy):
    """Averaging whose step depends on the number of clients."""

    def round(self, state, clients):
        x = clients.broadcast(state.x)
        return state._replace(x=state.x - clients.sum(clients.gradient(x)) * F(1, 20))


def mean_of_models(q):
    """The gap of the mean of two models."""
    return q.gap((q.x[1] + q.x[2]) / 2)


# --- the text -------------------------------------------------------------------------------------
def value_of(vec, points, L):
    """The vector that a place stands for, in the units of the run."""
    words = re.findall(r"[A-Za-z]+|-?\d+|[()#]", vec)

    def read():
        word = words.pop(0)
        if word == "(":
            inner = read()
            assert words.pop(0) == ")"
            return inner
        if word.isdigit() and words[:1] == ["#"]:
            return F(int(word), int((words.pop(0), words.pop(0))[1]))
        if word in ("Plus", "Minus"):
            return read().plus(read(), 1 if word == "Plus" else -1)
        if word == "Mean":
            return read().average
        if word == "Step":
            return read() / L * read()
        if word == "At":
            return points[int(words.pop(0))].at
        if word == "Own":
            p = points[int(words.pop(0))]
            return own("g*" if p.name == "*" else p.name, mean_zero=p.name == "*")
        return {"Start": Vector({"x0": F(1)}), "Opt": Vector()}[word]

    found = read()
    assert not words
    return found


@each("method, K, T, given", [
    ("fedavg", 3, 2, {"step": STEP}), ("scaffold", 2, 3, {"step": STEP}), ("feddyn", 1, 3, {"alpha": 2}),
    ("vrl-sgd", 2, 2, {"step": STEP}),
    (Heavy, 2, 3, {"step": STEP, "beta": F(1, 3)}), ("fedprox", 1, 2, {"mu": 1}),
    ("fedavg", 2, 2, {"step": F(1, 40), "losses": Losses(F(10), F(1))}),
])  # fmt: skip
def test_every_place_is_the_point_of_the_traced_run(method, K, T, given):
    found, cls, _ = proved(method, K, T, **given)
    of = theorem(found, cls)
    points = list(walked(of.question)[0].points.values())
    assert len(of.places) == len(points) > T
    for place, p in zip(of.places, points, strict=True):
        assert value_of(place.vec, points, of.question.losses.smoothness) == p.at


@each("method, given, said", [
    (ProxOfOnesOwn, {"mu": 2}, (
        "forall (y1 y2 : nat -> E) (x3 : E), (forall k, (k < N)%nat -> y1 k = (x0 - 1 / 2 / L * g k (y1 k))%vec)",
        "x3 = (vmean N y2)%vec", "0 < L -> setting N 0 L radius (1 * L * radius) f g xs x0",
    )),
    ("fedmls", {"lam": 1, "D": F(1, 2)}, (
        "0 < G -> 0 < radius -> bounded_setting N G radius f s0 xs x0",
        "(forall k, (k < N)%nat -> subgradient (f k) (y2 k) (s2 k))",
    )),
    ("fedmls", {"lam": 1, "losses": Losses(None, lipschitz=F(3)), "distance": 2}, (
        "fedmls N (3 / 2 * radius / G) f x0 x z xl zl s ->",
    )),
    ("scaffold", {"T": 1, "step": STEP, "criterion": "distance", "clients": 4, "participants": 2}, (
        "(N P : nat) (C : cohorts N P) ", "(1 <= P)%nat -> sampling_spread N P <= 1 / 3 ->",
        "expected C (fun who => ||cohort_mean N P who y2 - xs||^2) <= ",
    )),
    ("fedavg", {"step": STEP}, ("objective N f (fedavg N (1 / 4 / L) 1 g x0 2) - objective N f xs <= ",)),
    ("feddyn", {"alpha": 2}, ("feddyn N solved (2 * L) g x0 x y h ->\n  objective N f (x 2%nat)",)),
    ("subgradient", {"step": STEP, "criterion": "best-gap"}, ("subgradient_method N (1 / 4 * radius / G) f x0 x s",)),
])  # fmt: skip
def test_the_theorem_says_the_method_by_its_name_or_by_an_equation_for_each_point(
    method, given, said
):
    text = written(method, **{"T": 2} | given)
    assert [line for line in said if line not in text] == []


@each("given", [
    {"method": "fedavg", "criterion": mean_of_models, "T": 2}, {"method": "feddyn", "K": 2, "alpha": 1, "stored": "received"},
    {"method": "scaffold", "server_lr": F(1, 2)}, {"method": "fedavg", "aggregation": "cohort"},
])  # fmt: skip
def test_what_the_definition_does_not_have_is_told_by_equations(given):
    assert "From Fedtheory Require Import bounds." in written(**given, step=STEP)


class Passing(FedAvg):
    """Says that it is the package's FedAvg, and moves the server by half."""

    def round(self, state, clients):
        return state._replace(x=(state.x + super().round(state, clients).x) / 2)


Passing.__module__ = FedAvg.__module__


def test_a_class_that_says_that_it_is_the_packages_is_told_by_its_equations():
    assert Passing.name == "fedavg" and source_of(Passing) and not source_of(FedAvg)
    assert "From Fedtheory Require Import bounds." in written(Passing, step=STEP)


def test_units_are_taken_out():
    """L = 10, R = 1/2 and zeta = 5 are L = R = zeta = 1 in other units."""
    other = written(
        "fedavg", 2, 2, step=F(1, 40), losses=Losses(F(10)), distance=F(1, 2), heterogeneity=5
    )
    plain = written("fedavg", 2, 2, step=STEP)
    of, at = (theorem(*proved("fedavg", 2, 2, **given)) for given in (
        {"step": F(1, 40), "losses": Losses(F(10)), "distance": F(1, 2), "heterogeneity": 5}, {"step": STEP},
    ))  # fmt: skip
    assert (of.places, of.pairs, of.start, of.heterogeneity, of.bound) == (
        at.places,
        at.pairs,
        at.start,
        at.heterogeneity,
        at.bound,
    )
    assert other.partition("From Coq")[2] == plain.partition("From Coq")[2]


def test_a_run_that_depends_on_the_number_of_clients_is_one_of_that_number():
    text = written(Counting, clients=3, step=STEP, beta=F(0))
    assert "N = 3%nat ->" in text
    assert "for 3 clients" in exported(*proved_as(Counting, clients=3, step=STEP, beta=F(0))).proved


@each("says, method, given", [
    ("cohorts", "fedavg", {"clients": 4, "participants": 2, "step": STEP}),
    ("groups", "fedavg", {"step": STEP, "losses": (Group(F(1, 2), Losses(F(1))), Group(F(1, 2), Losses(F(2))))}),
    ("coins", "scaffnew", {"p": F(1, 2), "step": STEP}),
    ("compressed", "fedavg", {"step": STEP, "contraction": F(1, 2)}),
    ("one client", "fedavg", {"step": STEP, "clients": 1, "criterion": "best-gap"}),
    ("l1 term", "fedelasticnet-dyn", {"l1": F(1, 10), "l2": 1, "criterion": "distance"}),
    ("l1 term", "fedelasticnet-prox", {"l1": F(1, 10), "l2": 1}),
    ("smooth losses whose gradients are bounded", "fedavg", {"step": STEP, "losses": Losses(lipschitz=F(1))}),
    ("one loss", "mopes", {}),
    ("this criterion", "fedavg", {"step": STEP, "criterion": lambda q: q.sq(q.x[-1] - q.x[0])}),
])  # fmt: skip
def test_what_has_no_side_is_refused_with_what_there_is(says, method, given):
    with pytest.raises(MissingCapability, match=says) as error:
        written(method, **given)
    assert re.search("Coq's side has|there are the gap", str(error.value))


def test_other_certificates_and_multipliers_are_refused():
    found, *_ = proved("fedavg", step=STEP)
    with pytest.raises(InvalidInput, match="certificate of a quadratic potential"):
        theorem(replace(found, question={**found.question, "kind": "quadratic potential"}))
    with pytest.raises(InvalidInput, match="no such condition"):
        theorem(replace(found, multipliers={**found.multipliers, "g0, g7": F(1)}))


def test_a_rate_is_one_of_every_number_of_rounds():
    of = exported(potential("scaffold", step=STEP, local_steps=2), "theorem.v")
    assert "forall T, ||fst (scaffold N (1 / 4 / L) 2 g x0 T) - xs||^2 <= (" in of.text
    assert of.proved.startswith(
        "for every T and number of clients, every inner-product space and all L-smooth, 1/10 L-strongly"
    )
    with pytest.raises(MissingCapability, match=r"those of feddyn .* and of scaffold"):
        exported(potential("fedavg", step=STEP), "theorem.v")
    found = potential("feddyn", alpha=1)
    with pytest.raises(InvalidInput, match="no such entry"):
        exported(
            replace(found, multipliers={**found.multipliers, "V mean x, z": F(1)}), "theorem.v"
        )


def test_words_of_a_file_end_no_comment():
    found, *_ = proved(Heavy, step=STEP, beta=F(1, 2))
    forged = {**found.question, "source": 'x.py:X *) Axiom no : False. (* "', "method": "a *) b"}
    text = text_of(theorem(replace(found, question=forged), Heavy), "theorem.v")
    assert text == text_of(theorem(found, Heavy), "theorem.v")  # it says what was asked, not the file
    text = text_of(replace(theorem(found, Heavy), words='a *) Axiom no : False. (* " b'), "theorem.v")
    assert (
        text.count("*)") == text.count("(*")
        and '"' not in text
        and "Axiom" in text.partition("*)")[0]
    )


# --- Coq's word -----------------------------------------------------------------------------------
ACCEPTED = [
    *(("fedavg", K, T, "gap", {"step": STEP}) for K, T in ((1, 1), (2, 1), (2, 2), (4, 2))),
    *(("scaffold", K, T, "gap", {"step": STEP}) for K, T in ((1, 1), (2, 1), (2, 2))),
    *(("feddyn", 1, T, "gap", {"alpha": 1}) for T in (1, 2, 4)),
    ("fedgate", 2, 2, "gap", {"step": STEP}),
    ("fedelasticnet-dyn", 1, 2, "gap", {"l1": F(1, 10), "l2": 2}),
    ("feddyn", 2, 2, "gap", {"step": STEP, "alpha": 1}),
    ("scaffold", 2, 2, "gap", {"step": STEP, "option": "gradient"}),
    (Heavy, 2, 2, "gap", {"step": STEP, "beta": F(1, 2)}),
    (ProxOfOnesOwn, 1, 2, "gap", {"mu": 2}),
    ("fedprox", 1, 2, "gap", {"mu": 2}),
    (
        "fedavg",
        2,
        2,
        "distance",
        {"step": F(1, 40), "losses": Losses(F(10), F(1)), "distance": F(1, 2)},
    ),
    ("fedavg", 2, 1, "gradient", {"step": STEP}),
    ("fedavg", 2, 2, "best-gap", {"step": STEP}),
    (Heavy, 1, 2, "best-gap", {"step": STEP, "beta": F(1, 2)}),
    ("fedavg", 1, 2, mean_of_models, {"step": STEP}),
    (
        "subgradient",
        1,
        2,
        "best-gap",
        {"step": F(1, 4), "losses": Losses(None, lipschitz=F(3)), "distance": 2},
    ),
    ("subgradient", 1, 2, "distance", {"step": F(1, 4)}),
    ("fedmls", 1, 2, "gap", {"lam": 1, "losses": Losses(None, lipschitz=F(3)), "distance": 2}),
    ("fedmls", 1, 2, "gap", {"lam": 1, "D": F(1, 2)}),
    ("fedavg", 2, 1, "distance", {"step": STEP, "clients": 4, "participants": 2}),
    ("feddyn", 1, 1, "distance", {"alpha": 1, "clients": 4, "participants": 2}),
    ("scaffold", 2, 2, "gap", {"step": STEP, "clients": 1}),
    (Heavy, 1, 2, "distance", {"step": STEP, "beta": F(1, 2), "clients": 1}),
    (Counting, 1, 1, "gap", {"clients": 3, "step": STEP, "beta": F(0)}),
    ("fedprox", 1, 1, "gap", {"mu": 2, "losses": Losses(None, lipschitz=F(1))}),
    ("fedelasticnet-dyn", 1, 1, "gap", {"l1": 0, "l2": 2}),
    (Digit, 1, 1, "gap", {"step": STEP}),
]


FORGED_BOUNDS = """From Coq Require Import Reals.
From Fedtheory Require Export definitions.
Open Scope R_scope.
Definition objective {E : space} (N : nat) (f : nat -> E -> R) (x : E) : R := 0.
"""


@with_coq
def test_coq_accepts_them_all_from_the_axioms_of_the_real_numbers():
    """In one file, as Coq takes longer to begin, and to collect the axioms, than for a theorem."""
    texts = [
        written(method, K, T, criterion, **given) for method, K, T, criterion, given in ACCEPTED
    ]
    of_potentials = (
        potential("feddyn", alpha=5, losses=Losses(F(10), F(1))),
        potential("scaffold", step=STEP, local_steps=2),
    )
    texts += [exported(found, "theorem.v").text for found in of_potentials]
    made = []
    for i, text in enumerate(texts):
        assert text.startswith("(** Asked: kind") and text.count("Print Assumptions proof.") == 1
        made.append(f"Module m{i}. {bare(text[text.index('Definition ') :])}End m{i}.\n")
    names = [re.search(r"Definition (\w+)", text)[1] for text in made]
    all_ = " /\\ ".join(f"m{i}.{name}" for i, name in enumerate(names))
    proofs = "; ".join(f"split; [exact m{i}.proof|]" for i in range(len(made) - 1))
    answer = check.checked(
        f"{HEAD}Import ListNotations.\n{''.join(made)}Definition all : Prop := {all_}.\n"
        f"Theorem proof : all. {proofs}; exact m{len(made) - 1}.proof. Qed.\n"
    )
    assert answer.accepted, answer.said
    assert set(answer.axioms) <= check.AXIOMS and answer.axioms


@functools.cache
def potential(method, **given):
    """The certificate of a quadratic potential."""
    return certificate(quadratic_potential(method, **given))


def with_multiplier(name, by):
    return lambda found: replace(
        found, multipliers={**found.multipliers, name: by(found.multipliers.get(name, F(0)))}
    )


def asked(**others):
    return lambda found: replace(
        found, question={**found.question, **{n.replace("_", " "): v for n, v in others.items()}}
    )


def turned(found):
    """The condition of a pair of points turned around."""
    multipliers = dict(found.multipliers)
    multipliers["g0.1, g0.0"], multipliers["g0.0, g0.1"] = (
        multipliers.get(n, F(0)) for n in ("g0.0, g0.1", "g0.1, g0.0")
    )
    return replace(found, multipliers=multipliers)


UNIT = F(1, 10**10)
FORGED = {
    "a multiplier by a unit more": with_multiplier("*, g0.0", lambda x: x + UNIT),
    "a multiplier that is negative": with_multiplier("*, g0.0", lambda x: -x),
    "one of the start by a unit more": with_multiplier("start", lambda x: x + UNIT),
    "one of the heterogeneity by half": with_multiplier("heterogeneity", lambda x: x / 2),
    "a bound by a unit less": lambda found: replace(
        found, claim={"bound": found.claim["bound"] - UNIT}
    ),
    "a pair turned around": turned,
    "another step": asked(options={"step": F(1, 3)}),
    "a larger class": asked(smoothness=F(11, 10)),
    "more heterogeneity": asked(heterogeneity=F(2)),
    "another start": asked(distance=F(2)),
}
TOLD = {  # texts that Coq accepts: by a name, by equations, of a cohort, of an l1 term, of a rate
    "named": lambda: written("fedavg", 2, 2, step=STEP),
    "equations": lambda: written(Heavy, 2, 2, step=STEP, beta=F(1, 2)),
    "drawn": lambda: written("fedavg", 2, 1, "distance", step=STEP, clients=4, participants=2),
    "l1": lambda: written("fedelasticnet-dyn", 1, 2, l1=F(1, 10), l2=2),
    "rate": lambda: exported(potential("feddyn", alpha=1), "theorem.v").text,
}
RETOLD = {
    "a bound by a unit less in the statement": ("named", r"(?<=<= )\d+(?= /)", -1),
    "another step in the statement": ("named", r"(?<=fedavg N \(1 / )4", 3),
    "three rounds in the statement": ("named", r"(?<=2 g x0 )2(?=\) - obj)", 3),
    "other local steps in the statement": ("named", r"2(?= g x0 2\) - obj)", 1),
    "more heterogeneity in the statement": ("named", r"1(?= \* L \* radius\) f g)", 2),
    "losses that are not convex in the statement": ("named", r"(?<=setting N )0", "(-1)"),
    "another step in an equation": ("equations", r"(?<=x0 - 1 / )4", 3),
    "another step in a place": ("equations", r"(?<=Minus Start \(Step \(1 # )4", 3),
    "another model": ("equations", r"(?<=objective N f x)5", 3),
    "another equation": ("equations", r"(?<=-> y4 k = \(x)3", 0),
    "more cohorts in the statement": ("drawn", r"(?<=spread N P <= )1 / 3", "2 / 5"),
    "a pull of an l1 term that counts more": ("l1", r"(?<=Pull \()\d{8,}", +1000),
    "a better rate in the statement": ("rate", r"\d+(?= / \d+\) \^ T)", -1),
    "a multiplier of a rate that counts less": ("rate", r"(?<=\[0; )\d+(?=\])", -2 * 10**15),
}


def retold(of, pattern, instead):
    """A text with a change in its first words of a pattern: another word, or a number so much more."""
    def change(found):
        return str(int(found[0]) + instead if len(found[0]) > 5 else instead)
    changed = re.sub(pattern, change, text := TOLD[of](), count=1)
    assert changed != text
    return changed


@pytest.fixture(scope="module")
def refused_by_coq(coqs_cache, tmp_path_factory):
    """Of all that is forged why Coq refuses it, in a file that loads what it accepts as well."""
    folder = tmp_path_factory.mktemp("coq")
    found, *_ = proved("fedavg", 2, 2, step=STEP)
    texts = [text_of(theorem(change(found)), "theorem.v") for change in FORGED.values()]
    texts += [retold(*of) for of in RETOLD.values()]
    assert TOLD["named"]() not in texts
    asked = [f'Module {name}.\nLoad "{name}".\nEnd {name}.' for name in TOLD]
    asked += [f'Fail Load "f{i}".' for i in range(len(texts))]
    texts = {name: make() for name, make in TOLD.items()} | {f"f{i}": t for i, t in enumerate(texts)}
    for name, text in texts.items():
        (folder / f"{name}.v").write_text(bare(text))
    _, why = run(folder / "all.v", "\n".join([HEAD, *asked, ""]))
    return dict(zip([*FORGED, *RETOLD], why, strict=True))


@with_coq
@pytest.mark.parametrize("what", [*FORGED, *RETOLD])
def test_coq_refuses_what_is_forged(refused_by_coq, what):
    assert refused_by_coq[what]


# --- the command ----------------------------------------------------------------------------------
@pytest.fixture
def file(tmp_path):
    return write(tmp_path / "proof.json", proved("fedavg", step=STEP)[0])


def coqc(tmp_path, monkeypatch, words):
    """A coqc that does what a shell says, for all but the library and its version."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "coqc"
    script.write_text(
        '#!/bin/sh\nfor f; do :; done\ncase "$*" in *print-version*) echo "8.16.1 4.13.1";; '
        f'*theorem.v) {words};; *) touch "${{f%.v}}.vo";; esac\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin:/usr/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_without_coq_the_command_says_how_it_is_checked(file, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    spaced = " ".join(call("replay", file, "--coq", tmp_path / "a b" / "first.v").stdout.split())
    assert f"cd '{tmp_path / 'a b'}' && for f" in spaced
    said = " ".join(call("replay", file, "--coq", tmp_path / "out" / "first.v").stdout.split())
    assert "apt install coq" in said and f"cd {tmp_path / 'out'} && for f in definitions" in said
    assert said.endswith("coqc -Q Fedtheory Fedtheory first.v")
    assert (tmp_path / "out" / "first.v").read_text() == text_of(
        theorem(proved("fedavg", step=STEP)[0]), "first.v"
    )
    files = check.library()
    needed = {p.stem: p.read_text() for p in (tmp_path / "out" / "Fedtheory").iterdir()}
    assert needed.items() <= files.items() and {"definitions", "methods"} <= {*needed}
    told = json.loads(call("replay", file, "--coq", tmp_path / "out" / "first.v", "--json").stdout)
    assert (
        told["verdict"] == "proved"
        and told["coq"]["accepted"] is None
        and told["coq"]["coq"] is None
    )


def test_what_coq_refuses_is_an_error_that_says_where(file, tmp_path, monkeypatch):
    at = 'echo "File \\"./theorem.v\\", line 7, characters 2-5:" >&2'
    coqc(tmp_path, monkeypatch, f'{at}; echo "Error: The term is not." >&2; exit 1')
    (tmp_path / "first.v").write_text("mine")
    said = refused("replay", file, "--coq", tmp_path / "first.v")
    assert "Coq 8.16.1 refuses the theorem at line 7: The term is not." in said
    assert "first.v is not written" in said and (tmp_path / "first.v").read_text() == "mine"
    assert not (tmp_path / "Fedtheory").exists()


def test_the_library_is_compiled_once_and_again_after_a_change(tmp_path, monkeypatch):
    coqc(tmp_path, monkeypatch, "exit 1")
    folder, took = check.compiled()
    assert took > 0 and folder.parent == tmp_path / "cache" / "fedtheory"
    assert check.compiled() == (folder, 0.0)
    monkeypatch.setattr(check, "library", lambda: {"definitions": "Check Prop."})
    other, took = check.compiled()
    assert took > 0 and other != folder
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "bin" / "coqc"))  # which takes no folder
    other, took = check.compiled()
    assert took > 0 and tmp_path not in other.parents and check.compiled() == (other, 0.0)


def test_a_library_that_coq_does_not_take_is_not_kept(tmp_path, monkeypatch):
    coqc(tmp_path, monkeypatch, "")
    (tmp_path / "bin" / "coqc").write_text("#!/bin/sh\necho 9.0\n")
    with pytest.raises(NotCertified, match=r"Coq 9\.0 refuses Fedtheory/definitions\.v .*take Coq 8"):
        check.compiled()
    assert [p.suffix for p in (tmp_path / "cache" / "fedtheory").iterdir()] == [".lock"]


FALSE = "Definition no : Prop := 0 < 0.\n"


@with_coq
@each("text, says", [
    (FALSE + "Module ClassicalDedekindReals. Axiom sig_forall_dec : False. End ClassicalDedekindReals.\n"
     "Theorem proof : no. destruct ClassicalDedekindReals.sig_forall_dec. Qed.\n",
     "more than the real numbers, theorem.ClassicalDedekindReals.sig_forall_dec"),
    (FALSE + "Axiom trust : no. Definition proof := trust. Definition I := I. Print Assumptions I.\n", "theorem.trust"),
    (FALSE + "Module m. Definition no : Prop := True. End m. Import m. Theorem proof : no. exact I. Qed.", "its end, line 2"),
])  # fmt: skip
def test_forged_axioms_and_names_are_refused(text, says):
    answer = check.checked(text)
    assert not answer.accepted and says in answer.said


@with_coq
def test_the_rest_of_the_library_gives_no_word_of_a_statement_another_meaning(monkeypatch):
    """A library whose objective is always 0 proves a bound of 0 of its own, not of the definitions'."""
    files = {"definitions": check.library()["definitions"], "bounds": FORGED_BOUNDS}
    monkeypatch.setattr(check, "library", lambda: files)
    text = written(ProxOfOnesOwn, mu=2)
    zero = re.sub(r"<= \d+ / \d+ \* L", "<= 0 * L", text, count=1)
    begin = zero.partition("(** The certificate")[0]
    name = theorem(*proved(ProxOfOnesOwn, mu=2)).name
    answer = check.checked(f"{begin}Theorem proof : {name}. intros E; intros; unfold objective; lra. Qed.\n")
    assert zero != text and "unfold objective" not in zero
    assert not answer.accepted and "Cannot find witness" in answer.said


def test_only_what_is_required_is_needed_of_the_library():
    text = "(** From Fedtheory Require Import nonsense. *)\nFrom Fedtheory Require Import facts.\n"
    assert check.needed(text, check.library()) == ["definitions", "facts"]
    assert check.needed("From Fedtheory Require Import nonsense.", check.library()) == []


def test_coq_is_stopped_after_a_while(tmp_path, monkeypatch):
    coqc(tmp_path, monkeypatch, "exec sleep 20")
    with pytest.raises(InvalidInput, match=r"not ended after 0\.2 seconds: take fewer"):
        check.checked(written("fedavg", step=STEP), seconds=0.2)


@each("name, says", [
    ("a-b.v", "such as"), ("--.v", "theorem.v"), ("1.v", "letters, digits"),
    ("first", "ends in .v"), ("first.tex", "ends in .v"), ("a b.v", "letters"),
])  # fmt: skip
def test_a_name_that_coq_does_not_take_is_refused(file, tmp_path, name, says):
    assert says in refused("replay", file, "--coq", tmp_path / name)
    assert not (tmp_path / name).exists()


def test_what_is_no_certificate_of_a_worst_case_is_refused(file, tmp_path):
    assert "is no certificate; leave it out" in refused(
        "replay", "theorem-3.1", "--coq", tmp_path / "first.v"
    )
    (tmp_path / "Fedtheory").write_text("")
    assert "is no folder" in refused("replay", file, "--coq", tmp_path / "first.v")


@with_coq
def test_the_command_says_what_is_proved(tmp_path, monkeypatch):
    proof = write(tmp_path / "proof.json", proved(own_method(), T=2, step=STEP, alpha=F(1, 2))[0])
    own = f"{ROOT / 'examples/own_method.py'}:RelaxedAveraging"
    out = tmp_path / "own.v"
    monkeypatch.setattr(check, "checked", functools.cache(check.checked))  # Coq is asked once
    said = " ".join(call("replay", proof, "--method", own, "--coq", out).stdout.split())
    assert re.search(
        r"own\.v: accepted by Coq 8\.\d+\.\d+ in \d+\.\d s: for every number of clients, every inner-product space",
        said,
    )
    assert f"the {check.definitions_lines()} lines of definitions.v and the theorem's equations" in said
    assert "those of the run for N = 2, 3, 7, 101; not trusted" in said
    assert "axioms of its real numbers" in said and "whose mean has a minimiser" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "Fedtheory",
        "own.v",
        "proof.json",
    ]  # nothing that Coq made
    told = json.loads(call("replay", proof, "--method", own, "--coq", out, "--json").stdout)["coq"]
    assert told["accepted"] is True and set(told["axioms"]) <= check.AXIOMS and told["seconds"] > 0


def test_a_forged_certificate_is_refused_before_coq(file, tmp_path):
    held = json.loads(file.read_text())
    held["claim"]["bound"] = "1/100"
    file.write_text(json.dumps(held))
    assert "not proved" in refused("replay", file, "--coq", tmp_path / "first.v")
    assert not (tmp_path / "first.v").exists()
