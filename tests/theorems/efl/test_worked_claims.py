"""Worked instances of what EFL's paper claims without a formula: both sides of every form as numbers.

The numbers come from `worked_efl_{claims,stability,compressed,participation}` in validation/references, written from the
formulas and sharing nothing with the library: the library must give them as well.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import worked_efl_claims as worked
import worked_efl_compressed as compressed
from cases import each
from efl_on_a_problem import BUILDERS

from fedtheory.theorems import get

STATEMENTS = (
    "elastic-stability", "elastic-drift", "compressed-convergence", "compressed-proof",
    "compressed-participation", "table-1-row", "table-1-non-convex",
)  # fmt: skip
# (statement, form, and what tells several instances apart): both sides; of an equality those that should agree
NUMBERS: dict[tuple[str, ...], tuple[str, str]] = {
    ("elastic-stability", "every lambda"): ("0 0", "13/20 201/320"),
    ("elastic-stability", "every lambda, b positive"): ("0 0", "-1/20 3/80"),
    ("elastic-stability", "some lambda"): ("0", "1/5"),
    ("elastic-stability", "repaired"): ("0 1", "0 1"),
    ("elastic-stability", "when some lambda does"): ("1", "1"),
    ("elastic-stability", "any number of steps"): ("0 1", "0 1"),
    ("elastic-stability", "clients of one curvature"): ("1 0", "1 0"),
    ("elastic-stability", "clients of one curvature, more steps"): ("1 0", "1 1"),
    ("elastic-drift", "every round"): (
        "658251/1024000 103976697/32768000 5006771/1024000 52229903/32768000",
        "3971/8192 1617/512 27027/8192 3971/2048",
    ),
    ("elastic-drift", "repaired"): ("13/128 159/128 99/128 57/128", "15/128 21/16 117/128 15/32"),
    ("elastic-drift", "formula"): (
        "658251/1024000 -103976697/32768000 5006771/1024000 52229903/32768000",
        "658251/1024000 -103976697/32768000 5006771/1024000 52229903/32768000",
    ),
    ("compressed-convergence", "literal formulas"): ("-88/3 50/3", "0 0"),
    ("compressed-convergence", "text of 3.1"): ("29/3 19/3", "0 0"),
    ("compressed-convergence", "consistent, at the optimum"): ("0 0", "0 0"),
    ("compressed-convergence", "repaired"): (
        "15287481434/874680625 1195603913822114/207460424296125",
        "100534009569568/626250625 1699405090592848/5988438225",
    ),
    ("compressed-convergence", "repaired", "noise"): (
        "43236986/2265025 40098510008/3445103025",
        "83160971059616/3445103025 3577091402175888/88818900625",
    ),
    ("compressed-convergence", "repaired", "one way"): (
        "2778661042/174936125 6186751961623018/1037302121480625",
        "11436166894112/5636255625 21285416480848/5988438225",
    ),
    ("compressed-convergence", "virtual iterate"): (
        "52929178/5175625 3938685986526482/1037302121480625",
        "341787748304/5175625 170866519016/1334025",
    ),
    ("compressed-convergence", "sharpened"): (
        "15287481434/874680625 1195603913822114/207460424296125",
        "5634667889447673530668635707050562161201/87218602349792809323002929927372800 "
        "11174604376680377682950589553882906643908/114383703852495283479036663496129533",
    ),
    ("compressed-convergence", "sharpened", "noise"): (
        "43236986/2265025 40098510008/3445103025",
        "17488253045161235439865777052815413645842221711/1458201734420640131981791687500000000000000 "
        "1095173241536984799995420456146064292635861516/66962549340601561169275979315556892318075",
    ),
    ("compressed-convergence", "sharpened, virtual iterate"): (
        "52929178/5175625 3938685986526482/1037302121480625",
        "3152665777117860517936759403736837130801/174437204699585618646005859854745600 "
        "4007999229119407413432639749993266013666/114383703852495283479036663496129533",
    ),
    ("compressed-convergence", "sharpened, virtual iterate", "late"): (
        "170910700281921171250606587454856290282/291200927276621166628024600982666015625",
        "3687639982156612266903932404736025/2287298874027682122262183936",
    ),
    ("compressed-proof", "repaired"): (
        "302325034/20385225 33295933318/3445103025",
        "171255880346/20385225 142386251761678/17225515125",
    ),
    ("compressed-proof", "virtual iterate"): (
        "12328/4225 4348/4225 8515742/4601025 7725182/4601025",
        "12328/4225 4348/4225 8515742/4601025 7725182/4601025",
    ),
    ("compressed-proof", "one compression"): (
        "512/16641 6400/16641 2267008/70308225 112896/312481",
        "2816/16641 7808/16641 2568512/14061645 2654624/2812329",
    ),
    ("compressed-proof", "shorter messages"): (
        "13307904/17850625 29942784/17850625 861184/1185921 4454902520896/846777242025",
        "219392/274625 4135168/1373125 16567041848384/21169431050625 9783742046272/1628417773125",
    ),
    ("compressed-proof", "residuals of the clients"): (
        "952576/17850625 952576/714025 81577024/1445900625 1757342619904/2352159005625",
        "191296/1089 191296/1089 765184/4489 765184/4489",
    ),
    ("compressed-proof", "residual of the server"): ("831744/17850625 0", "12242944/1089 48971776/4489"),
    ("compressed-proof", "distance of the models"): (
        "4192544/3570125 10601054117476/21169431050625",
        "1721664/121 61979904/4489",
    ),
    ("compressed-proof", "distance of the models", "one way"): (
        "13455136/17850625 10601054117476/21169431050625",
        "191296/1089 765184/4489",
    ),
    ("compressed-proof", "one local step"): (
        "302325034/20385225 33295933318/3445103025",
        "396201098/20385225 15520126282/1148367675",
    ),
    ("compressed-proof", "one local step", "two steps"): (
        "615866/41405 52929178/5175625 6019100424068/952527200625 3938685986526482/1037302121480625",
        "4025946/207025 181737474/13456625 10522118606/976950975 238323637775752/31433397620625",
    ),
    ("compressed-proof", "one local step, sharpened"): (
        "302325034/20385225 33295933318/3445103025",
        "389507978/20385225 227844855094/17225515125",
    ),
    ("compressed-proof", "one local step, sharpened", "two steps"): (
        "615866/41405 52929178/5175625 6019100424068/952527200625 3938685986526482/1037302121480625",
        "1522698/79625 35226666/2691325 279949366978/28864460625 197829987630412/31433397620625",
    ),
    ("compressed-proof", "one round, sharpened"): (
        "302325034/20385225 33295933318/3445103025",
        "2041425707054/876564675 169434357497194/74643898875",
    ),
    ("compressed-proof", "one round, sharpened", "two steps"): (
        "52929178/5175625 3938685986526482/1037302121480625",
        "14836236318794/874680625 99498008481542122/6137882375625",
    ),
    ("compressed-proof", "drift, identity"): (
        "0 24/325 4192544/3570125 7917032426/6479776875",
        "0 24/325 4192544/3570125 7917032426/6479776875",
    ),
    ("compressed-proof", "drift"): (
        "0 24/325 4192544/3570125 7917032426/6479776875",
        "0 3904/4225 4192544/3570125 8050122416/3887866125",
    ),
    ("compressed-participation", "repaired"): (
        "1587185121000302/82433018601675 39603240389044752007538/2860558874803164205125",
        "28172765072468672/86127575625 159958000337665216/266456701875",
    ),
    ("compressed-participation", "repaired", "inactive alike"): (
        "883908106/45630025 6690952617094/429332905225",
        "145553493025536/429332905225 26913366131072/48697455625",
    ),
    ("compressed-participation", "virtual iterate"): (
        "143209577075998/9159224289075 10389967630559609237014/953519624934388068375",
        "2880341185888/20385225 4320183640928/15526875",
    ),
    ("compressed-participation", "one round"): (
        "143209577075998/9159224289075 10389967630559609237014/953519624934388068375",
        "2880320482538/20385225 5383768413094088655062/38697722621341875",
    ),
    ("compressed-participation", "one round", "inactive alike"): (
        "780666506/45630025 5699117498414/429332905225",
        "5958984202/45630025 53651701508418/429332905225",
    ),
    ("compressed-participation", "sharpened"): (
        "1587185121000302/82433018601675 39603240389044752007538/2860558874803164205125",
        "131150648415127232/1234495250625 54129609325595072/327361090875",
    ),
    ("compressed-participation", "sharpened, virtual iterate"): (
        "143209577075998/9159224289075 10389967630559609237014/953519624934388068375",
        "9017554912096/292188225 1158996776416/19075875",
    ),
    ("compressed-participation", "sharpened, virtual iterate", "late"): (
        "1435638109074848718868050437693232661/495660196790481725167715432896921600 "
        "3851434294513667362385853221983765629501265265534287027283746380317/8272827450801073477004382721644270606103824090323395048568468275200",
        "12223218576713/1542132900 2441371536757/172889640",
    ),
    ("compressed-participation", "one round, sharpened"): (
        "143209577075998/9159224289075 10389967630559609237014/953519624934388068375",
        "27051774492238/876564675 75835642363777402285846/2515351970387221875",
    ),
    ("compressed-participation", "one client"): (
        (
            "588615680/22430753361 28188876800/67292260083 78033628812176384/1201208900144101875 "
            "28329319503456585728/58378752547003351125"
        ),
        "3997696/149769 7995392/449307 830911845573632/31589977650075 15242967175909376/852929396552025",
    ),
    ("compressed-participation", "residuals of the clients"): (
        (
            "588615680/22430753361 28188876800/67292260083 78033628812176384/1201208900144101875 "
            "28329319503456585728/58378752547003351125"
        ),
        "255852544/950625 255852544/950625 1023410176/3861225 1023410176/3861225",
    ),
    ("compressed-participation", "residual of the server"): (
        "1129652224/67292260083 1364340918746826752/291893762735016755625",
        "16760590336/950625 67042361344/3861225",
    ),
    ("compressed-participation", "distance of the models"): (
        "25552923904/67292260083 100200393477695423168/291893762735016755625",
        "2350895104/105625 9403580416/429025",
    ),
    ("table-1-row", "printed"): ("2", "45"),
    ("table-1-row", "printed, loss"): ("12", "480"),
    ("table-1-row", "units"): ("2 5/72 1", "2 5/72 1"),
    ("table-1-row", "units", "of the loss"): ("12 40 24", "12 40 24"),
    ("table-1-row", "lower bound"): (
        (
            "16770474955134862137834975867479653808799781788233346190744777356209139617281/478665051834105101"
            "3786900024074664921203133969262259320060661477745134403584 6708189982053944855133990346991861523"
            "5199127152933384762979109424836558469124/2184745005283921262423065650299023514256705010491275188"
            "0812823948662932355201"
        ),
        "269573/66049 3751931525/1099121409",
    ),
    ("table-1-row", "repaired", "A"): (
        (
            "350244904507445147859861476121651981239/163670412211222010304182368872803890563 4055467177098787"
            "151561708114107930577983653952155036533/2381205050357749684876307622925922515336560866977355625"
        ),
        "150536926719036512/3370528496907 1211721049729973632/61042571198505",
    ),
    ("table-1-row", "repaired", "B"): (
        (
            "30000756307359682185653118336923604799044838/14033808988326973932676867153164640541094675 765615"
            "56358336122331171493556332126731608470227938559838678/559879199794584656028180824602953983395477"
            "12160128696593675"
        ),
        "3726269716432/77240625 5021209662176/156121875",
    ),
    ("table-1-row", "repaired", "C"): (
        (
            "66371409185321628210929682022409821784855266/25195375558979046341021666550270542304195225 737787"
            "4566675504209880589926289707882799852556441979093298/3875993833603028484641670051966956956707397"
            "615343994140625"
        ),
        "13443147189188/291035745 286882550776/9316125",
    ),
    ("table-1-row", "repaired", "C-corrected"): (
        (
            "1210667750676307992100639863549674/470372483898998750061649449253125 153382616306498938868906570"
            "945574958972312211113466/84327677326680784463064446718715204485796791253125"
        ),
        "17024158171/280665 34048316342/841995",
    ),
    ("table-1-non-convex", "VRL-SGD, for the loss times a constant"): ("22", "65"),
    ("table-1-non-convex", "FedAMP, for the loss times a constant"): ("22", "277/8"),
    ("table-1-non-convex", "repaired"): ("26 6561/70304000", "1040 1179/65"),
    ("table-1-non-convex", "units"): ("22 65 277/8", "22 65 277/8"),
}  # fmt: skip


def written(key):
    return [[Fraction(x) for x in side.split()] for side in NUMBERS[key]]


def judged(key):
    """The form, its view on the worked instance, and both sides as flat lists."""
    form = get(f"efl/{key[0]}").form(key[1])
    view = BUILDERS[form.kind](worked.WORKED[f"efl/{key[0]}", *key[1:]][0])
    sides = form.sides(view)
    return form, view, sides, [list(np.ravel(side)) for side in (sides.lhs, sides.rhs, sides.scale)]


@each("key", NUMBERS)
def test_the_library_gives_the_numbers(key):
    form, view, sides, (lhs, rhs, scale) = judged(key)
    assert view.applies(form) is None and view.rule in form.established
    left, right = written(key)
    if sides.relation == "<=":
        assert [lhs, rhs] == [left, right]
        return
    assert lhs == [abs(a - b) for a, b in zip(left, right, strict=True)] and not any(rhs)
    assert all(s >= abs(a) + abs(b) for s, a, b in zip(scale, left, right, strict=True))


@each("key", NUMBERS)
def test_so_does_code_that_shares_nothing_with_it(key):
    assert [list(side) for side in worked.sides((f"efl/{key[0]}", *key[1:]))] == written(key)


@each("key", NUMBERS)
def test_what_is_on_record_as_holding_holds_here(key):
    form, view, sides, _ = judged(key)
    left, right = written(key)
    holds = left == right if sides.relation == "==" else all(a <= b for a, b in zip(left, right, strict=True))
    assert holds or form.established[view.rule] == "violated"


def test_every_form_has_its_number():
    have = {key[:2] for key in NUMBERS}
    forms = {(name, form.name) for name in STATEMENTS for form in get(f"efl/{name}").forms}
    assert have == forms
    assert {(f"efl/{key[0]}", *key[1:]) for key in NUMBERS} == set(worked.WORKED)
    schemes = {key[2] for key in NUMBERS if key[:2] == ("table-1-row", "repaired")}
    assert schemes == set(get("efl/table-1-row").form("repaired").established)


# --- the proof that both printed loops miss the optimum -------------------------------------------
@pytest.mark.parametrize("data", [{**compressed.HELD, "variant": "literal"}, compressed.HELD_TEXT], ids=["literal", "text"])
def test_no_history_makes_the_moves_at_the_optimum_cancel(data):
    """Over all phases of the clients' periods, and all that the server may hold back; no choice of ST is a tie."""
    means, gap = compressed.means_of_all_histories(data)
    assert (0, 0) not in means and gap >= Fraction(1, 3)
    moves = compressed.held_moves(data)
    assert tuple(sum(m[i] for m in moves) / len(moves) for i in (0, 1)) in means


def test_two_clients_at_their_optimum_never_leave_it():
    """There the printed loops converge from w*: their messages cancel, so that three clients are needed for all starts."""
    data = {"weights": ["1/4", "3/4"], "h": [["1", "1"]] * 2, "c": [["9", "6"], ["-3", "-2"]], "q": "1/2"}
    for variant in ("literal", "text"):
        assert not any(any(move) for move in compressed.held_moves({**data, "variant": variant}))
