"""The setting of EFL's statements: instances, a user's problem, and the content of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from fedtheory.errors import InvalidInput, suggest
from fedtheory.local import LocalSGD, TheoremStep
from fedtheory.theorems.efl.cases.given import ACCEPTS
from fedtheory.theorems.efl.cases.kinds import CASES
from fedtheory.theorems.efl.cases.limits import looks_at_run
from fedtheory.theorems.efl.cases.own_run import own_run
from fedtheory.theorems.efl.cases.prepared import prepare
from fedtheory.theorems.efl.cases.theorem_2 import event_of
from fedtheory.theorems.efl.instances import in_fractions, runs
from fedtheory.theorems.efl.notation import BUILDERS
from fedtheory.theorems.efl.quantities.measured_run import moments_of_rounds
from fedtheory.theorems.efl.quantities.run import gamma_of
from fedtheory.theorems.efl.quantities.step import COMPLETE
from fedtheory.theorems.efl.statements.limit_points import LEMMA
from fedtheory.theory.judge.record import OwnRun, Record
from fedtheory.theory.judge.registry import papers
from fedtheory.theory.judge.replay import read_kind_and_data
from fedtheory.theory.judge.setting import Case, LocalWork, Plan, Prepared, Request, Setting
from fedtheory.theory.judge.statement import Form, Statement
from fedtheory.theory.judge.witness import Witness

__all__ = ["EFLSetting"]

THEOREM = "efl/theorem-1"
LOCAL_SGD = LocalWork((LocalSGD,), "gradients must be unbiased given the past, use LocalSGD")
OPTIMA = LocalWork((), "the statement is about two optima, not about a run; leave local_solver out")
# of the search's budget: instances of these kinds take longer than others
SHARE = {
    "run": 0.05, "step": 0.1, "restart": 0.1, "away": 0.2, "term": 0.2, "samples": 0.5,
    "compressed": 0.1, "compressed-partial": 0.1, "frozen": 0.1, "stability": 0.3, "row": 0.1,
}


class EFLSetting(Setting):
    """Runs and rounds of EFL by exact second moments or Monte Carlo; closed forms in fractions."""

    kinds = (*runs.KINDS, *in_fractions.KINDS)
    builders = BUILDERS
    share = SHARE
    scenarios = 200
    accepts = ACCEPTS

    # --- instances --------------------------------------------------------------------------------
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
        """List the facts of a witness, with the losses in words where they are quadratics."""
        first, *rest = super().facts(witness)
        losses = ("losses", "f_k(x) = sum_i h_ki (x_i - c_ki)^2 / 2, clients separated by semicolons")
        return [first, *([losses] if {"h", "c"} <= witness.data.keys() else []), *rest]

    # --- a problem of the user's ------------------------------------------------------------------
    def refusal(self, statement: Statement) -> str | None:
        """Why the statement does not run on a user's problem, or None where it does: only claims do not."""
        if statement.kind != "claim":
            return None
        return f"it is a claim that cannot be proved or refuted here, so there is nothing to run: {statement.forms[0].note}"

    def asks(self, statement: Statement) -> tuple[str, ...]:
        """Return what its forms ask of a user's problem, of who takes part and of the method."""
        return tuple(dict.fromkeys(need for f in statement.forms if f.kind in CASES for need in CASES[f.kind].needs))

    def takes(self, statement: Statement) -> dict[str, str]:
        """Return the options of the kinds that its forms are judged on."""
        names = dict.fromkeys(name for f in statement.forms if f.kind in CASES for name in CASES[f.kind].given)
        return {name: ACCEPTS[name] for name in names}

    def local_work(self, statement: Statement) -> LocalWork:
        """Local SGD; none of statements about two optima alone."""
        return OPTIMA if {f.kind for f in statement.forms} == {"shift"} else LOCAL_SGD

    def scope_in_words(self, statement: Statement) -> str:
        return "not provable here" if statement.kind == "claim" else CASES[statement.forms[0].kind].about

    def example(self, statement: Statement) -> str | None:
        """Options of `fedtheory verify` that show the statement at work; None where there is none to give."""
        if statement.kind == "claim":
            return None
        form = statement.forms[0]
        if COMPLETE in form.needs:
            return "--problem diabetes --clients 3 --local-steps 2"
        found = CASES[form.kind].example
        return found.replace("--departure", "--arrival") if form.kind == "shift" and event_of(form) == "arrival" else found

    def rule_of(self, case: Case) -> str:
        """The scheme of the coefficients."""
        return getattr(case.algorithm, "scheme", "any")

    def shares_view(self, form: Form) -> Any:
        """Long runs in floats and cases in fractions are two views of one kind."""
        if form.kind == "shift":
            return form.kind, event_of(form)
        return form.kind, looks_at_run(form) or LEMMA in form.needs

    def instance(self, statement: Statement, form: Form, case: Case) -> Any:
        """The instance that a user's case is for one form, as `cases.kinds.CASES` makes it.

        Raises
        ------
        InvalidInput, MissingCapability
            What is missing; something given that the form does not take.
        NotCertified
            An optimum that cannot be certified.
        """
        if form.kind not in CASES:
            raise InvalidInput(str(self.refusal(statement)))
        known = {name for f in statement.forms for name in CASES[f.kind].given}
        for name in case.given:
            if name not in known:
                raise suggest(name, sorted(known), f"what can be given to {statement.id}")
        made = CASES[form.kind].make(form, case)
        if statement.id == THEOREM:  # at tau = 0 both sides are ||w_0 - w*||^2
            view = made.view()
            return replace(made, made=replace(view, horizons=view.horizons[view.horizons > 0]))
        return made

    def own_run(self, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        """Of statements about a run without compression; `fedtheory.theorems.efl.cases.own_run`."""
        own = own_run if statement.id == THEOREM else super().own_run
        return own(statement, form, case, record)

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

    # --- at the command line ----------------------------------------------------------------------
    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """A case under the laws of s_k that were asked for; of Theorem 2 the client that leaves or joins."""
        reason = self.refusal(statement)
        if reason is not None:
            raise InvalidInput(f"{statement.id}: {reason}: `fedtheory explain {statement.id}` says what is missing")
        return prepare(statement, request)
