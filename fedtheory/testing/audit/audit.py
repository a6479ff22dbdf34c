"""`check_algorithm`: all checks on one implementation, and what they say together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput, suggest
from fedtheory.inputs import real_number, whole_number
from fedtheory.testing.audit.adapters import Adapter, AdapterError, limited
from fedtheory.testing.audit.comparisons import COMPARED
from fedtheory.testing.audit.convergence import CONVERGES
from fedtheory.testing.audit.finding import Check, Finding
from fedtheory.testing.audit.methods import METHODS, Method
from fedtheory.testing.audit.report import AuditReport
from fedtheory.testing.audit.session import Session
from fedtheory.testing.audit.streams import STREAMS
from fedtheory.testing.audit.theory import SAID

__all__ = ["audit_algorithm", "check_algorithm", "check_names"]

ALL = (*COMPARED, *SAID, CONVERGES, STREAMS)
CHOICES = {
    "weighting": ("examples", "uniform", "all-examples"),
    "option": ("difference", "gradient", "v-from-tau", "v-of-momentum"),
    "local": ("steps", "exact"),
}


def check_names() -> dict[str, str]:
    """Name of each check -> what passes it, in a line."""
    return {check.name: check.what for check in ALL}


def check_algorithm(
    adapter: Any, as_: str, *, settings: Mapping[str, Any] | None = None,
    weighting: str | None = None, option: str | None = None, local: str = "steps",
    skip: Collection[str] = (), rtol: float | None = None, time_limit: float = 30.0, seed: int = 0,
    progress: Callable[[str], Any] | None = None,
) -> AuditReport:
    """Hold an implementation of a federated method to the method, and fail with what is wrong.

    Parameters
    ----------
    adapter : callable or object
        One of

        - a function ``round(state, clients, cohort, **settings)`` that gives the next state. A
          state is a dict with the server's model ``x`` (d,), and what the method keeps besides
          (`METHODS` has the names), what clients keep with a row a client, or as a list;
          ``clients[k]`` has ``gradient(x)``, ``features``, ``labels`` and ``num_examples``;
          ``cohort`` is a list of client numbers;
        - a function ``run(start, clients, cohorts, **settings)`` that gives the server's model
          after every round, or the last one;
        - an object with a method ``round``, and with ``init(start, clients, **settings)`` and
          ``model(state)`` for states of its own.

        Of the settings (``learning_rate``, ``local_steps``, ``server_lr``, ``mu``, ``alpha``,
        ``seed``, ...) it is handed those that it has parameters for.
    as_ : 'fedavg', 'fedprox', 'scaffold', 'feddyn', ...
        The method it should be: a key of `METHODS`.
    settings, weighting, option, local, skip, rtol, time_limit, seed, progress : as
        `audit_algorithm` takes them

    Returns
    -------
    AuditReport

    Raises
    ------
    AssertionError
        A check fails; the message is the report.
    InvalidInput
        An unknown method or option, an adapter that cannot be called, or that has no parameter for
        what the method needs.

    Examples
    --------
    >>> import numpy as np
    >>> def averaging(state, clients, cohort, learning_rate, local_steps):
    ...     models = []
    ...     for k in cohort:
    ...         y = state["x"].copy()
    ...         for _ in range(local_steps):
    ...             y -= learning_rate * clients[k].gradient(y)
    ...         models.append(y)
    ...     return {"x": np.mean(models, axis=0)}
    >>> report = audit_algorithm(averaging, "fedavg")
    >>> print(report.explanations[0][0].words)
    client weights are ignored
    >>> check_algorithm(averaging, "fedavg", weighting="uniform").passed
    True
    """
    __tracebackhide__ = True
    report = audit_algorithm(
        adapter, as_, settings=settings, weighting=weighting, option=option, local=local, skip=skip,
        rtol=rtol, time_limit=time_limit, seed=seed, progress=progress,
    )
    if not report.passed:
        raise AssertionError(str(report))
    return report


def audit_algorithm(
    adapter: Any, as_: str, *, settings: Mapping[str, Any] | None = None,
    weighting: str | None = None, option: str | None = None, local: str = "steps",
    skip: Collection[str] = (), rtol: float | None = None, time_limit: float = 30.0, seed: int = 0,
    progress: Callable[[str], Any] | None = None,
) -> AuditReport:
    """As `check_algorithm`, but what fails is in the report only.

    Parameters
    ----------
    adapter, as_ : as in `check_algorithm`
    settings : name -> value
        What the adapter has built in and takes no parameter for, such as ``{"beta1": 0.9}``.
    weighting : 'examples', 'uniform' or 'all-examples'
        What a client counts for in the server's mean: n_k over the cohort's sum, as much as any
        other, or n_k over the n of all clients. Without it 'examples' for FedAvg, FedProx and its
        elastic net, Elastic Aggregation and the optimisers on the server, else 'uniform'. Printed
        otherwise: FedProx's Algorithm 2 and Reddi et al.'s have a plain mean, FedElasticNet's
        Algorithm 1 has 'all-examples'.
    option : 'difference', 'gradient', 'v-from-tau' or 'v-of-momentum'
        SCAFFOLD's option II (the default) or I; of FedAdagrad, FedAdam and FedYogi, a v that begins
        at tau^2 and not at 0.
    local : 'steps' or 'exact'
        Whether a client takes local gradient steps, or minimises its local objective to the end.
    skip : names of checks that are left out
    rtol : float > 0
        Tolerance relative to the largest number of a run. Without it 1e-9, 3e-4 for numbers of
        single precision, 1e-6 where clients minimise to the end.
    time_limit : seconds that one check may take, of two or three dozen calls at most
    seed : int >= 0
        Of the problems that it is tried on.
    progress : callable(name of a check), called before each check

    Returns
    -------
    AuditReport
    """
    as_ = str(as_).lower()
    if as_ not in METHODS:
        raise suggest(as_, list(METHODS), "method", "these can be audited: " + ", ".join(METHODS))
    method = METHODS[as_]
    given = _given(method, settings, {"weighting": weighting, "option": option, "local": local})
    unknown = [name for name in skip if name not in check_names()]
    if unknown:
        raise suggest(unknown[0], list(check_names()), "check", "`fedtheory audit --list` has all")
    rtol = None if rtol is None else real_number("rtol", rtol, above=0)
    limit = real_number("time_limit", time_limit, above=0)
    made = Adapter(adapter)
    _check_settings(made, method, given)
    session = Session(made, method, given, rtol, limit, whole_number("seed", seed, least=0))
    findings = []
    for check in ALL:
        if check.name in skip or _left_out(check, session):
            continue
        if progress is not None:
            progress(check.name)
        findings.append(_looked(check, session))
    with np.errstate(all="ignore"):
        explanations = session.explanations() if any(f.verdict == "fail" for f in findings) else []
    return AuditReport(made.name, method.name, method.source, tuple(findings), tuple(explanations), session.rtol)


def _looked(check: Check, session: Session) -> Finding:
    if session.stopped is not None:
        return Finding(check.name, "not run", hint=f"an earlier check was stopped: {session.stopped}")
    try:
        with limited(session.limit), np.errstate(all="ignore"):  # someone else's numbers may be as large as they like
            return check.look(session, check.name)
    except AdapterError as error:  # what a check itself makes of a failed call is no error any more: this is the time
        session.stopped = error
        return Finding(check.name, "fail", "an answer in time", f"{error.what}: {error}")


def _left_out(check: Check, session: Session) -> bool:
    """Checks that say the same as another one where clients minimise to the end, or where they take steps."""
    return check.name in (
        ("one local step", "local steps", "unequal local steps") if session.exact else ("one client",)
    )


def _number(name: str, value: Any, method: Method) -> float | int:
    """A setting that the adapter has built in. Raises `UnknownName`, `InvalidInput`."""
    known = ["learning_rate", "local_steps", *method.settings]
    if name not in known:
        raise suggest(str(name), known, "setting")
    if name == "local_steps":
        return whole_number(name, value, least=1)
    return real_number(name, value, above=0) if name == "learning_rate" else real_number(name, value)


def _given(method: Method, settings: Mapping[str, Any] | None, choices: Mapping[str, str | None]) -> dict[str, Any]:
    given: dict[str, Any] = {name: _number(name, value, method) for name, value in (settings or {}).items()}
    for name, value in choices.items():
        if value is None:
            continue
        if value not in CHOICES[name]:
            raise InvalidInput(f"{name} = {value!r}: use one of {', '.join(repr(c) for c in CHOICES[name])}")
        given[name] = value
    if given.get("option") in ("difference", "gradient") and "c" not in method.state:
        raise InvalidInput(f"option = {given['option']!r}: {method.name} has no control variates; leave it out")
    if given.get("option") in ("v-from-tau", "v-of-momentum") and "v" not in method.state:
        raise InvalidInput(f"option = {given['option']!r}: {method.name} has no second moment v; leave it out")
    if given.get("weighting") == "all-examples" and method.weighting != "examples":
        raise InvalidInput(f"weighting = 'all-examples': {method.name} does not weigh clients by examples; use 'uniform' or 'examples'")
    if given["local"] == "exact" and not method.exact:
        raise InvalidInput(f"local = 'exact': {method.name} is made of local gradient steps; use local='steps'")
    return given


def _check_settings(adapter: Adapter, method: Method, given: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` where the adapter cannot be told what the method needs, or needs what nobody gives it."""
    wanted = [] if given.get("local") == "exact" else ["learning_rate", "local_steps"]
    wanted += [name for name in method.settings if name != "server_lr"]
    for name in wanted:
        if not adapter.takes(name) and name not in given:
            raise InvalidInput(
                f"{adapter.name} has no parameter {name!r}, which {method.name} needs: name one so, or say what it has built in: "
                f"settings={{{name!r}: value}} (--built-in {name}=value)"
            )
    if "batch_size" in adapter.needed:
        raise InvalidInput(f"{adapter.name} needs 'batch_size': give it the default None, for all examples of a client")
    known = {"learning_rate", "local_steps", "seed", "batch_size", *method.settings}
    for name in sorted(adapter.needed - known):
        raise InvalidInput(
            f"{adapter.name} needs {name!r}, which {method.name} does not have: give it a default; "
            f"the settings are {', '.join(sorted(known))}"
        )
