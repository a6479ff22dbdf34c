"""Rounds to epsilon of FedMLS and of what it is compared with: python paper_figures/fedmls.py OUT [--quick] [--seed N].

The same as `fedtheory rates`, at the resolution of a paper; rates.json beside the figure holds its data. --data FILE draws such a file
again; --docs writes the two pictures of docs/, rates.png and the README's rates_summary.png, instead.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from fedtheory.plotting.style import house_style, save
from fedtheory.provenance import provenance, write_json
from fedtheory.theorems.fedmls import figures as figures_rates


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder for the figure")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="five accuracies from 0.1 to 0.01")
    parser.add_argument("--data", type=Path, help="rates.json of an earlier run, instead of a new one")
    parser.add_argument("--docs", action="store_true", help="only rates.png and rates_summary.png, as in docs/")
    args = parser.parse_args()
    if args.data is not None:
        data = json.loads(args.data.read_text())
    else:
        start = time.perf_counter()
        data = figures_rates.compute(
            quick=args.quick, seed=args.seed, progress=lambda name: print(f"{time.perf_counter() - start:7.1f} s  {name}", flush=True)
        )
    if args.docs:
        with house_style():
            print(*save(figures_rates.draw(data), args.out / "rates", dpi=110, formats=("png",)))
            print(*save(figures_rates.draw_summary(data), args.out / "rates_summary", dpi=100, formats=("png",)))
        return
    if args.data is None:
        print(write_json(args.out / "rates.json", {**data, "provenance": provenance(args.seed)}))
    with house_style():
        print(*save(figures_rates.draw(data), args.out / "rates", dpi=250))


if __name__ == "__main__":
    main()
