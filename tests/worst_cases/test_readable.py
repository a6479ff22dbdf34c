"""Proofs to be read: scripts that check themselves, LaTeX, and as few inequalities as can be found."""

from __future__ import annotations

import re
import subprocess
import sys
from fractions import Fraction as F

import pytest

from fedtheory.algorithms import FedAvg
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.theory import GradientSteps, Paper, Smooth, le, printed
from fedtheory.theory.rounds.vector_proofs import proved
from fedtheory.theory.studies import certificates
from fedtheory.worst_cases import Group, Losses, certificate, quadratic_potential, worst_case
from fedtheory.worst_cases.bounds import BOUND
from fedtheory.worst_cases.identity import left_over
from fedtheory.worst_cases.programme import check
from fedtheory.worst_cases.readable import fewest, inequalities, latex, of_certificate, script, write_proof

WORST = [
    ("fedavg", {"rounds": 2, "local_steps": 2, "step": F(1, 4)}), ("feddyn", {"rounds": 2}),
    ("scaffold", {"local_steps": 2, "step": F(1, 2), "losses": Losses(F(1), F(1, 10)), "criterion": "distance"}),
    ("subgradient", {"rounds": 2, "criterion": "best-gap"}), ("fedavg", {"clients": 1, "step": F(1, 2)}),
    ("fedelasticnet-dyn", {"rounds": 2}), ("fedmls", {"rounds": 2}), ("mopes", {"rounds": 2}),
    ("fedavg", {"clients": 5, "participants": 2, "criterion": "distance", "local_steps": 2, "step": F(1, 4)}),
]  # fmt: skip


