"""Shakespeare for next-character prediction: LEAF's JSON, or plain text cut by speaking role."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from fedtheory.arrays import sealed
from fedtheory.errors import DataFileError, InvalidInput
from fedtheory.inputs import whole_number
from fedtheory.neural.data.core import Corpus
from fedtheory.neural.data.files import Release, read_archive, read_bytes
from fedtheory.randomness import Stream
from fedtheory.untrusted import parse_json

__all__ = ["LENGTH", "VOCABULARY", "encode", "gutenberg_roles", "load_shakespeare", "named_roles", "tabbed_roles"]

LENGTH = 80
# LEAF's 80 characters, in its order
VOCABULARY = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
SHAKESPEARE = Release(
    "Shakespeare",
    "https://www.gutenberg.org/files/100/old/old/1994-01-100.zip (LEAF's code makes JSON of it: https://github.com/TalwalkarLab/leaf)",
    ("shakespeare", "data", "leaf", "raw_data", "data/raw_data"),
)
_UNKNOWN = 255
_NUMBERS = np.full(0x110000, _UNKNOWN, np.uint8)
_NUMBERS[[ord(c) for c in VOCABULARY]] = np.arange(len(VOCABULARY))

Roles = dict[str, str]
Samples = dict[str, tuple[np.ndarray, np.ndarray]]  # x and y of each user


def encode(text: str) -> tuple[np.ndarray, int]:
    """Numbers (len(text),) uint8 of the characters in `VOCABULARY`, and how many were not in it.

    A character that is not in it becomes the last one, '}' (which is what index -1 comes to in LEAF's own one-hot labels).
    """
    codes = _NUMBERS[np.frombuffer(text.encode("utf-32-le", "replace"), "<u4")]
    unknown = codes == _UNKNOWN
    codes[unknown] = len(VOCABULARY) - 1
    return codes, int(unknown.sum())


def _key(play: str, role: str) -> str:
    return re.sub(r"\W+", "_", f"{play}_{role}".upper()).strip("_")


def _join(speeches: Iterable[str]) -> str:
    """Lines as one text: runs of two spaces or more become one, as in LEAF."""
    return re.sub(r"  +", " ", "".join(line + " " for line in speeches))


# --- three layouts of plain text ------------------------------------------------------------------
def gutenberg_roles(text: str) -> Roles:
    """{PLAY_ROLE: text} of Project Gutenberg's Complete Works of 1994, cut as McMahan et al. and
    LEAF cut it.

    A work begins at a line with 'by William Shakespeare', its title some lines above. Two spaces, a
    name and a full stop begin a speech; four spaces continue it (The Comedy of Errors has neither
    indentation). Works with fewer than two roles are no plays, roles of at most two lines are left
    out.
    """
    lines = text.splitlines()
    roles: dict[str, list[str]] = defaultdict(list)
    spoken: dict[str, list[str]] = {}
    title, speaker, flush_left = "", "", False

    def close() -> None:
        if len(spoken) > 1:
            for name, said in spoken.items():
                if len(said) > 2:
                    roles[_key(title, name)].extend(said)
        spoken.clear()

    for i, line in enumerate(lines):
        if "by William Shakespeare" in line:
            close()
            title = next((t.strip() for t in reversed(lines[max(i - 7, 0) : max(i - 1, 0)]) if t.strip()), "")
            speaker, flush_left = "", title == "THE COMEDY OF ERRORS"
            continue
        if not title:
            continue
        begin = re.match(r"([a-zA-Z][a-zA-Z ]*)\. (.*)" if flush_left else r"  ([a-zA-Z][a-zA-Z ]*)\. (.*)", line)
        if begin:
            speaker = begin[1].upper()
            if flush_left and speaker.startswith("ACT "):
                speaker = ""
            else:
                spoken.setdefault(speaker, []).append(begin[2])
        elif speaker and (flush_left or line.startswith("    ")):
            if flush_left and line.startswith("<"):
                speaker = ""
            else:
                spoken[speaker].append(line if flush_left else line[4:])
    close()
    return {role: _join(said) for role, said in roles.items()}


def tabbed_roles(play: str, text: str) -> Roles:
    """{PLAY_ROLE: text} of a play whose lines are 'SPEAKER<TAB>line', '<TAB>line' continuing the
    speech.

    The list of persons before the first act, headings and stage directions (lines that begin with
    '[', to the closing ']') are left out.
    """
    roles: dict[str, list[str]] = defaultdict(list)
    speaker, act, direction = "", False, False
    for line in text.splitlines():
        head, tab, rest = line.partition("\t")
        head, rest = head.strip(), rest.replace("\t", " ").strip()
        if re.match(r"(ACT|SCENE|PROLOGUE|EPILOGUE|INDUCTION)\b", head):
            act = act or not head.startswith("SCENE")  # 'SCENE' alone also says where the play is set
            speaker, direction = "", False
            continue
        if not act or not tab:
            continue
        if direction or (not head and rest.startswith("[")):
            direction = "]" not in rest
            continue
        if head:
            speaker = head
        if speaker and rest:
            roles[_key(play, speaker)].append(rest)
    return {role: _join(said) for role, said in roles.items()}


def named_roles(text: str) -> Roles:
    """{ROLE: text} of 'Name:' lines with the speech below them, blank lines between speeches (the tinyshakespeare file)."""
    roles: dict[str, list[str]] = defaultdict(list)
    for block in re.split(r"\n\s*\n", text.replace("\r\n", "\n")):
        name, _, speech = block.strip().partition("\n")
        if name.endswith(":") and speech:
            roles[_key("", name[:-1])].extend(speech.splitlines())
    return {role: _join(said) for role, said in roles.items()}


# --- finding --------------------------------------------------------------------------------------
def _decode(content: Any) -> str:
    content = bytes(content)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin1")


def _looks_tabbed(text: str) -> bool:
    return re.search(r"^ACT\b", text, re.M) is not None and re.search(r"^[A-Z][^\t\n]*\t\S", text, re.M) is not None


def _roles(texts: dict[str, str]) -> Roles:
    """The roles of one text in any of the layouts, or of several plays."""
    first = next(iter(texts.values()), "")
    if len(texts) == 1 and "by William Shakespeare" in first:
        return gutenberg_roles(first)
    if len(texts) == 1 and not _looks_tabbed(first):
        return named_roles(first)
    roles: Roles = {}
    for stem, text in sorted(texts.items()):
        roles |= tabbed_roles(stem, text)
    return roles


def _from_file(path: Path) -> tuple[str, Roles]:
    if not path.name.endswith((".zip", ".tar.gz", ".tgz", ".tar")):
        return str(path), _roles({path.stem: _decode(read_bytes(path))})
    members = read_archive(path, lambda member: member.endswith(".txt"))
    return str(path), _roles({PurePosixPath(name).stem: _decode(content) for name, content in members})


def _find(path: Path) -> tuple[str, Roles]:
    if path.is_file():
        return _from_file(path)
    works, others = ("raw_data.txt", "100.txt", "1994-01-100.zip", "pg100.txt"), ("input.txt", "tinyshakespeare_input.txt")
    if (found := SHAKESPEARE.find(path, *works)) is not None:
        return _from_file(found)
    for place in SHAKESPEARE.folders(path):
        texts = {p.stem: _decode(read_bytes(p)) for p in sorted(place.glob("*.txt")) if p.name not in others}
        if plays := {stem: text for stem, text in texts.items() if _looks_tabbed(text)}:
            return str(place), _roles(plays)
        for archive in sorted(place.glob("*.tar.gz")):  # a folder may hold other releases' too
            if re.search(r"shakespeare|plays", f"{place.name}/{archive.name}", re.I):
                return _from_file(archive)
    found = SHAKESPEARE.find(path, *others)
    if found is None:
        raise SHAKESPEARE.missing(path, "train/*.json and test/*.json of LEAF, raw_data.txt or 1994-01-100.zip")
    return _from_file(found)


# --- windows --------------------------------------------------------------------------------------
def _windows(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All (n, 80) windows of a text, as views, and the character after each."""
    if len(codes) <= LENGTH:
        return np.zeros((0, LENGTH), np.uint8), np.zeros(0, np.uint8)
    return np.lib.stride_tricks.sliding_window_view(codes, LENGTH)[:-1], codes[LENGTH:]


def _cut(roles: Roles, test_fraction: float) -> tuple[Samples, Samples, int]:
    train: Samples = {}
    test: Samples = {}
    unknown = 0
    for role, text in roles.items():
        codes, strange = encode(text)
        split = int(len(codes) * (1 - test_fraction))
        first, second = _windows(codes[:split]), _windows(codes[split:])
        if len(first[1]) and len(second[1]):
            train[role], test[role], unknown = first, second, unknown + strange
    return train, test, unknown


def _leaf_files(folder: Path, part: str) -> list[Path]:
    """The JSON files in the sub-folder `part` of the first folder that has some; empty when there are none."""
    found = (sorted(p for p in (place / part).glob("*.json*") if p.is_file()) for place in SHAKESPEARE.folders(folder))
    return next(filter(None, found), [])


def _from_leaf(files: list[Path]) -> tuple[Samples, int]:
    """The samples of each user of LEAF's JSON, and how many characters are not in the vocabulary."""
    found: Samples = {}
    strange = 0
    for path in files:
        raw = read_bytes(path)
        try:
            content = parse_json(raw.decode(), "it")
            for user, size in zip(content["users"], content["num_samples"], strict=True):
                x, y = (content["user_data"][user][part] for part in "xy")
                if user in found or not len(x) == len(y) == size:
                    raise ValueError(f"user {user!r} is named twice, or has not as many x and y as num_samples says")
                for values, length, name in ((x, LENGTH, "x"), (y, 1, "y")):
                    if wrong := [v for v in values if not isinstance(v, str) or len(v) != length]:
                        told = f"an {name} is {str(wrong[0])[:30]!r}, expected a text of {length} characters"
                        raise ValueError(f"user {user!r}: {told}")
                (codes, unknown), (labels, also) = encode("".join(x)), encode("".join(y))
                found[user], strange = (codes.reshape(-1, LENGTH), labels), strange + unknown + also
        except (DataFileError, LookupError, TypeError, ValueError) as error:
            told = f"{type(error).__name__}: {str(error)[:300]}"
            raise DataFileError(f"{path}: not whole JSON of LEAF's ({told}): it is damaged; make it again") from error
    return found, strange


def _crop(part: Samples, users: list[str], amount: int | None, stream: np.random.Generator) -> Samples:
    """So many consecutive windows of each of these users; None takes all."""
    if amount is None:
        return {user: part[user] for user in users}
    starts = {user: int(stream.integers(len(part[user][1]) - amount + 1)) for user in users}
    return {u: (part[u][0][start : start + amount], part[u][1][start : start + amount]) for u, start in starts.items()}


def _flat(part: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, y and user number of the samples of all users one after the other, read-only."""
    owner = np.repeat(np.arange(len(part), dtype=np.int32), [len(y) for _, y in part.values()])
    x, y = (np.concatenate(both) for both in zip(*part.values(), strict=True))
    return sealed((x, y.astype(np.int64), owner))


def load_shakespeare(
    folder: str | Path, clients: int | None = None, samples: int | None = None,
    test_fraction: float = 0.2, seed: int = 0,
) -> Corpus:
    """Windows of 80 characters of each speaking role, and the character that follows; 80 classes, a
    user a role.

    Parameters
    ----------
    folder : one of
        LEAF's JSON in `train` and `test` (its own split is kept); Project Gutenberg's Complete
        Works of 1994 (raw_data.txt, 100.txt, or the zip); files of 'SPEAKER<TAB>line' (*.txt, or a
        .tar.gz of them); tinyshakespeare's input.txt. Looked for in this order; a file may be named
        instead of its folder.
    clients : int or None
        Take so many roles at random, of those long enough (FedDyn and FedElasticNet: 100); None
        takes all.
    samples : int or None
        Take so many consecutive training windows of each role, and a fifth as many for testing
        (FedDyn: 2000); None takes all (on the whole works 4 million, 350 MB).
    test_fraction : float
        Of plain text: the last part of each role is for testing (McMahan et al.'s split in time),
        no character of it in a training window. LEAF's split by sample draws overlapping windows at
        random, which leaks the answers.

    Raises
    ------
    DataFileError
        Nothing to read (what was looked for, where it is published and the folder are said), or not
        of the format.
    InvalidInput
        Fewer long enough roles than `clients`; numbers out of range.
    """
    for name, number in (("clients", clients), ("samples", samples)):
        if number is not None:
            whole_number(name, number)
    if not 0 < test_fraction < 1:
        raise InvalidInput(f"test_fraction is {test_fraction!r}: it must be between 0 and 1")
    path = Path(folder).expanduser()
    leaf = [[] if path.is_file() else _leaf_files(path, part) for part in ("train", "test")]
    if all(leaf):
        (train, unknown), (test, also) = map(_from_leaf, leaf)
        where, unknown = f"LEAF JSON in {path}", unknown + also
    else:
        where, roles = _find(path)
        if not roles:
            raise DataFileError(
                f"{where}: no speaking roles found: not one of the layouts that are read; see load_shakespeare"
            )
        train, test, unknown = _cut(roles, test_fraction)

    need, tested = samples or 1, max((samples or 1) // 5, 1)
    users = [u for u in train if u in test and len(train[u][1]) >= need and len(test[u][1]) >= tested]
    if len(users) < (clients or 1):
        raise InvalidInput(
            f"{where}: {len(users)} of {len(train)} roles have {need} training and {tested} test windows, clients asks "
            f"for {clients or 1}: lower clients or samples"
        )
    drawn = Stream(seed).generator("shakespeare roles").permutation(len(users))[:clients]
    users = [users[k] for k in sorted(drawn)]
    parts = [
        _crop(part, users, samples and amount, Stream(seed).generator(f"shakespeare {name} windows"))
        for name, part, amount in (("train", train, need), ("test", test, tested))
    ]
    (x, y, owner), (test_x, test_y, test_owner) = map(_flat, parts)
    return Corpus(
        "shakespeare", x, y, test_x, test_y, len(VOCABULARY), tuple(users), owner, test_owner, source=where,
        vocabulary=VOCABULARY, unknown=unknown,
    )  # fmt: skip
