"""Worked instances of EFL's forms outside Theorem 1 and Corollary 1: both sides as numbers.

A bound that holds with room also holds with a slightly wrong constant; these numbers notice. They
were worked out from the paper in `validation/references/worked_efl_{sections,elastic,messages}.py`,
which share nothing with the library.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import worked_efl_elastic
import worked_efl_messages
import worked_efl_sections
from cases import each
from efl_on_a_problem import BUILDERS

from fedtheory import theorems
from fedtheory.errors import InvalidInput

STATEMENTS = (
    "theorem-2-departure", "theorem-2-arrival", "departure-heterogeneity", "departure-no-convergence",
    "learning-rate-after-shift", "scheme-limit", "elastic-fixed-point", "elastic-limit", "stale-anchor", "st-lemma",
    "contraction-factors", "variance-factors", "residual-invariant", "compression-bias", "table-1-scaffold",
    "table-1-mime",
)  # fmt: skip
# (statement, form): {rule, and what tells several instances apart: (lhs, rhs)}; of an equality the
# two sides that should agree.
NUMBERS: dict[tuple[str, str], dict[str, tuple[str, str]]] = {
    ("theorem-2-departure", "printed"): {"any": ("162989154304/107502015625", "15893704960/557290449")},
    ("theorem-2-departure", "sharpened"): {"any": ("162989154304/107502015625", "3973426240/557290449")},
    ("theorem-2-departure", "sharp"): {
        "any": ("162989154304/107502015625", "993356560/268325031"),
        "any, attained": ("4", "4"),
        "any, left of the bend": ("289/144", "1272/427"),
    },
    ("theorem-2-arrival", "printed"): {"any": ("5897951172/395095129", "72002277/93513640")},
    ("theorem-2-arrival", "repaired"): {
        "any": ("162989154304/107502015625", "1123216/140625"),
        "any, left of the bend": ("289/144", "926/81"),
    },
    ("theorem-2-arrival", "printed, few"): {
        "any": ("162989154304/107502015625", "17971456/1265625"),
        "any, attained": ("9/4", "9/4"),
    },
    ("theorem-2-arrival", "old optimum"): {
        "any": ("162989154304/107502015625", "993356560/268325031"),
        "any, attained": ("4", "4"),
    },
    ("departure-heterogeneity", "printed"): {"any": ("3", "2")},
    ("departure-heterogeneity", "repaired"): {"any": ("2", "3")},
    ("departure-no-convergence", "the optimum moves"): {"any": ("1", "0"), "any, moved": ("1", "1")},
    ("departure-no-convergence", "repaired"): {"any": ("162989154304/107502015625", "1123216/140625")},
    ("learning-rate-after-shift", "fresh start"): {"any": ("11081/4500 76217/32500", "49/32 55277/34848")},
    ("learning-rate-after-shift", "repaired"): {"any": ("29/625 229/105625", "25/64 313/7744")},
    ("learning-rate-after-shift", "kept step"): {
        "any": (
            "25/64 313/7744",
            "2645721990262101573584649669504193787186933836805/1461501637330902918203684832716283019655932542976 "
            "2645721990262101573584649669504193787186933836805/3912425457204879631503516058626198046646581314561",
        ),
    },
    ("scheme-limit", "repaired"): {
        "B, from near by": (
            "877/22464 745/12096 846083/21625344 1877587/34933248 2689927937/69201100800 92974397/1961164800",
            "5273227/63212544 141/760 5273227/66539520 141/800 5273227/69866496 47/280",
        ),
        "A": ("13727/7344 863/288 63654955/42418944 1342607/554496", "720/323 135/38 36/17 27/8"),
        "B": ("1927/936 2833/1008 1565033/901056 6777259/2911104", "576/247 432/133 144/65 108/35"),
        "C": ("143/72 367/144 36881/23104 43295/21888", "45/19 60/19 9/4 3"),
        "C-corrected": ("595/324 377/216 201023/155952 327719/311904", "48/19 54/19 12/5 27/10"),
    },
    ("scheme-limit", "unbiased"): {
        "A": ("23/17 1/4", "5/3 1"),
        "B": ("19/13 4/7", "5/3 1"),
        "C": ("3/2 2/3", "5/3 1"),
        "C-corrected": ("5/3 1", "5/3 1"),
    },
    ("scheme-limit", "constant step"): {
        "A": ("7/142 21/430", "21/284 357/1720"),
        "B": ("19/522 1/66", "3/58 4/33"),
        "C": ("13/333 1/131", "2/37 31/262"),
        "C-corrected": ("52/759 4/349", "24/253 62/349"),
    },
    ("scheme-limit", "constant step, equal laws"): {
        "A": ("23/13 50/53", "5/3 1"),
        "B": ("89/51 22/23", "5/3 1"),
        "C": ("109/63 82/85", "5/3 1"),
        "C-corrected": ("109/63 82/85", "5/3 1"),
    },
    ("scheme-limit", "fixed point"): {
        "A": ("101/71 38/215", "101/71 38/215"),
        "B": ("133/87 6/11", "133/87 6/11"),
        "C": ("173/111 86/131", "173/111 86/131"),
        "C-corrected": ("439/253 346/349", "439/253 346/349"),
    },
    ("scheme-limit", "C without idle clients"): {"C": ("5/3 1", "5/3 1"), "C-corrected": ("5/3 1", "5/3 1")},
    ("scheme-limit", "C with equal activity"): {"C": ("5/3 1", "5/3 1"), "C-corrected": ("5/3 1", "5/3 1")},
    ("elastic-fixed-point", "unbiased"): {"any": ("143/376 -2644/1597", "1/4 -36/25")},
    ("elastic-fixed-point", "repaired"): {
        "any": ("143/376 -2644/1597 1295/1504 -10991/3194", "143/376 -2644/1597 1295/1504 -10991/3194"),
    },
    ("elastic-fixed-point", "matched diagonals"): {"any": ("1/4 -36/25 1/4 -72/25", "1/4 -36/25 1/4 -72/25")},
    ("elastic-fixed-point", "when unbiased"): {"any": ("49/512 -269/1600", "49/512 -269/1600")},
    ("elastic-fixed-point", "distance"): {"any": ("147/1504 269/1597", "147/1504 269/1597")},
    ("elastic-fixed-point", "run"): {
        "any": ("4.28680979602802e-11 4.39626113291069e-12", "4.73349056603774e-06 6.53222553843672e-06"),
    },
    ("elastic-limit", "repaired"): {
        "any": (
            "7049/11264 2728691/9011200 185983/360448 965854771/2306867200 2084509/4685824 871052034097/1919313510400",
            "35/24 130746/197555 35/26 1568952/2568215 5/4 112068/197555",
        ),
    },
    ("elastic-limit", "factor 5"): {"any": ("2084509/4685824 871052034097/1919313510400", "185/24 15175/6364")},
    ("stale-anchor", "kept"): {"any": ("1 52/17", "3/2 4/3")},
    ("stale-anchor", "repaired"): {"any": ("0 0", "0 0")},
    ("stale-anchor", "limit with the pair kept"): {"any": ("0 0", "0 0")},
    ("st-lemma", "printed rule"): {"any": ("328", "40")},
    ("st-lemma", "repaired"): {"any": ("12", "49/2"), "any, more than a root": ("67/3", "100/3")},
    ("st-lemma", "printed rule, more than half"): {"any": ("88/25", "256/25")},
    ("st-lemma", "as top-k"): {"any": ("101/3", "67/4")},
    ("st-lemma", "identity"): {"any": ("53/9", "53/9")},
    ("contraction-factors", "top-k"): {"any": ("121/10", "25")},
    ("contraction-factors", "random-k"): {"any": ("85/16", "85/16")},
    ("contraction-factors", "sign with scale"): {"any": ("85/16", "225/16")},
    ("contraction-factors", "threshold"): {"any": ("13/16", "9/4")},
    ("contraction-factors", "threshold, relative"): {"any": ("29/16", "28971/16000")},
    ("variance-factors", "random-k, scaled"): {"any": ("85/12", "85/12")},
    ("variance-factors", "QSGD"): {"any": ("3/2 9/4", "9 324")},
    ("variance-factors", "QSGD, sharpened"): {"any": ("140", "200"), "any, attained": ("4", "4")},
    ("variance-factors", "natural rounding"): {"any": ("731/576", "6433/4608")},
    ("variance-factors", "stochastic rounding"): {"any": ("22", "25")},
    ("variance-factors", "rounding to a grid"): {"any": ("569/3600", "3/16")},
    ("variance-factors", "random-k, scaled, unbiased"): {"any": ("4 -1 2 1/2", "4 -1 2 1/2")},
    ("variance-factors", "QSGD, unbiased"): {"any": ("5 -3 1 1", "5 -3 1 1")},
    ("variance-factors", "natural rounding, unbiased"): {"any": ("4/3 -5/8 3", "4/3 -5/8 3")},
    ("variance-factors", "stochastic rounding, unbiased"): {"any": ("6 -2 1 3", "6 -2 1 3")},
    ("variance-factors", "rounding to a grid, unbiased"): {"any": ("1/3 -3/4 2/5", "1/3 -3/4 2/5")},
    ("residual-invariant", "literal formulas"): {
        "any": ("524799/524288 857715/524288 405441/131072", "1677/2048 181701/131072 68073/65536"),
    },
    ("residual-invariant", "repaired"): {
        "any": ("96617/65536 264339/262144 837933/524288", "96617/65536 264339/262144 837933/524288"),
    },
    ("residual-invariant", "text of 3.1"): {
        "any": ("13092297/8388608 5532901/8388608 8273097/8388608", "5227/4096 2597831/2097152 6239945/4194304"),
    },
    ("residual-invariant", "scaled after ST"): {
        "any": ("1262269/1048576 953977/1048576 1173389/1048576", "96617/65536 253587/262144 848685/524288"),
    },
    ("compression-bias", "literal formulas"): {
        "any": ("231/1024 13769/16384 72803/49152", "15469/32768 31867/98304 159205/49152"),
    },
    ("compression-bias", "repaired"): {
        "any": ("1/256 165481/196608 383135/196608", "59355/131072 151037/98304 109913/49152"),
    },
    ("compression-bias", "any step up to 1/L"): {"any": ("26517/400", "21")},
    ("compression-bias", "text of 3.1"): {
        "any": ("43/512 70217/98304 187999/98304", "49353/65536 423167/393216 917995/393216"),
    },
    ("table-1-scaffold", "printed"): {"any": ("108/5", "78/5")},
    ("table-1-scaffold", "repaired"): {"any": ("378/5", "438/5")},
    ("table-1-scaffold", "repaired, converse"): {"any": ("78/5", "108/5")},
    ("table-1-scaffold", "for the loss times a constant"): {"any": ("2169/40", "2049/40")},
    ("table-1-mime", "printed"): {"any": ("108/5", "38/5")},
    ("table-1-mime", "repaired"): {"any": ("108/5", "118/5")},
    ("table-1-mime", "repaired, converse"): {"any": ("38/5", "108/5")},
}  # fmt: skip
UNWORKED: dict[tuple[str, str], str] = {}  # (statement, form): why it has no number
IN_FLOATS = {("elastic-fixed-point", "run")}  # long runs, as decimals
ROUNDED = {("variance-factors", "QSGD"), ("variance-factors", "QSGD, sharpened")}  # bounds a little above the roots
POINTS = [  # omega_eta, omega*, argmin of those that stay, and its limit with the leaver's pair kept
    "143/376 -2644/1597",
    "1/4 -36/25",
    "3/2 4/3",
    "1 52/17",
]
WITH_PARTS = {"elastic-fixed-point", "stale-anchor"}  # their scale also holds what the sides are made of

WORKED = {
    (statement.removeprefix("efl/"), form, ", ".join((rule, *more)), rule): (sheet, (statement, form, rule, *more))
    for sheet in (worked_efl_sections, worked_efl_elastic, worked_efl_messages)
    for (statement, form, rule, *more) in sheet.WORKED
}
KEYS = pytest.mark.parametrize("key", WORKED, ids=lambda key: " ".join(key[:3]))


def written(key):
    """The numbers of a key, as two lists; floats where the run is in floats."""
    kind = float if key[:2] in IN_FLOATS else Fraction
    return [[kind(v) for v in side.split()] for side in NUMBERS[key[:2]][key[2]]]


def judged(key):
    """The form and its view on the worked instance."""
    sheet, name = WORKED[key]
    form = theorems.get(name[0]).form(name[1])
    return form, BUILDERS[form.kind](sheet.WORKED[name][0])


def same(found, expected, key, bound=False):
    """Return whether two lists agree: exactly, but for long runs and bounds that are rounded up."""
    if key[:2] in IN_FLOATS:
        return found == pytest.approx(expected, rel=1e-12, abs=1e-14)
    if bound and key[:2] in ROUNDED:
        return len(found) == len(expected) and all(
            0 <= a - b <= b / 10**11 for a, b in zip(found, expected, strict=True)
        )
    return found == expected


@KEYS
def test_the_sides_are_the_numbers(key):
    form, view = judged(key)
    assert view.applies(form) is None and view.rule == key[3]
    sides, (lhs, rhs) = form.sides(view), written(key)
    found = {name: list(np.ravel(getattr(sides, name))) for name in ("lhs", "rhs", "scale")}
    if sides.relation == "<=":
        assert same(found["lhs"], lhs, key) and same(found["rhs"], rhs, key, bound=True)
        return
    assert found["lhs"] == [abs(a - b) for a, b in zip(lhs, rhs, strict=True)] and not any(found["rhs"])
    made_of = [s - abs(a) - abs(b) for s, a, b in zip(found["scale"], lhs, rhs, strict=True)]
    assert min(made_of) >= 0 and (key[0] in WITH_PARTS or not any(made_of))


@KEYS
def test_the_paper_gives_the_numbers(key):
    sheet, name = WORKED[key]
    for found, expected in zip(sheet.sides(name), written(key), strict=True):
        assert same(found, expected, key)


@KEYS
def test_what_is_on_record_as_holding_holds_here(key):
    form, view = judged(key)
    lhs, rhs = written(key)
    holds = lhs == rhs if form.sides(view).relation == "==" else all(a <= b for a, b in zip(lhs, rhs, strict=True))
    assert holds or form.established[key[3]] == "violated"


def test_every_form_has_numbers():
    found = [(name, form) for name in STATEMENTS for form in theorems.get(f"efl/{name}").forms]
    forms = {(name, form.name) for name, form in found if form.sides is not None}  # claims have no sides
    missing, unknown = forms - NUMBERS.keys() - UNWORKED.keys(), (NUMBERS.keys() | UNWORKED.keys()) - forms
    assert not missing, f"forms without numbers: {sorted(missing)}"
    assert not unknown, f"numbers of forms that there are not: {sorted(unknown)}"
    assert {key[:3] for key in WORKED} == {(*form, rule) for form, rules in NUMBERS.items() for rule in rules}
    for name, form in NUMBERS:
        rules = {key[3] for key in WORKED if key[:2] == (name, form)}
        assert rules == set(theorems.get(f"efl/{name}").form(form).established), (
            f"rules without numbers: {name} [{form}]"
        )


def test_points_of_the_elastic_term():
    """The equalities above say that two sides agree; these say at which points."""
    view = BUILDERS["elastic"](worked_efl_elastic.ELASTIC)
    points = (view.fixed(view.eta), view.star, view.rest_star, view.stale_limit(False))
    worked = worked_efl_elastic.Elastic(worked_efl_elastic.ELASTIC)
    assert [list(p) for p in points] == [worked.fixed, worked.star, worked.rest_star, worked.kept_limit()]
    assert [" ".join(map(str, p)) for p in points] == POINTS


def test_what_stands_between_the_shift_and_its_repaired_bound():
    """||grad F_a(omega*)||^2 n_a^2/(mu^2 (n - n_a)^2), as the note of the repaired form says."""
    (lhs,), (rhs,) = worked_efl_sections.no_convergence_repaired(worked_efl_sections.DEPARTURE)
    assert lhs <= worked_efl_sections.middle(worked_efl_sections.DEPARTURE) <= rhs


# --- where a form begins and ends -----------------------------------------------------------------
LEMMA = {  # M = (2, 1)
    "scheme": "B", "weights": ["1"], "h": [["1", "1/2"]], "c": [["2", "3"]], "law": [["0", "0", "1"]], "eta": "1",
    "x0": ["0", "0"], "rounds": 1,
}  # fmt: skip
DEPARTED = {"samples": ["2", "3"], "h": [["1"], ["2"]], "c": [["0"], ["1"]]}
LAWS = {"scheme": "C", **worked_efl_sections.LIMIT}
POINT = worked_efl_messages.POINT  # L = 3, sqrt(epsilon) = 1/3
ENDS = [
    ("scheme-limit", "repaired", {**LEMMA, "step": "1", "offset": "3"}, False),  # 1 < a M <= b
    ("scheme-limit", "repaired", {**LEMMA, "step": "101/100", "offset": "3"}, True),
    ("scheme-limit", "repaired", {**LEMMA, "step": "3/2", "offset": "3"}, True),
    ("scheme-limit", "repaired", {**LEMMA, "step": "151/100", "offset": "3"}, False),
    ("scheme-limit", "C without idle clients", {**LAWS, "law": [["0", "1"], ["0", "1"]]}, True),
    ("scheme-limit", "C without idle clients", {**LAWS, "law": [["0", "1"], ["1/100", "99/100"]]}, False),
    ("scheme-limit", "C with equal activity", {**LAWS, "law": [["1/4", "3/4"], ["6/25", "19/25"]]}, False),
    ("scheme-limit", "constant step, equal laws", worked_efl_sections.EQUALLY_ACTIVE | {"scheme": "C"}, False),
    ("theorem-2-arrival", "printed, few", {"event": "arrival", **DEPARTED, "samples": ["3", "3"]}, True),  # n_a <= n
    ("theorem-2-arrival", "printed, few", {"event": "arrival", **DEPARTED, "samples": ["3", "301/100"]}, False),
    (
        "st-lemma",
        "printed rule, more than half",
        worked_efl_messages.message("st", "1", "2", q="1/2", rule="printed"),
        False,
    ),
    (
        "st-lemma",
        "printed rule, more than half",
        worked_efl_messages.message("st", "1", "2", q="51/100", rule="printed"),
        True,
    ),
    ("table-1-scaffold", "repaired", {**POINT, "G": "2"}, True),  # G >= L (1 - sqrt(epsilon))
    ("table-1-scaffold", "repaired", {**POINT, "G": "199/100"}, False),
    ("table-1-scaffold", "repaired, converse", {**POINT, "G": "199/100"}, True),
    ("table-1-scaffold", "repaired, converse", {**POINT, "G": "2"}, False),
    ("table-1-mime", "repaired", {**POINT, "delta": "9"}, True),  # delta >= L/sqrt(epsilon)
    ("table-1-mime", "repaired", {**POINT, "delta": "899/100"}, False),
    ("table-1-mime", "repaired, converse", {**POINT, "delta": "3"}, True),  # delta <= L and epsilon < 1
    ("table-1-mime", "repaired, converse", {**POINT, "delta": "301/100"}, False),
    ("table-1-mime", "repaired, converse", {**POINT, "root": "99/100"}, True),
    ("table-1-mime", "repaired, converse", {**POINT, "root": "1"}, False),
    ("elastic-fixed-point", "matched diagonals", worked_efl_elastic.ELASTIC, False),
]


@each(("name", "form", "data", "applies"), ENDS)
def test_a_form_is_about_what_its_formula_says(name, form, data, applies):
    form = theorems.get(f"efl/{name}").form(form)
    assert (BUILDERS[form.kind](data).applies(form) is None) == applies


@pytest.mark.parametrize(
    ("kind", "data", "change"),
    [
        (
            "after-shift",
            {**worked_efl_sections.QUIET, "gamma": "23"},
            {"gamma": "2299/100"},
        ),  # 16 L <= mu (1 + gamma)
        ("feedback", {**worked_efl_messages.PLAIN, "variant": "text", "eta": "1"}, {"eta": "101/100"}),  # eta <= 1/L
        ("limit", {**LEMMA, "step": "3", "offset": "3"}, {"offset": "299/100"}),  # a/b <= 1/L
        ("limit", {**LEMMA, "step": "3", "offset": "3"}, {"eta": "101/100"}),  # eta <= 1/L
    ],
)
def test_steps_up_to_the_limit_are_taken_and_longer_ones_refused(kind, data, change):
    assert BUILDERS[kind](data).exact
    with pytest.raises(InvalidInput):
        BUILDERS[kind]({**data, **change})
