"""Theorems written by hand: Coq accepts them, and refuses each with a constant a tenth better."""

from __future__ import annotations

import functools
import itertools
import re
import shutil

import pytest
from one_coqc import run
from repository import ROOT

from fedtheory.worst_cases.coq.check import AXIOMS, library

pytestmark = pytest.mark.skipif(
    shutil.which("coqc") is None, reason="Coq is not installed: no coqc on the PATH"
)
THEOREMS = ROOT / "validation" / "coq"
WRITTEN = [  # each after those it needs
    "squares", "round", "feddyn", "fedelasticnet", "feddyn_rate", "scaffold_rate",
    "fedavg_cohorts", "fedavg_two_of_four", "fedavg_steps",
]  # fmt: skip
BEGINS = re.compile(
    r"^ *(?:Context|Definition|End|Fixpoint|Hypothesis|Inductive|Lemma|Let|Record|Section|Theorem)\b",
    re.MULTILINE,
)
REQUIRES = re.compile(r"^From Theorems Require (Import|Export) ([\w ]+)\.", re.MULTILINE)
PRINTS = re.compile(r"^Print Assumptions (\w+)\.\n?", re.MULTILINE)
CHANGED = [
    ("cohorts", ":= (INR N - INR P) / (INR P", ":= 9 / 10 * (INR N - INR P) / (INR P"),
    ("cohorts", "(drawn o) k) = INR P / INR N", "(drawn o) k) = 9 / 10 * (INR P / INR N)"),
    ("feddyn", "then 4 * lam / (2 + lam) ^ 2 else", "then 44 / 10 * lam / (2 + lam) ^ 2 else"),
    ("feddyn", "(2 + lam) ^ 2 else 2 / lam", "(2 + lam) ^ 2 else 11 / 10 * (2 / lam)"),
    ("feddyn", "then 4 * (lam + 2 * s)", "then 44 / 10 * (lam + 2 * s)"),
    ("feddyn", "+ 8 * lam * s * (1 + lam) ^ 2) - s", "+ 88 / 10 * lam * s * (1 + lam) ^ 2) - s"),
    ("fedelasticnet", "(1 + sqrt 13) / 3 <= lam", "9 / 10 * (1 + sqrt 13) / 3 <= lam"),
    ("fedelasticnet", "<= V x h - kappa_0 lam / L", "<= V x h - 11 / 10 * kappa_0 lam / L"),
    ("fedavg_cohorts", "2 * sampling_spread N P *", "18 / 10 * sampling_spread N P *"),
    ("fedavg_cohorts", "step * L < 2 ->", "step * L < 22 / 10 ->"),
    ("fedavg_two_of_four", "1360162803", "1224146522"),
    ("fedavg_two_of_four", "sampling_spread N P <= 1 / 3 ->", "sampling_spread N P <= 11 / 30 ->"),
    ("fedavg_steps", "step * L <= 1 ->", "step * L <= 11 / 10 ->"),
    ("fedavg_steps", "- 2 * step * sum K", "- 22 / 10 * step * sum K"),
    ("fedavg_steps", "step ^ 3 * L * (INR K", "9 / 10 * step ^ 3 * L * (INR K"),
    ("feddyn_rate", "Rmax (alpha / (alpha + mu))", "Rmax (9 / 10 * alpha / (alpha + mu))"),
    ("scaffold_rate", "INR K * step * L <= 3 / 10", "INR K * step * L <= 33 / 100"),
    ("scaffold_rate", "(((1 - mu * step) ^ 2) ^ K)", "((9 / 10 * (1 - mu * step) ^ 2) ^ K)"),
    ("scaffold_rate", "<= 3 / 5", "<= 33 / 50"),
    ("scaffold_rate", "^ 3 * L ^ 2 / (L - mu)", "^ 3 * L ^ 2 / (L - mu) / 11"),
    ("feddyn_rate", "(L / (L + alpha)).", "(9 / 10 * L / (L + alpha))."),
]


