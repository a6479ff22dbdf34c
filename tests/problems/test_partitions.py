"""Partitions: every sample at one client, no client empty, reproducible, hashed; and each law is the one it says."""

import json

import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.problems import Huber, LeastSquares, Logistic, Partition, Softmax, datasets, federate, partitions
from fedtheory.problems.partitions import balanced_iid, classes_per_client, dirichlet, iid, lognormal_sizes

SEEDS = st.integers(0, 2**32)
QUICK = settings(max_examples=60, deadline=None)


@st.composite
def _labelled(draw, least_clients=1):
    labels = np.array(draw(st.lists(st.integers(-2, 4), min_size=least_clients, max_size=60)))
    return labels, draw(st.integers(least_clients, len(labels)))


def _check(partition, num_samples, num_clients):
    assert partition.num_clients == num_clients
    assert partition.num_samples == num_samples == partition.sizes.sum()
    assert partition.sizes.min() >= 1
    np.testing.assert_array_equal(np.sort(np.concatenate(partition.indices)), np.arange(num_samples))


# --- what every partition promises ----------------------------------------------------------------
@QUICK
@given(_labelled(), st.floats(0, 3), SEEDS)
def test_iid_deals_every_sample_once(labelled, sigma, seed):
    labels, clients = labelled
    partition = iid(len(labels), clients, sigma, seed)
    _check(partition, len(labels), clients)
    assert partition.sha256 == iid(len(labels), clients, sigma, seed).sha256
    if sigma == 0:
        assert np.ptp(partition.sizes) <= 1


@QUICK
@given(_labelled(), SEEDS)
def test_balanced_iid_gives_everyone_as_many_of_each_class(labelled, seed):
    labels, clients = labelled
    partition = balanced_iid(labels, clients, seed)
    _check(partition, len(labels), clients)
    assert partition.sha256 == balanced_iid(labels, clients, seed).sha256
    assert np.ptp(partition.sizes) <= 1
    assert np.ptp(partition.heterogeneity(labels).counts, axis=0).max() <= 1


def test_balanced_iid_on_the_shape_of_cifar100():
    """FedDyn's public code: 5 samples of each of 100 classes at each of 100 clients; a permutation cut into pieces has others."""
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(100), 500))
    assert (balanced_iid(labels, 100).heterogeneity(labels).counts == 5).all()
    assert np.ptp(iid(len(labels), 100).heterogeneity(labels).counts) > 5
    whose = np.zeros(len(labels), dtype=int)
    for k, held in enumerate(balanced_iid(labels, 100).indices):
        whose[held] = k
    first = whose[np.flatnonzero(labels == 3)]
    assert abs(np.corrcoef(first, np.arange(500))[0, 1]) < 4 / np.sqrt(500)  # within a class, the order of the file says nothing


@QUICK
@given(_labelled(), st.floats(1e-300, 1e6), st.floats(0, 3), SEEDS)
def test_dirichlet_deals_every_sample_once(labelled, alpha, sigma, seed):
    labels, clients = labelled
    partition = dirichlet(labels, clients, alpha, sigma, seed)
    _check(partition, len(labels), clients)
    np.testing.assert_array_equal(partition.sizes, lognormal_sizes(len(labels), clients, sigma, seed))
    assert partition.sha256 == dirichlet(labels, clients, alpha, sigma, seed).sha256


@QUICK
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 12), st.integers(1, 6), SEEDS)
def test_classes_per_client_is_exact_or_refused(amounts, clients, classes, seed):
    labels = np.repeat(np.arange(len(amounts)) * 3, amounts)
    possible = (
        classes <= len(amounts)
        and clients <= len(labels)
        and len(amounts) <= clients * classes <= sum(min(a, clients) for a in amounts)
    )
    if not possible:
        with pytest.raises(InvalidInput):
            classes_per_client(labels, clients, classes, seed)
        return
    partition = classes_per_client(labels, clients, classes, seed)
    _check(partition, len(labels), clients)
    assert ((partition.heterogeneity(labels).counts > 0).sum(axis=1) == classes).all()
    assert partition.sha256 == classes_per_client(labels, clients, classes, seed).sha256


@QUICK
@given(st.integers(1, 500), st.data(), st.floats(0, 6), SEEDS)
def test_lognormal_sizes_sum_and_leave_nobody_empty(num_samples, data, sigma, seed):
    clients = data.draw(st.integers(1, num_samples))
    sizes = lognormal_sizes(num_samples, clients, sigma, seed)
    assert sizes.shape == (clients,)
    assert sizes.sum() == num_samples
    assert sizes.min() >= 1


