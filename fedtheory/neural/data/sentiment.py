"""Sentiment140: tweets of both polarities, an account a client, from the release's csv files or LEAF's JSON."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.inputs import flag, whole_number
from fedtheory.neural.data.core import Sentences
from fedtheory.neural.data.files import Release, read_lines
from fedtheory.neural.data.leaf import Samples, check_given, chosen, find_leaf, flatten, leaf_parts
from fedtheory.parallel import Progress
from fedtheory.randomness import Stream

__all__ = ["PADDING", "UNKNOWN", "build_vocabulary", "encode", "load_sentiment140", "tokens"]

SENTIMENT140 = Release(
    "Sentiment140",
    "http://help.sentiment140.com/for-students (LEAF's code makes JSON of it: https://github.com/TalwalkarLab/leaf)",
    ("sent140", "sentiment140", "trainingandtestdata", "raw_data", "data/raw_data"),
)
_TRAINING = ("training.1600000.processed.noemoticon.csv", "training.csv")  # as released, and as LEAF renames it
_BY_HAND = ("testdata.manual.2009.06.14.csv", "test.csv")
_ARCHIVE = "trainingandtestdata.zip"
_COLUMNS = ("polarity", "id", "date", "query", "user", "text")
_LABELS = {"0": 0, "2": None, "4": 1}
_LEAF_LABELS = {0: 0, 1: 1, "0": 0, "1": 1, "2": None, 4: 1, "4": 1}  # FedProx's files keep the polarities, as text
PADDING, UNKNOWN = 0, 1
_NO_WORDS = ("<padding>", "<unknown>")
_WORD = re.compile(r"[\w']+|[.,!?;]")


# --- words ----------------------------------------------------------------------------------------
def tokens(text: str) -> list[str]:
    """Words of letters, digits, underscores and apostrophes, and each of . , ! ? ; as in LEAF, here in lower case."""
    return _WORD.findall(text.lower())


def build_vocabulary(texts: Iterable[str], most: int, length: int) -> tuple[str, ...]:
    """Padding, the unknown word, and the most frequent of the texts' first `length` words; ties in alphabetical order.

    Parameters
    ----------
    most : int
        How many there may be, those two included.
    """
    counts = Counter(word for text in texts for word in tokens(text)[:length])
    return (*_NO_WORDS, *sorted(counts, key=lambda word: (-counts[word], word))[: most - len(_NO_WORDS)])


def encode(
    texts: Sequence[str] | np.ndarray, vocabulary: tuple[str, ...], length: int
) -> tuple[np.ndarray, int]:
    """Numbers (n, length) of each text's first words, padded on the right; how many are unknown.

    A text without any word is one unknown word, so that no row is padding alone.
    """
    numbers = {word: i for i, word in enumerate(vocabulary)}
    out = np.full((len(texts), length), PADDING, np.int16 if len(vocabulary) < 2**15 else np.int32)
    unknown = 0
    for row, text in zip(out, texts, strict=True):
        found = [numbers.get(word, UNKNOWN) for word in tokens(text)[:length]]
        unknown += found.count(UNKNOWN)
        row[: max(len(found), 1)] = found or UNKNOWN
    return out, unknown


# --- the release's csv ----------------------------------------------------------------------------
def _rows(path: Path, names: tuple[str, ...], doing: str, progress: bool) -> Iterator[tuple[str, int | None, str]]:
    """(account, label or None for neutral, text) of each row; nothing where an archive has no such member."""
    with (
        read_lines(path, lambda member: member.rpartition("/")[2] in names, "latin1") as file,
        Progress(100, f"{doing} tweets, percent", progress) as bar,
    ):
        if file is None:
            return
        reader = csv.reader(file.lines)
        try:
            for row in reader:
                if reader.line_num % 5000 == 0:
                    bar.update(int(100 * file.share()))
                if not row:
                    continue
                if len(row) != len(_COLUMNS) or row[0] not in _LABELS:
                    raise _odd_row(f"{file.where}, line {reader.line_num}", row)
                yield row[4], _LABELS[row[0]], row[5]
        except csv.Error as error:
            raise DataFileError(f"{file.where}, line {reader.line_num}: {error}: damaged; fetch it again") from error


def _odd_row(where: str, row: list[str]) -> DataFileError:
    again = f"not the csv of {SENTIMENT140.page}; fetch it again"
    if len(row) != len(_COLUMNS):
        return DataFileError(f"{where}: {len(row)} columns, expected {len(_COLUMNS)} ({', '.join(_COLUMNS)}): {again}")
    return DataFileError(f"{where}: polarity is {row[0][:20]!r}, expected 0, 2 or 4: {again}")


def _files(path: Path) -> list[tuple[Path, tuple[str, ...]]]:
    """List the files to read: the training file, and the hand-labelled one where it is there."""
    if path.is_file():
        return [(path, _TRAINING), (path, _BY_HAND)] if path.suffix == ".zip" else [(path, _TRAINING)]
    first = SENTIMENT140.find(path, *_TRAINING)
    if first is not None:
        second = SENTIMENT140.find(first.parent, *_BY_HAND)
        return [(first, _TRAINING), *([] if second is None else [(second, _BY_HAND)])]
    for place in SENTIMENT140.folders(path):
        if (place / _ARCHIVE).is_file():
            return _files(place / _ARCHIVE)
    raise SENTIMENT140.missing(path, f"{_TRAINING[0]}, {_ARCHIVE}, or train/*.json and test/*.json of LEAF,")


def _read_csv(path: Path, clients: int | None, least: int, seed: int, progress: bool) -> tuple[Samples, str]:
    """The tweets of the chosen accounts; read twice, so that those of others are never held."""
    files = _files(path)
    counts: Counter[str] = Counter()
    neutral = rows = 0
    for file, names in files:
        before = rows
        for user, label, _ in _rows(file, names, "counting", progress):
            rows += 1
            neutral += label is None
            counts[user] += label is not None
        if names is _TRAINING and rows == before:
            raise DataFileError(f"{file}: holds no {_TRAINING[0]}, or an empty one: fetch it from {SENTIMENT140.page}")
    chosen = _choose(str(files[0][0]), counts, clients, least, seed)
    texts: dict[str, list[str]] = {user: [] for user in chosen}
    labels: dict[str, list[int]] = {user: [] for user in chosen}
    for file, names in files:
        for user, label, text in _rows(file, names, "reading", progress):
            if label is not None and user in texts:
                texts[user].append(text)
                labels[user].append(label)
    source = f"{files[0][0]}: {rows:,} tweets of {len(counts):,} accounts, {neutral:,} neutral ones left out"
    return {user: (np.array(texts[user], object), np.array(labels[user], np.int64)) for user in chosen}, source


# --- LEAF's JSON ----------------------------------------------------------------------------------
def _leaf_tweets(where: str, user: str, x: list[Any], y: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    texts, labels = [], []
    for entry, label in zip(x, y, strict=True):
        if not isinstance(entry, list) or len(entry) < 5 or not isinstance(entry[4], str):
            raise DataFileError(
                f"{where}: user {user!r}: an x is {str(entry)[:60]!r}, expected a list of id, date, query, user and text: not LEAF's "
                "Sentiment140; name a folder without other data sets' train and test"
            )
        if not isinstance(label, int | str) or label not in _LEAF_LABELS:
            raise DataFileError(
                f"{where}: user {user!r}: a y is {str(label)[:20]!r}, expected 0 or 1: damaged; make it again"
            )
        if (number := _LEAF_LABELS[label]) is not None:
            texts.append(entry[4])
            labels.append(number)
    return np.array(texts, object), np.array(labels, np.int64)


def _leaf_files(path: Path) -> dict[str, list[Path]]:
    for place in SENTIMENT140.folders(path):
        found = {part: find_leaf(place, part) for part in ("train", "test")}
        if all(found.values()):
            return found
    return {}


# --- accounts -------------------------------------------------------------------------------------
def _choose(where: str, counts: Counter[str], clients: int | None, least: int, seed: int) -> list[str]:
    """The accounts in alphabetical order, whatever the file's, and of them as many as asked for."""
    users = sorted(user for user, count in counts.items() if count >= least)
    told = f"{where}: {len(users)} of {len(counts)} accounts have at least {least} tweets"
    remedy = "lower clients or least, or fetch the whole release"
    return chosen(told, users, clients, seed, "sentiment140 accounts", remedy)


