"""Worked instances of (2), (3), (6), the order of C_tau and EFL's sentences: both sides of every form as numbers.

A bound that holds with room also holds with a slightly wrong constant; these numbers notice. They were worked out from the
paper's formulas in `validation/references/worked_efl_sentences*.py`, which share nothing with the library.
"""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import worked_efl
import worked_efl_sentences
import worked_efl_sentences_4
from efl_on_a_problem import BUILDERS

from fedtheory.theorems import all_statements, get

STATEMENTS = (
    "elastic-rearrangement", "server-step", "order-of-c", "costs", "tolerance", "departure-early-or-late", "staleness",
    "coefficient-as-step", "theorem-2-conclusion", "shift-bound",
)  # fmt: skip
# (statement, form, what tells several instances apart, of order-of-c the scheme): (lhs, rhs); of an
# equality the two sides that should agree.
NUMBERS: dict[tuple[str, ...], tuple[str, str]] = {
    ("elastic-rearrangement", "printed"): ("627/16 627/16", "627/16 627/16"),
    ("elastic-rearrangement", "Z"): ("627/16 627/16 627/16", "627/16 627/16 627/16"),
    ("elastic-rearrangement", "elastic gradient"): (
        "9/4 -6 -63/4 -111/8 27/4 -87/4",
        "9/4 -6 -63/4 -111/8 27/4 -87/4",
    ),
    ("elastic-rearrangement", "the sums over those that take part"): (
        "9/4 -6 -63/4 -111/8 27/4 -87/4",
        "0 3 -12 15/8 3 3/4",
    ),
    ("elastic-rearrangement", "one Z for all rounds"): ("627/16", "153/8"),
    ("server-step", "printed"): (
        "-5/64 307/256 -6751/16384 23953/16384 -807475/1048576 7229473/4194304",
        "-53/256 2885/2048 -50393/131072 101347/65536 -1739231/4194304 60133895/33554432",
    ),
    ("server-step", "printed, second line"): (
        "-5/64 307/256 -6751/16384 23953/16384 -807475/1048576 7229473/4194304",
        "-5/64 307/256 -6751/16384 23953/16384 -807475/1048576 7229473/4194304",
    ),
    ("server-step", "up to s-1"): (
        "-5/64 307/256 -6751/16384 23953/16384 -807475/1048576 7229473/4194304",
        "-5/64 307/256 -5215/16384 23953/16384 -385715/1048576 7229473/4194304",
    ),
    ("server-step", "with R^k"): (
        "-5/64 307/256 -6751/16384 23953/16384 -807475/1048576 7229473/4194304",
        "-53/256 2885/2048 -62681/131072 101347/65536 -3426271/4194304 60133895/33554432",
    ),
    ("server-step", "repaired"): (
        "-5/64 307/256 -6751/16384 23953/16384 -807475/1048576 7229473/4194304",
        "-5/64 307/256 -6751/16384 23953/16384 -807475/1048576 7229473/4194304",
    ),
    ("server-step", "up to s-1, nothing left out"): (
        "85/64 15055/16384 595555/1048576",
        "85/64 15055/16384 595555/1048576",
    ),
    ("server-step", "text of 3.1"): (
        "0 307/256 -69/256 307/256 -349/16384 16589/8192",
        "-5/64 307/256 -69/256 23953/16384 -2593/16384 120427/65536",
    ),
    ("server-step", "repaired, consistent form"): (
        "0 307/256 -93/256 307/256 -93/256 28873/16384",
        "0 307/256 -93/256 307/256 -93/256 28873/16384",
    ),
    ("costs", "gradients to converge"): ("8", "6"),
    ("costs", "bits to converge"): ("560", "1152"),
    ("costs", "bits a round"): ("454", "192"),
    ("costs", "bits a round, at least"): ("384", "454"),
    ("costs", "bits a round, lambda = 0"): ("70", "192"),
    ("order-of-c", "printed", "A"): (
        "290400187187200/812763081 506135159727624608/1075285556163",
        "580800374374400/812763081 290400187187200/270921027",
    ),
    ("order-of-c", "printed", "B"): (
        "3091557882004/1378125 4829738511508/1378125",
        "386262362112/153125 579393543168/153125",
    ),
    ("order-of-c", "printed", "C"): (
        "697606646644/372645 1066738887028/372645",
        "82029386752/41405 123044080128/41405",
    ),
    ("order-of-c", "printed", "C-corrected"): ("2206401416/1155 10273926112/3465", "7309443728/3465 3654721864/1155"),
    ("order-of-c", "repaired", "A"): (
        "968039157737364904/1075285556163 1257261660377488040/1075285556163",
        "452544436731494512/358428518721 226272218365747256/119476172907",
    ),
    ("order-of-c", "repaired", "B"): (
        "15257228213816/6890625 3226677447848/984375",
        "2261905030848/765625 3392857546272/765625",
    ),
    ("order-of-c", "repaired", "C"): (
        "4988197499846/1863225 547461906182/143325",
        "754456799888/207025 1131685199832/207025",
    ),
    ("order-of-c", "repaired", "C-corrected"): (
        "136757161642/40425 621207976916/121275",
        "584428588972/121275 292214294486/40425",
    ),
    ("order-of-c", "one rate", "A"): (
        "968039157737364904/1075285556163 1257261660377488040/1075285556163",
        "324477954181939312/358428518721 140894563332710456/119476172907",
    ),
    ("order-of-c", "one rate", "B"): (
        "15257228213816/6890625 3226677447848/984375",
        "277906135872/109375 2759733386784/765625",
    ),
    ("order-of-c", "one rate", "C"): (
        "4988197499846/1863225 547461906182/143325",
        "47212503248/15925 850296684504/207025",
    ),
    ("order-of-c", "one rate", "C-corrected"): (
        "136757161642/40425 621207976916/121275",
        "503150786476/121275 238029092822/40425",
    ),
    ("order-of-c", "explicit", "A"): (
        "968039157737364904/1075285556163 1257261660377488040/1075285556163",
        "1359680850415616/812763081 1894321182029824/812763081",
    ),
    ("order-of-c", "explicit", "B"): (
        "15257228213816/6890625 3226677447848/984375",
        "1977842737344/765625 401211866592/109375",
    ),
    ("order-of-c", "explicit", "C"): (
        "4988197499846/1863225 547461906182/143325",
        "1153890021504/207025 237212557632/29575",
    ),
    ("order-of-c", "explicit", "C-corrected"): (
        "136757161642/40425 621207976916/121275",
        "132827472672/13475 194725775536/13475",
    ),
    ("order-of-c", "and converges", "A"): (
        "124083255094807157/14219408349280134 65340914448956578/5757926776453215",
        "28290336932373799/358428518721 56593293138058382/1075285556163",
    ),
    ("order-of-c", "and converges", "B"): (
        "3871310952494/137459270025 23047616479256/561577878225",
        "188536929904/2296875 377163547808/6890625",
    ),
    ("order-of-c", "and converges", "C"): (
        "229973986313/11004250950 7260650828366/246140015625",
        "188647134692/1863225 377360138824/5589675",
    ),
    ("order-of-c", "and converges", "C-corrected"): (
        "68378580821/2590514850 621207976916/15804679275",
        "146107147243/1091475 292214294486/3274425",
    ),
    ("tolerance", "through (8)"): ("112/6845", "56/4805"),
    ("tolerance", "through (8), late"): ("1176/96605", "32/2527"),
    ("tolerance", "through (8), exactly"): ("103432/56280125", "103432/56280125"),
    ("tolerance", "through (9)"): ("7/60", "2/15"),
    ("tolerance", "one absence"): ("353595904/41874664689 22099744/516971169", "22099744/516971169 70144/339889"),
    ("tolerance", "one absence, any start"): (
        "3073623725/7110792117 45935917357849/108916002856089",
        "45935917357849/108916002856089 1117699849/2230011729",
    ),
    ("departure-early-or-late", "through the bounds"): (
        (
            "6082147/33407138 1883278/13579225 40893/439922 360695/8300161 -152905/12290882 "
            "-345744/4313929"
        ),
        "15/67 6082147/33407138 1883278/13579225 40893/439922 360695/8300161 -152905/12290882",
    ),
    ("departure-early-or-late", "from the optimum"): (
        "6892523559/296700625 171158319/8497225 1791/121",
        "53348988045871/2143662015625 6892523559/296700625 171158319/8497225",
    ),
    ("departure-early-or-late", "from the optimum, coordinates that mix"): (
        (
            "98135031415098536551434766/2173475022599697972853681 "
            "408634905139159918/9009890911993537 5064013464447874/126863030695801 5544754/1957201"
        ),
        (
            "1481868703017900866231985407216446/33075510372392706410990719575481 "
            "98135031415098536551434766/2173475022599697972853681 "
            "408634905139159918/9009890911993537 5064013464447874/126863030695801"
        ),
    ),
    ("departure-early-or-late", "any start"): (
        "296193622492997/13890929861250 1936445717/102388050 523664693/36859698",
        "19064545707001/857464806250 296193622492997/13890929861250 1936445717/102388050",
    ),
    ("staleness", "the others in turn"): (
        "0 163840/2601 98945104/439569",
        "163840/2601 98945104/439569 273880387024/1234749321",
    ),
    ("staleness", "all others"): (
        "0 570368/7225 1037366336/6105125",
        "570368/7225 1037366336/6105125 484019169279808/2143662015625",
    ),
    ("staleness", "all others, coordinates that mix"): (
        "0 1036800/5329 2526220800/12794929 3398686459200/17516257801",
        (
            "1036800/5329 2526220800/12794929 3398686459200/17516257801 "
            "74355955713000000/388878439440001"
        ),
    ),
    ("staleness", "bound"): (
        "128/17 128/51 2580/221 6248/663 139044/11713 316040/35139",
        "128/17 128/51 2580/221 6248/663 139044/11713 115416/11713",
    ),
    ("coefficient-as-step", "equivalent"): ("555/128 -18025/8192", "1455/512 -65425/32768"),
    ("coefficient-as-step", "one local step"): ("15/8 -25/32", "15/8 -25/32"),
    ("coefficient-as-step", "further"): ("1455/512 65425/32768", "555/128 18025/8192"),
    ("coefficient-as-step", "by how much"): ("765/512 6675/32768", "135/64 225/1024"),
    ("coefficient-as-step", "by how much", "attained"): ("45/64 75/1024", "45/64 75/1024"),
    ("coefficient-as-step", "compensates"): ("185/64 -18025/12288", "2343/1024 -1446005/1048576"),
    ("coefficient-as-step", "at least compensates"): ("2343/1024 1446005/1048576", "185/64 18025/12288"),
    ("coefficient-as-step", "at most"): ("617/1024 276385/3145728", "15/16 25/256"),
    ("coefficient-as-step", "at most", "attained"): ("1/4", "1/4"),
    ("theorem-2-conclusion", "(11), fewer samples"): ("1/4", "729/21025"),
    ("theorem-2-conclusion", "(11) repaired, fewer samples"): ("734967/92450", "71856696/2608225"),
    ("theorem-2-conclusion", "(11) repaired, fewer samples, any loss"): ("31696/2025", "1"),
    ("theorem-2-conclusion", "(11) repaired, fewer samples, steeper outwards"): ("70/9", "11955/1058"),
    ("theorem-2-conclusion", "(10), fewer samples"): ("35952606/1002001", "21305248/160083"),
    ("theorem-2-conclusion", "more alike"): (
        "85220992/4002075 383235712/70422075 287426784/65205625",
        "85220992/4002075 383235712/70422075 287426784/65205625",
    ),
    ("shift-bound", "an additional term"): ("35174252304/256800625", "15206858087184/122041929025"),
    ("shift-bound", "at the shift"): (
        (
            "762466961321508/115530703687441 762466961321508/115530703687441 "
            "762466961321508/115530703687441 762466961321508/115530703687441"
        ),
        "32516985813/261802100 4097687609/264420121 9864714777/528840242 9055265427/264420121",
    ),
    ("shift-bound", "at the shift", "arrival"): (
        (
            "110081944208479/31894843130332 110081944208479/31894843130332 "
            "110081944208479/31894843130332 110081944208479/31894843130332"
        ),
        (
            "245513982611/2626378300 36728608069/1969783725 32473875223/1313189150 "
            "31055630941/656594575"
        ),
    ),
    ("shift-bound", "approximately"): ("408412645540329/66017544964252", "53117418537/2115360968"),
    ("shift-bound", "fresh start"): (
        (
            "762466961321508/115530703687441 9004266579077135740708/1718686621340327977009 "
            "3829713771954028059254503612/921208417711949859938640103"
        ),
        (
            "4097687609/264420121 27659770092811377507072/1718686621340327977009 "
            "7230250076401249689984/433467618783464321329"
        ),
    ),
    ("shift-bound", "fresh start", "arrival"): (
        (
            "110081944208479/31894843130332 1798737182003601899511/682840811012041600828 "
            "7370545935299367452142444879/3684833670847799439754560412"
        ),
        (
            "36728608069/1969783725 4337341831320698648388/224618687832908421325 "
            "11190835063851033972/560562359740298825"
        ),
    ),
    ("shift-bound", "kept step"): (
        (
            "762466961321508/115530703687441 155105734321424098034308/29064211742709103479561 "
            "248435465011069603060005411822212/57589086028840631089582139015445"
        ),
        (
            "4097687609/264420121 1661189237009374529541116/103800756223961083855575 "
            "3022150297466686486583225/183134025929261248628836"
        ),
    ),
    ("shift-bound", "kept step", "arrival"): (
        (
            "19889488432328214607/5513851372959291292 331443326906449227398278303/1199936741948990129"
            "37044700 38481255681972893746942922818559/18282249532965279710978456830300"
        ),
        (
            "15027277109581/818758017525 42795893817301694647410992224/2249881391154356492569588125 "
            "1594177573479219086241719683/81008775755443623755714700"
        ),
    ),
}  # fmt: skip
WORKED = {**worked_efl_sentences.WORKED, **worked_efl_sentences_4.WORKED}
KEYS = pytest.mark.parametrize("key", NUMBERS, ids=" ".join)
ATTAINED = [key for key in NUMBERS if key[-1] == "attained"]


