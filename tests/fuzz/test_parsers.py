"""Every parser on files that nobody meant: it reads them, or refuses them in a line, soon, and within a memory limit.

`make fuzz` looks at many more: FEDTHEORY_FUZZ says how many files each parser is given.
"""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import json
import lzma
import os
import sqlite3
import struct
import subprocess
import sys
import tarfile
import time
import warnings
import zipfile
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parsers_at_hand import HOSTILE, PARSERS, a_checkpoint, places, with_value, witnesses
from repository import ROOT

from fedtheory.errors import FedTheoryError

EXAMPLES = int(os.environ.get("FEDTHEORY_FUZZ", "12"))
SECONDS = 20.0  # of one file, on a machine that does other work as well
FUZZ = settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=EXAMPLES < 100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)  # fmt: skip
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)  # lone surrogates, too


@functools.cache
def valid(name: str) -> bytes:
    return PARSERS[name].valid()


def refused(name: str, content: bytes, folder: Path) -> str | None:
    """Return what a parser says of a file, None where it reads it; all but a line fails."""
    path = folder / f"it{PARSERS[name].suffix}"
    path.write_bytes(content)
    for beside in folder.glob("it*.*"):
        if beside != path:
            beside.unlink()
    begun = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            PARSERS[name].read(path)
        said = None
    except FedTheoryError as error:
        said = str(error)
        assert said and "\n" not in said.strip() and len(said) < 1500, said[:3000]
    assert time.perf_counter() - begun < SECONDS
    return said


@pytest.mark.parametrize("name", PARSERS)
def test_the_valid_file_is_read(name, tmp_path):
    assert (refused(name, valid(name), tmp_path) is None) == (name not in ("result", "campaign"))  # these know that it is made up


@pytest.mark.parametrize("name", PARSERS)
@FUZZ
@given(data=st.data())
def test_a_file_with_other_bytes_in_it(name, data, tmp_path):
    good = valid(name)
    begin = data.draw(st.integers(0, len(good)))
    end = data.draw(st.integers(begin, min(len(good), begin + 40)))
    other = data.draw(st.one_of(st.binary(max_size=40), st.sampled_from([b"\xef\xbb\xbf", b"\0", b"1_0", b"1e999999999", b"\xd9\xa1"])))
    refused(name, good[:begin] + other + good[end:], tmp_path)


