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
from worked_fedelasticnet_forms import FORMS
from worked_fedelasticnet_forms import worked as worked_forms

from fedtheory import theorems
from fedtheory.theorems.fedelasticnet.exact import DiagonalInstance

RULES = ("sign", "true-gradient")
LAST = "fedelasticnet/lemma-no-l1-floor"  # the statements behind it have their own file
WITHOUT: dict[tuple[str, str], str] = {}  # forms that have no numbers here, and why
NUMBERS = {
    ("eq-11", "printed"): {
        "sign": ("-121/384,0 -145/384,0 0,71/144 0,0", "0,0 0,0 0,0 0,0"),
        "true-gradient": ("-121/384,0 -145/384,0 0,43/180 0,0", "0,0 0,0 0,0 0,0"),
    },
    ("eq-11", "repaired"): {"both": ("0,0 0,0 0,0 0,0", "0,0 0,0 0,0 0,0")},
    ("eq-12", "printed"): {"both": ("0,1/2 0,-1/2 1/2,0 1/2,-1/2", "0,1/2 0,-1/2 1/2,0 1/2,-1/2")},
    ("eq-12", "printed, as vectors"): {
        "sign": ("-121/384,1/2 -145/384,-1/2 1/2,71/144 1/2,-1/2", "-1/2,1/2 -1/2,-1/2 1/2,1/2 1/2,-1/2"),
        "true-gradient": ("-121/384,1/2 -145/384,-1/2 1/2,43/180 1/2,-1/2", "-1/2,1/2 -1/2,-1/2 1/2,1/2 1/2,-1/2"),
    },
    ("eq-14", "printed"): {
        "sign": (
            "3480409/33177600 507601/3686400 2242721/2359296 594483409/8493465600",
            "12350881/11943936 1493209/1327104 2857121/2359296 594483409/339738624",
        ),
        "true-gradient": (
            "3299209/33177600 53689/409600 56017849/58982400 583525009/8493465600",
            "12169681/11943936 163201/147456 2806945/2359296 583525009/339738624",
        ),
    },
    ("eq-15", "printed"): {
        "sign": (
            "-1400671/829440 -4423669/276480 -19741237/663552 -24887659/4423680",
            "916784789/298598400 -375979219/33177600 -384643243/21233664 -21617546219/8493465600",
        ),
        "true-gradient": (
            "-1417711/829440 -4429349/276480 -98733449/3317760 -24921739/4423680",
            "915878789/298598400 -125367073/11059200 -1923667799/106168320 -21672338219/8493465600",
        ),
    },
    ("eq-16", "printed"): {"both": ("50301263/10368000", "7762009/1036800")},
    ("eq-17", "printed"): {
        "sign": (
            "12350881/1327104 1493209/147456 2857121/262144 594483409/37748736",
            "1222267303/6635520 109896767/737280 13617289885/21233664 127873323473/1698693120",
        ),
        "true-gradient": (
            "12169681/1327104 163201/16384 2806945/262144 583525009/37748736",
            "1215735703/6635520 109166767/737280 67553859857/106168320 126236662673/1698693120",
        ),
    },
    ("eq-19", "printed"): {
        "sign": (
            "329/192,-883/432 329/192,-289/144 433/256,-145/72 329/192,-883/432 329/192,-289/144 "
            "1709/1024,-725/384 329/192,-883/432 433/256,-145/72 1709/1024,-725/384 329/192,-289/144 "
            "433/256,-145/72 1709/1024,-725/384",
            "329/192,-883/432 329/192,-289/144 433/256,-145/72 329/192,-883/432 329/192,-289/144 "
            "1709/1024,-725/384 329/192,-883/432 433/256,-145/72 1709/1024,-725/384 329/192,-289/144 "
            "433/256,-145/72 1709/1024,-725/384",
        ),
        "true-gradient": (
            "329/192,-443/216 329/192,-145/72 433/256,-91/45 329/192,-443/216 329/192,-145/72 "
            "1709/1024,-91/48 329/192,-443/216 433/256,-91/45 1709/1024,-91/48 329/192,-145/72 433/256,-91/45 "
            "1709/1024,-91/48",
            "329/192,-443/216 329/192,-145/72 433/256,-91/45 329/192,-443/216 329/192,-145/72 "
            "1709/1024,-91/48 329/192,-443/216 433/256,-91/45 1709/1024,-91/48 329/192,-145/72 433/256,-91/45 "
            "1709/1024,-91/48",
        ),
    },
    ("eq-19", "Theorem 3.1's anchor"): {
        "sign": (
            "329/192,-883/432 329/192,-289/144 433/256,-145/72 329/192,-883/432 329/192,-289/144 "
            "1709/1024,-725/384 329/192,-883/432 433/256,-145/72 1709/1024,-725/384 329/192,-289/144 "
            "433/256,-145/72 1709/1024,-725/384",
            "75/32,-91/36 79/32,-59/36 57/40,-5/2 75/32,-91/36 79/32,-59/36 77/32,-75/32 75/32,-91/36 "
            "57/40,-5/2 77/32,-75/32 79/32,-59/36 57/40,-5/2 77/32,-75/32",
        ),
        "true-gradient": (
            "329/192,-443/216 329/192,-145/72 433/256,-91/45 329/192,-443/216 329/192,-145/72 "
            "1709/1024,-91/48 329/192,-443/216 433/256,-91/45 1709/1024,-91/48 329/192,-145/72 433/256,-91/45 "
            "1709/1024,-91/48",
            "75/32,-91/36 79/32,-59/36 57/40,-5/2 75/32,-91/36 79/32,-59/36 77/32,-75/32 75/32,-91/36 "
            "57/40,-5/2 77/32,-75/32 79/32,-59/36 57/40,-5/2 77/32,-75/32",
        ),
    },
    ("eq-20", "printed"): {
        "sign": ("34994186377/1811939328", "34218717833/1811939328"),
        "true-gradient": ("845204703521/45298483200", "856529324321/45298483200"),
    },
    ("eq-20", "clients that took part"): {
        "sign": (
            "107/64,413/288 47/64,-721/96 4725/512,0 107/64,413/288 47/64,-721/96 1709/2048,-1109/768 "
            "107/64,413/288 4725/512,0 1709/2048,-1109/768 47/64,-721/96 4725/512,0 1709/2048,-1109/768",
            "521/384,413/288 137/384,-721/96 4725/512,71/144 521/384,413/288 137/384,-721/96 "
            "1709/2048,-1109/768 521/384,413/288 4725/512,71/144 1709/2048,-1109/768 137/384,-721/96 "
            "4725/512,71/144 1709/2048,-1109/768",
        ),
        "true-gradient": (
            "521/384,205/144 137/384,-361/48 4725/512,22/45 521/384,205/144 137/384,-361/48 1709/2048,-139/96 "
            "521/384,205/144 4725/512,22/45 1709/2048,-139/96 137/384,-361/48 4725/512,22/45 "
            "1709/2048,-139/96",
            "521/384,205/144 137/384,-361/48 4725/512,22/45 521/384,205/144 137/384,-361/48 1709/2048,-139/96 "
            "521/384,205/144 4725/512,22/45 1709/2048,-139/96 137/384,-361/48 4725/512,22/45 "
            "1709/2048,-139/96",
        ),
    },
    ("eq-20", "repaired"): {
        "sign": ("34994186377/1811939328", "34994186377/1811939328"),
        "true-gradient": ("845204703521/45298483200", "845204703521/45298483200"),
    },
    ("eq-21", "printed"): {
        "sign": ("15655358569/76441190400", "15655358569/76441190400"),
        "true-gradient": ("15389100073/76441190400", "15389100073/76441190400"),
    },
    ("gamma", "printed"): {
        "sign": (
            "3931/2304,-655/324 15655/9216,-20525/10368 15587/9216,-20549/10368 15587/9216,-2269/1152",
            "3931/2304,-655/324 15655/9216,-20525/10368 15587/9216,-20549/10368 15587/9216,-2269/1152",
        ),
        "true-gradient": (
            "3931/2304,-3287/1620 15655/9216,-2575/1296 15587/9216,-12893/6480 15587/9216,-4271/2160",
            "3931/2304,-3287/1620 15655/9216,-2575/1296 15587/9216,-12893/6480 15587/9216,-4271/2160",
        ),
    },
    ("lemma-b2", "printed"): {
        "sign": (
            "5957/2048,-875/576 24173/8192,-17327/9216 25537/8192,-16055/9216 25537/8192,-2111/1024",
            "5957/2048,-875/576 24173/8192,-17327/9216 25537/8192,-16055/9216 25537/8192,-2111/1024",
        ),
        "true-gradient": (
            "16807/6144,-673/480 68263/24576,-2101/1152 74675/24576,-1039/640 74291/24576,-11191/5760",
            "16807/6144,-673/480 68263/24576,-2101/1152 74675/24576,-1039/640 74291/24576,-11191/5760",
        ),
    },
    ("lemma-b2", "literal"): {
        "sign": (
            "5957/2048,-875/576 24173/8192,-17327/9216 25537/8192,-16055/9216 25537/8192,-2111/1024",
            "18727/6144,-11/6 68263/24576,-16751/9216 74675/24576,-4973/3072 74291/24576,-17863/9216",
        ),
        "true-gradient": (
            "16807/6144,-673/480 68263/24576,-2101/1152 74675/24576,-1039/640 74291/24576,-11191/5760",
            "18727/6144,-883/480 68263/24576,-2101/1152 74675/24576,-1039/640 74291/24576,-11191/5760",
        ),
    },
    ("lemma-b3", "printed"): {
        "sign": ("-23489/61440,3235/13824", "-66211/184320,557/2560"),
        "true-gradient": ("-23489/61440,1957/8640", "-66211/184320,1049/4800"),
    },
    ("lemma-b3", "repaired"): {
        "sign": ("-23489/61440,3235/13824", "-23489/61440,3235/13824"),
        "true-gradient": ("-23489/61440,1957/8640", "-23489/61440,1957/8640"),
    },
    ("eq-23", "printed"): {
        "sign": ("-23489/61440,3235/13824", "-66211/184320,557/2560"),
        "true-gradient": ("-23489/61440,1957/8640", "-66211/184320,1049/4800"),
    },
    ("eq-23", "stored gradient"): {
        "sign": ("-23489/61440,3235/13824", "-23489/61440,3235/13824"),
        "true-gradient": ("-23489/61440,1957/8640", "-66211/184320,1049/4800"),
    },
    ("eq-23", "repaired"): {
        "sign": ("-23489/61440,3235/13824", "-23489/61440,3235/13824"),
        "true-gradient": ("-23489/61440,1957/8640", "-23489/61440,1957/8640"),
    },
    ("eq-24", "printed"): {
        "sign": ("-66211/184320,557/2560", "-66211/184320,557/2560"),
        "true-gradient": ("-66211/184320,1049/4800", "-66211/184320,1049/4800"),
    },
    ("eq-25", "printed"): {
        "sign": ("-66211/184320,557/2560", "-66211/184320,557/2560"),
        "true-gradient": ("-66211/184320,1049/4800", "-66211/184320,1049/4800"),
    },
    ("eq-26", "printed"): {
        "sign": ("-66211/184320,557/2560", "-66211/184320,557/2560"),
        "true-gradient": ("-66211/184320,1049/4800", "-66211/184320,1049/4800"),
    },
    ("eq-27", "printed"): {
        "sign": ("90107973817/7247757312", "34994186377/1811939328"),
        "true-gradient": ("6152162182643/543581798400", "845204703521/45298483200"),
    },
    ("eq-28", "printed"): {
        "sign": ("34994186377/1811939328", "2545989844493/40768634880"),
        "true-gradient": ("845204703521/45298483200", "2543066027213/40768634880"),
    },
    ("eq-28", "repaired"): {
        "sign": ("34994186377/1811939328", "2429787420173/13589544960"),
        "true-gradient": ("845204703521/45298483200", "2427925286093/13589544960"),
    },
    ("eq-29", "printed"): {
        "sign": ("46174948057/229323571200", "15655358569/76441190400"),
        "true-gradient": ("45381329561/229323571200", "15389100073/76441190400"),
    },
    ("lemma-b4", "printed"): {
        "sign": ("107376430657/9172942848", "7759114445861/573308928000"),
        "true-gradient": ("2690409155609/229323571200", "2585488251127/191102976000"),
    },
    ("lemma-b4", "repaired"): {
        "sign": ("107376430657/9172942848", "7633806060581/573308928000"),
        "true-gradient": ("2690409155609/229323571200", "2550105108727/191102976000"),
    },
    ("eq-32", "printed"): {
        "sign": ("107376430657/9172942848", "2734534120537/229323571200"),
        "true-gradient": ("2690409155609/229323571200", "2732868926489/229323571200"),
    },
    ("eq-32", "repaired"): {
        "sign": ("107376430657/9172942848", "107376430657/9172942848"),
        "true-gradient": ("2690409155609/229323571200", "2690409155609/229323571200"),
    },
    ("eq-33", "printed"): {
        "sign": ("2734534120537/229323571200", "7759114445861/573308928000"),
        "true-gradient": ("2732868926489/229323571200", "2585488251127/191102976000"),
    },
    ("eq-34", "printed"): {
        "sign": ("7759114445861/573308928000", "7759114445861/573308928000"),
        "true-gradient": ("2585488251127/191102976000", "2585488251127/191102976000"),
    },
    ("eq-35", "printed"): {
        "sign": ("7759114445861/573308928000", "7759114445861/573308928000"),
        "true-gradient": ("2585488251127/191102976000", "2585488251127/191102976000"),
    },
    ("lemma-b5", "printed"): {
        "sign": ("15655358569/171992678400", "121064657/18662400"),
        "true-gradient": ("15389100073/171992678400", "120546257/18662400"),
    },
    ("eq-36", "printed"): {
        "sign": ("15655358569/76441190400", "15685755497/76441190400"),
        "true-gradient": ("15389100073/76441190400", "391065218561/1911029760000"),
    },
    ("eq-36", "theta_tilde only"): {
        "sign": ("15655358569/76441190400", "14005964393/76441190400"),
        "true-gradient": ("15389100073/76441190400", "348912294401/1911029760000"),
    },
    ("eq-36", "repaired"): {
        "sign": ("15655358569/76441190400", "15655358569/76441190400"),
        "true-gradient": ("15389100073/76441190400", "15389100073/76441190400"),
    },
    ("eq-37", "printed"): {
        "sign": ("15685755497/76441190400", "1780832464609/382205952000"),
        "true-gradient": ("391065218561/1911029760000", "353780090093/76441190400"),
    },
    ("eq-38", "printed"): {
        "sign": ("1780832464609/382205952000", "2042541290209/382205952000"),
        "true-gradient": ("353780090093/76441190400", "406360733933/76441190400"),
    },
    ("eq-39", "printed"): {
        "sign": ("2042541290209/382205952000", "4541204308493/687970713600"),
        "true-gradient": ("406360733933/76441190400", "4520762718413/687970713600"),
    },
    ("lemma-diagonal", "repaired"): {
        "sign": ("481633951966275337513404292901/62456460080964619186963759104", "1291981/73728"),
        "true-gradient": ("6263075252139270297689562373/831465820129485728983302144", "1280461/73728"),
    },
    ("lemma-no-l1-floor", "repaired"): {
        "sign": ("15655358569/114661785600", "182331289/62208000"),
        "true-gradient": ("15389100073/114661785600", "181812889/62208000"),
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


@pytest.fixture(scope="module")
def views():
    """Round 2 in the package, for each rule."""
    out = {}
    for rule in RULES:
        instance = DiagonalInstance.exact(worked.H, worked.C, worked.L1, worked.L2, worked.PART, rule, worked.X0)
        out[rule] = instance.round_view(instance.after([worked.FIRST]))
    return out


@pytest.fixture(scope="module")
def by_hand():
    return {rule: worked_forms(rule) for rule in RULES}


def of_members(side, view) -> list[F]:
    """The entries of the one state; of (cohort, client) those of the members, the others being 0."""
    side = np.array(side[0], dtype=object)
    if side.ndim == 2:
        assert not side[~view.members].any()
        side = side[view.members]
    return list(side.reshape(-1))


def key_id(key: tuple[str, str]) -> str:
    return " ".join(key)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("key", NUMBERS, ids=key_id)
def test_the_package_gives_the_numbers(key, rule, views):
    """An inequality has both sides; an equation the largest difference of a coordinate, and 0."""
    name, form = key
    view = views[rule]
    sides = theorems.get(f"fedelasticnet/{name}").form(form).sides(view)
    left, right = numbers(key, rule)
    lhs, rhs = of_members(sides.lhs, view), of_members(sides.rhs, view)
    if sides.relation == "==":
        assert lhs == [max(abs(a - b) for a, b in zip(u, v, strict=True)) for u, v in zip(left, right, strict=True)]
        assert not any(rhs)
    else:
        assert [lhs, rhs] == [[x for (x,) in side] for side in (left, right)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("key", NUMBERS, ids=key_id)
def test_the_independent_code_gives_the_numbers(key, rule, by_hand):
    assert [entries(side) for side in by_hand[rule][key]] == numbers(key, rule)


def test_every_form_up_to_the_last_one_has_numbers_or_a_reason():
    names = [s.id for s in theorems.all_statements("fedelasticnet/")]
    mine = names[: names.index(LAST) + 1]
    forms = {(n.split("/")[1], f.name) for n in mine for f in theorems.get(n).forms}
    missing = sorted(forms - set(NUMBERS) - set(WITHOUT))
    assert not missing, f"without a worked instance: {missing}; add its formula to worked_fedelasticnet_forms.py and its numbers"
    assert set(NUMBERS) <= set(FORMS)
    assert {rule for n in mine for f in theorems.get(n).forms for rule in f.established} == set(RULES)


def test_the_instance_hides_nothing(views):
    """What the forms are made of is not 0 and differs, so that no constant, index or weight can hide."""
    for view in views.values():
        assert (view.delta > 0).any() and (view.delta < 0).any()
        assert view.zeros[0] == F(3, 4) and (view.lambda1_s != view.lambda1_sign).any()
        letters = [view.beta, view.lambda1, view.lambda2, view.m, view.P, view.d]
        letters += [x[0] for x in (view.epsilon, view.C, view.C_next, view.D, view.A, view.A_next, view.move)]
        assert all(x > 0 for x in letters) and len(set(letters)) == len(letters)
        assert (view.h != 0).all() and (view.theta != view.gamma).all()
        assert not (view.stored[0, 3]).any() and (view.stored[0, :3] != 0).any()  # client 3 never took part
