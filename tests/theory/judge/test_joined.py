"""A setting of two parts: each statement, instance, witness and job of the search reaches the part that knows its kind."""

from __future__ import annotations

from fractions import Fraction as F

import pytest
from core_forms import form

from fedtheory.errors import InvalidInput
from fedtheory.rational import Builders, fraction
from fedtheory.theory.judge import About, ClosedView, DataInstance, Joined, Plan, Setting, Statement, le
from fedtheory.theory.judge.witness import Witness


class Number(ClosedView):
    """One number."""

    def __init__(self, x):
        self.x = x


def part_of(kind, doubled):
    """A setting with one kind, whose views hold the number of the data, or twice that."""
    builders = Builders()
    builders.add(kind)(lambda data: Number((1 + doubled) * fraction(data["x"], "x")))

    class Part(Setting):
        kinds = (kind,)

        def about(self, statement):
            return About(f"about {kind}", f"it is about {kind}")

        def instances(self, plan):
            return [DataInstance(builders, kind, "one", {"x": "1"})]

        def random_instance(self, kind, rng):
            return DataInstance(builders, kind, "drawn", {"x": str(int(rng.integers(0, 2)))})

    Part.builders = builders
    return Part()


def about(kind):
    claim = form("printed", "x\\le1", lambda v: le(v.x, F(1)), "open", kind=kind)
    return Statement(f"joined/{kind}", kind, "a test", kind, (claim,))


APPLES, PEARS = about("apples"), about("pears")
NOTHING = Statement("joined/claim", "a claim", "a test", "claim", (form("printed", "", None, "open"),), kind="claim")
BOTH = [APPLES, PEARS]


@pytest.fixture
def setting():
    return Joined(part_of("apples", False), part_of("pears", True))


def test_a_statement_belongs_to_the_part_of_its_kind(setting):
    assert setting.kinds == ("apples", "pears")
    assert [setting.about(s).scope for s in BOTH] == ["about apples", "about pears"]
    assert [setting.about(s).refusal for s in (*BOTH, NOTHING)] == ["it is about apples", "it is about pears", "it is about apples"]


def test_an_instance_is_judged_by_its_own_part_only(setting):
    """1 <= 1 holds of an apple, 2 <= 1 fails of a pear."""
    checks = [c for i in setting.instances(Plan()) for c in setting.check(i, BOTH)]
    assert [(c.statement, c.verdict) for c in checks] == [("joined/apples", "holds"), ("joined/pears", "violated")]


def test_a_witness_is_judged_by_the_part_of_its_statement(setting):
    witness = Witness("joined/pears", "printed", "any", "pears", {"x": "3/4"})
    assert setting.exact_check(PEARS, witness)[1:3] == (F(3, 2), F(1))
    assert setting.facts(witness) == [("instance", "pears"), ("x", "3/4")]
    with pytest.raises(InvalidInput, match="use one of apples"):
        setting.exact_check(APPLES, witness)


def test_each_job_of_the_search_goes_to_its_part(setting):
    assert setting.searches(BOTH) == [("apples",), ("pears",)] and setting.searches([PEARS]) == [("pears",)]
    apples, pears = (setting.run_search(job, BOTH, 100, 0)[0] for job in setting.searches(BOTH))
    assert apples.empty and not pears.empty and pears.witness.statement == "joined/pears"
