"""Many small cases of one promise, judged in one test: pytest spends more on a test of its own than most of them take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any


def each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, for tests without fixtures; every case is tried, and all that fail are named."""
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [(case,) if len(keys) == 1 else tuple(case) for case in cases]
    assert rows, f"no case of {names}"

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def judged(**others: Any) -> None:
            failed: list[tuple[dict[str, Any], Exception]] = []
            for values in rows:
                case = dict(zip(keys, values, strict=True))
                try:
                    test(**case, **others)
                except Exception as error:
                    failed.append((case, error))
            if failed:
                told = "\n".join(f"{case}: {type(error).__name__}: {error}" for case, error in failed)
                raise AssertionError(f"{len(failed)} of {len(rows)} cases fail\n{told}") from failed[0][1]

        signature = inspect.signature(test)
        left = [p for name, p in signature.parameters.items() if name not in keys]
        judged.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return judged

    return decorated
