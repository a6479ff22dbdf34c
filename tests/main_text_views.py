"""The package's views of instances that the second writing of FedElasticNet's main text has."""

from __future__ import annotations

from typing import Any

from fedelasticnet_worlds import BUILDERS


def rows(values: str) -> list[Any]:
    """'1 2;0 1' as rows of strings, '1 2' as a list of them."""
    return [row.split() for row in values.split(";")] if ";" in values else values.split()


def view_of(kind: str, given: dict[str, Any], rule: str = "any") -> Any:
    """One of the main text's kinds, from its data as the second writing has them."""
    if kind in ("regression", "local"):
        data = {k: rows(given[k]) for k in ("X", "y", "start", "trial", "H", "q", "g", "theta") if k in given}
    elif kind == "signs":
        data = {
            "groups": len(given["n"]), "weights": [str(n) for n in given["n"]], "delta": str(given["delta"]),
            "laws": [[str(p), [[str(move), str(q)] for move, q in law]] for p, law in given["laws"]],
            "copies": given.get("copies", 1), "d": given.get("d", 1), "theta": str(given.get("theta", 0)),
        }  # fmt: skip
        return BUILDERS[kind](data)
    elif kind == "message":
        data = {"x": given["x"].split(), "theta": given["theta"].split(), "threshold": given["t"], "bin": given.get("bin", "1")}
        return BUILDERS[kind](data)
    else:
        data = {"H": [rows(h) for h in given["H"]], "q": [rows(q) for q in given["q"]], "theta": rows(given["theta"])}
        if kind == "local-steps":
            fresh = given["controls"] == "fresh"
            data |= {"lr": given["lr"], "B": given["B"], "controls": "fresh" if fresh else [rows(c) for c in given["controls"]]}
        elif kind == "objective":
            data |= {"counts": rows(given["counts"]), "beta": given["beta"]}
        else:
            data |= {"stored": [rows(g) for g in given["stored"]], "beta": given["beta"], "mu": given["mu"], "rule": rule}
    return BUILDERS[kind]({**data, "lambda1": given["l1"], "lambda2": given["l2"]})
