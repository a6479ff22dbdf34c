"""What is stated about Elastic Aggregation, on worked instances: both sides of every form.

A bound that holds with room holds with a slightly wrong constant too, but does not give the numbers
below. They are those of the second writing in `validation/references`, which shares nothing with
the package, and the package must give them exactly.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import worked_elastic_aggregation as worked
import worked_elastic_aggregation_forms as formulas
import worked_elastic_aggregation_words as words
import worked_elastic_aggregation_words_forms as formulas_2

from fedtheory import theorems
from fedtheory.theory.judge.registry import setting_of

BUILDERS = setting_of("elastic-aggregation/sign").builders

# (statement, form, instance) -> lhs and rhs, entry by entry, rows one after the other; where both
# are 0 by what they are, also the size of their terms.
WORKED = {
    # all clients take part: one round
    ("factors", "printed", "two"): ("1", "223/264"),
    ("factors", "printed", "one"): ("1", "1/3"),
    ("factors", "repaired", "two"): ("1/3", "1/3"),
    ("factors", "repaired", "full"): ("1/4", "1/4"),
    ("factors", "range", "two"): ("1/3 223/264", "4/3 4/3"),
    ("factors", "range", "full"): ("1/4 171/188", "5/4 5/4"),
    ("factors", "which", "two"): ("1 1", "1 1"),
    ("factors", "which", "three"): ("1 0 1", "1 0 1"),
    ("full-participation", "the optimum", "two"): ("55/384 55/256", "0 1/4"),
    ("full-participation", "the optimum", "full"): ("9871/18304 -20512431/156023296", "76/143 -31/143"),
    ("full-participation", "repaired", "two"): ("22/65 1/22", "22/65 1/22"),
    ("full-participation", "repaired", "full"): ("1189/1899 -20/633", "1189/1899 -20/633"),
    ("full-participation", "no other", "two"): ("151/576 23/96", "151/576 5129/8448"),
    ("full-participation", "no other", "full"): ("17/96 65/384", "17/96 3705/6016"),
    ("full-participation", "tau = 0", "tau is 0"): ("0", "0"),
    ("full-participation", "tau = 0", "one, tau is 0"): ("19/12", "0"),
    ("stability", "as FedAvg", "two"): ("281722704163/647768309760", "457121/549120"),
    ("stability", "as FedAvg", "full"): ("107473486734037/211135777210368", "304747/364608"),
    ("stability", "repaired", "two"): ("486580812163/647768309760", "457121/549120"),
    ("stability", "repaired", "full"): ("80536479139319/105567888605184", "304747/364608"),
    ("stability", "repaired", "dead"): ("164615111/5060689920", "10843/274560"),
    ("stability", "rate", "two"): ("281722704163/647768309760", "242731251/374865920"),
    ("stability", "rate, always", "two"): ("281722704163/647768309760", "242731251/374865920"),
    ("stability", "rate, always", "dead"): ("43709353/2530344960", "12458607/749731840"),
    ("stability", "rate, dead layers too", "two"): ("281722704163/647768309760", "242731251/374865920"),
    ("stability", "rate, dead layers too", "dead"): ("43709353/2530344960", "81788749/3373793280"),
    ("stability", "each coordinate", "two"): ("48169/49920 6647/11264", "48169/49920 1219/1408"),
    ("stability", "each coordinate", "one"): ("6061/3120", "6061/3120"),
    ("stability", "each coordinate", "two, long"): ("151/1560 1219/1760", "1057/780 69/55"),
    ("sign", "printed", "two"): ("906052176163/647768309760", "457121/549120"),
    ("sign", "printed", "full"): ("279260212435669/211135777210368", "304747/364608"),
    ("sign", "repaired", "two"): ("281722704163/647768309760", "457121/549120"),
    ("sign", "repaired", "full"): ("107473486734037/211135777210368", "304747/364608"),
    ("sign", "repaired", "dead"): ("43709353/2530344960", "10843/274560"),
    ("sign", "growth", "two"): ("92156050721/80971038720", "906052176163/647768309760"),
    ("sign", "growth", "one"): ("72777961/28753920", "72777961/28753920"),
    ("speed", "never slower", "two"): ("319/384", "63/128"),
    ("speed", "never slower", "two, fast"): ("81/128", "45/64"),
    ("speed", "never faster", "two"): ("63/128", "319/384"),
    ("speed", "never faster", "two, fast"): ("45/64", "81/128"),
    ("speed", "repaired", "two"): ("319/384", "319/384"),
    ("speed", "repaired", "two, fast"): ("81/128", "199/256"),
    ("speed", "at best", "two"): ("31/96", "319/384"),
    ("speed", "at best", "two, fast"): ("123/256", "81/128"),
    ("speed", "faster", "two, fast"): ("81/128", "45/64"),
    ("speed", "path", "two"): ("48169/49920 -6647/11264", "48169/49920 -6647/11264"),
    ("speed", "path", "two, fast"): ("4779/12032 -1339/3648", "4779/12032 -1339/3648"),
    ("one-round", "never higher", "two"): ("20957364319/6851395584", "3970445/1572864"),
    ("one-round", "never higher", "full"): ("4642303247/1737228288", "37953/16384"),
    ("one-round", "never lower", "two"): ("3970445/1572864", "20957364319/6851395584"),
    ("one-round", "never lower", "full"): ("37953/16384", "4642303247/1737228288"),
    ("zero-sensitivity", "printed", "two"): ("1", "1"),
    ("zero-sensitivity", "printed", "full"): ("1", "1"),
    ("zero-sensitivity", "printed", "dead"): ("1", "0"),
    ("zero-sensitivity", "repaired", "two"): ("0", "0"),
    ("zero-sensitivity", "repaired", "full"): ("0", "0"),
    ("zero-sensitivity", "repaired", "dead"): ("1", "1"),
    ("zero-sensitivity", "one scale", "two"): ("1/3 223/264", "1/3 223/264"),
    ("zero-sensitivity", "one scale", "full"): ("1/4 171/188", "1/4 171/188"),
    ("zero-sensitivity", "a limit", "two"): ("1/3 223/264", "1/3 112/201"),
    ("zero-sensitivity", "a limit", "full"): ("1/4 171/188", "51/92 1/4"),
    # the words of the poster, attraction, labels
    ("exploration", "each parameter", "two"): ("0 0", "151/768 5129/11264"),
    ("exploration", "each parameter", "three"): ("0 69/128 0", "43/384 69/128 5251/7680"),
    ("exploration", "the model", "two"): ("41845/65536", "280902505/1141899264"),
    ("exploration", "the model", "full"): ("8849/16384", "133757641/579076096"),
    ("every-client", "lower for every client", "two"): (
        "7446659873/1141899264 25479932185/4567597056 513825569/2283798528",
        "73/8 109/16 1/16",
    ),
    ("every-client", "naive", "two"): ("794329/131072 127125/32768 115929/262144", "73/8 109/16 1/16"),
    ("every-client", "less drift", "two"): ("2660957545/1141899264", "87413/65536"),
    ("every-client", "less drift", "full"): ("27875001805225/11841527087104", "462730865/335036416"),
    ("every-client", "lower in the mean", "two"): ("20957364319/6851395584", "367/96"),
    ("every-client", "lower in the mean", "full"): ("4642303247/1737228288", "161/48"),
    ("every-client", "repaired", "two, one step"): ("58684301/15859712", "367/96"),
    ("unlabelled", "inputs are enough", "labels"): ("19/2 3/2 3 3", "19/2 3/2 3 3"),
    ("unlabelled", "no trace of labels", "labels"): (
        "9863/1056 16723/4224 8585/2112 8585/2112",
        "1919/264 2251/4224 4265/2112 4265/2112",
    ),
    ("unlabelled", "as the loss", "labels"): ("0 2/3 0 0", "16/3 16/3 2/3 2/3"),
    ("sampled-attraction", "only where small steps do", "mirror"): ("0", "1"),
    ("sampled-attraction", "only where small steps do", "mirror, squares"): ("1", "1"),
    ("sampled-attraction", "only where small steps do", "mirror, repels"): ("0", "0"),
    ("sampled-attraction", "only where small steps do", "cohorts, step"): ("1", "1"),
    ("sampled-attraction", "small steps", "mirror"): ("1", "1"),
    ("sampled-attraction", "small steps", "cohorts, step"): ("1", "1"),
    ("sampled-attraction", "as with all clients", "mirror"): ("1", "0"),
    ("sampled-attraction", "as with all clients", "cohorts, step"): ("1", "1"),
    ("sampled-attraction", "mean square as well", "mirror, squares"): ("1", "0"),
    ("sampled-attraction", "mean square as well", "cohorts, step"): ("1", "1"),
    ("sampled-attraction", "mean square is more", "mirror"): ("0", "0"),
    ("sampled-attraction", "mean square is more", "mirror, squares"): ("0", "1"),
    ("sampled-attraction", "mean square is more", "mirror, repels"): ("0", "0"),
    ("sampled-attraction", "mean square is more", "cohorts, step"): ("1", "1"),
    ("sampled-attraction", "dominance", "mirror"): ("1", "1"),
    ("sampled-attraction", "dominance", "mirror, squares"): ("1", "1"),
    ("sampled-attraction", "dominance", "mirror, repels"): ("0", "0"),
    ("sampled-attraction", "dominance", "cohorts, step"): ("1", "1"),
    ("sampled-attraction", "all take part", "all, step"): ("1", "1"),
    ("sampled-attraction", "one parameter", "line"): ("2021/2048", "1"),
    ("sampled-attraction", "one parameter, spread", "line"): ("96/373", "96/373", "9501/23872"),
    # P of N clients take part
    ("sampled-fixed-point", "as FedAvg", "cohorts"): ("-32/81 -875/2244", "0 0"),
    ("sampled-fixed-point", "as FedAvg", "matrices"): ("65693/207000 149/1200", "0 0"),
    ("sampled-fixed-point", "repaired", "cohorts"): ("0 0", "0 0", "544/729 7921/4488"),
    ("sampled-fixed-point", "repaired", "matrices"): ("0 0", "0 0", "117659/103500 1801/1200"),
    ("sampled-fixed-point", "between", "cohorts"): ("2014/5103 9272/15147", "18398/5103 130448/15147"),
    ("sampled-fixed-point", "between", "pair"): ("26/25 1", "74/25 9"),
    ("sampled-fixed-point", "covariance", "cohorts"): ("-32/81 -875/2244", "-32/81 -875/2244"),
    ("sampled-fixed-point", "covariance", "matrices"): ("65693/207000 149/1200", "65693/207000 149/1200"),
    ("sampled-fixed-point", "distance", "cohorts"): ("160/243 4375/6732", "544/729 7921/4488"),
    ("sampled-fixed-point", "distance", "matrices"): ("65693/124200 149/720", "117659/103500 1801/1200"),
    ("sampled-fixed-point", "distance, always", "cohorts"): ("160/243 4375/6732", "544/729 7921/4488"),
    ("sampled-fixed-point", "distance, always", "silent"): ("41/14", "80/63"),
    ("sampled-fixed-point", "distance, insensitive cohorts too", "matrices"): ("65693/124200 149/720", "117659/103500 1801/1200"),
    ("sampled-fixed-point", "distance, insensitive cohorts too", "silent"): ("41/21", "320/63"),
    ("sampled-fixed-point", "one parameter, always", "one parameter"): ("0", "0"),
    ("sampled-fixed-point", "one parameter, always", "silent"): ("-41/126", "0"),
    ("sampled-fixed-point", "one parameter", "one parameter"): ("0", "0"),
    ("sampled-fixed-point", "all take part", "all"): ("0 0", "0 0"),
    ("sampled-fixed-point", "one local step", "one step"): ("1 -2", "47/119 -1473/854"),
    ("sampled-stability", "always", "cohorts"): ("0", "10072291373/58629795840"),
    ("sampled-stability", "always", "matrices"): ("0", "8471920811/115178112000"),
    ("sampled-stability", "all take part", "all"): ("-177/752 59/2256 1/48 -71/288", "-177/752 59/2256 1/48 -71/288"),
    ("sampled-stability", "one parameter", "one parameter"): ("-2011/8640", "-2011/8640"),
    ("sampled-stability", "two parameters", "cohorts"): (
        "10072291373/58629795840 1012017037/1221454080",
        "10072291373/58629795840 1012017037/1221454080",
    ),
    ("sampled-stability", "two parameters", "pair"): ("16279/76800 4933/4800", "16279/76800 4933/4800"),
    ("sampled-bias", "never farther", "pair"): ("76/75 2", "148/525 6/19"),
    ("sampled-bias", "never farther", "pair, against"): ("4/27 4/39", "100/189 160/741"),
    ("sampled-bias", "never nearer", "pair"): ("148/525 6/19", "76/75 2"),
    ("sampled-bias", "never nearer", "pair, against"): ("100/189 160/741", "4/27 4/39"),
    ("sampled-bias", "repaired", "pair"): ("148/525 6/19", "76/75 2"),
    ("sampled-bias", "nearer", "pair, against"): ("4/27 4/39", "100/189 160/741"),
    # the moving average
    ("moving-average", "printed", "alike"): ("2/3 8/3 16/9 8/9 26/9 52/27", "1 4 2 1 3 2"),
    ("moving-average", "repaired", "alike"): ("1 4 2 1 3 2", "1 4 2 1 3 2"),
    ("moving-average", "it cancels", "batches"): ("67/94 1/2", "107/150 1/2"),
    ("moving-average", "it cancels", "alike"): ("1/2 41/58", "1/2 9/14"),
    ("moving-average", "equal numbers", "as many"): ("137/198 1/2", "137/198 1/2"),
    ("moving-average", "distance", "batches"): ("2/3525 0", "4/13 4/13"),
    ("moving-average", "distance", "alike"): ("0 13/203", "4/13 4/13"),
}  # fmt: skip
QUANTITIES = {
    ("two", "mean"): "65/96 0 0 11/16",
    ("two", "fedavg"): "22/65 1/22",
    ("two", "star"): "0 1/4",
    ("two", "zeta"): "1/3 223/264",
    ("two", "omega"): "22/3 43/12",
    ("two", "delta"): "-151/192 23/32",
    ("two", "step"): "1001/768 -6135/11264",
    ("two", "naive"): "233/256 -59/128",
    ("two", "L"): "11/16",
    ("two, fast", "mean"): "47/48 0 0 19/32",
    ("two, fast", "fedavg"): "41/47 -5/19",
    ("two, fast", "star"): "1 -1/3",
    ("two, fast", "zeta"): "3/4 71/42",
    ("two, fast", "omega"): "7 5/12",
    ("two, fast", "delta"): "-59/96 7/16",
    ("two, fast", "step"): "325/256 -121/192",
    ("two, fast", "naive"): "229/192 -25/32",
    ("two, fast", "L"): "47/48",
    ("full", "mean"): "9/16 -1/16 -1/16 71/96",
    ("full", "fedavg"): "1189/1899 -20/633",
    ("full", "star"): "76/143 -31/143",
    ("full", "zeta"): "1/4 171/188",
    ("full", "omega"): "47/6 8/3",
    ("full", "delta"): "-17/24 -65/96",
    ("full", "step"): "239/128 12949/24064",
    ("full", "naive"): "47/32 63/128",
    ("full", "L"): "77/96",
    ("dead", "mean"): "65/96 0 0 11/16",
    ("dead", "fedavg"): "22/65 1/22",
    ("dead", "star"): "0 1/4",
    ("dead", "zeta"): "1 1",
    ("dead", "omega"): "0 0",
    ("dead", "delta"): "11/48 1/32",
    ("dead", "step"): "11/96 1/64",
    ("dead", "naive"): "11/96 1/64",
    ("dead", "L"): "11/16",
    ("cohorts", "M"): "3/4 0 0 1 1 0 0 7/16 7/16 0 0 3/4",
    ("cohorts", "c"): "1 2 -1 1/2 13295/5103 -100154/15147",
    ("cohorts", "u"): "7/36 16/45 9/20",
    ("cohorts", "v"): "55/432 227/1836 16/135 4712/16065 27/80 33/140",
    ("cohorts", "mean_zeta"): "7/12 233/357",
    ("cohorts", "fedavg"): "7859/18099 -15842/6171",
    ("cohorts", "star"): "3089/22113 -154867/60588",
    ("matrices", "M"): "11/16 1/4 1/4 11/16 11/16 -5/16 -5/16 3/8 7/16 0 0 1",
    ("matrices", "c"): "1 2 -1 1/2 634223/108675 -4133/720",
    ("matrices", "u"): "7/36 16/45 9/20",
    ("matrices", "v"): "10663/86940 7/108 668/3105 26/189 5/28 5/28",
    ("matrices", "mean_zeta"): "1247/2415 8/21",
    ("matrices", "fedavg"): "76748074/48691575 -15021901/5410175",
    ("matrices", "star"): "29449877/20720700 -77005963/20720700",
    ("one step", "M"): "1/2 0 0 1 1 0 0 1/4 1/4 0 0 1/2",
    ("one step", "c"): "1 2 -1 1/2 81/17 -1255/122",
    ("one step", "u"): "1/3 1/3 1/3",
    ("one step", "v"): "17/72 1/6 1/9 13/51 17/72 61/306",
    ("one step", "mean_zeta"): "7/12 95/153",
    ("one step", "fedavg"): "47/119 -1473/854",
    ("one step", "star"): "47/119 -1473/854",
    ("pair", "M"): "1 0 0 7/16 3/4 0 0 3/4",
    ("pair", "c"): "3 -1 1/25 8",
    ("pair", "u"): "1/2 1/2",
    ("pair", "v"): "1/4 15/28 25/36 1/4",
    ("pair", "mean_zeta"): "17/18 11/14",
    ("pair", "fedavg"): "303/175 89/19",
    ("pair", "star"): "151/75 5",
    ("all", "M"): "11/16 1/4 1/4 11/16 11/16 -5/16 -5/16 3/8 7/16 0 0 1",
    ("all", "c"): "1 2 -1 1/2 80/21 -87/16",
    ("all", "u"): "1/6 1/3 1/2",
    ("all", "v"): "59/846 1/18 59/423 1/9 59/282 1/6",
    ("all", "mean_zeta"): "59/141 1/3",
    ("all", "fedavg"): "1 -3",
    ("all", "star"): "279/364 -1285/364",
    ("batches", "w"): "1/6 1/3 1/2",
    ("batches", "factors"): "2/3 8/9 26/27",
    ("batches", "printed"): "2/3 8/3 40/9 8/9 62/27 148/27",
    ("batches", "corrected"): "1 4 5 1 31/13 74/13",
    ("alike", "w"): "1/6 1/3 1/2",
    ("alike", "factors"): "2/3 8/9 26/27",
    ("alike", "printed"): "2/3 8/3 16/9 8/9 26/9 52/27",
    ("alike", "corrected"): "1 4 2 1 3 2",
}  # fmt: skip

NOT_WORKED = {  # forms without an entry, and why
    (s.id.split("/")[1], f.name): "an experiment on networks: no sides"
    for s in theorems.all_statements("elastic-aggregation/")
    for f in s.forms
    if s.kind == "claim"
}
INSTANCES = {**worked.INSTANCES, **words.INSTANCES_2}


def view(instance):
    kind, data = INSTANCES[instance]
    return BUILDERS[kind](data)


def fractions(text):
    return [Fraction(t) for t in text.split()]


def entries(a):
    """Of a number, a list of lists or an array."""
    return [Fraction(v) for v in np.asarray(a, dtype=object).ravel()]


def expected(numbers):
    """lhs, rhs and scale of an equality's sides, which are judged by their difference."""
    lhs, rhs, *parts = map(fractions, numbers)
    scale = [abs(a) + abs(b) + sum(p) for a, b, *p in zip(lhs, rhs, *parts, strict=True)]
    return [abs(a - b) for a, b in zip(lhs, rhs, strict=True)], [0] * len(lhs), scale