@pytest.mark.parametrize(
    "make",
    [
        lambda labels, seed: iid(len(labels), 10, 0.0, seed),
        lambda labels, seed: balanced_iid(labels, 10, seed),
        lambda labels, seed: dirichlet(labels, 10, 0.5, 0.0, seed),
        lambda labels, seed: classes_per_client(labels, 10, 2, seed),
    ],
)
def test_another_seed_is_another_partition(make):
    labels = np.arange(200) % 5
    hashes = {make(labels, seed).sha256 for seed in range(20)}
    assert len(hashes) == 20


def test_hash_is_of_the_content():
    first = Partition(([0, 1], [2, 3]))
    assert first.sha256 == Partition(([1, 0], [3, 2]), "another name", {"a": 1}, 5).sha256  # order within a client is not content
    others = [([2, 3], [0, 1]), ([0, 2], [1, 3]), ([0, 1, 2], [3]), ([0, 1, 2, 3],), ([0, 1], [2], [3])]
    assert len({Partition(o).sha256 for o in others} | {first.sha256}) == 6


@pytest.mark.parametrize(
    ("indices", "message"),
    [
        (([0, 1], []), "client 1 has no samples"),
        (([0, 1], [1, 2]), "not 0..3 once each"),
        (([0], [2]), "not 0..1 once each"),
        (([-1], [0]), "not 0..1 once each"),
        ((), "no clients"),
    ],
)
def test_a_partition_that_is_none_is_refused(indices, message):
    with pytest.raises(InvalidInput, match=message):
        Partition(indices)


# --- the laws -------------------------------------------------------------------------------------
def test_lognormal_sizes_are_lognormal():
    sizes = lognormal_sizes(10**7, 400, 0.8, seed=3)
    logs = np.log(sizes)
    assert stats.shapiro(logs).pvalue > 1e-3
    assert logs.std(ddof=1) == pytest.approx(0.8, rel=4 / np.sqrt(2 * 399))


def test_iid_clients_have_the_pooled_histogram():
    labels = np.arange(20000) % 10
    report = iid(20000, 20, seed=1).heterogeneity(labels)
    assert stats.chi2_contingency(report.counts).pvalue > 1e-3


def _deal_by_redrawing(labels, sizes, priors, g):
    """The procedure word for word: any client redrawn while full, any class redrawn while used up; (clients, C) counts."""
    room, stock, ends = np.array(sizes), np.bincount(labels), np.cumsum(priors, axis=1)
    counts = np.zeros(priors.shape, dtype=int)
    while room.any():
        k = g.integers(len(room))
        if room[k] == 0:
            continue
        c = np.argmax(g.random() <= ends[k])
        while stock[c] == 0:
            c = np.argmax(g.random() <= ends[k])
        room[k] -= 1
        stock[c] -= 1
        counts[k, c] += 1
    return counts


def _same_law(left, right):
    """p-value of one law for two lists of tables."""
    kinds = {}
    for side, tables in enumerate((left, right)):
        for table in tables:
            kinds.setdefault(table.tobytes(), [0, 0])[side] += 1
    pairs = np.array(list(kinds.values()))
    rare = pairs.sum(axis=1) < 20
    pooled = np.vstack([pairs[~rare], pairs[rare].sum(axis=0)])
    return stats.chi2_contingency(pooled[pooled.sum(axis=1) > 0]).pvalue


