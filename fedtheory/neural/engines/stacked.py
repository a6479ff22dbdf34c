"""All models in one graph: their parameters stacked, the sum of their losses, one backward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import register_pytree_node, tree_flatten, tree_leaves, tree_unflatten
from torch.utils.flop_counter import FlopCounterMode

from fedtheory.errors import MissingCapability
from fedtheory.neural.engines.base import Batch, Engine, descend, shares, whole
from fedtheory.neural.engines.chain import Chain, chain_of
from fedtheory.neural.engines.layers import Tape, along_the_chain, batched_layers, put_off
from fedtheory.neural.flat import FlatModule
from fedtheory.neural.losses import Loss
from fedtheory.neural.parts import unpacked

__all__ = ["Stacked"]


class Stacked(Engine):
    """One graph for any module that `torch.func.vmap` can take, with the rules of
    `fedtheory.neural.engines.layers`.

    The models' losses are added and differentiated once. Products of linear layers are added to the
    weights in `step`, without a gradient in between.
    """

    name = "stacked"

    def __init__(self, flat: FlatModule, loss: Loss) -> None:
        super().__init__(flat, loss)
        self._net = FlatModule(batched_layers(flat.module, flat.names))
        self._net.dropout = flat.dropout

    chain: Chain | None = None  # of linear layers, which compiled steps walk along on small batches

    def settle(self, inputs: Any) -> None:
        self.chain = None if self.autocast else chain_of(self.flat, inputs)

    def work(self, inputs: Any) -> float:
        """Multiplications and additions of a forward pass of one sample, by torch's counter, on
        these few samples (n, ...)."""
        leaves = self.flat.views(self.flat.initial()[None])
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            self._all(leaves, inputs[None])
        return counter.get_total_flops() / len(inputs)

    def bind(self, params: Tensor) -> dict[str, Tensor]:
        pieces = self.flat.views(params).items()
        return {name: piece.detach().requires_grad_() for name, piece in pieces}

    def _all(self, leaves: dict[str, Tensor], inputs: Any, keys: Tensor | None = None) -> Any:
        """Outputs (R, b, ...) of all models."""
        if self.chain is not None:
            return along_the_chain(self.chain, list(leaves.items()), inputs, keys)
        form: list[Any] = []

        def run(*given: Any) -> tuple[Tensor, ...]:
            parts, spec = tree_flatten(_known(self._net.run(*given)))
            for part in parts:
                if not isinstance(part, torch.Tensor | str | int | float | None):
                    kind = type(part).__name__
                    raise MissingCapability(
                        f"forward returns a {kind}, and only tensors in dicts, tuples, lists or "
                        "dataclasses can be stacked"
                    )
            # {"loss": None}, say
            form[:] = spec, [None if isinstance(p, torch.Tensor) else (p,) for p in parts]
            return tuple(p for p in parts if isinstance(p, torch.Tensor))

        # vmap has no rule for the others, and would take one model after another
        with sdpa_kernel(SDPBackend.MATH):
            given = (leaves, unpacked(inputs), *(() if keys is None else (keys,)))
            # `drawing_nothing` says it better than "error"
            found = iter(torch.func.vmap(run, randomness="different")(*given))
        spec, others = form
        return tree_unflatten([next(found) if p is None else p[0] for p in others], spec)

    def _losses(self, leaves: dict[str, Tensor], batch: Batch) -> Tensor:
        some = next(iter(leaves.values()))
        with self._mixed(some.device):
            outputs = self._all(leaves, batch.inputs, batch.keys)
        return self.loss.of_all(whole(outputs, some.dtype), batch.targets, batch.weights)

    def value(self, params: Tensor, batch: Batch) -> Tensor:
        if batch.counts is not None and self.cuts:
            return self._in_groups(self.value, params, batch)
        with torch.no_grad():
            outputs = self._all(self.flat.views(params), batch.inputs)
            return self.loss.of_all(outputs, batch.targets, batch.weights)

    def gradient(self, params: Tensor, batch: Batch) -> Tensor:
        if batch.counts is not None and self.cuts:
            return self._in_groups(self.gradient, params, batch)
        tape = None if self.autocast else Tape()
        found = self._backward(self.bind(params), tape, lambda z: self._losses(z, batch))
        return self._collected(found, tape, params)

    def _backward(
        self, leaves: dict[str, Tensor], tape: Tape | None,
        losses: Callable[[dict[str, Tensor]], Tensor],
    ) -> dict[str, Tensor | None]:
        """The leaves' gradients, but for what the tape has; None: nothing of this leaf is outside
        the tape."""
        with torch.enable_grad(), put_off(tape):
            total = losses(leaves).sum()
        found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
        return dict(zip(leaves, found, strict=True))

    @torch.no_grad()
    def _collected(
        self, found: dict[str, Tensor | None], tape: Tape | None, like: Tensor
    ) -> Tensor:
        """Gradients (R, d)."""
        out = torch.zeros_like(like)
        _move(self.flat.views(out), found, tape, -1.0, 0.0)
        return out

    def output_gradient(self, params: Tensor, inputs: Any, counts: Tensor) -> Tensor:
        if self.flat.depends_on_batch:
            return super().output_gradient(params, inputs, counts)

        def energy(leaves: dict[str, Tensor]) -> Tensor:
            outputs = self._all(leaves, inputs)
            each = outputs.reshape(*outputs.shape[:2], -1).square().sum(dim=2)
            return (each * shares(counts, outputs.shape[1], params)).sum(dim=1)

        tape = Tape()
        return self._collected(self._backward(self.bind(params), tape, energy), tape, params)

    def step(
        self, params: Tensor, batch: Batch, lr: float | Tensor, penalise: Callable[[], float],
        bound: dict[str, Tensor] | None = None,
    ) -> None:
        if self.autocast or (batch.counts is not None and self.cuts):
            return super().step(params, batch, lr, penalise)
        leaves, tape = self.bind(params) if bound is None else bound, Tape()
        found = self._backward(leaves, tape, lambda z: self._losses(z, batch))
        factor = penalise()
        with torch.no_grad():
            _move(leaves, found, tape, lr, factor)

    def _in_groups(
        self, what: Callable[[Tensor, Batch], Tensor], params: Tensor, batch: Batch
    ) -> Tensor:
        """what(params, batch) of rows with as many real samples, which come first in them, without
        padding."""
        inputs, targets, _, keys, counts, _ = batch
        assert counts is not None
        out = params.new_empty(0)
        for n, count in enumerate(np.unique(counts).tolist()):
            rows = torch.from_numpy(np.flatnonzero(counts == count)).to(params.device, non_blocking=True)
            drawn = None if keys is None else keys[rows]
            cut = Batch(inputs[rows, :count], targets[rows, :count], keys=drawn)
            found = what(params[rows], cut)
            out = found.new_empty((len(params), *found.shape[1:])) if n == 0 else out
            out[rows] = found
        return out


def _known(outputs: Any) -> Any:
    """The outputs, once torch knows how to take apart what of them is of a dict's or a dataclass's
    kin, as the outputs of Hugging Face's models are."""
    for part in tree_leaves(outputs):
        if is_dataclass(part) or isinstance(part, Mapping):
            _tell_torch(part)
            return _known(outputs)
    return outputs