def written(key):
    """The numbers of a key, as two lists."""
    return [[Fraction(v) for v in side.split()] for side in NUMBERS[key]]


def judged(key):
    """The form and its view on the worked instance."""
    form, data = get(f"efl/{key[0]}").form(key[1]), WORKED[key][0]
    if key[0] == "order-of-c":
        data = {**worked_efl.RUNS[data], "scheme": data}
    return form, BUILDERS[form.kind](data)


@KEYS
def test_the_sides_are_the_numbers(key):
    form, view = judged(key)
    assert view.applies(form) is None
    sides, (lhs, rhs) = form.sides(view), written(key)
    found = [list(np.ravel(side)) for side in (sides.lhs, sides.rhs)]
    if sides.relation == "<=":
        assert found == [lhs, rhs]
    else:
        assert found[0] == [abs(a - b) for a, b in zip(lhs, rhs, strict=True)] and not any(found[1])


@KEYS
def test_the_paper_gives_the_numbers(key):
    data, both = WORKED[key]
    assert [list(side) for side in both(data)] == written(key)


@KEYS
def test_what_is_on_record_as_holding_holds_here(key):
    form, view = judged(key)
    lhs, rhs = written(key)
    holds = lhs == rhs if form.sides(view).relation == "==" else all(a <= b for a, b in zip(lhs, rhs, strict=True))
    assert holds or form.established[view.rule] == "violated"


