"""Both sides of every form of Theorem 1, sections 4.1, 4.2 and Corollary 1 as numbers.

A bound that holds with room holds with a slightly wrong constant as well; a number does not. The
numbers come from `worked_efl*` in validation/references, which are written from the formulas and
share no code with the library: the library must give them as well.
"""

from __future__ import annotations

import functools
from fractions import Fraction

import numpy as np
import worked_efl as worked
import worked_efl_section_4 as section_4
import worked_efl_steps as steps
from cases import each
from efl_on_a_problem import BUILDERS

from fedtheory.rational import fraction, table, vector
from fedtheory.theorems import get
from fedtheory.theorems.efl.quantities.exact_run import quadratic_run, round_laws
from fedtheory.theory.rounds.irregular_run import exact_oracles, laws_of

ROOM = (
    "theorem-1", *(f"theorem-1-step-{number}" for number in range(1, 8)), "inactive-rate", "incomplete-rate", "corollary-1",
    "corollary-1-threshold", "corollary-1-epochs", "corollary-1-own-optimum",
)  # fmt: skip
WITHOUT: dict[tuple[str, str], str] = {}  # forms without a number, and why

NINE = "C, nine steps and L = mu"
COMMON = ("sharpened, common mini-batches",)
OWN_RUNS = ("frozen anchors", "moving anchors", *COMMON)
# where a form has an entry for each case, path and step: s = (2, 3), signs + - - and - + -, i = 1; of the others the last entry
ENTRY = {
    ("theorem-1-step-1", "repaired"): -2, ("theorem-1-step-1", "any correlation"): -2, ("theorem-1-step-2", "repaired"): -104,
    ("theorem-1-step-2", "smoothness"): -104, ("theorem-1-step-3", "repaired"): -104, ("theorem-1-step-4", "repaired"): -104,
    ("theorem-1-step-5", "repaired"): -35, ("theorem-1-step-6", "Jensen"): -104,
}  # fmt: skip
# E||w_T - w*||^2 of each run: as it is, with frozen anchors, with common draws
LEFT = {
    ("at_the_end", "A"): (
        "4055467177098787151561708114107930577983653952155036533/238120505035774968487630762292592251533656086697735"
        "5625"
    ),
    ("at_the_end", "B"): (
        "76561556358336122331171493556332126731608470227938559838678/55987919979458465602818082460295398339547712160"
        "128696593675"
    ),
    ("at_the_end", "C"): (
        "7377874566675504209880589926289707882799852556441979093298/387599383360302848464167005196695695670739761534"
        "3994140625"
    ),
    ("at_the_end", "C-corrected"): (
        "153382616306498938868906570945574958972312211113466/84327677326680784463064446718715204485796791253125"
    ),
    ("at_the_end", "C, nine steps and L = mu"): (
        "8768476883896468723470782838480899985295359115/7605319400529566717518464211061856530528455227"
    ),
    ("frozen", "A"): (
        "461501349333577871629908852062601627957370973661532266942590477/2385374439868555801082595817080713267297302"
        "56841963688222172129"
    ),
    ("frozen", "B"): (
        "544274798120922370871189084300472346626332271853477918738701846732744897316/3437663656115455675038712878341"
        "19162238234184523077533494062645863140834225"
    ),
    ("frozen", "C"): (
        "4229716169079177815072362516162469703348324827631743936399142368812/197331661497556922191887721043490221365"
        "8948895130305936717245612075"
    ),
    ("frozen", "C-corrected"): (
        "6425631298890000483190802619769365731087975335580031528698033747756/310855110414297998188675885389116914498"
        "7986154452790146825883538225"
    ),
    ("common_draws", "A"): (
        "1354778108404874327515822872072875910237994926293309783/793735016785916561625435874308640838445520288992451"
        "875"
    ),
    ("common_draws", "B"): (
        "848646639171337053618245585042587821647177750505337176427058/6158671197740431216309989070632493817350248337"
        "61415662530425"
    ),
    ("common_draws", "C"): (
        "7408282640697435934098245680018332658386443965122315867442/387599383360302848464167005196695695670739761534"
        "3994140625"
    ),
    ("common_draws", "C-corrected"): (
        "17121066089089106896302403365490065676551990111658/9369741925186753829229382968746133831755199028125"
    ),
}
FOLLOWED = (  # with anchors that move: theta = 2, or 1 under B
    "533372570083941253439666626830634/222210562338134171329345693670025",
    "61571766708992514425446197632/6667583711049124473530341575",
)
NUMBERS = {
    ("theorem-1", "printed", "A"): (
        LEFT["at_the_end", "A"],
        "4627751103681846844785482174012/855992283170569187799288111525",
    ),
    ("theorem-1", "printed", "B"): (LEFT["at_the_end", "B"], "272860362230824282/6276082051466955"),
    ("theorem-1", "printed", "C"): (LEFT["at_the_end", "C"], "60661081403512612/2750811586621875"),
    ("theorem-1", "printed", "C-corrected"): (LEFT["at_the_end", "C-corrected"], "31711312185142/1328044621365"),
    ("theorem-1", "repaired", "A"): (LEFT["at_the_end", "A"], "65340914448956578/5757926776453215"),
    ("theorem-1", "repaired", "B"): (LEFT["at_the_end", "B"], "23047616479256/561577878225"),
    ("theorem-1", "repaired", "C"): (LEFT["at_the_end", "C"], "7260650828366/246140015625"),
    ("theorem-1", "repaired", "C-corrected"): (LEFT["at_the_end", "C-corrected"], "621207976916/15804679275"),
    ("theorem-1", "repaired", NINE): (LEFT["at_the_end", "C, nine steps and L = mu"], "8792432/184815"),
    ("theorem-1", "frozen anchors", "A"): (LEFT["frozen", "A"], "2942284074944023184/269248096947174345"),
    ("theorem-1", "frozen anchors", "B"): (LEFT["frozen", "B"], "92158848117787448/2336400495353925"),
    ("theorem-1", "frozen anchors", "C"): (LEFT["frozen", "C"], "29741608564687408/1023691240496925"),
    ("theorem-1", "frozen anchors", "C-corrected"): (LEFT["frozen", "C-corrected"], "62529312232144/1629716613525"),
    **{("theorem-1", "moving anchors", scheme): FOLLOWED for scheme in ("A", "C", "C-corrected")},
    ("theorem-1", "moving anchors", "B"): (
        "3143765557214944581641867711194/1939418671070906435712552590025",
        "83169672386479171368966392/6045814422251856950913075",
    ),
    ("theorem-1", "2 max", "A"): (LEFT["at_the_end", "A"], "17956810540592884/1151585355290643"),
    ("theorem-1", "2 max", "B"): (LEFT["at_the_end", "B"], "1597449647152/22463115129"),
    ("theorem-1", "2 max", "C"): (LEFT["at_the_end", "C"], "2369031794156/49228003125"),
    ("theorem-1", "2 max", "C-corrected"): (LEFT["at_the_end", "C-corrected"], "30853152824/451562265"),
    ("theorem-1", "sharpened", "A"): (LEFT["at_the_end", "A"], "34620026233267309/5757926776453215"),
    ("theorem-1", "sharpened", "B"): (LEFT["at_the_end", "B"], "10984231900556/561577878225"),
    ("theorem-1", "sharpened", "C"): (LEFT["at_the_end", "C"], "3391654285591/246140015625"),
    ("theorem-1", "sharpened", "C-corrected"): (LEFT["at_the_end", "C-corrected"], "2293624113694/142242113475"),
    ("theorem-1", "sharpened, any correlation", "A"): (LEFT["at_the_end", "A"], "57995586576180739/9596544627422025"),
    ("theorem-1", "sharpened, any correlation", "B"): (LEFT["at_the_end", "B"], "3674822390852/187192626075"),
    ("theorem-1", "sharpened, any correlation", "C"): (LEFT["at_the_end", "C"], "3401254522391/246140015625"),
    ("theorem-1", "sharpened, any correlation", "C-corrected"): (
        LEFT["at_the_end", "C-corrected"],
        "2299559150494/142242113475",
    ),
    ("theorem-1", "sharpened, common mini-batches", "A"): (
        LEFT["common_draws", "A"],
        "34620026233267309/5757926776453215",
    ),
    ("theorem-1", "sharpened, common mini-batches", "B"): (LEFT["common_draws", "B"], "10984231900556/561577878225"),
    ("theorem-1", "sharpened, common mini-batches", "C"): (LEFT["common_draws", "C"], "3391654285591/246140015625"),
    ("theorem-1", "sharpened, common mini-batches", "C-corrected"): (
        LEFT["common_draws", "C-corrected"],
        "2293624113694/142242113475",
    ),
    ("theorem-1", "max", "A"): (LEFT["at_the_end", "A"], "46130942066523298/5757926776453215"),
    ("theorem-1", "max", "B"): (LEFT["at_the_end", "B"], "4039711552312/112315575645"),
    ("theorem-1", "max", "C"): (LEFT["at_the_end", "C"], "1198880501878/49228003125"),
    ("theorem-1", "max", "C-corrected"): (LEFT["at_the_end", "C-corrected"], "15426576412/451562265"),
    ("theorem-1", "r_t flipped", "A"): (LEFT["at_the_end", "A"], "12820399746783098/1151585355290643"),
    ("theorem-1", "r_t flipped", "B"): (LEFT["at_the_end", "B"], "22817179307096/561577878225"),
    ("theorem-1", "r_t flipped", "C"): (LEFT["at_the_end", "C"], "7188827804366/246140015625"),
    ("theorem-1", "r_t flipped", "C-corrected"): (LEFT["at_the_end", "C-corrected"], "635137609556/15804679275"),
    ("theorem-1", "bracket", "A"): (LEFT["at_the_end", "A"], "234972808994483432/28789633882266075"),
    ("theorem-1", "bracket", "B"): (LEFT["at_the_end", "B"], "27458625619556/561577878225"),
    ("theorem-1", "bracket", "C"): (LEFT["at_the_end", "C"], "6743588802116/246140015625"),
    ("theorem-1", "bracket", "C-corrected"): (LEFT["at_the_end", "C-corrected"], "440865216416/15804679275"),
    ("theorem-1", "J", "A"): (
        LEFT["at_the_end", "A"],
        "11076563028514190627262531088286/855992283170569187799288111525",
    ),
    ("theorem-1", "J", "B"): (LEFT["at_the_end", "B"], "184559800460110892/4482915751047825"),
    ("theorem-1", "J", "C"): (LEFT["at_the_end", "C"], "408218901474821714/13754057933109375"),
    ("theorem-1", "J", "C-corrected"): (LEFT["at_the_end", "C-corrected"], "621207976916/15804679275"),
    ("theorem-1-step-1", "repaired", "C"): (
        "26440331630536226/7423827345873225",
        "26440331630536226/7423827345873225",
    ),
    ("theorem-1-step-1", "any correlation", "C"): (
        "26440331630536226/7423827345873225",
        "26483092309694626/7423827345873225",
    ),
    ("theorem-1-step-2", "repaired", "C"): ("1046117701/88623396", "335811025/9847044"),
    ("theorem-1-step-2", "smoothness", "C"): ("335811025/29541132", "123207647/7385283"),
    ("theorem-1-step-3", "repaired", "C"): ("-339594096224/405562815945", "-13803766855156688/22271482037619675"),
    ("theorem-1-step-4", "repaired", "C"): ("-1747420260608/4731566186025", "-494114393152/4731566186025"),
    ("theorem-1-step-5", "repaired", "C"): (
        "-2270424010057775632/6446451016156690035",
        "-8807079397808/70703117579745",
    ),
    ("theorem-1-step-5", "expectation", "C"): ("-83476730844/175243192075", "215552/640675"),
    ("theorem-1-step-5", "sharpened", "C"): ("-83476730844/175243192075", "20672/640675"),
    ("theorem-1-step-5", "expanded at wbar_i", "C-corrected"): ("-690411239565659/72045354327660", "0"),
    ("theorem-1-step-6", "repaired", "C"): ("200632778258816/1056506585548761", "2714260/273529"),
    ("theorem-1-step-6", "sharpened", "C"): ("200632778258816/1056506585548761", "8716858/2461761"),
    ("theorem-1-step-6", "one client", "C"): ("53589890822085376/61394771582444667", "307456/273529"),
    ("theorem-1-step-6", "identity", "C"): ("0", "0"),
    ("theorem-1-step-6", "Jensen", "C"): ("457609870336/2020089073707", "393039348736/673363024569"),
    ("theorem-1-step-6", "sums", "C"): ("5", "6"),
    ("theorem-1-step-7", "repaired", "C"): ("789663402475712686426/225625785565484151225", "47239528306/3015657225"),
    ("theorem-1-step-7", "sharpened", "C"): ("789663402475712686426/225625785565484151225", "27075662696/3015657225"),
    ("theorem-1-step-7", "sharpened, any correlation", "C"): (
        "789663402475712686426/225625785565484151225",
        "27120037096/3015657225",
    ),
    ("theorem-1-step-7", "along a run", "C"): (
        LEFT["at_the_end", "C"],
        "15955431841397920383019395581465385067728158925946/1388895077688719929548819368583663644518761778125",
    ),
    ("theorem-1-step-7", "induction", "C"): ("17682192274456177/606609333618750", "7260650828366/246140015625"),
    ("theorem-1-step-7", "induction with max", "C"): (
        "160755431697510107/6672702669806250",
        "1198880501878/49228003125",
    ),
    ("inactive-rate", "printed", "any"): ("949/4704", "25/48"),
    ("inactive-rate", "one constant", "any"): ("949/4704", "875/3"),
    ("inactive-rate", "heterogeneity term", "any"): ("1/6", "7/24"),
    ("inactive-rate", "equality", "any"): ("1", "0"),
    ("inactive-rate", "repaired", "any"): ("2", "3"),
    ("inactive-rate", "converges if y_t is O(tau)", "any"): ("140/219", "5/12"),
    ("inactive-rate", "converges if the sum is o(tau)", "any"): ("1/4", "7/15"),
    ("inactive-rate", "f_0", "any"): ("14/45", "0"),
    ("inactive-rate", "f_0 repaired", "any"): ("0", "0"),
    ("incomplete-rate", "printed", "any"): ("189523/240", "757901/96"),
    ("incomplete-rate", "unbiased", "any"): ("0", "0"),
    ("corollary-1", "printed", "any"): ("1003224485/734364488", "781991528181189/831045732893768"),
    ("corollary-1", "printed, T to infinity", "any"): ("1241/294", "8657/2883"),
    ("corollary-1", "repaired", "any"): ("8657/2883", "1241/294"),
    ("corollary-1", "without a", "any"): ("11/14", "1263/961"),
    ("corollary-1", "bias", "any"): ("1061/24025", "2434/2883"),
    ("corollary-1", "sharp bias", "any"): ("1061/24025", "116832/248899"),
    ("corollary-1-threshold", "printed", "any"): ("15/616", "22/35"),
    ("corollary-1-threshold", "without the O, necessary", "any"): ("11/70", "1/5"),
    ("corollary-1-threshold", "without the O, sufficient", "any"): ("5/88", "7/15"),
    ("corollary-1-threshold", "without the O, from the start", "any"): ("165/10976", "11/70"),
    ("corollary-1-threshold", "repaired", "any"): ("165/10976", "11/210"),
    ("corollary-1-epochs", "through (9)", "any"): ("51/8", "73/12"),
    ("corollary-1-epochs", "through (8)", "any"): ("357/96800", "511/181476"),
    ("corollary-1-epochs", "through (8), T to infinity", "any"): ("51/32", "73/36"),
    ("corollary-1-epochs", "through (8), T to infinity, converse", "any"): ("31/30", "331/320"),
    ("corollary-1-epochs", "repaired", "any"): ("65/8", "101/12"),
    ("corollary-1-epochs", "repaired, converse", "any"): ("73/12", "51/8"),
    ("corollary-1-epochs", "for a given number of steps", "any"): ("73/4", "51/2"),
    ("corollary-1-own-optimum", "own optima", "any"): ("109240537/367182244", "366468661734305/415522866446884"),
    ("corollary-1-own-optimum", "bound", "any"): ("109240537/367182244", "2752/4489"),
}  # fmt: skip
RULE_8 = ("16", "408358208/275386683")  # J and f_1(T) of Corollary 1's two clients


