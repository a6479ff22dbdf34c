"""How EFL's statements are judged: on which instances, on a problem of a user's, and on what a file holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from fedtheory.algorithms.efl import EFL
from fedtheory.errors import InvalidInput, MissingCapability, NotCertified
from fedtheory.local import Constant, LocalSGD, TheoremStep
from fedtheory.participation.irregular import complete, windows
from fedtheory.theorems.efl.cases.theorem_1 import ROUNDS, STEPS, assumption_failure, view_of
from fedtheory.theorems.efl.cases.theorem_2 import event_of, shift_on, who_moves
from fedtheory.theorems.efl.instances import in_fractions, runs
from fedtheory.theorems.efl.notation import BUILDERS
from fedtheory.theorems.efl.quantities.measured_run import moments_of_rounds
from fedtheory.theorems.efl.quantities.run import gamma_of
from fedtheory.verification.check import Check, judge_view, outside
from fedtheory.verification.registry import papers
from fedtheory.verification.replay import builtin_witnesses, read_kind_and_data
from fedtheory.verification.setting import Case, Plan, Prepared, Request, Setting
from fedtheory.verification.statement import Form, Statement
from fedtheory.verification.witness import Witness

__all__ = ["EFLSetting"]

THEOREM = "efl/theorem-1"
SHARE = {"run": 0.05, "step": 0.1}  # of the search's budget: instances of these kinds take longer than all others
ON_A_PROBLEM = ("run", "step", "shift")

ABOUT = {
    "run": "about a run of EFL without compression",
    "step": "about one round of EFL from a given state",
    "shift": "about the optima before and after one client leaves or joins",
    "compression": "about one compressed message",
    "feedback": "about runs with compression and residuals",
    "elastic": "about runs with the elastic term",
    "limit": "about where runs end under each scheme",
    "rates": "about the orders of Table 1",
    "after-shift": "about the step size after the objective has moved",
    "departed": "about rounds after a client has left",
    "inactive": "about inactive clients",
    "abandon": "about keeping or abandoning an inactive client",
    "keep": "about keeping or abandoning an inactive client",
    "epochs": "about keeping or abandoning an inactive client",
    "incomplete": "about incomplete clients",
}


class EFLSetting(Setting):
    """Runs and rounds of EFL in exact second moments or by Monte Carlo, and closed forms in fractions."""

    kinds = (*runs.KINDS, *in_fractions.KINDS)
    builders = BUILDERS
    share = SHARE
    scenarios = 200

    # --- instances ------------------------------------------------------------------------------------------------------
    def instances(self, plan: Plan) -> Sequence[Any]:
        """Runs first, then what is given in fractions."""
        return [*runs.battery(plan.seed, plan.scale), *in_fractions.battery(plan.seed, plan.scale)]

    def random_instance(self, kind: str, rng: Any) -> Any:
        """One instance of a kind. Raises `InvalidInput` where there is none of that name."""
        return (runs if kind in runs.KINDS else in_fractions).random_instance(kind, rng)

    def read_version_1(self, fields: dict[str, Any], label: str) -> Witness | None:
        """Files of version 1 had the kind and the data under "efl", whichever paper brought that shape with it."""
        if "efl" not in fields:
            return None
        whose = str(fields.get("statement")).partition("/")[0]
        if any(whose == p.id for p in papers() if p.id != self.paper):
            return None
        return read_kind_and_data(fields, "efl", label)

    def facts(self, witness: Witness) -> list[tuple[str, Any]]:
        """What a witness holds, with the losses in words where they are quadratics."""
        first, *rest = super().facts(witness)
        losses = ("losses", "f_k(x) = sum_i h_ki (x_i - c_ki)^2 / 2, clients separated by semicolons")
        return [first, *([losses] if {"h", "c"} <= witness.data.keys() else []), *rest]

    # --- a problem of the user's ----------------------------------------------------------------------------------------
    def refusal(self, statement: Statement) -> str | None:
        """Why the statement does not run on a user's problem, or None where it does."""
        if statement.kind == "claim":
            return "it is a claim that cannot be proved or refuted here, so there is nothing to run"
        if any(f.kind in ON_A_PROBLEM for f in statement.forms):
            return None
        return f"it is about instances of its own kind ({statement.forms[0].kind}), not about a problem's run"

    def scope_in_words(self, statement: Statement) -> str:
        return "not provable here" if statement.kind == "claim" else ABOUT[statement.forms[0].kind]

    def example(self, statement: Statement) -> str | None:
        """Options of `fedtheory verify` that show the statement at work; None where there is none to give."""
        return {
            "shift": f"--problem breast-cancer --{event_of(statement.forms[0])} 2",
            "step": "--problem diabetes --clients 3 --inactive 0.3 --local-steps 2",
            "run": "--problem diabetes --inactive 0.3 --incomplete uniform",
        }.get(statement.forms[0].kind)

    def verify(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        """One check a form. 'not applicable' names the assumption that fails, 'inconclusive' what could not be certified."""
        rule, name = getattr(case.algorithm, "scheme", "any"), case.problem.name

        def refused(form: Form, reason: str, verdict: Any = "not applicable") -> Check:
            known = rule if rule in form.established or "any" not in form.established else "any"
            return outside(statement, form, known, reason, name, verdict)

        reason = self.refusal(statement)
        if reason is None:
            optima = all(f.kind == "shift" for f in forms)  # Theorem 2 is about optima: whatever the algorithm
            reason = assumption_failure(case.problem, EFL() if optima else case.algorithm, None if optima else case.local_solver)
        if reason is not None:
            return [refused(f, reason) for f in forms]
        out, views = [], {}
        for form in forms:
            try:
                if form.kind not in views:
                    views[form.kind] = self._view(statement, form, case)
            except NotCertified as error:
                out.append(refused(form, str(error), "inconclusive"))
                continue
            except (InvalidInput, MissingCapability) as error:
                out.append(refused(form, str(error)))
                continue
            view = views[form.kind]
            reason = view.applies(form)
            if reason is None and view.rule not in form.established:
                reason = f"not claimed for scheme {rule}"
            if reason is not None:
                out.append(refused(form, reason))
                continue
            check = judge_view(statement, form, view, name, confidence=case.confidence)
            if statement.id == THEOREM:
                check.where["tau"] = int(view.horizons[check.where.pop("index")[0]])
            out.append(check)
        return out

    def _view(self, statement: Statement, form: Form, case: Case) -> Any:
        if form.kind == "shift":
            event = event_of(form)
            return shift_on(case.problem, event, who_moves(case.sampling, event, case.problem.num_clients))
        view = view_of(form.kind, case)
        if statement.id == THEOREM:  # at tau = 0 both sides are ||w_0 - w*||^2
            view = replace(view, horizons=view.horizons[view.horizons > 0])
        return view

    def step_sizes(self, algorithm: Any, problem: Any, participation: Any, rounds: int) -> TheoremStep:
        """The steps of Theorem 1.

        Raises
        ------
        InvalidInput
            mu = 0, or an elastic term.
        """
        mu = float(problem.mu_k.min())
        if not mu > 0:
            raise InvalidInput(f"Theorem 1's steps: mu = {mu:g}, the limit is > 0 (Assumption 2): add a ridge")
        if algorithm.lam:
            raise InvalidInput(f"Theorem 1's steps: lambda = {algorithm.lam:g}, and it is about lambda = 0: use InverseTime")
        moments = moments_of_rounds(algorithm.scheme, participation, rounds, problem.weights)
        S = [float(m.sum_ps) for m in moments]
        theta = float(max(m.theta for m in moments))
        gamma = gamma_of(participation.max_steps, theta, float(problem.beta_k.max()), mu, S)
        return TheoremStep(mu, participation.max_steps, gamma, S[0] if len(set(S)) == 1 else tuple(S))

    # --- at the command line ----------------------------------------------------------------------------------------------
    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """A run under the laws of s_k that were asked for; of Theorem 2 the client that leaves or joins."""
        reason = self.refusal(statement)
        if reason is not None:
            raise InvalidInput(f"{statement.id}: {reason}{self._instead(statement)}")
        problem = request.problem("quadratic")
        if all(f.kind == "shift" for f in statement.forms):
            return _prepare_shift(statement, problem, request)
        return _prepare_run(problem, request)

    def _instead(self, statement: Statement) -> str:
        """What can be done with a statement that no problem can be given to."""
        if statement.kind == "claim":
            return f": `fedtheory explain {statement.id}` says what is missing"
        found = [w.name for w in builtin_witnesses(self.paper) if w.statement == statement.id]
        replay = f"; `fedtheory replay {found[0]}` reruns a counterexample" if found else ""
        return f": `fedtheory verify` judges it on some of them with all other statements{replay}"


def _prepare_shift(statement: Statement, problem: Any, request: Request) -> Prepared:
    """The client that Theorem 2 moves, as a law with a window; --departure and --arrival may leave the round out."""
    algorithm, event = request.algorithm("efl", problem), event_of(statement.forms[0])
    request.refuse([f.name for f in fields(algorithm)], f"{statement.id} is about two optima, whatever the algorithm; leave it out")
    no_run = f"{statement.id} is about two optima, not about a run; leave it out"
    if request.rounds is not None or request.mode != "auto":
        given = f"--mode {request.mode}" if request.rounds is None else f"--rounds {request.rounds}"
        raise InvalidInput(f"{given}: {no_run}")
    other = "arrival" if event == "departure" else "departure"
    work = ("local_steps", "local_lr", "batch_size", "noise", "lr_schedule", "lr_delay")
    request.refuse(("inactive", "incomplete", other, *work), no_run)
    if request.participants is not None:
        raise InvalidInput(f"--participants {request.participants}: {no_run}")
    text, client = request.options.get(event), problem.num_clients - 1
    if text is not None:
        try:
            client = int(text.partition("@")[0])
        except ValueError:
            raise InvalidInput(f"--{event} {text}: give the client, as in --{event} 2") from None
    window = (2, None) if event == "arrival" else (None, 2)
    sampling = windows(complete(problem.num_clients, 1), {client: window})
    moves = "leaves" if event == "departure" else "joins the others"
    head = [f"{problem.name}: N = {problem.num_clients}, d = {problem.dim}, client {client} {moves}"]
    options = {"sampling": sampling, "x0": request.start(problem), "seed": request.seed}
    details = {"event": event, "client": client}
    return Prepared(problem, algorithm, options, head, details, partial(_facts, details))


def _prepare_run(problem: Any, request: Request) -> Prepared:
    algorithm, o = request.algorithm("efl", problem), request.options
    rounds = request.rounds or ROUNDS
    E = STEPS if o.get("local_steps") is None else o["local_steps"]
    sampling = request.participation(problem, E, rounds)
    plain = o.get("lr_schedule") in (None, "theorem")
    if plain and o.get("local_lr") is not None:
        raise InvalidInput(
            f"--local-lr {o['local_lr']:g}: Theorem 1 says what the step is; leave it out (with --lr-schedule constant the "
            "verdict is 'not applicable')"
        )
    if plain:  # a number stands for Theorem 1's steps
        solver = LocalSGD(sampling.max_steps, 1.0, o.get("batch_size"), noise_std=o.get("noise") or 0.0)
    else:
        solver = request.local_sgd(algorithm, problem, sampling, rounds)
        solver = solver if callable(solver.lr) else replace(solver, lr=Constant(solver.lr))
    work = ", ".join(
        [f"E = {E} local steps"]
        + [f"mini-batches of {solver.batch_size}"] * (solver.batch_size is not None)
        + [f"noise of norm {solver.noise_std:g}"] * (solver.noise_std > 0)
    )
    who = request.participation_in_words(problem)
    head = [f"{problem.name}: N = {problem.num_clients}, {who}, d = {problem.dim}, scheme {algorithm.scheme}, {work}, T = {rounds}"]
    details = {"scheme": algorithm.scheme, "sampling": repr(sampling), "local_solver": repr(solver), "rounds": rounds}
    options = {
        "sampling": sampling, "local_solver": solver, "x0": request.start(problem), "rounds": rounds, "mode": request.mode,
        "scenarios": request.scenarios, "seed": request.seed,
    }  # fmt: skip
    return Prepared(problem, algorithm, options, head, details, partial(_facts, details))


# --- the constants that the checks carry -----------------------------------------------------------------------------------
NAMES = {
    "G_sq": "G^2", "sigma_sq": "sigma_k^2", "D": "D_k", "S_min": "min S_tau", "start_sq": "||w_0 - w*||^2", "B_max": "max E[B_t]",
    "eta_0": "eta_0", "C_T": "C_T", "H_T": "H_T", "r_mean": "mean r_tau", "D_new": "D_a, new optimum", "D_old": "D_a, old optimum",
}  # fmt: skip
OF_A_SHIFT = ("n", "n_a", "L", "mu", "D_new", "D_old")


def _facts(details: dict[str, Any], checks: Sequence[Check]) -> list[tuple[str, Any]]:
    """The constants of the checks, taken out of them into what is written: they are the same for all forms."""
    found: dict[str, Any] = {}
    for check in checks:
        if "constants" in check.where:
            found.update(check.where.pop("constants"))
            check.where.pop("horizons", None)
        for name in [k for k in check.where if k in OF_A_SHIFT]:
            found[name] = check.where.pop(name)
    details["constants"] = found
    how = found.get("how", {})
    rows = [(NAMES.get(k, k), _number(v)) for k, v in found.items() if k not in ("how", "N", "rounds") and v is not None]
    return rows + [(f"how: {k}", v) for k, v in how.items()]


def _number(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k} {_number(v)}" for k, v in value.items())
    if isinstance(value, list):
        return f"{_number(value[0])} (all clients)" if len({*value}) == 1 and len(value) > 1 else ", ".join(_number(v) for v in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)
