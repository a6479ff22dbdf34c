"""FedElasticNet's (11) to (39) as numbers: both sides of every form on one tiny round.

By the package and by code that shares nothing with it, `worked(rule)` of
validation/references/worked_fedelasticnet_forms.py, which printed the numbers once: four clients in
the plane, three of which take part. An entry is a client, a cohort, or a member of a cohort; the
coordinates of a vector are joined by commas. A constant that is off by a tenth changes its number,
though its bound may hold all the same.
"""

from __future__ import annotations

from fractions import Fraction as F

import numpy as np
import pytest
import worked_fedelasticnet as worked
from algorithm_3 import DiagonalInstance, exact_round
from worked_fedelasticnet_forms import FORMS
from worked_fedelasticnet_forms import worked as worked_forms

from fedtheory import theorems
from fedtheory.theorems.fedelasticnet.one_round import letters

RULES = ("sign", "true-gradient")
LAST = "fedelasticnet/lemma-no-l1-floor"  # the statements behind it have their own file
WITH_ABSOLUTE_VALUES = {("eq-12", "printed, as vectors")}  # of what it compares, as +lambda_1 or -lambda_1 will do
WITHOUT: dict[tuple[str, str], str] = {}  # forms that have no numbers here, and why
NUMBERS = {
    ("eq-11", "printed"): {
        "sign": ("-221/1920,0 0,0 559/1920,-13/96 0,0", "0,0 0,0 0,0 0,0"),
        "true-gradient": ("151/384,0 0,0 115/384,179/480 0,0", "0,0 0,0 0,0 0,0"),
    },
    ("eq-11", "repaired"): {"both": ("0,0 0,0 0,0 0,0", "0,0 0,0 0,0 0,0")},
    ("eq-12", "printed"): {"both": ("0,1/2 -1/2,-1/2 0,0 -1/2,-1/2", "0,1/2 -1/2,-1/2 0,0 -1/2,-1/2")},
    ("eq-12", "printed, as vectors"): {
        "sign": ("-221/1920,1/2 -1/2,-1/2 0,0 -1/2,-1/2", "-1/2,1/2 -1/2,-1/2 0,0 -1/2,-1/2"),
        "true-gradient": ("151/384,1/2 -1/2,-1/2 0,0 -1/2,-1/2", "1/2,1/2 -1/2,-1/2 0,0 -1/2,-1/2"),
    },
    ("eq-14", "printed"): {
        "sign": (
            "215125/1327104 24486793/21233664 8089/147456 131005241/943718400",
            "13458325/11943936 313156561/191102976 202225/147456 131005241/37748736",
        ),
        "true-gradient": (
            "5992909/33177600 26224105/21233664 223057/3686400 138762521/943718400",
            "14863381/11943936 336337201/191102976 223057/147456 138762521/37748736",
        ),
    },
    ("eq-15", "printed"): {
        "sign": (
            "1626937/345600 -9259807/138240 -7781/1200 -6803/512",
            "3975255209/298598400 -9065339299/191102976 -1959257/1228800 -8152995811/943718400",
        ),
        "true-gradient": (
            "331817/69120 -1847003/27648 -2057/320 -67761/5120",
            "3982280489/298598400 -9060703171/191102976 -1924537/1228800 -8114209411/943718400",
        ),
    },
    ("eq-16", "printed"): {"both": ("228917/32000", "330329/28800")},
    ("eq-17", "printed"): {
        "sign": (
            "13458325/1327104 313156561/21233664 202225/16384 131005241/4194304",
            "2143242823/6635520 20469801725/21233664 87167987/737280 18441886777/188743680",
        ),
        "true-gradient": (
            "14863381/1327104 336337201/21233664 223057/16384 138762521/4194304",
            "2251904263/6635520 20613479645/21233664 97638419/737280 19649567257/188743680",
        ),
    },
    ("eq-19", "printed"): {
        "sign": (
            "-2141/960,-2887/864 -2821/1280,-2795/864 -2141/960,-157/48 -2141/960,-2887/864 "
            "-2821/1280,-2795/864 -2013/1024,-809/256 -2141/960,-2887/864 -2141/960,-157/48 "
            "-2013/1024,-809/256 -2821/1280,-2795/864 -2141/960,-157/48 -2013/1024,-809/256",
            "-2141/960,-2887/864 -2821/1280,-2795/864 -2141/960,-157/48 -2141/960,-2887/864 "
            "-2821/1280,-2795/864 -2013/1024,-809/256 -2141/960,-2887/864 -2141/960,-157/48 "
            "-2013/1024,-809/256 -2821/1280,-2795/864 -2141/960,-157/48 -2013/1024,-809/256",
        ),
        "true-gradient": (
            "-425/192,-2875/864 -561/256,-2783/864 -425/192,-781/240 -425/192,-2875/864 -561/256,-2783/864 "
            "-1997/1024,-805/256 -425/192,-2875/864 -425/192,-781/240 -1997/1024,-805/256 -561/256,-2783/864 "
            "-425/192,-781/240 -1997/1024,-805/256",
            "-425/192,-2875/864 -561/256,-2783/864 -425/192,-781/240 -425/192,-2875/864 -561/256,-2783/864 "
            "-1997/1024,-805/256 -425/192,-2875/864 -425/192,-781/240 -1997/1024,-805/256 -561/256,-2783/864 "
            "-425/192,-781/240 -1997/1024,-805/256",
        ),
    },
    ("eq-19", "Theorem 3.1's anchor"): {
        "sign": (
            "-2141/960,-2887/864 -2821/1280,-2795/864 -2141/960,-157/48 -2141/960,-2887/864 "
            "-2821/1280,-2795/864 -2013/1024,-809/256 -2141/960,-2887/864 -2141/960,-157/48 "
            "-2013/1024,-809/256 -2821/1280,-2795/864 -2141/960,-157/48 -2013/1024,-809/256",
            "-3,-145/36 -77/40,-49/18 -45/16,-4 -3,-145/36 -77/40,-49/18 -43/16,-123/32 -3,-145/36 -45/16,-4 "
            "-43/16,-123/32 -77/40,-49/18 -45/16,-4 -43/16,-123/32",
        ),
        "true-gradient": (
            "-425/192,-2875/864 -561/256,-2783/864 -425/192,-781/240 -425/192,-2875/864 -561/256,-2783/864 "
            "-1997/1024,-805/256 -425/192,-2875/864 -425/192,-781/240 -1997/1024,-805/256 -561/256,-2783/864 "
            "-425/192,-781/240 -1997/1024,-805/256",
            "-3,-145/36 -77/40,-49/18 -45/16,-4 -3,-145/36 -77/40,-49/18 -43/16,-123/32 -3,-145/36 -45/16,-4 "
            "-43/16,-123/32 -77/40,-49/18 -45/16,-4 -43/16,-123/32",
        ),
    },
    ("eq-20", "printed"): {
        "sign": ("51282929081/1811939328", "1279017943313/45298483200"),
        "true-gradient": ("1279949394929/45298483200", "1279949394929/45298483200"),
    },
    ("eq-20", "clients that took part"): {
        "sign": (
            "0,1001/576 -4741/512,-6251/576 -61/32,0 0,1001/576 -4741/512,-6251/576 -5085/2048,-681/512 "
            "0,1001/576 -61/32,0 -5085/2048,-681/512 -4741/512,-6251/576 -61/32,0 -5085/2048,-681/512",
            "-221/1920,1001/576 -4741/512,-6251/576 -3101/1920,-13/96 -221/1920,1001/576 -4741/512,-6251/576 "
            "-5085/2048,-681/512 -221/1920,1001/576 -3101/1920,-13/96 -5085/2048,-681/512 -4741/512,-6251/576 "
            "-3101/1920,-13/96 -5085/2048,-681/512",
        ),
        "true-gradient": (
            "-41/384,1013/576 -4725/512,-6239/576 -617/384,-61/480 -41/384,1013/576 -4725/512,-6239/576 "
            "-5069/2048,-677/512 -41/384,1013/576 -617/384,-61/480 -5069/2048,-677/512 -4725/512,-6239/576 "
            "-617/384,-61/480 -5069/2048,-677/512",
            "-41/384,1013/576 -4725/512,-6239/576 -617/384,-61/480 -41/384,1013/576 -4725/512,-6239/576 "
            "-5069/2048,-677/512 -41/384,1013/576 -617/384,-61/480 -5069/2048,-677/512 -4725/512,-6239/576 "
            "-617/384,-61/480 -5069/2048,-677/512",
        ),
    },
    ("eq-20", "repaired"): {
        "sign": ("51282929081/1811939328", "51282929081/1811939328"),
        "true-gradient": ("1279949394929/45298483200", "1279949394929/45298483200"),
    },
    ("eq-21", "printed"): {
        "sign": ("23260598297/76441190400", "23260598297/76441190400"),
        "true-gradient": ("5010298981/15288238080", "5010298981/15288238080"),
    },
    ("gamma", "printed"): {
        "sign": (
            "-25591/11520,-709/216 -98303/46080,-22433/6912 -98707/46080,-67547/20736 -98303/46080,-66811/20736",
            "-25591/11520,-709/216 -98303/46080,-22433/6912 -98707/46080,-67547/20736 -98303/46080,-66811/20736",
        ),
        "true-gradient": (
            "-5083/2304,-3529/1080 -19523/9216,-22333/6912 -19591/9216,-336139/103680 "
            "-19523/9216,-332459/103680",
            "-5083/2304,-3529/1080 -19523/9216,-22333/6912 -19591/9216,-336139/103680 "
            "-19523/9216,-332459/103680",
        ),
    },
    ("lemma-b2", "printed"): {
        "sign": (
            "-5717/2048,-875/384 -27953/8192,-16043/6144 -26525/8192,-44585/18432 -27953/8192,-52873/18432",
            "-5717/2048,-875/384 -27953/8192,-16043/6144 -26525/8192,-44585/18432 -27953/8192,-52873/18432",
        ),
        "true-gradient": (
            "-16807/6144,-23/10 -84275/24576,-16735/6144 -78343/24576,-225193/92160 -84851/24576,-266633/92160",
            "-16807/6144,-23/10 -84275/24576,-16735/6144 -78343/24576,-225193/92160 -84851/24576,-266633/92160",
        ),
    },
    ("lemma-b2", "literal"): {
        "sign": (
            "-5717/2048,-875/384 -27953/8192,-16043/6144 "
            "-26525/8192,-44585/18432 -27953/8192,-52873/18432",
            "-84403/30720,-37/16 -422831/122880,-16043/6144 "
            "-392467/122880,-45209/18432 -410351/122880,-53497/18432",
        ),
        "true-gradient": (
            "-16807/6144,-23/10 -84275/24576,-16735/6144 "
            "-78343/24576,-225193/92160 -84851/24576,-266633/92160",
            "-16807/6144,-23/10 -84275/24576,-16735/6144 "
            "-78343/24576,-225193/92160 -84851/24576,-266633/92160",
        ),
    },
    ("lemma-b3", "printed"): {
        "sign": ("1727/4096,3055/9216", "383167/921600,5161/15360"),
        "true-gradient": ("26849/61440,15967/46080", "76291/184320,25657/76800"),
    },
    ("lemma-b3", "repaired"): {
        "sign": ("1727/4096,3055/9216", "1727/4096,3055/9216"),
        "true-gradient": ("26849/61440,15967/46080", "26849/61440,15967/46080"),
    },
    ("eq-23", "printed"): {
        "sign": ("1727/4096,3055/9216", "383167/921600,5161/15360"),
        "true-gradient": ("26849/61440,15967/46080", "76291/184320,25657/76800"),
    },
    ("eq-23", "stored gradient"): {
        "sign": ("1727/4096,3055/9216", "1727/4096,3055/9216"),
        "true-gradient": ("26849/61440,15967/46080", "76291/184320,25657/76800"),
    },
    ("eq-23", "repaired"): {
        "sign": ("1727/4096,3055/9216", "1727/4096,3055/9216"),
        "true-gradient": ("26849/61440,15967/46080", "26849/61440,15967/46080"),
    },
    ("eq-24", "printed"): {
        "sign": ("383167/921600,5161/15360", "383167/921600,5161/15360"),
        "true-gradient": ("76291/184320,25657/76800", "76291/184320,25657/76800"),
    },
    ("eq-25", "printed"): {
        "sign": ("383167/921600,5161/15360", "383167/921600,5161/15360"),
        "true-gradient": ("76291/184320,25657/76800", "76291/184320,25657/76800"),
    },
    ("eq-26", "printed"): {
        "sign": ("383167/921600,5161/15360", "383167/921600,5161/15360"),
        "true-gradient": ("76291/184320,25657/76800", "76291/184320,25657/76800"),
    },
    ("eq-27", "printed"): {
        "sign": ("367750610747/21743271936", "51282929081/1811939328"),
        "true-gradient": ("9291803869667/543581798400", "1279949394929/45298483200"),
    },
    ("eq-28", "printed"): {
        "sign": ("51282929081/1811939328", "3891587790973/40768634880"),
        "true-gradient": ("1279949394929/45298483200", "3908903029213/40768634880"),
    },
    ("eq-28", "repaired"): {
        "sign": ("51282929081/1811939328", "3715629467773/13589544960"),
        "true-gradient": ("1279949394929/45298483200", "3727370869213/13589544960"),
    },
    ("eq-29", "printed"): {
        "sign": ("199171560347/687970713600", "23260598297/76441190400"),
        "true-gradient": ("215256426299/687970713600", "5010298981/15288238080"),
    },
    ("lemma-b4", "printed"): {
        "sign": ("12446371062683/687970713600", "35467593107903/1719926784000"),
        "true-gradient": ("12321697638203/687970713600", "35521236997343/1719926784000"),
    },
    ("lemma-b4", "repaired"): {
        "sign": ("12446371062683/687970713600", "35437496379839/1719926784000"),
        "true-gradient": ("12321697638203/687970713600", "35095565071583/1719926784000"),
    },
    ("eq-32", "printed"): {
        "sign": ("12446371062683/687970713600", "62292048769543/3439853568000"),
        "true-gradient": ("12321697638203/687970713600", "12491966408507/687970713600"),
    },
    ("eq-32", "repaired"): {
        "sign": ("12446371062683/687970713600", "12446371062683/687970713600"),
        "true-gradient": ("12321697638203/687970713600", "12321697638203/687970713600"),
    },
    ("eq-33", "printed"): {
        "sign": ("62292048769543/3439853568000", "35467593107903/1719926784000"),
        "true-gradient": ("12491966408507/687970713600", "35521236997343/1719926784000"),
    },
    ("eq-34", "printed"): {
        "sign": ("35467593107903/1719926784000", "35467593107903/1719926784000"),
        "true-gradient": ("35521236997343/1719926784000", "35521236997343/1719926784000"),
    },
    ("eq-35", "printed"): {
        "sign": ("35467593107903/1719926784000", "35467593107903/1719926784000"),
        "true-gradient": ("35521236997343/1719926784000", "35521236997343/1719926784000"),
    },
    ("lemma-b5", "printed"): {
        "sign": ("23260598297/171992678400", "3394093/345600"),
        "true-gradient": ("5010298981/34398535680", "3444493/345600"),
    },
    ("eq-36", "printed"): {
        "sign": ("23260598297/76441190400", "634926013553/1911029760000"),
        "true-gradient": ("5010298981/15288238080", "636110582609/1911029760000"),
    },
    ("eq-36", "theta_tilde only"): {
        "sign": ("23260598297/76441190400", "580068096113/1911029760000"),
        "true-gradient": ("5010298981/15288238080", "581637525329/1911029760000"),
    },
    ("eq-36", "repaired"): {
        "sign": ("23260598297/76441190400", "23260598297/76441190400"),
        "true-gradient": ("5010298981/15288238080", "5010298981/15288238080"),
    },
    ("eq-37", "printed"): {
        "sign": ("634926013553/1911029760000", "2553670612241/382205952000"),
        "true-gradient": ("636110582609/1911029760000", "2625707153393/382205952000"),
    },
    ("eq-38", "printed"): {
        "sign": ("2553670612241/382205952000", "3033238765841/382205952000"),
        "true-gradient": ("2625707153393/382205952000", "3089947255793/382205952000"),
    },
    ("eq-39", "printed"): {
        "sign": ("3033238765841/382205952000", "6872774586493/687970713600"),
        "true-gradient": ("3089947255793/382205952000", "6982058131933/687970713600"),
    },
    ("lemma-diagonal", "repaired"): {
        "sign": ("201758433382883260766148584580361/21333608952462219014513230233600", "970187/36864"),
        "true-gradient": ("47824304705344648974587745549737/4538716298763484188956561915904", "1000427/36864"),
    },
    ("lemma-no-l1-floor", "repaired"): {
        "sign": ("23260598297/114661785600", "15421463/3456000"),
        "true-gradient": ("5010298981/22932357120", "15572663/3456000"),
    },
}


