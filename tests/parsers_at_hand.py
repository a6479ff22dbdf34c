"""Every parser of files from anyone, with a small valid file; and what hostile files hold."""

from __future__ import annotations

import bz2
import functools
import gzip
import io
import json
import math
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

NESTED = "[" * 200_000
HOSTILE: dict[str, Any] = {  # what is put in the place of a value of a JSON file, raw
    "a far exponent": '"1e999999999"',
    "a far exponent, no text": "1e999999999",
    "many digits": '"' + "9" * 900_000 + '"',
    "many digits, no text": "9" * 900_000,
    "a long fraction": '"1/' + "7" * 900_000 + '"',
    "brackets": NESTED,
    "an underscore": '"1_0"',
    "foreign digits": '"١٢"',
    "full-width digits": '"１"',
    "no number": "NaN",
    "infinity": "-Infinity",
    "nothing": "null",
    "a truth": "true",
    "an empty list": "[]",
    "an empty object": "{}",
    "a negative number": "-1",
    "a large whole number": "1000000000000",
    "a control character": '"\\u0000\\u001b[31m"',
    "half a character": '"\\ud800"',
    "markup": '"<script>alert(1)</script>"',
    "a path": '"../../../../etc/passwd"',
}


class Parser(NamedTuple):
    """A parser of files that anyone may have written."""

    name: str
    suffix: str
    valid: Callable[[], bytes]
    read: Callable[[Path], Any]


def _witness() -> bytes:
    from fedtheory.theory.judge.replay import builtin_witnesses, save

    return _saved(lambda path: save(min(builtin_witnesses(), key=lambda w: len(str(w.data))), path), ".json")


@functools.cache
def witnesses() -> list[bytes]:
    """The smallest that comes with the package, of every paper and kind."""
    from fedtheory.theory.judge.replay import builtin_witnesses, save

    found: dict[Any, Any] = {}
    for witness in sorted(builtin_witnesses(), key=lambda w: len(str(w.data))):
        found.setdefault((witness.statement.partition("/")[0], witness.kind), witness)
    return [_saved(functools.partial(save, w), ".json") for w in found.values()]


def _saved(write: Callable[[Path], Any], suffix: str) -> bytes:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / f"it{suffix}"
        write(path)
        return path.read_bytes()


def _replayed(path: Path) -> Any:
    from fedtheory.theory.judge.replay import replay

    return replay(path)


def _certificate() -> bytes:
    from fedtheory import worst_case
    from fedtheory.worst_cases.certificates import certificate, write

    return _saved(lambda path: write(path, certificate(worst_case("subgradient", rounds=1, criterion="best-gap"))), ".json")


def _certified(path: Path) -> Any:
    from fedtheory.worst_cases import certificates

    found = certificates.load(path)
    certificates.verify(found)
    return found


def _problem() -> bytes:
    from fedtheory.problems import random_quadratic
    from fedtheory.problems.files import write_problem

    return _saved(lambda path: write_problem(path, random_quadratic(2, 2)), ".json")


def _read_problem(path: Path) -> Any:
    from fedtheory.problems.files import read_problem

    return read_problem(path)


def _partition() -> bytes:
    from fedtheory.problems.partitions import iid

    return _saved(lambda path: iid(12, 3).save(path), ".json")


def _read_partition(path: Path) -> Any:
    from fedtheory.problems.partitions import Partition

    return Partition.load(path)


def a_checkpoint(**other: Any) -> bytes:
    """A checkpoint's file; ``other``: arrays in the place of its own."""
    buffer = io.BytesIO()
    meta = {
        "format": "fedtheory checkpoint", "version": 1, "round": 1, "configuration": {}, "about": {"parts": [], "seconds": []},
        "plain": {}, "arrays": ["state.x"],
    }  # fmt: skip
    arrays = {"meta": np.frombuffer(json.dumps(meta).encode(), np.uint8), "state.x": np.ones((1, 2)), "metric.loss": np.ones((2, 1))}
    np.savez(buffer, **{**arrays, **other})
    return buffer.getvalue()


def _read_checkpoint(path: Path) -> Any:
    from fedtheory.store import checkpoints

    return checkpoints.load(path)


def _step() -> bytes:
    from fedtheory.store.resumable import encoded

    return json.dumps(encoded([1, 2.5, np.float64(0.1), "text", math.inf, (None, {"a": np.arange(3.0)})])).encode()


def _read_step(path: Path) -> Any:
    """A step of a command, as JSON in its file."""
    from fedtheory.store.result_store import ResultStore, key_of
    from fedtheory.store.resumable import COMMAND, CachedSteps, cached_step

    file = path.parent / "steps.sqlite"
    with ResultStore(file) as store:
        store.put(COMMAND, {"content": key_of(None)})
        store.put_text("/it 1", path.read_bytes().decode("utf-8", "replace"))
    with CachedSteps(file, None) as steps:
        found = cached_step("it", lambda: None)
        steps.remove()
    return found


def _cells() -> bytes:
    from fedtheory.store.result_store import ResultStore

    def write(path: Path) -> None:
        with ResultStore(path) as cells:
            cells.put("a" * 64, {"x": 1.0})

    return _saved(write, ".sqlite")


