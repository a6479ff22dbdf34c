"""Rows of a campaign with the recorded verdicts, and its record, for tests of what a reader sees of them."""

import math

from fedtheory.theorems import Check, all_statements
from fedtheory.theory.judge import campaign
from fedtheory.theory.judge.check import AT_A_POINT


def check(statement, form, rule, verdict, tightness=math.nan, instance="one", slack=0.1):
    return Check(statement, form, rule, verdict, "exact", slack, tightness, instance=instance, count=3, where={"index": [0]})


def recorded_rows(only=None):
    """Every form, of all statements or of those in ``only``, with its recorded verdict on two instances."""
    chosen = [s for s in all_statements() if only is None or s.id in only]
    checks = [
        check(s.id, f.name, rule, {"open": "holds"}.get(verdict, verdict), t, name, 0.1 if verdict != "violated" else -0.1)
        for s in chosen
        for f in s.forms
        for rule, verdict in f.established.items()
        for t, name in ((0.25, "first"), (0.5, "second|with <mark>"))
    ]
    point = {"mode": AT_A_POINT, "tightness": 0.1524, "where": {"point": "everybody, T < 8|9"}, "count": 1}
    checks.append(Check("fedelasticnet/theorem-a", "repaired", "true-gradient", "holds", **point))
    witness = check("fedelasticnet/eq-28", "printed", "sign", "violated")
    return campaign.summarise(checks, [("fedelasticnet-eq-28-printed-sign", witness)], chosen)


def record_of(rows, seconds=12.0):
    """Return what campaign.json says of these rows."""
    result = campaign.Campaign(rows, seconds, 2, True, {"workers": 2, "search_budget": 100}, [])
    provenance = {
        "seed": 7, "commit": "abc", "device": "cpu", "python": "3", "platform": "here", "versions": {"numpy": "2"}, "written": "now",
    }  # fmt: skip
    more = {
        "witnesses": {"replayed": 1, "broken": {}}, "checked": 2, "comparisons": 1234, "provenance": provenance,
        "memory_mib": {"main": 100.0, "largest_worker": 90.0},
    }  # fmt: skip
    return {**result.to_json(), **more}