@pytest.mark.parametrize("key", WORKED, ids=" | ".join)
def test_the_package_gives_the_numbers(key):
    statement, name, instance = key
    form, at = theorems.get(f"elastic-aggregation/{statement}").form(name), view(instance)
    assert at.applies(form) is None
    sides = form.sides(at)
    if sides.relation == "==":
        assert (entries(sides.lhs), entries(sides.rhs), entries(sides.scale)) == expected(WORKED[key])
    else:
        assert [entries(sides.lhs), entries(sides.rhs)] == [fractions(t) for t in WORKED[key]]


@pytest.mark.parametrize("pair", [*formulas.FORMS, *formulas_2.FORMS], ids=" | ".join)
def test_the_formulas_written_a_second_time_give_the_numbers(pair):
    found = (formulas if pair in formulas.FORMS else formulas_2).both_sides(*pair)
    assert {(*pair, i) for i in found} == {k for k in WORKED if k[:2] == pair}
    for instance, sides in found.items():
        assert [entries(s) for s in sides] == [fractions(t) for t in WORKED[*pair, instance]], instance


def test_every_form_is_worked():
    forms = {(s.id.split("/")[1], f.name) for s in theorems.all_statements("elastic-aggregation/") for f in s.forms}
    there = {k[:2] for k in WORKED}
    assert not forms - there - set(NOT_WORKED), "forms without a worked instance, and without a reason"
    assert there | set(NOT_WORKED) <= forms, "worked, but no form"


@pytest.mark.parametrize("key", QUANTITIES, ids=" | ".join)
def test_what_the_sides_are_made_of(key):
    instance, name = key
    at, numbers = view(instance), fractions(QUANTITIES[key])
    found = getattr(at, name)
    assert entries(found(at.theta) if callable(found) else found) == numbers
    assert entries(formulas.quantities(instance)[name]) == numbers


def test_the_minimiser_that_is_found_makes_the_mean_motion_0():
    """By cohorts and local steps, without M: at theta, and not beside it."""
    for instance in ("cohorts", "matrices", "one step", "pair"):
        clients = worked.work(instance)
        assert clients.motion() == [0] * clients.d
        assert entries(view(instance).drift) == [0] * clients.d
        clients.c[-1][0] += Fraction(1, 10)
        clients.Deltas = [clients.Delta(C, clients.theta) for C in clients.cohorts]
        assert clients.motion()[0] != 0