def _tested(tweets: int, test_fraction: float) -> int:
    """Return how many of an account's tweets are for testing: at least one, and not all."""
    return min(max(int(tweets * test_fraction), 1), tweets - 1)


def _split(tweets: Samples, test_fraction: float, seed: int) -> tuple[Samples, Samples]:
    """Each account's tweets, drawn at random into training and test ones."""
    g = Stream(seed).generator("sentiment140 test tweets")
    train: Samples = {}
    test: Samples = {}
    for user, (texts, labels) in tweets.items():
        tested = _tested(len(labels), test_fraction)
        order = g.permutation(len(labels))
        test[user] = (texts[order[:tested]], labels[order[:tested]])
        train[user] = (texts[order[tested:]], labels[order[tested:]])
    return train, test


def load_sentiment140(
    folder: str | Path, clients: int | None = None, least: int = 64, samples: int | None = None,
    test_fraction: float = 0.1, vocabulary: int = 5000, length: int = 25, seed: int = 0,
    progress: bool = True,
) -> Sentences:
    """Tweets as rows of word numbers, padded on the right, and their polarity (0 negative, 1
    positive); a user a twitter account.

    Go, Bhayani and Huang, 'Twitter sentiment classification using distant supervision', 2009. The
    hand-labelled test file's tweets join those of the training file, as in LEAF; its neutral ones
    (polarity 2), the only ones there are, are left out, where LEAF calls them negative. Words are
    LEAF's, but in lower case; HTML entities and doubled tweets stay as they are. LEAF's paper
    embeds words by GloVe's vectors, another download, which is not used here: words are numbered by
    frequency, for an embedding that is learnt (as LEAF's code learns it too), and the vocabulary is
    that of the training tweets alone.

    Parameters
    ----------
    folder : one of
        LEAF's JSON in `train` and `test`, split by sample (its own split is kept), or FedProx's;
        the release's training.1600000.processed.noemoticon.csv and testdata.manual.2009.06.14.csv,
        plain or compressed; its trainingandtestdata.zip. Looked for in this order; the csv or the
        zip may be named instead of its folder.
    clients : int or None
        Take so many accounts at random, of those with enough tweets; None takes all.
    least : int >= 2
        How many tweets are enough (LEAF's examples: 64; FedProx: 30). Most accounts have one or
        two.
    samples : int or None
        Take so many training tweets of each account, at random; None takes all. VRL-SGD and FedGATE
        ask for clients of equal size.
    test_fraction : float
        Of each account's tweets, drawn at random, and at least one (LEAF: 0.1). The csv is sorted
        by polarity: its last part would be positive throughout.
    vocabulary : int >= 3
        At most so many numbers: padding (0), the unknown word (1), and the most frequent words of
        the training tweets.
    length : int
        Words of a tweet that are kept (LEAF: 25).
    progress : bool
        Show a bar once reading takes more than two seconds.

    Raises
    ------
    DataFileError
        Nothing to read (what was looked for, where it is published and the folder are said);
        damaged, with the line; training tweets of one polarity alone, as in the beginning of the
        csv.
    InvalidInput
        Fewer accounts with enough tweets than `clients`; numbers out of range.
    """
    flag("progress", progress)
    for name, number, low in (("least", least, 2), ("vocabulary", vocabulary, 3), ("length", length, 1)):
        whole_number(name, number, low)
    check_given(test_fraction, clients=clients, samples=samples)
    if samples is not None and samples > (left := least - _tested(least, test_fraction)):
        raise InvalidInput(
            f"samples is {samples}: of {least} tweets {left} are for training; lower samples or raise least"
        )
    path = Path(folder).expanduser()
    leaf = {} if path.is_file() else _leaf_files(path)
    if leaf:
        where = f"LEAF JSON in {leaf['train'][0].parents[1]}"
        train, test = leaf_parts(leaf, _leaf_tweets)
        both = {
            u: len(train[u][1]) + len(test[u][1]) for u in train if u in test and len(train[u][1]) and len(test[u][1])
        }
        if not both:
            raise DataFileError(
                f"{where}: no account has tweets in both train and test: make it again with LEAF's preprocess.sh -t sample"
            )
        enough = {u: n for u, n in both.items() if len(train[u][1]) >= (samples or 1)}
        users = _choose(where, Counter(enough), clients, least, seed)
    else:
        tweets, where = _read_csv(path, clients, least, seed, progress)
        users = list(tweets)
        train, test = _split(tweets, test_fraction, seed)

    if samples is not None:
        g = Stream(seed).generator("sentiment140 training tweets")
        for user in users:
            which = g.permutation(len(train[user][1]))[:samples]
            train[user] = (train[user][0][which], train[user][1][which])

    texts, labels, owner = flatten(where, "training", users, train)
    test_texts, test_labels, test_owner = flatten(where, "test", users, test)
    if len(np.unique(labels)) < 2:
        raise DataFileError(
            f"{where}: all training tweets of {len(users)} accounts have the label {labels[0]}: a file cut short, as the csv begins "
            "with the negative ones (fetch it again), or too few accounts (raise clients)"
        )
    words = build_vocabulary(texts, vocabulary, length)
    (x, unknown), (test_x, also) = encode(texts, words, length), encode(test_texts, words, length)
    return Sentences(
        "sent140", x, labels, test_x, test_labels, 2, tuple(users), owner, test_owner, source=where,
        vocabulary=words, unknown=unknown + also,
    )
