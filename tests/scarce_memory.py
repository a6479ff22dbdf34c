"""An engine of networks for which memory is short."""

from __future__ import annotations


def scarce(monkeypatch, problem, fits: int, error: type[Exception] | None = None) -> list[int]:
    """The engine fails, as an allocator does, for more than `fits` models at once; returns the sizes that were tried."""
    import torch

    error = error or torch.OutOfMemoryError
    tried: list[int] = []
    for name in ("step", "gradient"):
        real = getattr(problem.engine, name)

        def limited(params, *rest, real=real):
            tried.append(len(params))
            if len(params) > fits:
                raise error("CUDA out of memory. Tried to allocate 1.00 GiB")
            return real(params, *rest)

        monkeypatch.setattr(problem.engine, name, limited)
    return tried