def source(stem: str) -> str:
    """The text of a file, here or in the library; that of cohorts with its definitions in it."""
    files = library()
    text = files[stem] if stem in files else (THEOREMS / f"{stem}.v").read_text()
    if stem != "cohorts":
        return text
    definitions = files["cohorts_defined"].partition("Open Scope R_scope.\n")[2]
    head, required, rest = text.partition("From Fedtheory Require Export cohorts_defined.\n")
    head += "From Fedtheory Require Export definitions.\n"
    assert required
    return head + rest.replace("Open Scope R_scope.\n", f"Open Scope R_scope.\n{definitions}", 1)


def sentences(text: str) -> list[str]:
    """A text in parts that begin with a sentence outside proofs each."""
    begins = [0, *(m.start() for m in BEGINS.finditer(text)), len(text)]
    return [text[i:j] for i, j in itertools.pairwise(begins)]


def late(text: str, constant: str) -> str:
    """The same text, with a definition that alone has a constant where it is first needed."""
    parts = sentences(text)
    at, *others = (i for i, part in enumerate(parts) if constant in part)
    defined = re.match(r"Definition (\w+)", parts[at])
    if defined and not others:
        needs = re.compile(rf"\b{defined[1]}\b")
        to = next(i for i in range(at + 1, len(parts)) if needs.search(parts[i]))
        parts.insert(to - 1, parts.pop(at))
    return "".join(parts)


@pytest.fixture(scope="module")
def refused(coqs_cache, tmp_path_factory):
    """Of each change why Coq refuses it; and what the theorems without changes rest on.

    All files are modules of one, as Coq takes long to begin. Before the first sentence that a
    change is in, `Fail` has the rest of the file with the change refused.
    """
    folder, made, changes, asked = tmp_path_factory.mktemp("coq"), "", [], []
    for stem in ("cohorts", *WRITTEN):
        text = PRINTS.sub("", REQUIRES.sub(r"\1 \2.", source(stem)))
        asked += [f"@{stem}.{name}" for name in PRINTS.findall(source(stem))]
        left = [change for change in CHANGED if change[0] == stem]
        parts = sentences(functools.reduce(late, (true for _, true, _ in left), text))
        made += f"Module {stem}.\n"
        for i, part in enumerate(parts):
            for change in [c for c in left if c[1] in part]:
                left.remove(change)
                changes.append(change)
                name = f"change_{len(changes)}"
                (folder / f"{name}.v").write_text("".join(parts[i:]).replace(*change[1:]))
                made += f'Fail Load "{name}".\n'
            made += part
        made += f"\nEnd {stem}.\n"
    textbook = [f"@adequacy.{name}" for name in PRINTS.findall(library()["adequacy"])]
    made += "From Fedtheory Require adequacy.\n"
    for name, of in (("of_adequacy", textbook), ("of_theorems", asked)):
        made += f"Definition {name} := ({', '.join(of)}).\nPrint Assumptions {name}.\n"
    said, why = run(folder / "all.v", made)
    return dict(zip(changes, why, strict=True)), said.split("Axioms:")[1:]


def test_no_file_is_left_out():
    assert sorted(WRITTEN) == sorted(file.stem for file in THEOREMS.glob("*.v"))


def test_theorems_rest_on_the_axioms_of_the_real_numbers_alone(refused):
    for stem in ("cohorts", "adequacy", *WRITTEN):
        assert not re.search(r"\b(Admitted|admit|Axiom|Parameter|Conjecture)\b", source(stem))
        assert PRINTS.search(source(stem)) or stem in ("squares", "round")
    named = [{*re.findall(r"^(\w+\.[\w.]+)", said, re.MULTILINE)} for said in refused[1]]
    assert named == [AXIOMS | {"Classical_Prop.classic"}, AXIOMS]


@pytest.mark.parametrize("change", CHANGED)
def test_a_constant_that_is_a_tenth_better_is_refused(refused, change):
    """The one change is in the statement: with it the theorem's own proof fails."""
    assert refused[0][change]
