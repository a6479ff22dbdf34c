"""Peak memory of a round: how far a process grows that does nothing else.

    python validation/timings/neural_memory.py ours mlp-200-100 10 FedDyn 600

One process for each way. It makes the samples and the problem, warms up with a small one of the
same network (which loads libraries and compiles), sets the kernel's high-water mark back to what it
holds (Linux: /proc/self/clear_refs), makes rounds, and reads the mark.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
from neural_rounds import CLIENTS, COHORT, Figure, Usual, a_round, instance

__all__ = ["growth", "memory_figures"]


def _status(field: str) -> int:
    """Bytes of VmRSS (resident now) or VmHWM (at most so far)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def growth(way: str, name: str, batch: int, method: str, held: int) -> int:
    """Bytes of this process at the peak of two rounds, less those it held before; samples not
    included."""
    problem, module = instance(name, held)
    small, _ = instance(name, 2 * batch + 1, clients=COHORT)
    for stage in (small, problem):
        usual = Usual(stage, module, batch, method)
        if stage is problem:
            gc.collect()
            Path("/proc/self/clear_refs").write_text("5")
            before = _status("VmRSS")
        if way == "ours":
            a_round(stage, batch, method, 1)
        else:
            usual(), usual()
    return _status("VmHWM") - before


def memory_figures() -> Iterator[Figure]:
    """Peak growth of the usual loop and of ours, in processes of their own, one thread each;
    nothing where the system has no mark."""
    for name, batch, method, held in (("mlp-200-100", 10, "FedDyn", 600), ("cnn-384-192", 50, "FedDyn", 100)):
        for way, title in (("usual", "usual loop"), ("ours", "ours")):
            command = [sys.executable, __file__, way, name, str(batch), method, str(held)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                kept = f", with what FedDyn keeps of {CLIENTS} clients" if way == "ours" else ""
                note = f"resident above samples and libraries{kept}; {COHORT} clients a round, one thread, a process of its own"
                yield Figure(f"{name} b={batch} {method}: {title}, peak memory", int(done.stdout) / 2**20, "MiB", "", note)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(growth(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])))
