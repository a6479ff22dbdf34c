"""Certificate files: they are checked in fractions, and every number that is changed is noticed."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction as F

import pytest
from server_momentum import Heavy

from fedtheory.errors import FedTheoryError, InvalidInput, NotCertified
from fedtheory.worst_cases import certificates as files
from fedtheory.worst_cases.bounds import worst_case
from fedtheory.worst_cases.gram import common, inner, own, square
from fedtheory.worst_cases.identity import factors
from fedtheory.worst_cases.quadratic_potentials import quadratic_potential


@pytest.fixture(scope="module")
def proofs():
    found = [worst_case("fedavg", local_steps=2, step=F(1, 2)), quadratic_potential("feddyn", clients=10, participants=3, alpha=F(2))]
    return [files.certificate(f) for f in found]


@pytest.mark.parametrize("which", [0, 1])
def test_what_is_written_is_read_and_checked(proofs, which, tmp_path):
    path = files.write(tmp_path / "proof.json", proofs[which])
    assert files.is_certificate(path)
    read = files.load(path)
    assert (read.claim, read.multipliers, read.factors) == (proofs[which].claim, proofs[which].multipliers, proofs[which].factors)
    files.verify(read)


@pytest.mark.parametrize("which", [0, 1])
def test_every_multiplier_matters(proofs, which):
    """A tenth more of any multiplier, and the identity is another."""
    proof = proofs[which]
    for name, number in proof.multipliers.items():
        changed = {**proof.multipliers, name: number * F(11, 10)}
        with pytest.raises(NotCertified):
            files.verify(replace(proof, multipliers=changed))


def test_other_claims_and_questions_are_refused(proofs):
    bound, potential = proofs
    with pytest.raises(NotCertified, match="the file claims"):
        files.verify(replace(bound, claim={"bound": bound.claim["bound"] * F(9, 10)}))
    with pytest.raises(NotCertified):
        files.verify(replace(bound, question={**bound.question, "rounds": 2}))
    with pytest.raises(NotCertified):
        files.verify(replace(potential, question={**potential.question, "options": {"alpha": F(19, 10)}}))
    with pytest.raises(InvalidInput, match="no such condition"):
        files.verify(replace(bound, multipliers={**bound.multipliers, "more": F(1)}))
    negative = {name: -number for name, number in bound.multipliers.items()}
    with pytest.raises(NotCertified, match="< 0"):
        files.verify(replace(bound, multipliers=negative))


def test_every_entry_of_the_factors_matters(proofs):
    proof = proofs[0]
    for block, of in proof.factors.items():
        for i in range(len(of.names)):
            diagonal = [d + (i == j) for j, d in enumerate(of.diagonal)]
            with pytest.raises(NotCertified, match="is not the matrix"):
                files.verify(replace(proof, factors={**proof.factors, block: replace(of, diagonal=tuple(diagonal))}))
        below = replace(of, diagonal=(-of.diagonal[0], *of.diagonal[1:]))
        with pytest.raises(NotCertified, match="< 0"):
            files.verify(replace(proof, factors={**proof.factors, block: below}))
    without = dict(list(proof.factors.items())[1:])
    with pytest.raises(NotCertified, match="left over"):
        files.verify(replace(proof, factors=without))


BROKEN = {
    "no table": [], "other format": {"format": "fedtheory certificate 9"}, "no factors": {"format": files.FORMAT},
    "numbers": {"format": files.FORMAT, "question": {}, "claim": {"bound": "1e999999999"}, "multipliers": {}, "factors": {}},
    "rows": {"format": files.FORMAT, "question": {}, "claim": {}, "multipliers": {},
             "factors": {"mean": {"names": ["a", "a"], "lower": [[], ["1"]], "diagonal": ["1", "1"]}}},
    "lower": {"format": files.FORMAT, "question": {}, "claim": {}, "multipliers": {},
              "factors": {"mean": {"names": ["a"], "lower": [["1"]], "diagonal": ["1"]}}},
}  # fmt: skip


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_files_that_are_none(content, tmp_path):
    path = tmp_path / "proof.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InvalidInput):
        files.load(path)


@pytest.mark.parametrize("question", [
    {}, {"kind": "quadratic potential", "method": "fedavg"}, {"kind": "worst-case", "method": "fedavg"},
    {"kind": "quadratic potential", "method": "feddyn", "clients": 10**12, "participants": 1},
])  # fmt: skip
def test_questions_that_are_none(proofs, question):
    with pytest.raises(FedTheoryError):
        files.verify(replace(proofs[1], question=question))


def test_matrices_that_are_not_positive_semidefinite():
    for matrix in ([[F(1), F(2)], [F(2), F(1)]], [[F(0), F(1)], [F(1), F(5)]], [[F(-1)]], [[F(0), F(1)], [F(1), F(0)]]):
        with pytest.raises(InvalidInput, match="not positive semidefinite"):
            factors(matrix, [str(i) for i in range(len(matrix))])
    matrix = [[F(2), F(1), F(0)], [F(1), F(5), F(-2)], [F(0), F(-2), F(1)]]
    found = factors(matrix, "abc")
    order = ["abc".index(name) for name in found.names]
    assert found.product() == [[matrix[i][j] for j in order] for i in order] and min(found.diagonal) >= 0
    assert factors([[F(1), F(-1)], [F(-1), F(1)]], "ab").diagonal == (1, 0)


def test_means_split_into_means_and_deviations():
    """(1/N) sum <a_k, b_k> of actual vectors, by hand for two clients on the line."""
    a, b = common("x") - 2 * own("u"), own("u").average + own("v")
    x, u, v = 3, (1, 5), (2, -4)  # means 3 and -1, deviations (-2, 2) and (3, -3)
    entries = {("mean", "u", "x"): 9, ("mean", "v", "x"): -3, ("mean", "u", "u"): 9, ("mean", "u", "v"): -3,
               ("deviation", "u", "v"): -6, ("deviation", "u", "u"): 4}  # fmt: skip
    found = sum(number * entries[key] for key, number in inner(a, b).gram.items())
    assert found == F(sum((x - 2 * u[k]) * (3 + v[k]) for k in range(2)), 2)
    assert square(own("u", mean_zero=True)).gram == {("deviation", "u", "u"): 1}


def test_what_is_not_proved_is_not_told(proofs):
    """A key of the question that means nothing would be printed with the proof."""
    for proof in proofs:
        with pytest.raises(InvalidInput, match="theorem"):
            files.verify(replace(proof, question={**proof.question, "theorem": "for nonconvex losses, too"}))


def test_numbers_that_python_does_not_write_are_told_by_their_length(proofs):
    """The file's own have at most 4,000 digits, what is made of them has more."""
    long = F(int("9" * 3999), int("7" * 3998))
    changed = {name: number * long * long for name, number in proofs[0].multipliers.items()}
    with pytest.raises(NotCertified, match=r"a fraction of about 7,9.. over 7,9.. digits of end") as error:
        files.verify(replace(proofs[0], multipliers=changed))
    assert len(str(error.value)) < 300