@pytest.mark.parametrize(
    ("stock", "priors", "other"),
    [
        ([4, 10, 10], [[0.5, 0.4, 0.1], [0.1, 0.4, 0.5]], [[0.5, 0.4, 0.1], [0.2, 0.4, 0.4]]),
        ([10, 30], [[0.8, 0.2], [0.2, 0.8]], [[0.6, 0.4], [0.2, 0.8]]),
    ],
)
def test_dealing_has_the_law_of_the_procedure_it_cites(stock, priors, other):
    # Class 0 runs out early; from then on the redraws decide.
    labels, runs, g = np.repeat(np.arange(len(stock)), stock), 1500, np.random.default_rng(5)
    sizes = [len(labels) // 2] * 2

    def ours(law):
        deals = (partitions._deal(labels, list(sizes), np.array(law), g) for _ in range(runs))
        return [np.bincount(labels[first], minlength=len(stock)) for first, _ in deals]

    literal = [_deal_by_redrawing(labels, sizes, np.array(priors), g)[0] for _ in range(runs)]
    assert _same_law(ours(priors), literal) > 1e-3
    assert _same_law(ours(other), literal) < 1e-6  # the comparison can tell a wrong prior


def test_dirichlet_priors_are_dirichlet():
    # Few clients run into a used-up class before the very end, so that counts are nearly Dirichlet-multinomial.
    labels = np.arange(3000) % 3
    for alpha in (0.3, 3.0):
        counts = [dirichlet(labels, 300, alpha, seed=s).heterogeneity(labels).counts[:, 0] for s in range(4)]
        shares = np.concatenate(counts) / 10
        # E p^2 = (alpha + 1)/(3 (3 alpha + 1)); with ten draws a client, E share^2 = E p^2 (1 - 1/10) + E p/10
        expected = 0.9 * (alpha + 1) / (3 * (3 * alpha + 1)) + 0.1 / 3
        assert (shares**2).mean() == pytest.approx(expected, rel=0.08)


def test_dirichlet_alpha_sets_the_heterogeneity():
    labels = np.arange(5000) % 10
    distances = [dirichlet(labels, 50, a, seed=2).heterogeneity(labels).total_variation for a in (0.05, 0.3, 3.0, 300.0)]
    assert distances == sorted(distances, reverse=True)
    even = iid(5000, 50, seed=2).heterogeneity(labels).total_variation
    assert distances[-1] == pytest.approx(even, rel=0.25)
    assert distances[0] > 4 * even


def test_classes_go_to_clients_in_proportion_to_their_samples():
    labels = np.repeat([0, 1, 2], [600, 300, 100])
    report = classes_per_client(labels, 10, 1).heterogeneity(labels)
    np.testing.assert_array_equal((report.counts > 0).sum(axis=0), [6, 3, 1])
    assert (report.size_min, report.size_median, report.size_max, report.imbalance) == (100, 100, 100, 1.0)


def test_which_classes_meet_is_random():
    labels = np.arange(600) % 6
    pairs = set()
    for seed in range(40):
        counts = classes_per_client(labels, 3, 2, seed).heterogeneity(labels).counts
        pairs |= {tuple(np.flatnonzero(row)) for row in counts}
    assert len(pairs) == 15  # every pair of six classes
    # Four classes at two clients each: the plain deal would always pair them as twice the same two pairs.
    labels, kinds = np.arange(400) % 4, set()
    for seed in range(40):
        held = classes_per_client(labels, 4, 2, seed).heterogeneity(labels).counts > 0
        kinds.add(len({tuple(row) for row in held}))
    assert kinds == {2, 4}


def test_heterogeneity_by_hand():
    labels = np.array(["a", "a", "b", "b", "b", "c"])
    report = Partition(([0, 1], [2, 3, 4, 5])).heterogeneity(labels)
    np.testing.assert_array_equal(report.classes, ["a", "b", "c"])
    np.testing.assert_array_equal(report.counts, [[2, 0, 0], [0, 3, 1]])
    # pooled (1/3, 1/2, 1/6); distances 2/3 and (1/3 + 1/4 + 1/12)/2 = 1/3
    assert report.total_variation == pytest.approx(0.5)
    assert (report.size_min, report.size_median, report.size_max, report.imbalance) == (2, 3.0, 4, 2.0)
    with pytest.raises(InvalidInput, match="5 labels for a partition of 6"):
        Partition(([0, 1], [2, 3, 4, 5])).heterogeneity(labels[:5])


# --- files ----------------------------------------------------------------------------------------
def test_save_and_load(tmp_path):
    partition = dirichlet(np.arange(40) % 4, 5, 0.3, seed=9)
    path = partition.save(tmp_path / "folder" / "p.json")
    loaded = Partition.load(path)
    assert loaded.sha256 == partition.sha256
    assert (loaded.name, loaded.seed, loaded.parameters) == ("dirichlet", 9, partition.parameters)
    for a, b in zip(loaded.indices, partition.indices):
        np.testing.assert_array_equal(a, b)
    content = json.loads(path.read_text())
    assert content["provenance"]["seed"] == 9
    assert [p.name for p in path.parent.iterdir()] == ["p.json"]


def test_load_refuses_what_was_changed(tmp_path):
    path = iid(12, 3).save(tmp_path / "p.json")
    content = json.loads(path.read_text())
    first, second = content["indices"][0][0], content["indices"][1][0]
    content["indices"][0][0], content["indices"][1][0] = second, first
    path.write_text(json.dumps(content))
    with pytest.raises(DataFileError, match=r"p\.json: the indices hash to .* the file says"):
        Partition.load(path)


def test_load_refuses_broken_files(tmp_path):
    path = iid(12, 3).save(tmp_path / "p.json")
    text = path.read_text()
    for broken in (text[: len(text) // 2], "", "[]", "{}", '{"indices": [[0.5]]}', '{"indices": 3}'):
        path.write_text(broken)
        with pytest.raises(DataFileError, match=r"p\.json: (not a whole partition file|not JSON)"):
            Partition.load(path)
    with pytest.raises(DataFileError, match="no such file"):
        Partition.load(tmp_path / "nowhere.json")
    with pytest.raises(DataFileError, match="cannot be read"):
        Partition.load(tmp_path)


# --- bad parameters -------------------------------------------------------------------------------
LABELS = np.array([0, 0, 1, 1, 2, 2])


@each(
    ("call", "message"),
    [
        (lambda: iid(3, 4), "num_clients is 4.*with 3 samples"),
        (lambda: iid(3, 0), "num_clients is 0"),
        (lambda: iid(3, 2, sigma=-1.0), "sigma is -1.0"),
        (lambda: iid(3, 2, seed=-1), "seed is -1"),
        (lambda: balanced_iid(LABELS, 7), "num_clients is 7.*with 6 samples"),
        (lambda: balanced_iid(LABELS[:, None], 2), r"shape \(6, 1\)"),
        (lambda: dirichlet(LABELS, 7, 1.0), "num_clients is 7.*with 6 samples"),
        (lambda: dirichlet(LABELS, 2, 0.0), "alpha is 0.0.*> 0"),
        (lambda: dirichlet(LABELS, 2, -1.0), "alpha is -1.0"),
        (lambda: dirichlet(LABELS, 2, np.nan), "alpha is nan"),
        (lambda: dirichlet(LABELS[:, None], 2, 1.0), r"shape \(6, 1\)"),
        (lambda: dirichlet([0.0, np.nan], 1, 1.0), "NaN"),
        (lambda: dirichlet([], 1, 1.0), r"shape \(0,\)"),
        (lambda: classes_per_client(LABELS, 2, 4), "classes is 4.*from 1 to 3"),
        (lambda: classes_per_client(LABELS, 2, 0), "classes is 0"),
        (lambda: classes_per_client(LABELS, 2, 1), "2 clients of 1 classes cannot hold 3"),
        (lambda: classes_per_client(LABELS, 5, 2), "need 10 pairs .* allow 6"),
        (lambda: classes_per_client(LABELS, 7, 1), "num_clients is 7"),
    ],
)
def test_bad_parameters_are_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


# --- federate -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("load", "kind"),
    [(datasets.diabetes, LeastSquares), (datasets.breast_cancer, Logistic), (datasets.digits, Softmax)],
)
def test_federate_chooses_by_task_and_keeps_the_loss(load, kind):
    data = load()
    problem = federate(data, partitions.iid(data.num_samples, 7, 0.5, seed=1), ridge=0.1, weights="samples")
    assert type(problem) is kind
    assert problem.ridge == 0.1
    whole = federate(data, partitions.iid(data.num_samples, 1), ridge=0.1)
    x = np.random.default_rng(0).normal(size=problem.dim) / 10
    assert problem.objective(x) == pytest.approx(whole.objective(x), rel=1e-12)  # weights n_k/n: the dealing is invisible


def test_federate_with_a_chosen_class():
    data = datasets.diabetes()
    assert federate(data, iid(442, 3), Huber, delta=0.5).delta == 0.5
    binary = datasets.breast_cancer()
    softmax = federate(binary, iid(569, 2), Softmax)
    logistic = federate(binary, iid(569, 2))
    x = np.random.default_rng(0).normal(size=(30, 2))
    np.testing.assert_allclose(softmax.client_losses(x.ravel()), logistic.client_losses(x[:, 1] - x[:, 0]), rtol=1e-12)
    with pytest.raises(InvalidInput, match="deals 441 samples, but diabetes has 442"):
        federate(data, iid(441, 3))
    with pytest.raises(InvalidInput, match="labels must be exactly"):
        federate(data, iid(442, 3), Logistic)
