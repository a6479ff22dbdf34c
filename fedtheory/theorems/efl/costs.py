"""EFL's claim of fewer gradient evaluations and fewer bits: both counted, against the same local
SGD without compression (FedAvg).

A message of ST keeps k of n entries: k positions of ceil(log2 n) bits, k signs, and one magnitude
of 32 bits. A dense message has 32 n bits. With the elastic term every participant also sends u^k
and v^k and receives U and V: four dense messages a round.
"""


from fedtheory.theorems.efl import feedback_world as on
from fedtheory.theorems.efl.paper import paper
from fedtheory.theory import Sides, form, le, wrong

EPS = r"\text{until }\|\omega_\tau-\omega^*\|^2\le\tfrac1{16}\|\omega_0-\omega^*\|^2"
MESSAGE = r"b_{ST}=k(1+\lceil\log_2n\rceil)+32"
LENGTHS = r",\quad " + MESSAGE + r",\ b=32n"


def _gradients(c: on.Costs) -> Sides:
    """sum of s_t^k over the rounds until the accuracy is reached."""
    return le(c.steps_to(c.distance_sq), c.steps_to(c.dense_distance_sq))


def _bits(c: on.Costs) -> Sides:
    """The same of bits, without u and v."""
    return le(c.messages_to(c.distance_sq) * c.message, c.messages_to(c.dense_distance_sq) * c.dense)


def _round(c: on.Costs, pairs: int, times: int = 1) -> Sides:
    """Bits of one participant in one round: times the dense ones, against ST both ways and so many dense messages more."""
    return le(times * 2 * c.dense + 0 * c.message, 2 * c.message + pairs * c.dense)


@paper.statement(
    "costs",
    over=on.FeedbackView, title="whether EFL needs fewer gradient evaluations and fewer bits",
    source="section 1, third contribution, against the same method without compression",
    assumptions=("FedAvg here: the same local steps, coefficients and step size, dense messages; "
    "floats of 32 bits", "the consistent form, ST with exactly k of n entries both ways"),
)
def costs(q):
    """Local steps and bits until the run is accurate, and bits of one round."""
    yield form(
        "gradients to converge", lambda: _gradients(q.costs),
        r"\textstyle\sum_{t,k}s_t^k(EFL)\le\sum_{t,k}s_t^k(FedAvg)\ " + EPS, fails=True,
        needs=(on.CONSISTENT, on.COUNTED, on.REACHED), wording="in words",
        note="a round's gradients are those of FedAvg, and a compressed run may take more rounds, "
        "or fewer: the witness takes nine for two and converges; with its step doubled to 1/L it "
        "diverges, its state times -2 every three rounds. The Fisher diagonals of the elastic "
        "term, a pass over the client's data each, come on top of it; lambda = 0 here. A run that "
        "does not get there counts with what it took, and one more",
    )
    yield form(
        "bits to converge", lambda: _bits(q.costs),
        r"\textstyle\sum_{t,k}2b_{ST}\le\sum_{t,k}64n\ " + EPS + r",\ \lambda=0,\ " + MESSAGE,
        fails=True, needs=(on.CONSISTENT, on.COUNTED, on.REACHED),
        note="the sums over the participants of all rounds; under scheme A one that is incomplete "
        "receives a message and sends none. Where it is true depends on the run: the witness needs "
        "630 bits for 512, and one client with curvatures (1, 1/2), k = n = 2, eta = 1, from (1, "
        "1) 72 for 256",
    )
    yield form(
        "bits a round", lambda: le(2 * q.costs.message + 4 * q.costs.dense, 2 * q.costs.dense),
        after=LENGTHS + r",\ \lambda>0", fails=True, needs=(on.COUNTED,),
        note="false for every n and k: u^k and v^k go up and U and V come down, and no compression "
        "of them is printed",
    )
    yield form(
        "bits a round, at least", lambda: _round(q.costs, 4, 2),
        wrong("three times", lambda: _round(q.costs, 4, 3)),
        wrong("without V", lambda: _round(q.costs, 3, 2)), after=LENGTHS + r",\ \lambda>0",
        holds=True, needs=(on.COUNTED,),
        proof="four dense messages are twice FedAvg's two, and b_ST >= 0",
        note="with the elastic term a round costs more than twice what FedAvg's does",
    )
    yield form(
        "bits a round, lambda = 0", lambda: le(2 * q.costs.message, 2 * q.costs.dense),
        wrong("with u and v",
              lambda: le(2 * q.costs.message + 4 * q.costs.dense, 2 * q.costs.dense)),
        after=r"\text{ where }k(1+\lceil\log_2n\rceil)\le32(n-1)" + LENGTHS, holds=True,
        needs=(on.COUNTED, on.CHEAP), proof="the condition is b_ST <= b, written out",
        note="what compression saves, by itself; the condition is necessary too",
    )