def test_every_form_has_numbers_in_every_scheme():
    have = {(key[0], key[1], judged(key)[1].rule) for key in NUMBERS}
    forms = {(name, f.name, rule) for name in STATEMENTS for f in get(f"efl/{name}").forms for rule in f.established}
    assert have == forms and set(NUMBERS) == set(WORKED)


@pytest.mark.parametrize("key", ATTAINED, ids=" ".join)
def test_constants_are_attained(key):
    lhs, rhs = written(key)
    assert lhs == rhs and any(rhs)


def test_no_statement_of_the_room_is_without_numbers():
    """Each statement's forms are asked for by one of the files of worked instances."""
    asked = "".join(path.read_text() for path in Path(__file__).parent.glob("test_worked*.py"))
    names = {re.sub(r"step-\d$", "step-{number}", s.id.removeprefix("efl/")) for s in all_statements("efl/") if s.kind != "claim"}
    missing = {name for name in names if f'"{name}"' not in asked}
    assert not missing, f"statements whose forms nobody asks numbers of: {sorted(missing)}"


def test_the_page_of_sentences_names_what_there_is():
    """Statements in backticks in the tables of docs/efl_sentences.md."""
    page = (Path(__file__).parents[3] / "docs" / "efl_sentences.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`", row)}
    known = {s.id.removeprefix("efl/") for s in all_statements("efl/")}
    assert len(named) > 30 and not named - known, sorted(named - known)
    assert not [name for name in STATEMENTS if f"`{name}`" not in page]


