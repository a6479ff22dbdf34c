"""What takes more than two seconds says its size and a rough time before, and what is too large is refused with both numbers."""

from __future__ import annotations

import json

import pytest
from command_line import call, refused
from statements_at_hand import sentence

from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.limits import announce, announcing, unlimited
from fedtheory.theory import GradientSteps, SmoothConvex, le, printed
from fedtheory.theory.rounds import proof_scopes, vector_proofs, vector_worlds
from fedtheory.worst_cases import bounds, certificates, quadratic_potentials
from fedtheory.worst_cases.programme import LARGEST


def test_only_long_work_is_announced_and_only_to_who_listens():
    told = []
    announce("nobody listens", 100)
    with announcing(told.append):
        announce("short", 1.9)
        announce("3 conditions", 42.4)
        with announcing(lambda text: told.append(f"inner {text}")):
            announce("many", 600)
    announce("nobody listens", 100)
    assert told == ["3 conditions: about 42 s", "inner many: about 10 minutes"]


STEPS = ("--step", "1/4", "-K", "2", "-N", "2", "-T", "2")
SIZES = {  # what is measured to be slow -> (command, what is told)
    (bounds, "SOLVED"): (("worst-case", "fedavg", *STEPS), "30 conditions on the losses: about"),
    (quadratic_potentials, "SOLVED"): (
        ("worst-case", "fedavg", *STEPS[:4], "--lyapunov"),
        "6 conditions on the losses in each of up to 40 programmes, three at the least: about",
    ),
    (certificates, "CHECKED"): (("worst-case", "fedavg", *STEPS), "multipliers to check in fractions: about"),
}  # fmt: skip


@pytest.mark.parametrize("slow", SIZES, ids=lambda slow: f"{slow[0].__name__}.{slow[1]}")
@pytest.mark.parametrize("json_too", [False, True])
def test_sizes_are_told_on_stderr_before_long_work(slow, json_too, tmp_path, monkeypatch):
    module, constant = slow
    words, says = SIZES[slow]
    before = call(*words, "--out", tmp_path)
    assert says not in before.stderr, "it takes no two seconds"
    monkeypatch.setattr(module, constant, 1.0)
    result = call(*words, "--out", tmp_path, *["--json"] * json_too)
    assert says in result.stderr and says not in result.stdout
    assert not json_too or json.loads(result.stdout)["status"] == "proved"


def test_a_replayed_certificate_says_its_size(tmp_path, monkeypatch):
    told = json.loads(call("worst-case", "fedavg", *STEPS, "--out", tmp_path, "--json").stdout)
    monkeypatch.setattr(certificates, "CHECKED", 1.0)
    assert "multipliers to check in fractions: about" in call("replay", told["certificate"], "--json").stderr


def test_inequalities_that_are_left_out_are_counted_and_may_be_too_many(tmp_path, monkeypatch):
    from fedtheory.cli import worst_case

    monkeypatch.setattr(worst_case, "TRIED", 1.0)
    result = call("worst-case", "fedavg", *STEPS, "--fewest", "--out", tmp_path)
    assert "inequalities, each tried to be left out: about" in result.stderr
    monkeypatch.setattr(worst_case, "TRIED", 10.0**6)
    said = refused("worst-case", "fedavg", *STEPS, "--fewest", "--out", tmp_path)
    assert "inequalities, each tried to be left out would take at least" in said and "go without --fewest" in said
    with unlimited():
        call("worst-case", "fedavg", *STEPS, "--fewest", "--out", tmp_path)


def claim(steps, **more):
    def body(q):
        yield printed(le(q.F_next, q.F, q.constant("c", 1) * q.gradient_sq))

    return sentence(body, problems=SmoothConvex((1, 3), (1, 2)), local=GradientSteps(steps, lr=lambda c: 1 / (8 * c.beta)), **more)


def test_proofs_of_statements_say_their_size(monkeypatch):
    told = []
    monkeypatch.setattr(proof_scopes, "PROVED", 10.0)
    with announcing(told.append):
        proof_scopes.announce_proofs(claim(3))
    assert told == ["test-sentence/it: proofs with 12 conditions on the losses in all, at most 12 in one: about 2 minutes"]


def test_what_is_too_large_is_refused_before_its_conditions_are_written_down(monkeypatch):
    """Of 60 local steps losses are asked at 61 points, which is said with the limit."""
    monkeypatch.setattr(vector_worlds.Run, "of_losses", lambda *_: pytest.fail("their conditions were written down"))
    with pytest.raises(MissingCapability, match="losses at 61 points have 3,660 conditions, and at most 300"):
        vector_proofs.proved(claim(60), "printed")
    with pytest.raises(InvalidInput, match=f"4,160 conditions on the losses: at most {LARGEST:,}; take fewer local steps"):
        quadratic_potentials.quadratic_potential("fedavg", local_steps=64, step="1/4")