# --- the library's sides, and those worked out without it --------------------------------------
@functools.cache
def run_view(scheme, form, where):
    """The library's view of `shared_run`, judged at T - 1 and T."""
    data = worked.MANY if where == NINE else worked.RUNS[scheme]
    data = worked.FOLLOWED if form == "moving anchors" else data
    data = {**data, "scheme": scheme} | ({"common": True} if form in COMMON else {})
    if form != "frozen anchors":
        return BUILDERS["run"](data)
    oracles, anchors, T = exact_oracles(data), worked.anchors_of(scheme), data["T"]
    laws = round_laws(scheme, laws_of(data["laws"], len(oracles.weights)), T, oracles.weights)
    elastic = fraction(anchors["lam"]), table(anchors["u"], "u"), table(anchors["anchors"], "anchors")
    return quadratic_run(oracles, laws, vector(data["w0"], "w0"), np.array([T - 1, T]), elastic)


@functools.cache
def round_view(scheme):
    return BUILDERS["step"]({**steps.ROUND, "scheme": scheme})


def view_of(key):
    name, form, where = key
    if name.startswith("theorem-1-step-"):
        kind = get(f"efl/{name}").form(form).kind
        return run_view(where, "repaired", where) if kind == "run" else round_view(where)
    if name == "theorem-1":
        form = form if form in OWN_RUNS else "repaired"
        return run_view("C" if where == NINE else where, form, where)
    return BUILDERS[get(f"efl/{name}").form(form).kind](section_4.FORMS[name, form][0])