def entries(side) -> list[list[F]]:
    """'1,2 3,4' or what the independent code returns, as a list of vectors."""
    if isinstance(side, str):
        return [[F(x) for x in entry.split(",")] for entry in side.split()]
    return [e if isinstance(e, list) else [e] for e in (side if isinstance(side, list) else [side])]


def numbers(key: tuple[str, str], rule: str) -> list[list[list[F]]]:
    """[lhs, rhs] from the table."""
    given = NUMBERS[key]
    return [entries(side) for side in given.get("both") or given[rule]]


def view_of(numbers, rule):
    """The round in the package."""
    instance = DiagonalInstance.exact(numbers.H, numbers.C, numbers.L1, numbers.L2, numbers.PART, rule, numbers.X0)
    return exact_round(instance, instance.after(numbers.BEFORE))


@pytest.fixture(scope="module")
def views():
    """Round 2 in the package, for each rule."""
    return {rule: view_of(worked.PRINTED, rule) for rule in RULES}


@pytest.fixture(scope="module")
def by_hand():
    return {rule: worked_forms(rule) for rule in RULES}


def of_members(side, view) -> list[F]:
    """The entries of the one state; of (cohort, client) those of the members, the others being 0."""
    side = np.array(side[0], dtype=object)
    if side.ndim == 2 and len(side) > 1:
        members = view.members[0] == 1
        assert not side[~members].any()
        side = side[members]
    return list(side.reshape(-1))


