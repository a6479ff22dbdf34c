"""Elastic Aggregation, conference abstract: 'robust to ... partial participation'."""

from fedtheory.theorems.elastic_aggregation.cohorts import (
    BETWEEN,
    EQUAL,
    FOLLOWS,
    LOCAL_STEPS,
    PAIR,
    Cohorts,
)
from fedtheory.theorems.elastic_aggregation.paper import ELASTIC, QUADRATICS, Z, paper
from fedtheory.theory import form, le, repaired, wrong

PAIRS = r"H_k\text{ diagonal, }N=2,\ P=1,\ " + Z
FARTHER = r"|\theta_\infty-\theta^*|_i\ge|\bar\theta-\theta^*|_i"
NEARER = r"|\theta_\infty-\theta^*|_i\le|\bar\theta-\theta^*|_i"


def farther(q):
    """Sides of |bar theta - theta*|_i <= |theta_infinity - theta*|_i."""
    return le(abs(q.fedavg - q.star), abs(q.theta - q.star))


def nearer(q):
    """Sides of |theta_infinity - theta*|_i <= |bar theta - theta*|_i."""
    return le(abs(q.theta - q.star), abs(q.fedavg - q.star))


@paper.statement(
    "sampled-bias", about=ELASTIC, over=Cohorts,
    title="whether the zero of its mean motion is nearer to the optimum than FedAvg's when some "
    "clients take part",
    source="conference abstract: 'robust to large numbers of clients, partial participation, and "
    "imbalanced data'", assumptions=(*QUADRATICS, "as many samples at every client"),
)
def sampled_bias(q):
    """The distance of the zero to the optimum, against FedAvg's."""
    yield form(
        "never farther", lambda: nearer(q), Z + r"E>1\Rightarrow" + NEARER,
        needs=(EQUAL, LOCAL_STEPS), wording="in words", fails=True,
        note="a reading of the quoted words; the paper gives no formula. With E = 1 FedAvg has no "
        "bias at all. In the witness both clients are sensitive where they are steep, and both "
        "coordinates end farther: 10/27 for 34/189, and 5/12 for 17/84",
    )
    yield form(
        "never nearer", lambda: farther(q), Z + r"E>1\Rightarrow" + FARTHER,
        needs=(EQUAL, LOCAL_STEPS), fails=True,
    )
    yield repaired(
        lambda: farther(q),
        PAIRS + r"(h_1^i-h_2^i)(v_1^i-v_2^i)\le0\ \forall i\Rightarrow" + FARTHER,
        wrong("nearer", lambda: nearer(q)), needs=(PAIR, FOLLOWS), holds=True, proof="note",
        note="the end's distance to theta* is |p - h_1/(h_1 + h_2)| |c_1 - c_2|, p client 1's "
        "share. Local steps already give the steeper client too little, p = m_1/(m_1 + m_2), as "
        "m_k/h_k falls with h_k ((1 - (1 - lr h)^E)/h does: concave through 0); held back where it "
        "is sensitive, which is where it is steep, p = m_1 v_1/(m_1 v_1 + m_2 v_2) is smaller "
        "still: farther",
    )
    yield form(
        "nearer", lambda: nearer(q),
        PAIRS + r"h_1^i\ge h_2^i,\ \tfrac{m_1^i}{m_2^i}\le\tfrac{m_1^iv_1^i}{m_2^iv_2^i}"
        r"\le\tfrac{h_1^i}{h_2^i}\ \forall i\Rightarrow" + NEARER,
        wrong("farther", lambda: farther(q)), needs=(PAIR, BETWEEN), holds=True, proof="note",
        note="in each coordinate the steeper client is called 1: its share lies between FedAvg's "
        "and the optimum's; only where it is the less sensitive one",
    )