def _tell_torch(example: Any) -> None:
    kind = type(example)
    if is_dataclass(example):
        names = [f.name for f in fields(example) if f.init]
        register_pytree_node(
            kind, lambda whole: ([getattr(whole, n) for n in names], None),
            lambda parts, _: kind(**dict(zip(names, parts, strict=True))),
        )
    else:
        register_pytree_node(
            kind, lambda whole: ([*whole.values()], [*whole]),
            lambda parts, keys: kind(zip(keys, parts, strict=True)),
        )


def _move(
    leaves: dict[str, Tensor], found: dict[str, Tensor | None], tape: Tape | None,
    lr: float | Tensor, factor: float,
) -> None:
    """leaf (R, ...) <- factor leaf - lr (gradient + products), in place; lr a number, or (R, 1)."""
    for name, leaf in leaves.items():
        products = [] if tape is None else tape.products.get(name, [])
        for n, (g, h) in enumerate(products):
            g = g if isinstance(lr, float) else g * lr[..., None]
            how = {"beta": 1.0 if n else factor, "alpha": -lr if isinstance(lr, float) else -1.0}
            if h is None:
                leaf[:, None].baddbmm_(g.new_ones(()).expand(len(g), 1, g.shape[1]), g, **how)
            else:
                leaf.baddbmm_(g.mT, h, **how)
        if not products and factor != 1.0:
            leaf.mul_(factor)
        gradient = found[name]
        if gradient is not None:
            each = lr if isinstance(lr, float) else lr.reshape(-1, *(1,) * (leaf.ndim - 1))
            descend(leaf, gradient, each)