def key_id(key: tuple[str, str]) -> str:
    return " ".join(key)


def as_handed_in(sides, view, dim: int) -> list[list[list[F]]]:
    """The two sides of an equation before their difference is taken, an entry a vector of ``dim`` numbers."""
    out = []
    for side in np.broadcast_arrays(*sides.terms):
        side = side[0] if np.shape(side)[1] == 1 or np.ndim(side) < 4 else side[0][view.members[0] == 1]
        out.append(np.array(side, dtype=object).reshape(-1, dim).tolist())
    return out


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("key", NUMBERS, ids=key_id)
def test_the_package_gives_the_numbers(key, rule, views):
    agree(key, views[rule], *numbers(key, rule))


def agree(key, view, left, right):
    """An inequality has both sides; an equation the largest difference of a coordinate, and 0."""
    name, form = key
    sides = theorems.get(f"fedelasticnet/{name}").form(form).sides(view)
    lhs, rhs = of_members(sides.lhs, view), of_members(sides.rhs, view)
    if sides.relation == "==":
        assert lhs == [max(abs(a - b) for a, b in zip(u, v, strict=True)) for u, v in zip(left, right, strict=True)]
        assert not any(rhs)
        assert as_handed_in(sides, view, len(left[0])) in ([left, right], [right, left]) or key in WITH_ABSOLUTE_VALUES
    else:
        assert [lhs, rhs] == [[x for (x,) in side] for side in (left, right)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("key", NUMBERS, ids=key_id)
def test_the_independent_code_gives_the_numbers(key, rule, by_hand):
    assert [entries(side) for side in by_hand[rule][key]] == numbers(key, rule)


@pytest.fixture(scope="module")
def others():
    """(rule, which instance) -> the round on it in the package, and its sides by the independent code."""
    pairs = [(rule, i) for rule in RULES for i in range(len(worked.OTHERS))]
    return {(rule, i): (view_of(worked.OTHERS[i], rule), worked_forms(rule, worked.OTHERS[i])) for rule, i in pairs}


@pytest.mark.parametrize("key", NUMBERS, ids=key_id)
def test_both_agree_on_other_numbers(key, others):
    """So that a factor is seen that is 1, or that another one undoes, on the first instance."""
    for view, by_hand in others.values():
        agree(key, view, *(entries(side) for side in by_hand[key]))


@pytest.mark.parametrize("key", NUMBERS, ids=key_id)
def test_the_axes_are_named_by_what_the_entries_are(key, others):
    """Four clients, six cohorts, one state; entries of one axis are states."""
    view = others["sign", 1][0]
    sides = theorems.get(f"fedelasticnet/{key[0]}").form(key[1]).sides(view)
    sizes = {"state": 1, "": 1, "cohort": 6, "client": 4}
    unnamed = ["state", ""] if sides.relation == "==" else ["state"]
    assert np.shape(sides.lhs) == tuple(sizes[a] for a in sides.axes or unnamed)
    assert not np.any(sides.noise)  # fractions are what they are


@pytest.mark.parametrize("key", NUMBERS, ids=key_id)
def test_a_mutant_is_another_claim_than_its_form(key, others):
    form = theorems.get(f"fedelasticnet/{key[0]}").form(key[1])
    for mutant in form.mutants:
        pairs = [(form.sides(view), mutant.sides(view)) for view, _ in others.values()]
        assert any((a.lhs != b.lhs).any() or (a.rhs != b.rhs).any() for a, b in pairs), mutant.name


def test_no_number_of_the_others_hides_a_factor(others):
    for view, _ in others.values():
        v = letters(view)
        found = [v.beta, v.lambda1, v.lambda2, v.m, v.P, v.d]
        assert len(set(found)) >= 5 and not {0, 1} & set(found)
        assert 0 < v.zeros[0, 0] < v.d and (v.delta > 0).any() and (v.delta < 0).any() and (v.h != 0).all()


def test_lemma_b5_by_hand():
    """The sign rule. Round 1 from (-3, -4), with v = -grad L_k and delta = (v -+ 1/2)/(H + 15/2):

    client 0: v = (1/2, -3/4), delta = (0, -1/36); client 1: v = (45/4, 12), delta = (43/40, 23/18);
    client 2: v = (2, 1/2), delta = (3/16, 0). They store -15/2 delta - sign/2. The curvatures of a
    coordinate add up to 4, so that R - R* = ||gamma - theta*||^2/2.
    """
    stored = entries("0,17/24 -137/16,-121/12 -61/32,0 0,0")
    at_star = entries("51/32,93/16 -25/32,-111/16 3/32,19/16 -29/32,-1/16")  # at theta* = (19/16, -5/8); they add up to 0
    c = sum((x - y) ** 2 for u, v in zip(stored, at_star, strict=True) for x, y in zip(u, v, strict=True)) / 4
    gamma = F(-619, 240), F(-43, 12)  # the mean of the three models
    gap = ((gamma[0] - F(19, 16)) ** 2 + (gamma[1] + F(5, 8)) ** 2) / 2
    (_, ((right,),)) = numbers(("lemma-b5", "printed"), "sign")
    # lambda_2^2 = 225/4, beta = 5/2, lambda_1 = 1/2, d = 2: 10/lambda_2^2, 10 beta/lambda_2^2, 5 lambda_1^2 d/lambda_2^2
    assert right == F(8, 45) * c + F(4, 9) * gap + F(2, 45)


@pytest.mark.parametrize("rule", RULES)
def test_what_cancels_in_25_is_pinned_by_its_mutant(rule, views, by_hand):
    """Both sides of (25) share their summands; divided by m for P they differ by 1 - P/m of the mean, without h."""
    view = views[rule]
    (mutant,) = theorems.get("fedelasticnet/eq-25").form("printed").mutants
    (side,) = by_hand[rule]["eq-26", "printed"][0]
    mean = [x + h / worked.PRINTED.L2 for x, h in zip(side, view.state.h[0, 0], strict=True)]
    assert mutant.sides(view).lhs[0, 0] == (1 - view.P / view.N) * max(map(abs, mean))


def test_every_form_up_to_the_last_one_has_numbers_or_a_reason():
    names = [s.id for s in theorems.all_statements("fedelasticnet/") if s.scope == "round"]
    mine = names[: names.index(LAST) + 1]
    forms = {(n.split("/")[1], f.name) for n in mine for f in theorems.get(n).forms}
    missing = sorted(forms - set(NUMBERS) - set(WITHOUT))
    assert not missing, f"without a worked instance: {missing}; add its formula to worked_fedelasticnet_forms.py and its numbers"
    assert set(NUMBERS) <= set(FORMS)
    assert {rule for n in mine for f in theorems.get(n).forms for rule in f.established} == set(RULES)


def test_the_instance_hides_nothing(views):
    """Numbers in the forms are not 0 and differ, so that no constant, index or weight can hide."""
    for view in map(letters, views.values()):
        assert (view.delta > 0).any() and (view.delta < 0).any()
        assert view.zeros[0, 0] == F(3, 4) and not view.delta[0, 0, 2].any()  # client 2 rests
        assert (view.lambda1_s != view.lambda1_sign).any()
        found = [view.beta, view.lambda1, view.lambda2, view.m, view.P, view.d]
        found += [x[0, 0] for x in (view.epsilon, view.C, view.C_next, view.D, view.A, view.A_next, view.move)]
        assert all(x > 0 for x in found) and len(set(found)) == len(found)
        assert (view.h != 0).all() and (view.theta != view.gamma).all()
        assert not (view.stored[0, 0, 3]).any() and (view.stored[0, 0, :3] != 0).any()  # client 3 never took part
    sign, true = map(letters, (views["sign"], views["true-gradient"]))
    assert (sign.stored != true.stored).any() and sign.epsilon != true.epsilon