@functools.cache
def sides_of(key):
    """The library's."""
    view, form = view_of(key), get(f"efl/{key[0]}").form(key[1])
    assert view.exact and view.applies(form) is None
    return form.sides(view)


@functools.cache
def the_run(scheme, form):
    """Forms with common draws or anchors have runs of their own."""
    return worked.Run("C", worked.MANY) if scheme == NINE else worked.run_of(scheme, form)


def shared_run(scheme, form):
    return the_run(scheme, form if form in OWN_RUNS else "repaired")


@functools.cache
def the_round(scheme):
    return steps.Round(scheme)


def by_hand(key):
    """Both sides without the library, as lists of entries."""
    name, form, where = key
    if name == "theorem-1":
        run = shared_run(where, form)
        taus = [t for t in (run.T - 1, run.T) if t or where != NINE]  # at 0 both sides are ||w_0 - w*||^2
        return [run.distance_sq[t] for t in taus], [worked.THEOREM_1[form](run, t) for t in taus]
    if name.startswith("theorem-1-step-"):
        if (number := name[-1], form) in steps.STEPS:
            return steps.STEPS[number, form](the_round(where))
        run = shared_run(where, form)
        return tuple([side] for side in worked.STEP_7[form](run, run.T - 1))
    data, sides = section_4.FORMS[name, form]
    return tuple([side] for side in sides(data))


