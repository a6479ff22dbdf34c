"""`fedtheory verify STATEMENT --given NAME=VALUE --keep FOLDER`: what a user sets of a theorem, and cases that are kept."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from command_line import call, refused

from fedtheory.cli.options import given_values
from fedtheory.errors import InvalidInput


def test_values_are_numbers_fractions_lists_and_words():
    given = given_values(["E=4", "y=1/3", "G=2.5", "u_0=1,1/2", "how=as printed"])
    assert given == {"E": 4, "y": Fraction(1, 3), "G": 2.5, "u_0": [1, Fraction(1, 2)], "how": "as printed"}
    assert given_values(None) is None


@pytest.mark.parametrize("text", ["G", "G=", "=3"])
def test_a_value_without_a_name_or_a_name_without_a_value_is_refused(text):
    with pytest.raises(InvalidInput, match="write it as --given NAME=VALUE"):
        given_values([text])


def test_two_names_in_one_are_refused():
    with pytest.raises(InvalidInput, match="write --given anew for every NAME=VALUE"):
        given_values(["momentum=1/2,server_lr=1/2"])
    assert given_values(["compressor=st:q=0.1"]) == {"compressor": "st:q=0.1"}


def test_a_name_that_nobody_knows_is_told_with_those_there_are():
    assert "did you mean 'message'?" in refused("verify", "efl/st-lemma", "--given", "mesage=3")
    assert "nothing can be given to fedelasticnet/eq-28" in refused("verify", "eq-28", "--given", "G=3")


def test_a_case_is_kept_and_replayed_whether_it_holds_or_fails(tmp_path):
    """ST with k = n on (3, 1/2, -1): C(x) = (3/2)(1, 1, -1), so ||x||^2 - ||C(x) - x||^2 = 41/4 - 7/2.

    The form asks that this is at least min(1/3, 3/3) ||x||^2.
    """
    call("verify", "efl/st-lemma", "--compressor", "st:q=1", "--given", "message=3,1/2,-1", "--keep", tmp_path)
    kept = {json.loads(f.read_text())["form"]: f for f in tmp_path.iterdir()}
    file = json.loads(kept["repaired"].read_text())
    assert (Fraction(file["lhs"]), Fraction(file["rhs"])) == (Fraction(41, 12), Fraction(41, 4) - Fraction(7, 2))
    verdicts = {form: json.loads(call("replay", f, "--json").stdout)["verdict"] for form, f in kept.items()}
    assert verdicts == {"repaired": "holds", "as top-k": "violated", "identity": "holds"}


def test_a_tampered_case_is_refused(tmp_path):
    call("verify", "efl/st-lemma", "--compressor", "st:q=1", "--given", "message=3,1/2,-1", "--keep", tmp_path)
    file = next(f for f in tmp_path.iterdir() if "repaired" in f.name)
    file.write_text(file.read_text().replace('"holds"', '"violated"'))
    assert "not a witness" in refused("replay", file)
