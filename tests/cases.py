"""Many small cases of one promise in one test: pytest spends more on a test than most take."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

Test = Callable[..., None]


def each(names: str | Sequence[str], cases: Iterable[Any]) -> Callable[[Test], Test]:
    """As `pytest.mark.parametrize`, in one test: every case is tried, and all that fail are named.

    What `pytest.raises` did not meet is such a failure. A case must not skip, which would end all.
    """
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    rows = [(case,) if len(keys) == 1 else tuple(case) for case in cases]
    assert rows, f"no case of {names}"

    def decorated(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def judged(**others: Any) -> None:
            failed: list[tuple[dict[str, Any], BaseException]] = []
            for values in rows:
                case = dict(zip(keys, values, strict=True))
                try:
                    test(**case, **others)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                    failed.append((case, error))
            if failed:
                told = "\n".join(f"{c}: {type(e).__name__}: {e}" for c, e in failed)
                counted = f"{len(failed)} of {len(rows)} cases fail"
                raise AssertionError(f"{counted}\n{told}") from failed[0][1]

        signature = inspect.signature(test)
        left = [p for name, p in signature.parameters.items() if name not in keys]
        judged.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return judged

    return decorated
