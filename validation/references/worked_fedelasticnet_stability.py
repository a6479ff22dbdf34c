"""One round of SCAFFOLD as a matrix, and the numbers that Schur and Cohn reduce its characteristic
polynomial to, in plain fractions.

Part of `worked_fedelasticnet_algorithm_2`, for any number of clients and coordinates. The state is
theta, then the c_k.
"""

from __future__ import annotations

from fractions import Fraction as F


def times(A, x):
    return [sum((a * b for a, b in zip(row, x, strict=True)), F(0)) for row in A]


def product(A, B):
    columns = list(zip(*B, strict=True))
    return [[sum((a * b for a, b in zip(row, column, strict=True)), F(0)) for column in columns] for row in A]


class Stability:
    """A round from every unit vector, step by step, on L_k(x) = x'H_k x/2."""

    def __init__(self, d):
        self.d, self.m, self.n = d, len(d["H"]), len(d["H"][0])
        size = self.n * (self.m + 1)
        units = [[F(i == j) for i in range(size)] for j in range(size)]
        self.matrix = [list(row) for row in zip(*(self.round(u) for u in units), strict=True)]

    def round(self, z):
        d, n, m = self.d, self.n, self.m
        theta, c_k = z[:n], [z[n * (k + 1) : n * (k + 2)] for k in range(m)]
        c = [sum(row[i] for row in c_k) / m for i in range(n)]
        moves = []
        for k in range(m):
            y = theta
            for _ in range(d["B"]):
                slope = times(d["H"][k], y)
                y = [
                    y[i] - d["eta"] * (slope[i] - c_k[k][i] + c[i] + d["lambda2"] * (y[i] - theta[i])) for i in range(n)
                ]
            moves.append([y[i] - theta[i] for i in range(n)])
        out = [theta[i] + d["eta_g"] * sum(move[i] for move in moves) / m for i in range(n)]
        return out + [c_k[k][i] - c[i] - moves[k][i] / (d["B"] * d["eta"]) for k in range(m) for i in range(n)]

    def polynomial(self):
        """det(z - M) with its leading 1 first, by Newton's identities from the traces of the powers
        of M."""
        traces, power = [], self.matrix
        for _ in self.matrix:
            traces.append(sum(power[i][i] for i in range(len(power))))
            power = product(power, self.matrix)
        out = [F(1)]
        for k in range(1, len(self.matrix) + 1):
            out.append(-sum(out[k - i] * traces[i - 1] for i in range(1, k + 1)) / k)
        return out

    def largest(self):
        """The largest reflection coefficient, by the recursion of Levinson backwards, up to the
        first of at least 1."""
        a, found = self.polynomial(), []
        while len(a) > 1:
            last = a[-1]
            found.append(abs(last))
            if abs(last) >= 1:
                break
            a = [(x - last * y) / (1 - last**2) for x, y in zip(a[:-1], reversed(a[1:]), strict=True)]
        return max(found)
