"""FedMLS's repaired theorems on noisy runs whose K_min is in the hundreds.

    python validation/searches/noisy_runs.py [--seed N]

Every family of the campaign, with as many clients as `CASES` says, accuracy 0.03 of G ||x_0 - x*||
(K_min = 200), noise of half of G. The campaign's own noisy runs have K_min up to 100. Writes
noisy_runs.json beside this file, with the command that made it.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedtheory.provenance import provenance, write_json
from fedtheory.theorems import FEDMLS
from fedtheory.theorems.fedmls.instances import RADIUS, MLSInstance
from fedtheory.theorems.fedmls.quantities import view_of_run
from fedtheory.theory.judge.check import judge_view

ACCURACY, NOISE, SCENARIOS = 0.03, 0.5, 4
CASES = {
    "LAD": (10, 1), "quantile": (5, 1), "hinge": (3, 2), "hinge with ridge": (2, 2), "max of affine": (5, 1), "l1 distance": (10, 1),
    "Euclidean distance": (5, 2), "two-client pull": (2, 2), "Nesterov's worst function": (3, 3), "Arjevani-Shamir chain": (4, 4),
}  # fmt: skip
FORMS = {("fedmls/theorem-1", "repaired"), ("fedmls/theorem-1", "sharpened"), ("fedmls/theorem-2", "fewer rounds")}


def rows(seed: int) -> list[dict[str, Any]]:
    """One row for each family and form: what was run, measured over bound, and the verdict."""
    out = []
    statements = [s for s in FEDMLS.statements if s.id in {name for name, _ in FORMS}]
    for family, (clients, dim) in CASES.items():
        start = time.perf_counter()
        instance = MLSInstance(family, clients, dim, NOISE, ACCURACY, "fewest", 1.0, SCENARIOS, seed)
        problem = instance.problem()
        algorithm = replace(instance.algorithm(problem), allow_long=True)
        view = view_of_run(problem, algorithm, instance.start(problem), SCENARIOS, seed, radius=RADIUS, facts=instance.facts)
        for statement in statements:
            for form in statement.forms:
                if (statement.id, form.name) in FORMS and view.applies(form) is None:
                    check = judge_view(statement, form, view, instance.name)
                    out.append({
                        "instance": instance.name, "clients": clients, "dim": dim, "rounds": view.K, "scenarios": SCENARIOS,
                        "local steps of one client": int(view.T.sum()), "statement": statement.id, "form": form.name,
                        "verdict": check.verdict, "measured over bound": check.tightness,
                    })  # fmt: skip
        print(f"{instance.name}: K = {view.K}, {time.perf_counter() - start:.0f} s, {out[-1]['verdict']}", flush=True)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    found = {"command": f"python validation/searches/noisy_runs.py --seed {seed}", "rows": rows(seed), "provenance": provenance(seed)}
    print(write_json(Path(__file__).with_suffix(".json"), found))


if __name__ == "__main__":
    main()