@pytest.mark.parametrize("name", PARSERS)
@FUZZ
@given(content=st.one_of(st.binary(max_size=300), ANY_TEXT.map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_a_file_of_anything(name, content, tmp_path):
    refused(name, content, tmp_path)


@pytest.mark.parametrize("name", [n for n, p in PARSERS.items() if p.suffix == ".json"])
@FUZZ
@given(data=st.data())
def test_json_with_another_value_at_one_place(name, data, tmp_path):
    text = valid(name).decode()
    at = data.draw(st.sampled_from(places(json.loads(text))))
    raw = data.draw(st.one_of(st.sampled_from(list(HOSTILE.values())), st.integers().map(str), st.floats().map(repr)))
    refused(name, with_value(text, at, raw).encode("utf-8", "surrogatepass"), tmp_path)


@settings(FUZZ, max_examples=4 * EXAMPLES)
@given(data=st.data())
def test_a_witness_of_any_kind_with_another_value_at_one_place(data, tmp_path):
    text = data.draw(st.sampled_from(witnesses())).decode()
    inside = [at for at in places(json.loads(text)) if at[:1] == ("data",)]
    raw = data.draw(st.one_of(st.sampled_from(list(HOSTILE.values())), st.integers().map(str), st.fractions().map(lambda f: f'"{f}"')))
    refused("witness", with_value(text, data.draw(st.sampled_from(inside)), raw).encode("utf-8", "surrogatepass"), tmp_path)


# --- what is known to be hostile ------------------------------------------------------------------
LIMITED = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
sys.path.insert(0, "tests")
from parsers_at_hand import PARSERS
from fedtheory.errors import FedTheoryError
from pathlib import Path
told = {}
for file in sorted(Path(sys.argv[1]).iterdir()):
    name = file.name.partition(".")[0].partition("+")[0]
    since = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for again in (0, 1):
        begun = time.process_time()
        try:
            PARSERS[name].read(file)
            said = None
        except FedTheoryError as error:
            said = str(error)
        seconds = time.process_time() - begun
        if seconds < 1:  # else once more: the first reading may import
            break
    told[file.name] = {"said": said, "seconds": seconds, "mib": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - since) / 1024}
print("TOLD", json.dumps(told))
"""


def hostile_files() -> dict[str, bytes]:
    """File name -> content; all are to be refused."""
    text_of_a_bomb, many = b"1 1:1\n" * (2**20 // 6), {}
    for name in (n for n, p in PARSERS.items() if p.suffix == ".json" and n != "leaf"):
        text = valid(name).decode()
        deepest = max(places(json.loads(text)), key=len)
        for what in ("a far exponent", "many digits", "many digits, no text", "a long fraction", "brackets", "an underscore",
                     "foreign digits", "no number", "infinity"):  # fmt: skip
            many[f"{name}+{what.replace(',', '').replace(' ', '-')}.json"] = with_value(text, deepest, HOSTILE[what]).encode()
        many[f"{name}+mark.json"] = b"\xef\xbb\xbf" + valid(name)
        many[f"{name}+brackets-alone.json"] = HOSTILE["brackets"].encode()
    for name in (n for n, p in PARSERS.items() if p.suffix == ".json"):  # longer than floats hold, shorter than Python refuses
        deepest = max(places(json.loads(valid(name))), key=len)
        many[f"{name}+a-number.json"] = with_value(valid(name).decode(), deepest, "9" * 400).encode()
    many["svmlight, gzip+bomb.gz"] = gzip.compress(text_of_a_bomb, 9) * 300
    many["svmlight, bzip2+bomb.bz2"] = bz2.compress(text_of_a_bomb) * 100
    many["svmlight+mark.txt"] = b"\xef\xbb\xbf" + valid("svmlight")
    many["svmlight+foreign.txt"] = "1 ١:1\n".encode()
    many["svmlight+underscore.txt"] = b"1 1_0:1\n"
    many["svmlight+far.txt"] = b"1 1:1e999999999\n"
    many["svmlight+index.txt"] = b"1 999999999999999999:1\n"
    many["sweep+mark.toml"] = b"\xef\xbb\xbf" + valid("sweep")
    many["sweep+brackets.toml"] = b"a = " + HOSTILE["brackets"].encode()
    many["table+underscore.csv"] = valid("table").replace(b",0,", b",1_0,", 1)
    many["table+mark.csv"] = b"\xef\xbb\xbf" + valid("table")
    for archive, climbing in (("tar", "../../a.txt"), ("tar", "/etc/passwd"), ("zip", "../../a.txt"), ("zip", "C:\\a.txt")):
        buffer = io.BytesIO()
        if archive == "tar":
            with tarfile.open(fileobj=buffer, mode="w:gz") as file:
                file.addfile(tarfile.TarInfo(climbing), io.BytesIO(b""))
        else:
            with zipfile.ZipFile(buffer, "w") as packed:
                packed.writestr(climbing, "abc")
        many[f"{archive}+climbs{len(many)}{PARSERS[archive].suffix}"] = buffer.getvalue()
    link = io.BytesIO()
    with tarfile.open(fileobj=link, mode="w") as file:
        member = tarfile.TarInfo("folder/a.txt")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        file.addfile(member)
    many["tar+link.tar"] = link.getvalue()
    wide = io.BytesIO()
    with zipfile.ZipFile(wide, "w", zipfile.ZIP_DEFLATED) as packed:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
        part = io.BytesIO()
        np.lib.format.write_array_header_1_0(part, header)
        packed.writestr("meta.npy", part.getvalue())
    many["checkpoint+wide.npz"] = wide.getvalue()
    return many | bombs() | odd_stores()


def bombs() -> dict[str, bytes]:
    """Return files that unpack to far more than they are, or take far longer than they look."""
    zeros, many = gzip.compress(bytes(2**24), 9), {}  # 16 MiB
    text = io.BytesIO()
    with tarfile.open(fileobj=text, mode="w") as file:
        file.addfile(tarfile.TarInfo("a.txt"), io.BytesIO(b""))
    large, header = tarfile.TarInfo("a.txt"), tarfile.TarInfo("a.txt")
    large.size, header.size, header.type = 2**29, 2**30, tarfile.XHDTYPE
    idx = struct.pack(">HBBI", 0, 8, 1, 2**28)
    many["idx+bomb.gz"] = gzip.compress(idx) + zeros * 8
    many["idx+bomb.xz"] = lzma.compress(idx) + lzma.compress(bytes(2**24)) * 8
    many["leaf+bomb.json.gz"] = gzip.compress(b" " * 2**24, 9) * 8
    many["tar+bomb.tar.gz"] = gzip.compress(large.tobuf()) + zeros * 8
    many["tar+behind.tar.gz"] = gzip.compress(text.getvalue()) + zeros * 8
    many["tar+header.tar.gz"] = gzip.compress(header.tobuf()) + zeros * 8
    many["tar+members.tar.gz"] = gzip.compress(tarfile.TarInfo("x" * 90).tobuf() * 200_000, 9)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive, archive.open("a.txt", "w") as member:
        for _ in range(6):
            member.write(bytes(2**24))
    many["zip+bomb.zip"] = packed.getvalue()
    many["svmlight, gzip+parts.gz"] = gzip.compress(b"1 1:1\n") + gzip.compress(b"") * 100_000
    many["svmlight, bzip2+parts.bz2"] = bz2.compress(b"1 1:1\n") + bz2.compress(b"") * 100_000
    many["batch+tuples.pickle"] = b"\x80\x03}(K\x01" + b"2\x86" * 60 + b"K\x01u."  # each is twice the one before
    many["batch+remembered.pickle"] = b"\x80\x03}(K\x01" + b"q\x00h\x00\x86" * 60 + b"K\x01u."
    many["batch+deep.pickle"] = b"\x80\x03}()" + b"\x85" * 10**6 + b"K\x01u."
    arrays = io.BytesIO()
    np.savez_compressed(arrays, **{"meta": np.zeros(1, np.uint8), "state.x": np.zeros(2**25)})
    many["checkpoint+bomb.npz"] = arrays.getvalue()
    for what, array in (("text", np.array([["a", "b"]])), ("complex", np.ones((1, 2)) * 1j)):
        many[f"checkpoint+{what}.npz"] = a_checkpoint(**{"state.x": array})
    leaf = valid("leaf")
    many["leaf+mark.json"], many["leaf+wide.json"] = b"\xef\xbb\xbf" + leaf, leaf.decode().encode("utf-16")
    for what in ("an underscore", "foreign digits", "full-width digits", "a far exponent", "many digits", "brackets", "no number"):
        many[f"leaf+{what.replace(' ', '-')}.json"] = leaf.replace(b"[1]", b"[" + HOSTILE[what].encode() + b"]")
    many["svmlight+underscore-in-a-value.txt"], many["svmlight+underscore-in-a-label.txt"] = b"1 1:1_0\n", b"1_0 1:1\n"
    return many


def odd_stores() -> dict[str, bytes]:
    """Stores of cells that run what their maker wrote: they are set aside, and so read as empty ones."""
    table = "CREATE TABLE cells (key TEXT PRIMARY KEY, result TEXT NOT NULL{}) WITHOUT ROWID"
    endless = "WITH RECURSIVE t(key, result) AS (SELECT 1, 1 UNION ALL SELECT key + 1, 1 FROM t) SELECT key, result FROM t"
    made = {
        "view": [f"CREATE VIEW cells AS {endless}"],
        "trigger": [table.format(""), f"CREATE TRIGGER t AFTER INSERT ON cells BEGIN INSERT INTO cells {endless}; END"],
        "check": [table.format(" CHECK (0)")],
    }
    found = {}
    for name, statements in made.items():
        with TemporaryDirectory() as folder:
            with closing(sqlite3.connect(Path(folder) / "it")) as database:
                for statement in statements:
                    database.execute(statement)
            found[f"cells+{name}.sqlite"] = (Path(folder) / "it").read_bytes()
    return found


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    for name, content in hostile_files().items():
        (folder / name).write_bytes(content)
    run = [sys.executable, "-W", "ignore", "-c", LIMITED, str(folder)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert "TOLD" in done.stdout, done.stderr[-3000:]
    return json.loads(done.stdout.split("TOLD ")[-1])


def test_hostile_files_are_refused_in_a_line(told):
    assert len(told) > 70
    for name, row in told.items():
        if name.startswith("cells"):
            assert row["said"] is None  # set aside, and begun anew
            continue
        assert row["said"], f"{name} was read"
        assert "\n" not in row["said"].strip() and len(row["said"]) < 1500, (name, row["said"][:2000])


def test_hostile_files_are_refused_soon_and_within_little_memory(told):
    """Processor time: they take milliseconds, a bomb 0.2 seconds up to 64 MiB."""
    assert {name: row["seconds"] for name, row in told.items() if row["seconds"] > 1.5} == {}
    assert {name: row["mib"] for name, row in told.items() if row["mib"] > 700} == {}
