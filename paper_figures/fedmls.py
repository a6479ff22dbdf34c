"""Rounds to epsilon of FedMLS and of what it is compared with: python paper_figures/fedmls.py OUT [--quick] [--seed N].

The same as `fedtheory rates`, at the resolution of a paper; rates.json beside the figure holds its data.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from fedtheory.provenance import provenance, write_json
from fedtheory.report import figures_rates
from fedtheory.report.style import house_style, save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the figure")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="five accuracies from 0.1 to 0.01")
    args = parser.parse_args()
    start = time.perf_counter()
    data = figures_rates.compute(
        quick=args.quick, seed=args.seed, progress=lambda name: print(f"{time.perf_counter() - start:7.1f} s  {name}", flush=True)
    )
    print(write_json(args.out / "rates.json", {**data, "provenance": provenance(args.seed)}))
    with house_style():
        print(*save(figures_rates.draw(data), args.out / "rates", dpi=250))


if __name__ == "__main__":
    main()
