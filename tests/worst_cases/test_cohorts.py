"""Worst cases where P of N clients are drawn in every round: PEPit on the whole tree, closed forms, and runs that stay below."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction as F
from itertools import combinations, permutations, product

import numpy as np
import pytest
from pepit_at_hand import programme, same, solved, total

from fedtheory import problems
from fedtheory.errors import InvalidInput
from fedtheory.worst_cases import certificates as files
from fedtheory.worst_cases.bounds import worst_case
from fedtheory.worst_cases.gram import Quadratic
from fedtheory.worst_cases.tree import Tree, _Reduction, _symmetriser, moved, partitions


def pepit(method, clients, participants, rounds, steps, criterion, **options):
    """The same expectation with every client a function of its own and every cohort a branch."""
    from PEPit.primitive_steps import proximal_step

    pep, losses, mean, star, start = programme(clients)
    level = [(start, [0 * start] * clients)]
    for _ in range(rounds):
        after = []
        for x, stored in level:
            ends, seen, drift = [], [], total(stored) / clients
            for f, kept in zip(losses, stored, strict=True):
                y, sums = x, 0 * x
                if method == "feddyn":
                    y, sums, _ = proximal_step(x + kept / options["alpha"], f, 1 / options["alpha"])
                for _ in range(0 if method == "feddyn" else steps):
                    g = f.gradient(y)
                    y, sums = y - options["step"] * (g - kept + drift), sums + g / steps
                ends.append(y)
                seen.append(sums)
            for cohort in combinations(range(clients), participants):
                new = [seen[k] if k in cohort and method != "fedavg" else stored[k] for k in range(clients)]
                model = total([ends[k] for k in cohort]) / participants
                after.append((model - total(new) / clients / options["alpha"] if method == "feddyn" else model, new))
        level = after
    measured = {"gap": lambda x: mean(x) - mean(star), "distance": lambda x: (x - star) ** 2}
    measure = measured.get(criterion, lambda x: mean.gradient(x) ** 2)
    pep.set_performance_metric(total([measure(x) for x, _ in level]) / len(level))
    return solved(pep)


SAME = [
    ("fedavg", 3, 1, 1, 1, "gap", {"step": F(1, 2)}),
    ("fedavg", 2, 1, 2, 1, "gap", {"step": F(1, 2)}),
    ("fedavg", 5, 2, 1, 2, "distance", {"step": F(1, 4)}),
    ("scaffold", 2, 1, 2, 2, "distance", {"step": F(1, 4)}),
    ("scaffold", 3, 2, 2, 1, "distance", {"step": F(1, 2)}),
    ("feddyn", 3, 2, 1, 1, "gradient", {"alpha": F(1)}),
    ("feddyn", 2, 1, 2, 1, "distance", {"alpha": F(1)}),
    ("feddyn", 4, 3, 1, 1, "distance", {"alpha": F(2)}),
]


@pytest.mark.parametrize(("method", "clients", "participants", "rounds", "steps", "criterion", "options"), SAME)
def test_pepit_has_the_same_expectation(method, clients, participants, rounds, steps, criterion, options):
    found = worst_case(
        method, rounds=rounds, local_steps=steps, criterion=criterion, clients=clients, participants=participants, **options
    )
    other = pepit(method, clients, participants, rounds, steps, criterion, **{k: float(v) for k, v in options.items()})
    same(found, other)
    files.verify(files.certificate(found))


def test_one_round_of_a_cohort_is_a_branch_of_the_tree(monkeypatch):
    """The variance factor (N - P)/(P (N - 1)) and the enumeration of all cohorts give the same."""
    from fedtheory.worst_cases import bounds

    given = {"criterion": "distance", "clients": 4, "participants": 2, "alpha": F(2, 3)}
    closed = worst_case("feddyn", **given)
    monkeypatch.setattr(bounds, "_of_exchangeable", bounds._of_the_tree)
    assert worst_case("feddyn", **given).best == pytest.approx(closed.best, rel=1e-7)


def test_fewer_participants_are_worse():
    """FedAvg's distance after a round, 1 to 5 of 5 clients: the start's part and the variance's."""
    values = [worst_case("fedavg", criterion="distance", step=F(1, 2), clients=5, participants=p).best for p in range(1, 6)]
    assert values == sorted(values, reverse=True) and values[0] > values[-1] + 0.2
    assert values[-1] == pytest.approx(worst_case("fedavg", criterion="distance", step=F(1, 2), clients=50).best, rel=1e-7)


