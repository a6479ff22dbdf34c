"""Penalty, clipping and update as one compiled function, which a GPU uses; here compiled for the CPU."""

from __future__ import annotations

import itertools
import warnings

import pytest

torch = pytest.importorskip("torch")

from fedtheory.neural import fused, penalty  # noqa: E402
from fedtheory.neural.engines import recurrent  # noqa: E402

D, R = 37, 3


@pytest.fixture
def on_this_device(monkeypatch):
    """Compiles for the CPU without a C++ compiler: the graph is traced in one piece and replayed."""
    monkeypatch.setattr(fused, "DEVICES", ("cpu",))
    monkeypatch.setattr(fused, "BACKEND", "aot_eager")
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def rows(*shape):
    return torch.randn(*(shape or (R, D)), dtype=torch.float64)


def both(plain, arguments):
    """Return what the function and its compiled form make of the same arguments."""
    found = []
    for function in (plain, fused.fused(plain)):
        given = [a.clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # a graph that breaks would be told
            assert function(*given) is None
        found.append(given)
    assert function.made and "refused" not in function.made
    return found


SLOPES = [0.0, 0.3, torch.rand(R, 1, dtype=torch.float64)]


@pytest.mark.parametrize(("slope", "pulled", "l1"), list(itertools.product(SLOPES, (False, True), (0.0, 0.2))))
def test_steps(slope, pulled, l1, on_this_device):
    y, lr = rows(), torch.full((R, 1), 0.1, dtype=torch.float64)
    pull, anchor = rows() if pulled else None, rows() if l1 else None
    for gradient in (None, rows()):
        plain, compiled = both(penalty._moved, [y, gradient, lr, None, slope, 0.0, pull, anchor, l1])
        torch.testing.assert_close(compiled[0], plain[0], rtol=0, atol=1e-15)
        whole = slope * y - (pull if pulled else 0.0) + (l1 * torch.sign(y - anchor) if l1 else 0.0)
        whole = whole if gradient is None else whole + gradient
        torch.testing.assert_close(plain[0], y - lr * whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("slope", "later"), [(0.0, 0.1), (0.3, 0.1), (SLOPES[2], 0.0), (0.3, SLOPES[2])])
def test_clipped_steps(slope, later, on_this_device):
    y, gradient, lr, pull, anchor = rows(), rows(), torch.full((R, 1), 0.1, dtype=torch.float64), rows(), rows()
    gradient[0] *= 1e-3  # a row that is not cut
    plain, compiled = both(penalty._moved, [y, gradient, lr, 2.0, slope, later, pull, anchor, 0.2])
    torch.testing.assert_close(compiled[0], plain[0], rtol=0, atol=1e-14)
    direction = gradient - pull + slope * y + 0.2 * torch.sign(y - anchor)
    factor = (2.0 / (direction.norm(dim=1, keepdim=True) + 1e-6)).clamp(max=1.0)
    whole = factor * direction + later * y
    torch.testing.assert_close(plain[0], y - lr * whole, rtol=0, atol=1e-14)
    found = [f(y, gradient.clone(), 2.0, slope, later, pull, anchor, 0.2) for f in (penalty._whole, fused.fused(penalty._whole))]
    for one in found:
        torch.testing.assert_close(one, whole, rtol=0, atol=1e-14)


def test_the_l1_prox(on_this_device):
    y, anchor, lr = rows(), rows(), torch.full((R, 1), 2.0, dtype=torch.float64)
    plain, compiled = both(penalty._shrunk, [y, lr, 0.2, anchor])
    torch.testing.assert_close(compiled[0], plain[0], rtol=0, atol=1e-15)
    assert bool(((y - anchor).abs() <= 0.4).any()) and torch.equal(plain[0] == anchor, (y - anchor).abs() <= 0.4)


def test_the_cells_of_an_lstm(on_this_device):
    z, before, g_h, g_c = rows(R, 4, 20), rows(R, 4, 5), rows(R, 4, 5), rows(R, 4, 5)
    forward, back = recurrent._cell.__wrapped__, recurrent._cell_back.__wrapped__
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        made, cell, squashed, _ = forward(z, before)
        compiled = fused.fused(forward)
        for _ in range(3):  # one step's cell is the next one's, as in a layer
            wanted = forward(z, before)
            torch.testing.assert_close(compiled(z, before), wanted, rtol=0, atol=1e-14)
            before = wanted[1]
        wanted = back(made, squashed, cell, g_h, g_c)
        torch.testing.assert_close(fused.fused(back)(made, squashed, cell, g_h, g_c), wanted, rtol=0, atol=1e-14)
    assert compiled.made and "refused" not in compiled.made


def test_other_sizes_and_numbers_stay_compiled(on_this_device):
    """A sweep in one process: torch compiles a code object eight times at most."""
    call = fused.fused(penalty._moved)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for slope, pulled, l1, r in itertools.product((0.0, 0.3, 1.0, "each"), (False, True), (0.0, 0.1), (2, 5)):
            slope, l1 = (slope + 0.1 if slope == 0.3 and r == 5 else slope), r * l1
            y, lr = rows(r, D + r), torch.rand(r, 1, dtype=torch.float64)
            slope = torch.rand(r, 1, dtype=torch.float64) if slope == "each" else slope
            others = None, lr, None, slope, 0.0, rows(r, D + r) if pulled else None, rows(r, D + r) if l1 else None, l1
            wanted = y.clone()
            with torch.no_grad():
                penalty._moved(wanted, *others)
                call(y, *others)
            torch.testing.assert_close(y, wanted, rtol=0, atol=1e-14)
    assert len(call.made) > 8 and "refused" not in call.made


def test_what_cannot_be_compiled_is_told_once_and_done_all_the_same(monkeypatch):
    monkeypatch.setattr(fused, "DEVICES", ("cpu",))
    monkeypatch.setattr(fused, "BACKEND", "there is no such backend")

    def doubled(y):
        y.mul_(2.0)

    call, y = fused.fused(doubled), torch.ones(2)
    with pytest.warns(UserWarning, match="doubled cannot be compiled.*one by one"):
        call(y)
    call(y)  # a second warning would be an error
    assert y.tolist() == [4.0, 4.0]


def test_a_cpu_does_not_compile():
    def doubled(y):
        y.mul_(2.0)

    call = fused.fused(doubled)
    call(torch.ones(2))
    assert not call.made
