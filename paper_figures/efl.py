"""Every figure of EFL, at the effort of a paper: python paper_figures/efl.py OUT [--quick] [--seed N].

--docs writes the two pictures of docs/ instead, from the same code as the others.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from fedtheory.plotting.style import house_style, save
from fedtheory.report.figures import FULL, QUICK, draw_all
from fedtheory.theorems.efl.figures import runs as figures_efl_runs
from fedtheory.theorems.efl.figures import statements as figures_efl


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the figures")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="the effort of make verify")
    parser.add_argument("--docs", action="store_true", help="only efl_bound_vs_empirical.png and efl_bits.png, as in docs/")
    args = parser.parse_args()
    if args.docs:
        with house_style():
            bounds = figures_efl.draw_bounds(figures_efl.compute_bounds(seed=args.seed))
            print(*save(bounds, args.out / "efl_bound_vs_empirical", dpi=76, formats=("png",)))
            bits = figures_efl_runs.draw_bits(figures_efl_runs.compute_bits(seed=args.seed))
            print(*save(bits, args.out / "efl_bits", dpi=84, formats=("png",)))
        return
    start = time.perf_counter()
    draw_all(
        args.out,
        seed=args.seed,
        progress=lambda name: print(f"{time.perf_counter() - start:7.1f} s  {name}", flush=True),
        effort=QUICK if args.quick else FULL,
        papers=["efl"],
    )


if __name__ == "__main__":
    main()