def test_no_expectation_is_above_the_bound():
    """FedAvg, two of four clients in two rounds, all 36 histories of quadratics."""
    found = worst_case("fedavg", criterion="distance", step=F(1, 2), clients=4, participants=2, rounds=2)
    start, own = (float(found.solution.numbers[name]) for name in ("start", "heterogeneity"))
    shares = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        curvatures = rng.uniform(0, 1, size=(4, 2))
        problem = problems.Quadratic(np.stack([np.diag(row) for row in curvatures]), rng.normal(size=(4, 2)))
        star = problem.optimum().x
        gradients = lambda x, problem=problem: problem.client_gradient(np.broadcast_to(x, (4, 1, 2)))[:, 0]  # noqa: E731
        x0 = star + rng.normal(size=2)
        ends = []
        for history in product(combinations(range(4), 2), repeat=2):
            x = x0
            for cohort in history:
                x = x - 0.5 * gradients(x)[list(cohort)].mean(axis=0)
            ends.append(((x - star) ** 2).sum())
        square = (gradients(star) ** 2).sum(axis=-1).mean()
        shares.append(np.mean(ends) / (start * ((x0 - star) ** 2).sum() + own * square))
    assert 0.2 < max(shares) <= 1


# --- symmetry -------------------------------------------------------------------------------------
@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_symmetrisers_find_every_representation(n):
    """Of the group acting on itself every representation comes as often as it has dimensions: sum of squares n!."""
    group = list(permutations(range(n)))
    sizes = []
    for shape in partitions(n):
        images = []
        for h in group:
            row = Counter({tuple(g[k] for k in h): sign for g, sign in _symmetriser(shape).items()})
            images.append([row[g] for g in group])
        sizes.append(np.linalg.matrix_rank(np.array(images)))
    assert sum(size**2 for size in sizes) == len(group)


def test_the_blocks_have_the_eigenvalues_of_the_whole_matrix():
    """A form of some labels of three clients, averaged over all permutations by hand: as definite as its blocks, for both signs."""
    tree = Tree(3, 1)
    labels = [("a", k, ()) for k in range(3)] + [("b", k, ((j,),)) for k in range(3) for j in range(3)]
    rng = np.random.default_rng(0)
    reduction = _Reduction(tree)
    for shift in (0.0, 1.0, 3.0, 6.0):
        given = rng.integers(-2, 3, size=(12, 12))
        form = (given + given.T) + shift * np.eye(12)
        mean = np.zeros((12, 12))
        for g in tree.group:
            to = [labels.index(moved(label, g)) for label in labels]
            mean[np.ix_(to, to)] += form / 6
        entries = {}
        for i in range(12):
            for j in range(i, 12):
                x, y = sorted((labels[i], labels[j]))
                entries["all", x, y] = F(float(form[i, j])) * (1 if i == j else 2)
        blocks = reduction.of(Quadratic(entries))
        least = []
        for block in {key[0] for key in blocks.gram}:
            names = sorted({x for key in blocks.gram if key[0] == block for x in key[1:]})
            m = np.zeros((len(names),) * 2)
            for (of, x, y), number in blocks.gram.items():
                if of == block:
                    i, j = names.index(x), names.index(y)
                    m[i, j] += float(number) / 2
                    m[j, i] += float(number) / 2
            least.append(np.linalg.eigvalsh(m).min())
        assert (min(least) < -1e-9) == (np.linalg.eigvalsh(mean).min() < -1e-9)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "fedavg", "clients": 7, "participants": 2, "rounds": 2}, "a tree of cohorts is computed for at most 6"),
        ({"method": "fedavg", "clients": 6, "participants": 3, "rounds": 3}, "take fewer rounds or clients"),
        ({"method": "fedavg", "clients": 2, "participants": 3}, "at most all take part"),
        ({"method": "fedmls", "clients": 3, "participants": 2}, "needs every client in every round"),
        ({"method": "feddyn", "local_steps": 2}, "solves its local problems exactly; leave local steps out"),
        ({"method": "fedavg", "distance": -1}, "distance = -1"),
    ],
)
def test_what_is_refused(given, says):
    with pytest.raises(InvalidInput, match=says):
        worst_case(**given)


def test_what_takes_long_is_announced_with_its_size(monkeypatch):
    from fedtheory.worst_cases import bounds

    told = []
    worst_case("fedavg", criterion="distance", clients=3, participants=1, rounds=2, announce=told.append)
    assert told == []
    monkeypatch.setattr(bounds, "TURNED", 1.0)
    worst_case("fedavg", criterion="distance", clients=3, participants=1, rounds=2, announce=told.append)
    assert len(told) == 1 and "conditions on the losses: about" in told[0]
