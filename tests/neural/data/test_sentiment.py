"""Sentiment140: tiny files of every layout, good, broken and hostile; the words."""

import bz2
import gzip
import io
import json
import zipfile

import numpy as np
import pytest
from release_files import write_leaf
from sentiment_files import BY_HAND, NAME, PAGE, as_csv, tweets, write

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.neural import data
from fedtheory.neural.data import sentiment

# --- the network ----------------------------------------------------------------------------------
torch = pytest.importorskip("torch")


def texts(found, part):
    return [found.text(row) for row in getattr(found, f"{part}_x")]


def of_users(found, part):
    x, u = texts(found, part), getattr(found, f"{part}_users")
    return {name: {t for t, k in zip(x, u) if k == i} for i, name in enumerate(found.users)}


# --- the files ------------------------------------------------------------------------------------
def test_tweets_labels_and_accounts(tmp_path):
    rows = tweets()
    found = data.load_sentiment140(write(tmp_path, rows), least=10, test_fraction=0.3, vocabulary=99)
    assert (found.name, found.num_classes, found.users) == ("sent140", 2, ("user0", "user1", "user2", "user3"))
    assert found.train_users.tolist() == [u for u in range(4) for _ in range(7)]
    assert found.test_users.tolist() == [u for u in range(4) for _ in range(3)]
    label_of = {(u, int(t.split("tweet")[1].split("of")[0])): p // 4 for p, u, t in rows}
    seen = []
    for part in ("train", "test"):
        for words, label, owner in zip(
            texts(found, part), getattr(found, f"{part}_y"), getattr(found, f"{part}_users"), strict=True
        ):
            if part == "test":  # its own word is not in the vocabulary
                assert words == f"{owner} <unknown> , ok !"
                continue
            number = int(words.split("tweet")[1].split("of")[0])
            assert words == f"{owner} tweet{number}of{owner} , ok !"
            assert label == label_of[f"user{owner}", number]
            seen.append((owner, number))
    assert len(set(seen)) == 28
    assert 0 < found.test_y.mean() < 1  # the last part of the csv would be positive throughout
    assert found.by_user().sizes.tolist() == [7] * 4
    assert "40 tweets of 4 accounts, 0 neutral ones left out" in found.source


@pytest.mark.parametrize("layout", ["gz", "bz2", "zip", "named zip", "named csv", "sub-folder", "LEAF's names"])
def test_every_layout_reads_alike(tmp_path, layout):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir(), other.mkdir()
    rows, by_hand = tweets(), [(2, "user0", "neutral"), (4, "user1", "fine"), (2, "else", "news")]
    expected = data.load_sentiment140(write(one, rows), least=10)
    path = other
    if layout in ("gz", "bz2"):
        write(other, rows, f".{layout}", {"gz": gzip.compress, "bz2": bz2.compress}[layout])
    elif "zip" in layout:
        path = other / "trainingandtestdata.zip"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(BY_HAND, as_csv(by_hand))
            archive.writestr(NAME, as_csv(rows))
        path = path if layout == "named zip" else other
    elif layout == "named csv":
        path = write(other, rows) / NAME
    elif layout == "sub-folder":
        (other / "sent140").mkdir()
        write(other / "sent140", rows)
    else:
        (other / "data/raw_data").mkdir(parents=True)
        (other / "data/raw_data/training.csv").write_bytes(as_csv(rows))
        (other / "data/raw_data/test.csv").write_bytes(as_csv(by_hand))
    found = data.load_sentiment140(path, least=10)
    if "zip" in layout or "LEAF" in layout:
        assert "43 tweets of 5 accounts, 2 neutral ones left out" in found.source
        assert (found.num_train + found.num_test, len(found.users)) == (41, 4)
        return
    np.testing.assert_array_equal(found.train_x, expected.train_x)
    np.testing.assert_array_equal(found.test_y, expected.test_y)
    assert found.vocabulary == expected.vocabulary


def test_accounts_are_drawn_by_the_seed_and_not_by_the_order_of_the_file(tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir(), other.mkdir()
    rows = [*tweets(12), *((0, f"rare{u}", "once") for u in range(50))]
    write(one, rows), write(other, rows[::-1])
    drawn = [data.load_sentiment140(one, clients=4, least=10, seed=s).users for s in range(5)]
    assert drawn[0] == data.load_sentiment140(other, clients=4, least=10).users and len(set(drawn)) > 1
    assert all(len(set(users)) == 4 and not any("rare" in u for u in users) for users in drawn)
    assert {u for users in drawn for u in users} > set(drawn[0])
    parts = [data.load_sentiment140(one, least=10, seed=s) for s in (0, 0, 1)]
    np.testing.assert_array_equal(parts[0].train_x, parts[1].train_x)
    assert of_users(parts[0], "train") != of_users(parts[2], "train")
    equal = data.load_sentiment140(one, least=10, samples=4)
    assert equal.by_user().sizes.tolist() == [4] * 12 and equal.num_test == 12
    mine, all_of_them = of_users(equal, "train"), of_users(parts[0], "train")
    known = [{w for t in all_of_them[u] for w in t.split() if w.startswith("tweet")} for u in equal.users]
    assert all(
        w in known[k] for k, u in enumerate(equal.users) for t in mine[u] for w in t.split() if w.startswith("tweet")
    )


def leaf_file(path, **users):
    """LEAF's JSON of user=(texts, labels), as rows of the release."""
    rows = {u: ([["1", "date", "NO_QUERY", u, t, "training"] for t in x], y) for u, (x, y) in users.items()}
    write_leaf(path, **rows)


@pytest.mark.parametrize("labels", [(0, 1), ("0", "4")])  # LEAF's, and FedProx's
def test_leaf_json_keeps_its_own_split(tmp_path, labels):
    no, yes = labels
    leaf_file(tmp_path / "data/train/a.json", ann=(["bad day", "good day"], [no, yes]), bob=(["nice"], [yes]))
    leaf_file(tmp_path / "data/train/b.json", cid=(["no test"], [yes]))
    leaf_file(tmp_path / "data/test/a.json", ann=(["good ?"], [yes]), bob=(["day off"], [no]))
    found = data.load_sentiment140(tmp_path, least=2)
    assert found.users == ("ann", "bob") and texts(found, "train") == ["bad day", "good day", "nice"]
    assert texts(found, "test") == ["good <unknown>", "day <unknown>"] and found.unknown == 2
    assert (found.train_y.tolist(), found.test_y.tolist()) == ([0, 1, 1], [1, 0])
    assert found.test_users.tolist() == [0, 1] and data.load_sentiment140(tmp_path, least=3).users == ("ann",)


def test_leaf_json_that_does_not_fit(tmp_path):
    train, test = tmp_path / "train/a.json", tmp_path / "test/a.json"
    leaf_file(train, ann=(["a", "b"], [0, 1]))
    leaf_file(test, bob=(["a"], [0]))
    with pytest.raises(DataFileError, match=r"no account has tweets in both train and test.*-t sample"):
        data.load_sentiment140(tmp_path, least=2)
    leaf_file(test, ann=(["a"], [7]))
    with pytest.raises(DataFileError, match="user 'ann': a y is '7', expected 0 or 1"):
        data.load_sentiment140(tmp_path, least=2)
    test.write_text(
        json.dumps({"users": ["ann"], "num_samples": [1], "user_data": {"ann": {"x": [[0.5] * 784], "y": [3]}}})
    )
    with pytest.raises(DataFileError, match=r"user 'ann': an x is '\[0\.5.*not LEAF's Sentiment140"):
        data.load_sentiment140(tmp_path, least=2)


# --- words ----------------------------------------------------------------------------------------
def test_tokens_by_hand():
    said = "@Bob I'm SO_happy... http://a.b/c?d #yay caf\xe9 &quot;ok&quot; :-)"
    words = "bob i'm so_happy . . . http a . b c ? d yay caf\xe9 quot ; ok quot ;"
    assert sentiment.tokens(said) == words.split()
    assert sentiment.tokens(" :( @ ") == []


def test_vocabulary_is_the_most_frequent_words_ties_by_name():
    found = sentiment.build_vocabulary(["c b b", "a d d d", "c late"], 5, 3)
    assert found == ("<padding>", "<unknown>", "b", "c", "d")  # each twice within three words
    assert sentiment.build_vocabulary(["c b b", "a d d d", "c late"], 5, 4)[2:] == ("d", "b", "c")
    assert sentiment.build_vocabulary(["x y"], 99, 1) == ("<padding>", "<unknown>", "x")
    codes, unknown = sentiment.encode(["d e b b", " :) ", "C"], found, 3)
    assert (codes.tolist(), unknown, codes.dtype) == ([[4, 1, 2], [1, 0, 0], [3, 0, 0]], 1, np.int16)
    wide, _ = sentiment.encode(["w39999"], tuple(f"w{i}" for i in range(40000)), 1)
    assert wide.tolist() == [[39999]]


def leaks(found, folder):
    """Words of the vocabulary that no training tweet holds."""
    kept = {w for row in texts(found, "train") for w in row.split()}
    return set(found.vocabulary[2:]) - kept


def test_the_vocabulary_is_that_of_the_training_tweets(tmp_path, monkeypatch):
    write(tmp_path, tweets())
    found = data.load_sentiment140(tmp_path, least=10)
    assert not leaks(found, tmp_path) and found.unknown == found.num_test == 4
    assert all("<unknown>" in t for t in texts(found, "test")) and not any(
        "<unknown>" in t for t in texts(found, "train")
    )
    everything = [t for _, _, t in tweets()]
    real = sentiment.build_vocabulary
    monkeypatch.setattr(sentiment, "build_vocabulary", lambda _, most, length: real(everything, most, length))
    mutant = data.load_sentiment140(tmp_path, least=10)
    assert leaks(mutant, tmp_path) and mutant.unknown == 0


def test_a_small_vocabulary_and_short_texts(tmp_path):
    found = data.load_sentiment140(write(tmp_path, tweets()), least=10, vocabulary=5, length=3)
    assert found.vocabulary == ("<padding>", "<unknown>", ",", "0", "1")
    assert found.train_x.shape[1] == 3 and found.train_x.max() == 4 and found.input_shape == (3,)


# --- what is broken -------------------------------------------------------------------------------
def test_what_is_missing_is_told(tmp_path):
    with pytest.raises(
        DataFileError, match=rf"{NAME}, trainingandtestdata.zip.* is not in {tmp_path}: fetch it from {PAGE}"
    ):
        data.load_sentiment140(tmp_path)
    with pytest.raises(
        DataFileError, match=rf"nowhere: no such folder: name the folder that holds Sentiment140 \(from {PAGE}"
    ):
        data.load_sentiment140(tmp_path / "nowhere")
    with zipfile.ZipFile(tmp_path / "trainingandtestdata.zip", "w") as archive:
        archive.writestr(BY_HAND, as_csv([(4, "a", "b")]))
    with pytest.raises(DataFileError, match=rf"trainingandtestdata.zip: holds no {NAME}"):
        data.load_sentiment140(tmp_path)
    write(tmp_path, [])
    with pytest.raises(DataFileError, match=r"holds no .*, or an empty one"):
        data.load_sentiment140(tmp_path)


WHOLE = as_csv(tweets()).split(b"\n")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'"0","1","d","q","u"', r"line 3: 5 columns, expected 6 \(polarity, id, date, query, user, text\)"),
        (b'"0","1","d","q","u","t","training"', "line 3: 7 columns, expected 6"),
        (b'"3","1","d","q","u","t"', "line 3: polarity is '3', expected 0, 2 or 4"),
        (b'"target","ids","date","flag","user","text"', "line 3: polarity is 'target'"),
        (b'"0","1","d","q","u","t\0"', "line 3: holds a NUL byte"),
        (b'"0","1","d","q","u","t\r"x\ry', r"line 3: new-line character seen in unquoted field"),
        (b'"0","1","d","q","u","' + b"t" * (2**17 + 1) + b'"', r"line 3: field larger than field limit"),
        (b'"0","1","d","q","u","' + b"t" * 2**20 + b'"', r"line 3: more than 1048576 bytes"),
    ],
)
def test_an_odd_row_is_named_by_its_line(tmp_path, line, message):
    (tmp_path / NAME).write_bytes(b"\n".join([*WHOLE[:2], line, *WHOLE[2:]]))
    with pytest.raises(DataFileError, match=rf"{NAME}, {message}"):
        data.load_sentiment140(tmp_path, least=10)


