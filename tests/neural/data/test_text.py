"""LEAF's JSON and Shakespeare in all its layouts: tiny files, good and broken."""

import json

import numpy as np
import pytest
from release_files import write_leaf, write_tar

from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.neural import data
from fedtheory.neural.data import shakespeare

G = np.random.default_rng(0)


# --- LEAF -----------------------------------------------------------------------------------------
def window(letter):
    return letter * 80


@pytest.mark.parametrize("below", [".", "data"])
def test_leaf(tmp_path, below):
    """A user's samples, of whichever file; who has none for testing is left out."""
    write_leaf(tmp_path / below / "train/a.json", ann=([window("a"), window("b")], ["c", "d"]), bob=([window("e")], ["f"]))
    write_leaf(tmp_path / below / "train/b.json.gz", cat=([window("g")], ["h"]))
    write_leaf(tmp_path / below / "test/a.json", cat=([window("i")], ["ä"]), ann=([window("j")], ["k"]))
    found = data.load_shakespeare(tmp_path)
    assert (found.users, found.train_users.tolist(), found.test_users.tolist()) == (("ann", "cat"), [0, 0, 1], [0, 1])
    assert [found.text(x) for x in found.train_x] == [window("a"), window("b"), window("g")]
    assert (found.text(found.train_y), found.text(found.test_y), found.unknown) == ("cdh", "k}", 1)
    assert [p.tolist() for p in data.federated(found, "users").indices] == [[0, 1], [2]]


