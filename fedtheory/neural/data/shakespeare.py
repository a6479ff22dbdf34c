"""Shakespeare for next-character prediction: LEAF's JSON, or plain text cut by speaking role."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from fedtheory.errors import DataFileError
from fedtheory.neural.data.core import Corpus
from fedtheory.neural.data.files import Release, read_bytes, read_tar, read_zip
from fedtheory.neural.data.leaf import Samples, check_given, chosen, find_leaf, flatten, leaf_parts
from fedtheory.randomness import Stream

__all__ = ["LENGTH", "VOCABULARY", "encode", "gutenberg_roles", "load_shakespeare", "named_roles", "tabbed_roles"]

LENGTH = 80
# LEAF's 80 characters, in its order
VOCABULARY = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
SHAKESPEARE = Release(
    "Shakespeare",
    "https://www.gutenberg.org/files/100/old/old/1994-01-100.zip (LEAF's code makes JSON of it: https://github.com/TalwalkarLab/leaf)",
    ("shakespeare", "data", "raw_data", "data/raw_data"),
)
_MISSING = len(VOCABULARY) - 1
_NUMBERS = np.full(0x110000, _MISSING, np.uint8)
_NUMBERS[[ord(c) for c in VOCABULARY]] = np.arange(len(VOCABULARY))
_KNOWN = np.zeros(0x110000, bool)
_KNOWN[[ord(c) for c in VOCABULARY]] = True

Roles = dict[str, str]


def _points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le", "replace"), "<u4")


def encode(text: str) -> tuple[np.ndarray, int]:
    """Numbers (len(text),) uint8 of the characters in `VOCABULARY`, and how many were not in it.

    A character that is not in it becomes the last one, '}' (which is what index -1 comes to in LEAF's own one-hot labels).
    """
    points = _points(text)
    return _NUMBERS[points], int((~_KNOWN[points]).sum())


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


def _tabbed(where: str, plays: dict[str, str]) -> tuple[str, Roles]:
    roles: Roles = {}
    for stem, text in sorted(plays.items()):
        roles |= tabbed_roles(stem, text)
    return where, roles


def _looks_tabbed(text: str) -> bool:
    return re.search(r"^ACT\b", text, re.M) is not None and re.search(r"^[A-Z][^\t\n]*\t\S", text, re.M) is not None


def _one_text(where: str, stem: str, text: str) -> tuple[str, Roles]:
    if "by William Shakespeare" in text:
        return where, gutenberg_roles(text)
    if _looks_tabbed(text):
        return where, tabbed_roles(stem, text)
    return where, named_roles(text)


def _stem(name: str) -> str:
    return name.rpartition("/")[2].removesuffix(".txt")


def _archive_texts(path: Path) -> dict[str, str]:
    read = read_zip if path.suffix == ".zip" else read_tar
    return {_stem(name): _decode(content) for name, content in read(path, lambda m: m.endswith(".txt"))}


def _from_file(path: Path) -> tuple[str, Roles]:
    if path.name.endswith((".zip", ".tar.gz", ".tgz", ".tar")):
        texts = _archive_texts(path)
        if len(texts) == 1:
            return _one_text(str(path), *next(iter(texts.items())))
        return _tabbed(str(path), texts)
    return _one_text(str(path), _stem(path.name), _decode(read_bytes(path)))


def _find(path: Path) -> tuple[str, Roles]:
    if path.is_file():
        return _from_file(path)
    names = ("raw_data.txt", "100.txt", "1994-01-100.zip", "pg100.txt", "input.txt", "tinyshakespeare_input.txt")
    found = SHAKESPEARE.find(path, *names[:4])
    if found is not None:
        return _from_file(found)
    for place in SHAKESPEARE.folders(path):
        texts = {p.stem: _decode(read_bytes(p)) for p in sorted(place.glob("*.txt")) if p.name not in names}
        plays = {stem: text for stem, text in texts.items() if _looks_tabbed(text)}
        if plays:
            return _tabbed(str(place), plays)
        for archive in sorted(place.glob("*.tar.gz")):
            if re.search(
                r"shakespeare|plays", f"{place.name}/{archive.name}", re.I
            ):  # a folder may hold other releases' too
                return _from_file(archive)
    found = SHAKESPEARE.find(path, *names[4:])
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


def _leaf_windows(unknown: list[int]) -> Callable[[str, str, list[Any], list[Any]], tuple[np.ndarray, np.ndarray]]:
    def read(where: str, user: str, x: list[Any], y: list[Any]) -> tuple[np.ndarray, np.ndarray]:
        for values, length, what in ((x, LENGTH, "x"), (y, 1, "y")):
            for v in values:
                if not isinstance(v, str) or len(v) != length:
                    raise DataFileError(
                        f"{where}: user {user!r}: an {what} is {str(v)[:30]!r}, expected a text of "
                        f"{length} characters: not LEAF's Shakespeare (load_leaf reads numbers)"
                    )
        codes, strange = encode("".join(x))
        labels, also = encode("".join(y))
        unknown[0] += strange + also
        return codes.reshape(-1, LENGTH), labels

    return read


def _crop(part: Samples, users: list[str], amount: int, seed: int, purpose: str) -> Samples:
    g = Stream(seed).generator(purpose)
    cropped = {}
    for user in users:
        x, y = part[user]
        start = int(g.integers(len(y) - amount + 1))
        cropped[user] = (x[start : start + amount], y[start : start + amount])
    return cropped


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
    check_given(test_fraction, clients=clients, samples=samples)
    path = Path(folder).expanduser()
    leaf = {part: [] if path.is_file() else find_leaf(path, part) for part in ("train", "test")}
    if all(leaf.values()):
        counter = [0]
        train, test = leaf_parts(leaf, _leaf_windows(counter))
        where, unknown = f"LEAF JSON in {path}", counter[0]
    else:
        where, roles = _find(path)
        if not roles:
            raise DataFileError(
                f"{where}: no speaking roles found: not one of the layouts that are read; see load_shakespeare"
            )
        train, test, unknown = _cut(roles, test_fraction)

    need = (1, 1) if samples is None else (samples, max(samples // 5, 1))
    users = [u for u in train if u in test and len(train[u][1]) >= need[0] and len(test[u][1]) >= need[1]]
    told = f"{len(users)} of {len(train)} roles have {need[0]} training and {need[1]} test windows"
    users = chosen(
        f"{where}: {told}", users, clients, seed, "shakespeare roles", "lower clients or samples"
    )
    if samples is not None:
        train = _crop(train, users, need[0], seed, "shakespeare train windows")
        test = _crop(test, users, need[1], seed, "shakespeare test windows")
    x, y, owner = flatten(where, "training", users, train)
    test_x, test_y, test_owner = flatten(where, "test", users, test)
    return Corpus(
        "shakespeare", x, y.astype(np.int64), test_x, test_y.astype(np.int64), len(VOCABULARY),
        tuple(users), owner, test_owner, source=where, vocabulary=VOCABULARY, unknown=unknown,
    )