def test_quotes_commas_and_lines_within_a_tweet(tmp_path):
    rows = tweets()
    rows[3] = (0, rows[3][1], 'she said "no", caf\xe9\nand left')
    write(tmp_path, rows)
    read = list(sentiment._rows(tmp_path / NAME, (NAME,), "reading", False))
    assert read == [(user, p // 4, text) for p, user, text in rows]
    assert data.load_sentiment140(tmp_path, least=10).num_train == 36


@pytest.mark.parametrize("ending", ["", ".gz", ".zip"])
def test_a_file_cut_short_is_noticed(tmp_path, ending):
    raw = as_csv(tweets(40))
    if ending == ".zip":
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(NAME, raw)
        whole, path = out.getvalue(), tmp_path / "trainingandtestdata.zip"
    else:
        whole, path = (gzip.compress(raw) if ending else raw), tmp_path / f"{NAME}{ending}"
    path.write_bytes(whole)
    assert data.load_sentiment140(tmp_path, least=3).num_train
    for cut in (
        range(len(raw) // 4, len(raw) // 2, len(raw) // 20) if not ending else range(0, len(whole), len(whole) // 12)
    ):
        path.write_bytes(whole[:cut])
        wanted = "all have|have the label 0|columns" if not ending else "truncated|damaged|holds no|columns"
        with pytest.raises(DataFileError, match=wanted):
            data.load_sentiment140(tmp_path, least=3)


def test_a_zip_member_that_is_damaged_or_leaves_the_folder(tmp_path):
    path = tmp_path / "trainingandtestdata.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(NAME, as_csv(tweets()))
    raw = bytearray(path.read_bytes())
    raw[200] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DataFileError, match=r"trainingandtestdata.zip: truncated or damaged zip file \(Bad CRC"):
        data.load_sentiment140(tmp_path, least=10)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"../{NAME}", as_csv(tweets()))
    with pytest.raises(DataFileError, match="outside its own folder"):
        data.load_sentiment140(tmp_path, least=10)


def test_too_few_accounts_and_numbers_out_of_range(tmp_path):
    write(tmp_path, tweets())
    with pytest.raises(
        InvalidInput, match="4 of 4 accounts have at least 10 tweets, clients asks for 5: lower clients or least"
    ):
        data.load_sentiment140(tmp_path, clients=5, least=10)
    with pytest.raises(InvalidInput, match="0 of 4 accounts have at least 64 tweets, clients asks for 1"):
        data.load_sentiment140(tmp_path)
    with pytest.raises(
        InvalidInput, match="samples is 10: of 10 tweets 9 are for training; lower samples or raise least"
    ):
        data.load_sentiment140(tmp_path, least=10, samples=10)
    for wrong in (
        {"clients": 0}, {"least": 1}, {"samples": 0}, {"vocabulary": 2}, {"length": 0}, {"length": 2.5}, {"test_fraction": 1.0},
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=f"{next(iter(wrong))} is {next(iter(wrong.values()))}"):
            data.load_sentiment140(tmp_path, **wrong)