def _read_cells(path: Path) -> Any:
    from fedtheory.store.result_store import ResultStore

    with ResultStore(path) as cells:
        try:
            return cells.get("a" * 64)
        except KeyError:  # it is not there, as the caller asks first
            return None


def _svmlight() -> bytes:
    return b"+1 1:0.5 3:1\n-1 2:1e-3 # a comment\n"


def _read_svmlight(path: Path) -> Any:
    from fedtheory.problems.datasets import load_svmlight

    return load_svmlight(path, max_gib=0.25)


def _sweep() -> bytes:
    return b'[all]\nproblem = ["diabetes"]\nseed = [0, 1]\n[[run]]\nmethod = "fedavg"\nrounds = 3\n'


def _read_sweep(path: Path) -> Any:
    from fedtheory.cli.sweep.spec import read

    return read(path)


def _table() -> bytes:
    from fedtheory import Uniform
    from fedtheory.algorithms import FedElasticNetDyn
    from fedtheory.plotting import saved
    from fedtheory.problems import random_quadratic
    from fedtheory.theorems import get
    problem = random_quadratic(3, 2, seed=1)
    method = FedElasticNetDyn(0.1, 30 * float(problem.beta_k.max()))
    statement = get("fedelasticnet/theorem-3.1")
    checks = statement.verify(problem, method, sampling=Uniform(2), rounds=3, forms=["repaired"])
    return saved.to_csv(checks.compared(rounds=None), {}).encode()


def _read_table(path: Path) -> Any:
    from fedtheory.plotting import saved

    return saved.read(path)


def _result() -> bytes:
    return json.dumps({"statement": "fedelasticnet/theorem-3.1", "rows": [{"x": 1.5}], "figure": "rates"}).encode()


def _read_result(path: Path) -> Any:
    from fedtheory.report.redraw import opened

    return opened(path)


def _read_campaign(path: Path) -> Any:
    from fedtheory.report.saved import read_campaign

    return read_campaign(path)


def _idx() -> bytes:
    return struct.pack(">HBBII", 0, 8, 2, 2, 3) + bytes(range(6))


def _read_idx(path: Path) -> Any:
    from fedtheory.neural.data.idx import read_idx

    return read_idx(path)


def _batch() -> bytes:
    return pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]}, protocol=3)


def _read_batch(path: Path) -> Any:
    from fedtheory.neural.data.cifar import parse_pickle

    return parse_pickle(str(path), path.read_bytes(), "labels")


def _leaf() -> bytes:
    told = {"users": ["a"], "num_samples": [1], "user_data": {"a": {"x": ["to be " * 13 + "or"], "y": ["n"]}}}
    return json.dumps(told).encode()


def _read_leaf(path: Path) -> Any:
    from fedtheory.neural.data.shakespeare import _from_leaf

    return _from_leaf([path])


def _tar() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("folder/a.txt")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"abc"))
    return buffer.getvalue()


def _read_archive(path: Path) -> Any:
    from fedtheory.neural.data.files import read_archive

    return list(read_archive(path, lambda name: True))


def _zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/a.txt", "abc")
    return buffer.getvalue()


PARSERS = {
    p.name: p
    for p in (
        Parser("witness", ".json", _witness, _replayed),
        Parser("certificate", ".json", _certificate, _certified),
        Parser("problem", ".json", _problem, _read_problem),
        Parser("partition", ".json", _partition, _read_partition),
        Parser("checkpoint", ".npz", a_checkpoint, _read_checkpoint),
        Parser("step", ".json", _step, _read_step),
        Parser("cells", ".sqlite", _cells, _read_cells),
        Parser("svmlight", ".txt", _svmlight, _read_svmlight),
        Parser("svmlight, gzip", ".gz", lambda: gzip.compress(_svmlight(), mtime=0), _read_svmlight),
        Parser("svmlight, bzip2", ".bz2", lambda: bz2.compress(_svmlight()), _read_svmlight),
        Parser("sweep", ".toml", _sweep, _read_sweep),
        Parser("table", ".csv", _table, _read_table),
        Parser("result", ".json", _result, _read_result),
        Parser("campaign", ".json", _result, _read_campaign),
        Parser("idx", ".idx", _idx, _read_idx),
        Parser("batch", ".pickle", _batch, _read_batch),
        Parser("leaf", ".json", _leaf, _read_leaf),
        Parser("tar", ".tar.gz", _tar, _read_archive),
        Parser("zip", ".zip", _zip, _read_archive),
    )
}


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List where a JSON value has values."""
    inside: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, each in inside for place in places(each, (*at, key)))]


def with_value(text: str, at: tuple[Any, ...], raw: str) -> str:
    """A JSON text with something else, as it stands, at one place."""
    told = json.loads(text)
    mark = "here it stands 7d1f"
    if not at:
        return raw
    inside = told
    for key in at[:-1]:
        inside = inside[key]
    inside[at[-1]] = mark
    return json.dumps(told).replace(json.dumps(mark), raw)