def ran(text, tmp_path):
    """The exit code and the output of a script, which knows nothing of this package."""
    file = tmp_path / "proof.py"
    file.write_text(text)
    done = subprocess.run([sys.executable, "-I", file], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(("method", "how"), WORST)
def test_the_script_checks_itself(method, how, tmp_path):
    found = worst_case(method, **how)
    proof = of_certificate(certificate(found))
    text, tex = script(proof), latex(proof)
    assert "fedtheory" not in text.replace(proof.title, "")
    code, told = ran(text, tmp_path)
    count = len(inequalities(found.family, found.solution.numbers))
    assert (code, f"The identity holds. Inequalities: {count} squares:" in told) == (0, True), told
    assert count == len(found.solution.numbers) - 1, "all but the bound"
    assert ("as gradients are bounded:" in tex) == (proof.losses.lipschitz is not None)


def test_that_a_value_is_the_least_is_told_with_the_conditions(tmp_path):
    """||grad F||^2 <= 2 beta (F - F*) needs nothing else."""
    paper = Paper("least")

    @paper.statement("a", about=FedAvg(), local=GradientSteps(1, lr=0.1), problems=Smooth((1, 3), (1, 2)))
    def a(q):
        """Gradients are small where the loss is."""
        yield printed(le(q.gradient_sq, 2 * q.beta * (q.F - q.F_star)))

    made = certificates.certificate(paper.authored["a"], proved(paper.authored["a"], "printed"))
    for name in ("p.tex", "p.py"):
        [path] = certificates.write_proofs(tmp_path / name, made, paper.authored["a"])
    tex, text = (tmp_path / "p.tex").read_text(), path.read_text()
    assert "as $F^*$ is the least value of $F$:" in tex and "Other multipliers" not in tex
    assert r"2:\quad & f_{g0.0} - f_{*} - \tfrac{1}{2}\|\overline{g_{g0.0}}\|^2 \ge 0" in tex
    code, told = ran(text, tmp_path)
    assert (code, "Inequalities: 1 squares: 0" in told) == (0, True), told
    for wrong, why in (("(R(3, 1), ", "the identity does not hold"), ("(R(-2, 1), ", "a multiplier is negative")):
        code, told = ran(text.replace("'F(g0.0)': (R(2, 1), ", "'F(g0.0)': " + wrong), tmp_path)
        assert code == 1 and why in told


def test_a_changed_number_fails(tmp_path):
    text = script(of_certificate(certificate(worst_case("fedavg", rounds=1, step=F(1, 2)))))
    at = text.index("MULTIPLIERS = {")
    first = re.compile(r"\): R\((\d+), (\d+)\),").search(text, at)
    changed = text[: first.start(1)] + str(int(first[1]) + 1) + text[first.end(1) :]
    code, told = ran(changed, tmp_path)
    assert code == 1
    assert "the identity does not hold" in told
    code, told = ran(text[: first.start(1)] + f"-{first[1]}" + text[first.end(1) :], tmp_path)
    assert code == 1
    assert "a multiplier is negative" in told


def test_quadratic_potentials(tmp_path):
    for method, how in (("feddyn", {"alpha": 1, "step": F(1, 4)}), ("scaffold", {"clients": 5, "participants": 2, "step": F(1, 4)})):
        proof = of_certificate(certificate(quadratic_potential(method, **how)))
        code, told = ran(script(proof), tmp_path)
        assert code == 0, told


@pytest.mark.parametrize(("method", "fixed", "how"), [
    ("feddyn", True, {"alpha": 1, "step": F(1, 4)}), ("fedavg", False, {"step": F(1, 4), "local_steps": 2}),
    ("scaffold", True, {"step": F(1, 4), "clients": 10, "participants": 2}),
])  # fmt: skip
def test_the_proof_of_a_potential_says_what_is_proved(method, fixed, how):
    """With V, which is no multiple of what the squares of its own letters add up to by any other number than s."""
    found = quadratic_potential(method, **how)
    proof, (V, vectors) = of_certificate(certificate(found)), found.written
    text = latex(proof)
    assert "E V+ <= rho V" + " + c zeta^2" * (not fixed) + " from every state" in proof.claim
    assert f"for V = {V}. {vectors}" in proof.claim
    assert ("rests at x*" in vectors) == fixed and f"rho = {found.rho}" in proof.claim and "sha256" not in text
    assert r"\section*{A quadratic potential of" in text and r"\mathit{x}" in text and r"\overline{g_{x}}" not in text
    assert ("called N" in proof.claim) == found.valued == (method == "feddyn")
    s, of = proof.multipliers["s"], proof.factors["V mean"]
    for i, f in enumerate(of.names):
        for j, g in enumerate(of.names[: i + 1]):
            summed = sum(d * of.lower[i][n] * of.lower[j][n] for n, d in enumerate(of.diagonal))
            both = found.matrices["mean"].get((f, g), found.matrices["mean"].get((g, f), 0))
            assert found.valued or summed == s * (both / (1 if f == g else 2) - (f == g == "x")), (f, g)


@pytest.mark.parametrize("clients", [[None, None], [1, 1], [1, 3]])
def test_the_proof_of_groups_checks_itself(clients, tmp_path):
    classes = [Losses(1, F(1, 10)), Losses(4, 1)]
    of = [Group(share, c, n) for share, c, n in zip(("1/4", "3/4"), classes, clients, strict=True)]
    proof = of_certificate(certificate(worst_case("fedavg", losses=of, local_steps=2, step=F(1, 8), criterion="distance")))
    text = script(proof)
    code, told = ran(text, tmp_path)
    assert (code, "The identity holds" in told) == (0, True), told
    told = next(line for line in text.splitlines() if line.startswith("CLASSES"))
    wrong = text.replace(told, told.replace("R(1, 10)", "R(2, 10)"))
    assert wrong != text
    code, told = ran(wrong, tmp_path)
    assert code == 1
    assert "the identity does not hold" in told
    tex = latex(proof)
    for i, g in enumerate(of, 1):
        assert f"of group {i} (a share of {g.share})" in tex
        assert f"f_{{*({i})}}" in tex
    assert tex.count(r"\begin{") == tex.count(r"\end{")
    assert "add up to 0" in tex
    assert r"\overline{g_{*(1)}}" in tex


def test_latex():
    text = latex(of_certificate(certificate(worst_case("fedavg", rounds=1, step=F(1, 2), heterogeneity=0))))
    assert text.count(r"\begin{") == text.count(r"\end{")
    for part in (r"f_{*} \ge f_{g0.0} + \langle g_{g0.0}, x_{*}-x_{g0.0}\rangle + \tfrac{1}{2}", r"x_{g0.0} &= x_0", r"\big\|"):
        assert part in text


def test_fewer_inequalities_prove_nearly_the_same():
    found = worst_case("fedavg", rounds=2, local_steps=2, step=F(1, 4))
    fewer = fewest(found.family, BOUND, found.solution)
    assert len(fewer.numbers) <= 16 < len(found.solution.numbers)
    bound = -fewer.numbers[BOUND]
    assert found.bound * F(999_999, 1_000_000) <= bound <= found.bound * F(1_000_002, 1_000_000)
    assert not left_over(found.family, fewer.numbers).values  # of the whole family, not only of what was kept
    check(found.family, fewer.numbers, fewer.rows)


def test_what_is_refused(tmp_path):
    found = certificate(worst_case("fedavg", rounds=2, clients=3, participants=2))
    with pytest.raises(MissingCapability, match="cohorts over several rounds"):
        of_certificate(found)
    proof = of_certificate(certificate(worst_case("fedavg")))
    with pytest.raises(InvalidInput, match=r"NAME\.tex"):
        write_proof(tmp_path / "proof.txt", proof)