def test_a_check_that_would_take_long_is_given_up(proofs, monkeypatch):
    """Its numbers have 200,000 digits, so that L D L' takes seconds."""
    monkeypatch.setattr(files, "MOST_SECONDS", 0.1)
    number = F(2**600_000 + 1, 3**400_000)
    long = {block: replace(of, diagonal=(number,) * len(of.diagonal)) for block, of in proofs[0].factors.items()}
    with pytest.raises(InvalidInput, match=r"checking it in fractions took more than 0\.1 seconds"):
        files.verify(replace(proofs[0], factors=long))



@dataclass(frozen=True)
class Heavier(Heavy):
    """Another rule with the same numbers."""

    def round(self, state, clients):
        return super().round(state._replace(m=2 * state.m), clients)


def test_a_certificate_of_ones_own_method_is_checked_with_its_class(tmp_path):
    found = worst_case(Heavy, rounds=2, beta=F(1, 3), step=F(1, 4))
    proof = files.load(files.write(tmp_path / "mine.json", files.certificate(found)))
    files.verify(proof, Heavy)
    assert proof.question["source"].startswith("server_momentum.py:Heavy, sha256 ")
    with pytest.raises(InvalidInput, match=r"it is about server_momentum.py:Heavy.*: give the method's class"):
        files.verify(proof)
    with pytest.raises(NotCertified, match=r"of the block 'mean' is not the matrix|is left over"):
        files.verify(proof, Heavier)
    with pytest.raises(NotCertified):
        files.verify(replace(proof, question={**proof.question, "options": {**proof.question["options"], "beta": "1/4"}}), Heavy)


def test_an_instance_gives_its_own_numbers():
    """The floats of a method that is made stand for the decimals that they print as."""
    given = worst_case(Heavy(beta=0.3), rounds=2, step=0.25)
    by_class = worst_case(Heavy, beta=F(3, 10), rounds=2, step=F(1, 4))
    assert given.bound == by_class.bound and given.asked == by_class.asked
    assert given.asked["options"]["beta"] == F(3, 10)
    with pytest.raises(InvalidInput, match="beta: the method has its hyperparameters; leave them out, or give its class"):
        worst_case(Heavy(beta=0.3), beta=F(1, 2))


def test_no_bound_on_the_heterogeneity_is_none_in_a_file():
    """A bound for gradients of mean square 1 at the optimum is none for all of them."""
    proof = files.certificate(worst_case("fedavg", local_steps=2, step=F(1, 2)))
    without = {**proof.question, "heterogeneity": None}
    assert files.asked_question(without).heterogeneity is None
    with pytest.raises((InvalidInput, NotCertified), match="heterogeneity"):
        files.verify(replace(proof, question=without))