def test_leaf_files_that_are_wrong(tmp_path):
    path = tmp_path / "train/one.json"
    good = write_leaf(path, ann=([window("a")], ["b"]), bob=([window("c")], ["d"]))
    write_leaf(tmp_path / "test/one.json", ann=([window("a")], ["b"]))
    raw = path.read_bytes()
    for length in (0, 1, len(raw) // 2, len(raw) - 1):
        path.write_bytes(raw[:length])
        with pytest.raises(DataFileError, match=r"one.json: not whole JSON"):
            data.load_shakespeare(tmp_path)
    for change, message in (
        ({"num_samples": [1, 2]}, "user 'bob' is named twice, or has not as many x and y as num_samples says"),
        ({"num_samples": [1]}, "shorter than"),
        ({"users": ["ann", "ann"]}, "'ann' is named twice"),
        ({"users": ["ann", 3]}, "not whole JSON of LEAF's .*3"),
        ({"users": ["ann", "eve"]}, "KeyError: 'eve'"),
        ({"user_data": []}, "TypeError"),
        ({"user_data": {"ann": {"x": ["a"], "y": ["b"]}}}, "expected a text of 80 characters"),
        ({"user_data": {"ann": {"x": [1], "y": ["b"]}}}, "expected a text of 80 characters"),
        ({"user_data": {"ann": {"x": [window("a")], "y": ["bc"]}}}, "'bc', expected a text of 1 characters"),
    ):
        path.write_text(json.dumps(good | change))
        with pytest.raises(DataFileError, match=message):
            data.load_shakespeare(tmp_path)
    path.write_text("[1]")
    with pytest.raises(DataFileError, match="not whole JSON of LEAF's"):
        data.load_shakespeare(tmp_path)
    path.write_bytes(raw)
    write_leaf(tmp_path / "train/two.json", ann=([window("a")], ["b"]))
    with pytest.raises(DataFileError, match=r"two.json: .*user 'ann' is named twice"):
        data.load_shakespeare(tmp_path)


# --- Shakespeare ----------------------------------------------------------------------------------
SPEECH = "To be, or not to be: that is the question: whether 'tis nobler in the mind to suffer. "


def test_the_vocabulary():
    assert len(shakespeare.VOCABULARY) == len(set(shakespeare.VOCABULARY)) == 80
    codes, unknown = shakespeare.encode("\n }é$A")
    assert (codes.tolist(), unknown) == ([0, 1, 79, 79, 79, shakespeare.VOCABULARY.index("A")], 2)


def test_shakespeare_leaf_json(tmp_path):
    x = [SPEECH[i : i + 80] for i in range(5)]
    y = [SPEECH[i + 80] for i in range(5)]
    write_leaf(tmp_path / "data/train/t.json", HAMLET=(x[:3], y[:3]), OPHELIA=(x[3:4], y[3:4]))
    write_leaf(tmp_path / "data/test/t.json", HAMLET=(x[4:], y[4:]), OPHELIA=(x[:1], y[:1]))
    found = data.load_shakespeare(tmp_path)
    assert (found.train_x.shape, found.train_x.dtype, found.num_classes) == ((4, 80), np.uint8, 80)
    assert [found.text(row) for row in found.train_x] == x[:4]
    assert [found.text(c) for c in found.test_y] == [y[4], y[0]]
    assert found.inputs(found.train_x).dtype == np.int64
    assert found.by_user().sizes.tolist() == [3, 1]
    write_leaf(tmp_path / "data/test/t.json", HAMLET=([x[0][:-1]], ["a"]))
    with pytest.raises(DataFileError, match=r"user 'HAMLET': an x is .* expected a text of 80 characters"):
        data.load_shakespeare(tmp_path)


GUTENBERG = """header
1609

THE SONNETS

by William Shakespeare

                     1
  From fairest creatures we desire increase,

1601

AS YOU LIKE IT

by William Shakespeare

DRAMATIS PERSONAE.

ACT I. SCENE I.
Orchard

Enter ORLANDO and ADAM

  ORLANDO. As I remember, Adam,   it was
    upon this fashion
    bequeathed me.
                                     Enter OLIVER
  Adam. Yonder comes my master.
    Your brother.
    Yes.
  ORLANDO. Go apart.
  DENNIS. Calls your worship?

1593

THE COMEDY OF ERRORS

by William Shakespeare

ACT I. SCENE 1
AEGEON. Proceed, Solinus,
And by the doom of death
end woes and all.
<<THIS ELECTRONIC VERSION>>
not spoken
DUKE. Merchant of Syracusa,
plead no more.
I am not partial.
THE END
"""


def test_gutenberg_roles_by_hand():
    roles = shakespeare.gutenberg_roles(GUTENBERG)
    indented = " " * 33 + "Enter OLIVER"
    assert roles == {
        # a direction that is indented by four or more is taken as speech, as it is by LEAF's rule
        "AS_YOU_LIKE_IT_ORLANDO": f"As I remember, Adam, it was upon this fashion bequeathed me. {indented.lstrip()} Go apart. ",
        "AS_YOU_LIKE_IT_ADAM": "Yonder comes my master. Your brother. Yes. ",
        "THE_COMEDY_OF_ERRORS_AEGEON": "Proceed, Solinus, And by the doom of death end woes and all. ",
        "THE_COMEDY_OF_ERRORS_DUKE": "Merchant of Syracusa, plead no more. I am not partial. THE END ",
    }


def test_tabbed_roles_by_hand():
    text = (
        "\tHAMLET\n\n\tDRAMATIS PERSONAE\n\nHAMLET\tson to the late king.\n\nSCENE\tDenmark.\n\n\tHAMLET\n\nACT I\n\n"
        "SCENE I\tElsinore.\n\n\t[FRANCISCO at his post.\n\tEnter BERNARDO]\n\nBERNARDO\tWho's there?\n\n"
        "FRANCISCO\tNay, answer me:\n\tstand.\n\t[Exit]\n\tGood\tnight.\nBERNARDO\t[Aside] Long live the king!\n"
        "SCENE II\tA room.\n\tdropped\n"
    )
    assert shakespeare.tabbed_roles("hamlet", text) == {
        "HAMLET_BERNARDO": "Who's there? [Aside] Long live the king! ",
        "HAMLET_FRANCISCO": "Nay, answer me: stand. Good night. ",
    }


def test_named_roles_by_hand():
    text = "First Citizen:\nSpeak,\nspeak.\n\nAll:\nResolved.\n\nFIRST CITIZEN:\nOne word.\n"
    assert shakespeare.named_roles(text) == {"FIRST_CITIZEN": "Speak, speak. One word. ", "ALL": "Resolved. "}


def play(copies):
    return "ACT I\n\n" + "".join(f"ROMEO\t{SPEECH}{i}\nJULIET\t{SPEECH[::-1]}{i}\n" for i in range(copies))


@pytest.mark.parametrize("form", ["txt", "tar.gz", "named"])
def test_windows_train_and_test_share_no_character(tmp_path, form):
    if form == "txt":
        (tmp_path / "romeo.txt").write_text(play(20))
    elif form == "tar.gz":
        write_tar(tmp_path / "plays.tar.gz", {"shakespeare/romeo.txt": play(20).encode()})
    else:
        (tmp_path / "input.txt").write_text(
            "".join(f"Romeo:\n{SPEECH}{i}\n\nJuliet:\n{SPEECH[::-1]}{i}\n\n" for i in range(20))
        )
    found = data.load_shakespeare(tmp_path, test_fraction=0.25)
    assert found.users == (("ROMEO_ROMEO", "ROMEO_JULIET") if form != "named" else ("ROMEO", "JULIET"))
    whole = "".join(f"{SPEECH}{i} " for i in range(20))
    split = int(len(whole) * 0.75)
    mine = found.train_x[found.train_users == 0]
    assert len(mine) == split - 80
    assert found.text(mine[0]) + found.text(found.train_y[: len(mine)]) == whole[:split]
    others = found.test_users == 0
    assert found.text(found.test_x[others][0]) + found.text(found.test_y[others]) == whole[split:]


def test_clients_and_samples_as_in_feddyn(tmp_path):
    (tmp_path / "romeo.txt").write_text(play(40))
    found = data.load_shakespeare(tmp_path, clients=1, samples=100, seed=3)
    assert (found.num_train, found.num_test, len(found.users)) == (100, 20, 1)
    again = data.load_shakespeare(tmp_path, clients=1, samples=100, seed=3)
    np.testing.assert_array_equal(found.train_x, again.train_x)
    np.testing.assert_array_equal(found.train_x[1:, :-1], found.train_x[:-1, 1:])  # consecutive windows
    firsts = {data.load_shakespeare(tmp_path, samples=100, seed=s).train_x[0].tobytes() for s in range(5)}
    assert len(firsts) > 1
    with pytest.raises(InvalidInput, match="2 of 2 roles have 1 training and 1 test windows, clients asks for 3"):
        data.load_shakespeare(tmp_path, clients=3)
    with pytest.raises(InvalidInput, match="0 of 2 roles have 99999 training"):
        data.load_shakespeare(tmp_path, samples=99999)
    for wrong in ({"clients": 0}, {"samples": 1.5}, {"test_fraction": 1.0}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            data.load_shakespeare(tmp_path, **wrong)


def test_archives_of_other_releases_are_not_opened(tmp_path):
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"not looked at")
    with pytest.raises(DataFileError, match=r"raw_data.txt.* is not in"):
        data.load_shakespeare(tmp_path)


def test_text_without_roles(tmp_path):
    (tmp_path / "input.txt").write_text("just some words\n")
    with pytest.raises(DataFileError, match="no speaking roles"):
        data.load_shakespeare(tmp_path)
