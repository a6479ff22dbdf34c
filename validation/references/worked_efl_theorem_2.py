"""EFL's Theorem 2 in plain fractions, from the formulas as they are shown: optima before and after
a client leaves or arrives. Nothing of the library is imported.
"""

from __future__ import annotations

from fractions import Fraction as Q

from second_writing import Sheet


def numbers(value):
    """Strings as fractions, in lists of any depth."""
    return [numbers(v) for v in value] if isinstance(value, list) else Q(value)


def minimiser(weights, h, c):
    """argmin_w sum_k sum_i weights_ki h_ki (w_i - c_ki)^2/2, the weights (N,) or (N, d)."""
    out = []
    for i in range(len(h[0])):
        pull = [
            (w[i] if isinstance(w, list) else w) * row[i] for w, row in zip(weights, h, strict=True)
        ]
        out.append(sum(a * row[i] for a, row in zip(pull, c, strict=True)) / sum(pull))
    return out


def loss(h, c, w):
    """sum_i h_i (w_i - c_i)^2/2, whose minimum is 0."""
    return sum(a * (x - b) ** 2 for a, b, x in zip(h, c, w, strict=True)) / 2


def minus(x, y):
    return [a - b for a, b in zip(x, y, strict=True)]


def sq(x):
    return sum(v * v for v in x)


def shift(data):
    """The quantities of Theorem 2 and section 4.3: client a's gap is D before the shift, D_hat
    after."""
    samples, h, c = (numbers(data[k]) for k in ("samples", "h", "c"))
    n_a, others = samples[-1], samples[:-1]
    curvatures = [v for row in h for v in row]
    alone = minimiser(others, h[:-1], c[:-1])
    if "bend" in data:
        b, m, big, centre = Q(data["bend"]), Q(data["below"]), h[-1][0], c[-1][0]
        curvatures.append(m)

        def gap(w):  # F_a'' = L right of b, m left of it; F_a and F_a' are continuous at b
            left = min(w[0] - b, 0)
            return (
                big * (max(w[0], b) - centre) ** 2 / 2 + big * (b - centre) * left + m * left**2 / 2
            )

        # sum_{k != a} n_k h_k (w - c_k) + n_a (L (b - c_a) + m (w - b)) = 0, left of the bend or at
        # it
        own, end = sum(n * row[0] for n, row in zip(others, h[:-1], strict=True)), alone[0]
        together = [(own * end - n_a * (big * (b - centre) - m * b)) / (own + n_a * m)]
        if together[0] > b:
            raise ValueError("the joint optimum of this instance should not lie right of the bend")
    else:

        def gap(w):
            return loss(h[-1], c[-1], w)

        together = minimiser(samples, h, c)
    leaves = data["event"] == "departure"
    old, new = (together, alone) if leaves else (alone, together)
    return {
        "n": sum(others) + (n_a if leaves else 0), "n_a": n_a, "L": max(curvatures),
        "mu": min(curvatures),
        "distance": sq(minus(old, new)), "D_hat": gap(new), "D": gap(old),
    }  # fmt: skip


SHEET = Sheet("efl", {"shift": shift})
form = SHEET.form


@form("theorem-2-departure", "printed")
def _(q):
    # ||omega* - hat omega*||^2 <= 8 L n_a^2 hat D_a / (mu^2 n^2), n with a's samples
    return q["distance"], 8 * q["L"] * q["n_a"] ** 2 * q["D_hat"] / (q["mu"] ** 2 * q["n"] ** 2)


@form("theorem-2-departure", "sharpened")
@form("theorem-2-arrival", "repaired")
def _(q):
    # ||omega* - hat omega*||^2 <= 2 L n_a^2 hat D_a / (mu^2 n^2), n the samples before the shift
    return q["distance"], 2 * q["L"] * q["n_a"] ** 2 * q["D_hat"] / (q["mu"] ** 2 * q["n"] ** 2)


@form("theorem-2-departure", "sharp")
def _(q):
    # 2 L n_a^2 hat D_a / (mu^2 (n - n_a)^2 + mu L n_a (2n - n_a))
    n, n_a, L, mu = q["n"], q["n_a"], q["L"], q["mu"]
    below = mu**2 * (n - n_a) ** 2 + mu * L * n_a * (2 * n - n_a)
    return q["distance"], 2 * L * n_a**2 * q["D_hat"] / below


@form("theorem-2-arrival", "printed")
@form("theorem-2-arrival", "printed, few")
def _(q):
    # 8 L n_a^2 hat D_a / (mu^2 (n + n_a)^2)
    below = (q["mu"] * (q["n"] + q["n_a"])) ** 2
    return q["distance"], 8 * q["L"] * q["n_a"] ** 2 * q["D_hat"] / below


@form("theorem-2-arrival", "old optimum")
def _(q):
    # 2 L n_a^2 D_a / (mu^2 n^2 + mu L n_a (2n + n_a)), D_a at the old optimum
    n, n_a, L, mu = q["n"], q["n_a"], q["L"], q["mu"]
    return q["distance"], 2 * L * n_a**2 * q["D"] / (mu**2 * n**2 + mu * L * n_a * (2 * n + n_a))
