"""Judge FedElasticNet's rounds and runs: in a campaign, on a user's problem, in fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import numpy as np

from fedtheory.errors import InvalidInput
from fedtheory.participation.cohorts import Full
from fedtheory.theorems.fedelasticnet.exact_identical_clients import StillRun
from fedtheory.theorems.fedelasticnet.exact_witness import (
    DiagonalWitness,
    at_the_last_horizon,
    read_version_1,
)
from fedtheory.theorems.fedelasticnet.notation import EXACT, in_units_of
from fedtheory.theorems.fedelasticnet.on_a_problem import assumption_failure
from fedtheory.theorems.fedelasticnet.own_run import in_states_of_algorithm_3
from fedtheory.theorems.fedelasticnet.paper import FILE
from fedtheory.theorems.fedelasticnet.statements.theorem_3_1 import METHOD, Letters
from fedtheory.theory.judge.check import Check, outside
from fedtheory.theory.judge.checks import Checks
from fedtheory.theory.judge.composite import Joined
from fedtheory.theory.judge.record import OwnRun, Record
from fedtheory.theory.judge.search import Target
from fedtheory.theory.judge.setting import Case, LocalWork, Prepared, Request, Setting
from fedtheory.theory.judge.statement import Form, Statement
from fedtheory.theory.judge.witness import Witness
from fedtheory.theory.paper_adapter import AuthoredSetting
from fedtheory.theory.rounds.oracles import MAX_PATHS
from fedtheory.theory.world_setting import WorldSetting

__all__ = ["SETTING", "FedElasticNetSetting"]

DEEPEST = 30  # rounds that are enumerated where nobody says how many

_NOT_OURS = (  # options of who takes part and of local work: cohorts are uniform, and local problems solved exactly
    "inactive", "incomplete", "activity", "arrival", "departure", "lr_schedule", "lr_delay", "local_steps", "local_lr", "batch_size",
    "noise",
)  # fmt: skip


class FedElasticNetSetting(Setting):
    """Reads what a user asks of runs of Algorithm 3 and of identities, and witnesses as files have them."""

    # --- a problem of the user's ------------------------------------------------------------------------------------
    def refusal(self, statement: Statement) -> str | None:
        """None: every statement runs; identities between symbols hold or not whatever the problem."""
        return None

    def local_work(self, statement: Statement) -> LocalWork:
        """Exact: the theorems are about local minimisers."""
        return EXACT

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        """Algorithm 3 with lambda_1 = 0.1 and lambda_2 = 30 beta, unless others are given."""
        problem = request.problem("quadratic")
        start = request.start(problem)
        request.refuse(_NOT_OURS, "does not apply to statements about FedElasticNet: leave it out")
        sampling = request.sampling(problem)
        beta = float(problem.beta_k.max())  # what is not smooth is told before any work
        defaults: dict[str, Any] = {"l1": 0.1}
        if request.options.get("l2") is None:
            defaults["l2_over_beta"] = 30.0
        algorithm = request.algorithm("fedelasticnet-dyn", problem, **defaults)
        problem.optimum()  # after what is wrong with the options, and before what else takes long
        head = (
            f"{problem.name}: m = {problem.num_clients}, P = {request.participants or problem.num_clients}, d = {problem.dim}, "
            f"lambda_1 = {algorithm.l1:g}, lambda_2 = {algorithm.l2:.6g}{in_units_of(algorithm.l2, beta)}, "
            f"{algorithm.rule} rule"
        )
        details = {"algorithm": {"name": algorithm.name, **asdict(algorithm)}, "sampling": repr(sampling)}
        options = {"sampling": sampling, "x0": start}
        return Prepared(problem, algorithm, options, [head], details)

    def scope_in_words(self, statement: Statement) -> str:
        return {
            "round": "about one round from a given state",
            "run": "about a run of T rounds",
            "algebra": "no data enter",
        }[statement.scope]

    def example(self, statement: Statement) -> str:
        return "" if statement.scope == "algebra" else "--problem diabetes --participants 2"

    # --- instances in fractions -------------------------------------------------------------------------------------
    def exact_view(self, statement: Statement, form: Form, witness: Witness) -> Any:
        """None of an identity."""
        raise InvalidInput(f"{statement.id} [{form.name}] is an identity without data: it cannot have a witness")

    def read_version_1(self, fields: dict[str, Any], label: str) -> Witness | None:
        return read_version_1(fields, label)

    def summary(self, witness: Witness) -> str:
        return summary(witness)

    def facts(self, witness: Witness) -> list[tuple[str, Any]]:
        w = DiagonalWitness.from_witness(witness)
        rows, d = range(len(w.h)), len(w.h[0])
        alike = [f" ({n} identical)" if n > 1 else "" for n in w.copies or [1] * len(w.h)]
        found: list[tuple[str, Any]] = [
            ("losses", "L_k(x) = sum_i h_ki (x_i - c_ki)^2 / 2" if d > 1 else "L_k(x) = h_k (x - c_k)^2 / 2"),
            *((f"client {k}{alike[k]}", f"h = {', '.join(w.h[k])}; c = {', '.join(w.c[k])}") for k in rows),
            ("lambda_1, lambda_2", f"{w.lambda1}, {w.lambda2}"),
            ("start" if len(w.starts) == 1 else "equally likely starts", "; ".join(", ".join(p) for p in w.starts)),
        ]
        if w.cohorts:
            found.append(("cohorts before", "; ".join(str([int(k) for k in c]) for c in w.cohorts)))
        return found


def summary(witness: Witness) -> str:
    """One line on a witness in the fields of `DiagonalWitness`."""
    w = DiagonalWitness.from_witness(witness)
    return f"{w.statement} [{w.form}, {w.rule} rule]: {w.size}"


class FileSetting(AuthoredSetting):
    """The statements of one file each; `FedElasticNetSetting` reads what a user asks of runs."""

    runs = FedElasticNetSetting()

    def _asks(self, statement: Statement) -> Setting | None:
        """The setting that a user's options are read by, where it is not a file's."""
        return self.runs if self.authored[statement.id].about is METHOD else None

    def local_work(self, statement: Statement) -> LocalWork:
        return EXACT if self._asks(statement) else super().local_work(statement)

    def prepare(self, statement: Statement, request: Request) -> Prepared:
        asks = self._asks(statement)
        made = asks.prepare(statement, request) if asks else super().prepare(statement, request)
        return replace(made, staged=statement.scope == "run")

    def refuses(self, statement: Statement) -> tuple[str, ...]:
        asks = self._asks(statement)
        return asks.refuses(statement) if asks else super().refuses(statement)

    def example(self, statement: Statement) -> str | None:
        asks = self._asks(statement)
        return asks.example(statement) if asks else super().example(statement)

    def scope_in_words(self, statement: Statement) -> str:
        asks = self._asks(statement)
        return asks.scope_in_words(statement) if asks else super().scope_in_words(statement)

    def verify(self, statement: Statement, forms: Sequence[Form], case: Case) -> list[Check]:
        """As `AuthoredSetting.verify`, where the assumptions hold; everybody takes part by default."""
        if not self._asks(statement):
            return super().verify(statement, forms, case)
        case = replace(case, sampling=case.sampling or Full())
        if case.rounds is None and case.mode != "monte-carlo":  # as many as can be enumerated, if some
            count = case.sampling.count(case.problem.num_clients)
            deep = max((t for t in range(3, DEEPEST + 1) if count**t <= MAX_PATHS), default=None)
            case = replace(case, rounds=deep)
        rule = getattr(case.algorithm, "rule", "any")
        reasons = {f.name: assumption_failure(f, case.problem, case.algorithm, case.sampling) for f in forms}
        found = [outside(statement, f, rule, why) for f in forms if (why := reasons[f.name])]
        judged = [f for f in forms if not reasons[f.name]]
        if not judged:
            return found
        tell = case.on_stage
        if tell is not None:
            case = replace(case, on_stage=lambda checks: tell(Checks([*found, *checks], statement)))
        return found + super().verify(statement, judged, case)

    def own_run(self, statement: Statement, form: Form, case: Case, record: Record) -> OwnRun:
        """As `AuthoredSetting.own_run`; FedDyn is Algorithm 3 with a lambda_1 next to 0."""
        case, record = in_states_of_algorithm_3(form, case, record)
        reason = assumption_failure(form, case.problem, case.algorithm, case.sampling or Full())
        if reason is not None:
            raise InvalidInput(reason)
        return replace(super().own_run(statement, form, case, record), letter="T")

    def built(self, witness: Witness) -> Any:
        """As `AuthoredSetting.built`; of many identical clients the letters of a run at rest."""
        if "copies" in witness.data:
            return StillRun(DiagonalWitness.from_witness(witness))
        view = super().built(witness)
        if self.authored[witness.statement].about is METHOD:
            view.printed_constants = lambda: view.once(Letters).numbers()
        return view

    def summary(self, witness: Witness) -> str:
        """As `AuthoredSetting.summary`; of merged clients as of one round's."""
        merged = witness.data.get("copies") is not None
        return summary(witness) if merged else super().summary(witness)

    def exact_check(
        self, statement: Statement, witness: Witness
    ) -> tuple[Check, Fraction, Fraction, Fraction]:
        """As `Setting.exact_check`; a run is judged at its last horizon."""
        if statement.scope == "run":
            form = statement.form(witness.form)
            last = replace(form, sides=at_the_last_horizon(form.sides_on))
            statement = replace(statement, forms=(last,))
        return super().exact_check(statement, witness)

    def proved(self, target: Target) -> tuple[Witness | None, float | None]:
        """As `Setting.proved`; a run ends at the horizon at which the form fails most."""
        at = target.margin_at
        if at is not None and target.statement.scope == "run":
            sides = target.sides(at.view())
            lhs, rhs, scale = (np.asarray(v, dtype=float) for v in (sides.lhs, sides.rhs, sides.scale))
            with np.errstate(all="ignore"):
                excess = (lhs - rhs) / scale
            excess = np.where(np.isfinite(excess), excess, -np.inf).reshape(len(excess), -1)
            T = 1 + int(excess.max(axis=1).argmax())
            target = replace(target, margin_at=replace(at, data={**at.data, "rounds": T}))
        return super().proved(target)


WORLDS = WorldSetting([s for s in FILE.authored.values() if s.of_world])
WORLDS.kinds += ("claim",)
SETTING = Joined(
    FedElasticNetSetting(),
    WORLDS,
    FileSetting(FILE),
)