# --- where a form begins and ends -----------------------------------------------------------------
SENTENCES = worked_efl_sentences_4


@pytest.mark.parametrize(
    ("name", "form", "data", "applies"),
    [
        # T(T+1)E^2 >= (gamma - E tau_0)^2 with E = 3: 18 at T = 1, 54 at T = 2
        ("tolerance", "through (8), late", {**SENTENCES.EARLY, "gamma": "12"}, False),
        ("tolerance", "through (8), late", {**SENTENCES.EARLY, "T": 11, "gamma": "34"}, True),
        ("tolerance", "through (8), late", {**SENTENCES.EARLY, "T": 11, "gamma": "35"}, False),
        ("departure-early-or-late", "through the bounds", SENTENCES.EARLY, False),
        ("coefficient-as-step", "equivalent", SENTENCES.ONE_STEP, False),
        ("coefficient-as-step", "one local step", SENTENCES.TWO_STEPS, False),
        ("elastic-rearrangement", "the sums over those that take part", {**worked_efl_sentences.TERM, "active": [0, 1]}, False),
        ("server-step", "up to s-1, nothing left out", {**worked_efl_sentences.FED, "variant": "literal"}, False),
        ("costs", "gradients to converge", {**worked_efl_sentences.COSTLY, "rounds": 1}, False),
        ("costs", "bits a round, lambda = 0", {**worked_efl_sentences.LINE, "variant": "consistent"}, False),
    ],
)  # fmt: skip
def test_a_form_is_about_what_its_formula_says(name, form, data, applies):
    form = get(f"efl/{name}").form(form)
    assert (BUILDERS[form.kind](data).applies(form) is None) == applies