def entries(lhs, rhs):
    """Pairs of entries, less those where both sides are 0 because no client is active."""
    return [(x, y) for x, y in zip(lhs, rhs, strict=True) if x or y] or [(Fraction(0), Fraction(0))]


@each("key", NUMBERS)
def test_the_library_gives_the_numbers_and_so_does_code_that_shares_nothing_with_it(key):
    sides, number, at = sides_of(key), tuple(map(Fraction, NUMBERS[key])), ENTRY.get(key[:2], -1)
    found, mine = entries(np.ravel(sides.lhs), np.ravel(sides.rhs)), entries(*by_hand(key))
    assert found[at] == mine[at] == number
    assert mine == found or key[:2] == ("incomplete-rate", "unbiased")  # of which the last client is worked out


def test_every_form_has_its_number():
    """In every scheme that a form of Theorem 1 is about, and once of the others."""
    have = {key[:2] for key in NUMBERS}
    missing = [(name, f.name) for name in ROOM for f in get(f"efl/{name}").forms if (name, f.name) not in have | WITHOUT.keys()]
    assert not missing, f"no worked number: {missing}"
    schemes = {(f.name, rule) for f in get("efl/theorem-1").forms for rule in f.established}
    assert not {(f, rule) for f, rule in schemes if ("theorem-1", f, rule) not in NUMBERS}


