"""Certificates by a second writing, client by client, that imports nothing of the package."""

from __future__ import annotations

import json
from fractions import Fraction as F
from pathlib import Path

import pytest

from fedtheory.worst_cases import Group, Losses, certificate, worst_case, write
from validation.references import check_certificate as second

STRONG, FAST = Losses(F(3, 2), F(1, 10)), Losses(4, 1)
QUESTIONS = {
    "fedavg": {"local_steps": 2, "rounds": 2, "step": F(1, 3)},
    "fedavg, strongly convex": {
        "local_steps": 3,
        "step": F(1, 4),
        "losses": STRONG,
        "criterion": "distance",
        "heterogeneity": 2,
    },
    "scaffold": {"local_steps": 2, "rounds": 2, "step": F(1, 4), "distance": F(1, 2)},
    "scaffold, from the gradients": {"local_steps": 2, "rounds": 2, "step": F(1, 4), "initial": "gradient", "losses": STRONG},
    "scaffold, from anything near": {"local_steps": 2, "rounds": 2, "step": F(1, 4), "initial": F(1, 2)},
    "scaffold, from those of the optimum": {"local_steps": 2, "rounds": 2, "step": F(1, 4), "initial": 0, "criterion": "distance"},
    "scaffold, groups from anything": {"step": F(1, 8), "initial": 1, "losses": [Group("3/4", STRONG), Group("1/4", FAST)]},
    "scaffnew": {"rounds": 2, "step": F(1, 2), "p": F(1, 3)},
    "scaffnew, strongly convex": {
        "local_steps": 2,
        "rounds": 3,
        "step": F(1, 4),
        "p": F(2, 3),
        "losses": STRONG,
        "criterion": "distance",
    },
    "fedprox": {"rounds": 2, "mu": F(1, 2), "losses": STRONG},
    "fedavg, groups": {"local_steps": 2, "rounds": 2, "step": F(1, 8), "losses": [Group("1/3", STRONG, 1), Group("2/3", FAST, 2)]},
    "fedavg, weights": {"step": F(1, 2), "losses": [Group(w, Losses(n), 1) for n, w in enumerate(("1/2", "1/3", "1/6"), 1)]},
    "scaffold, groups": {"local_steps": 2, "step": F(1, 8), "losses": [Group("3/4", STRONG), Group("1/4", FAST)], "clients": 8},
    "scaffold, weights": {"local_steps": 2, "step": F(1, 8), "losses": [Group("1/3", STRONG, 1), Group("2/3", FAST, 2)]},
    "scaffnew, groups": {"rounds": 2, "step": F(1, 8), "p": F(1, 3), "losses": [Group("1/2", STRONG), Group("1/2", FAST)]},
    "fedprox, groups": {"mu": 2, "heterogeneity": F(1, 10), "losses": [Group("1/2", STRONG, 1), Group("1/2", FAST, 1)]},
    "feddyn, groups": {"rounds": 2, "alpha": 1, "criterion": "distance", "losses": [Group("1/2", STRONG), Group("1/2", FAST)]},
    "feddyn": {"rounds": 3, "alpha": F(2, 3), "criterion": "distance", "losses": STRONG},
}


def written(name, folder):
    method, _, _ = name.partition(",")
    return write(folder / "c.json", certificate(worst_case(method, **QUESTIONS[name])))


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_certificate_holds_client_by_client(name, tmp_path):
    """For 2, 3 and 5 clients, or 2 and 4 in groups; not with a smaller bound, one condition less, shorter steps, or other shares."""
    path = written(name, tmp_path)
    second.main([str(path)])
    held = json.loads(path.read_text())
    wrong = [dict(held, claim={"bound": str(F(held["claim"]["bound"]) * F(9, 10))})]
    largest = max((n for n in held["multipliers"] if ", " in n), key=lambda n: F(held["multipliers"][n]))
    wrong.append(dict(held, multipliers={n: m for n, m in held["multipliers"].items() if n != largest}))
    wrong.append(dict(held, multipliers={**held["multipliers"], "start": "-1"}))
    shorter = {"step": F(1, 2), "mu": 2, "alpha": 2}
    options = {n: str(shorter[n] * F(v)) if n in shorter else v for n, v in held["question"]["options"].items()}
    wrong.append(dict(held, question={**held["question"], "options": options}))
    if "p" in options:
        wrong.append(dict(held, question={**held["question"], "options": {**held["question"]["options"], "p": "1/4"}}))
    if groups := held["question"].get("groups"):
        first, second_, *rest = groups.values()
        moved = F(first["share"]) / 10
        shares = [str(F(first["share"]) - moved), str(F(second_["share"]) + moved)]
        others = [{**of, "share": share} for of, share in zip((first, second_), shares, strict=True)] + rest
        sharper = [{**first, "smoothness": "5"}, second_, *rest]
        wrong += [dict(held, question={**held["question"], "groups": dict(enumerate(of))}) for of in (others, sharper)]
    for other in wrong:
        with pytest.raises(SystemExit):
            second.check(other)


def test_it_imports_nothing_of_the_package():
    lines = [line.split() for line in Path(second.__file__).read_text().splitlines()]
    assert {words[1] for words in lines if words[:1] in (["import"], ["from"])} <= {
        "__future__", "collections.abc", "dataclasses", "fractions", "itertools", "json", "pathlib", "sys", "typing",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("gram", "told"),
    [
        ({("a", "a"): 1, ("b", "b"): 1, ("a", "b"): 1, ("b", "a"): 1}, True),
        ({("a", "a"): 1, ("b", "b"): 1, ("a", "b"): F(11, 10), ("b", "a"): F(11, 10)}, False),
        ({("a", "b"): F(1, 9), ("b", "a"): F(1, 9), ("b", "b"): 1}, False),
        ({("a", "a"): -1}, False),
        ({}, True),
    ],
)
def test_forms_that_are_semidefinite(gram, told):
    assert second.semidefinite(gram) is told