def test_the_instances_hide_nothing():
    """More than two of sum p, ratios that are alike and that differ, s = 0, both entries of gamma, G above sigma."""
    for scheme in worked.RUNS:
        run = shared_run(scheme, "repaired")
        over = [run.bracket(t) - run.S[t] for t in range(run.T)]
        assert run.same_ratio(0) and (any(over) != (scheme == "B"))
        assert run.same_ratio(1) == (scheme == "C-corrected")
        assert len({*run.D, *run.p, *run.sigma_sq}) == 3 * run.N and run.G_sq > max(run.sigma_sq) and run.mu < run.L
    many = shared_run(NINE, "repaired")
    assert many.gamma == 4 * many.E**2 * many.theta / many.S[0] > 32 * many.E * (1 + many.theta) * many.L / (many.mu * many.S[0])
    assert list(run_view("C", "repaired", "C").constants.eta) == shared_run("C", "repaired").eta
    view = BUILDERS["keep"](section_4.KEEP)
    assert (view.J, view.f_1) == section_4.rule_8() == tuple(map(Fraction, RULE_8)) and view.y * view.J > view.f_1


def test_a_run_is_what_its_enumeration_gives():
    """The moments of `worked.Run` are those of one round enumerated over all signs of the noise."""
    r = the_round("C")
    end = sum(
        mass * steps.square(steps.minus(r.wbar(s, p, path, r.E), r.star)) for mass, s, p in r.cases[0] for path in r.joint
    )
    assert end / len(r.joint) == r.distance_sq[1]
