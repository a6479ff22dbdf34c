"""The commands about theorems and proofs: `verify`, `proof`, `report`, `replay`, `worst-case`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from fedtheory.cli.app import (
    ALL,
    NO_TITLE_HELP,
    ONE,
    RESULTS,
    SIZE_HELP,
    THEOREM,
    Address,
    Engine,
    FigureSize,
    Participants,
    Workers,
    app,
    examples,
    refuse_look,
)
from fedtheory.cli.common import Folder, Json, Out, Seed, in_file, paper_named, statements_in
from fedtheory.cli.help import Topics
from fedtheory.cli.options import (
    FEDMLS_OPTIONS,
    GIVEN_OPTIONS,
    PROBLEM_OPTIONS,
    SET_OPTIONS,
    flag,
    hyperparameter_options,
    option,
    refuse_given,
    with_options,
)
from fedtheory.cli.participation import LOCAL_OPTIONS, PARTICIPATION_OPTIONS
from fedtheory.cli.topics import METHODS_OF_PAPERS, OF_METHOD, statement_topic, worst_case_topic

__all__: list[str] = []

_OF_A_STATEMENT = (
    PROBLEM_OPTIONS, PARTICIPATION_OPTIONS, LOCAL_OPTIONS, FEDMLS_OPTIONS, SET_OPTIONS,
    GIVEN_OPTIONS, hyperparameter_options(METHODS_OF_PAPERS.values()),
)
_one = partial(typer.Option, rich_help_panel=ONE)
_all = partial(typer.Option, rich_help_panel=ALL)
_Mode = Literal["auto", "exact", "monte-carlo"]


@app.command(
    "verify",
    first=(
        "problem", "participants", "rounds", "mode", "given", "figure", "quick", "budget",
        "details", "json", "out",
    ),
    topics=Topics("statement", partial(statement_topic, "verify")), rich_help_panel=THEOREM,
    epilog=examples(
        "fedtheory verify theorem-3.1 --problem diabetes --participants 2",
        "fedtheory verify mine.py", "fedtheory verify --quick --details", "fedtheory verify",
        "fedtheory verify theorem-3.1 --problem diabetes --participants 2 --l1 0.5 --l2-over-beta "
        "30",
        "fedtheory verify theorem-3.1 --problem diabetes --participants 2 --figure diabetes.png",
        "fedtheory verify theorem-3.1 --problem diabetes --participants 2 --figure column.png "
        "--size icml --no-title",
        "fedtheory verify eq-28 --problem quadratic --rule sign",
        "fedtheory verify theorem-b --problem quadratic --clients 50 -P 5 --mode monte-carlo "
        "--rounds 200",
        "fedtheory verify fedmls/theorem-1 --problem lad --epsilon 0.1",
        "fedtheory verify fedmls/mopes-bound --problem lad --set simplex",
        "fedtheory verify fedmls/theorem-2 --problem two-client-pull --radius 4 --noise 0.5",
        "fedtheory verify efl/theorem-1 --problem diabetes --inactive 0.3 --incomplete uniform "
        "--scheme C-corrected",
        "fedtheory verify efl/theorem-2-departure --problem breast-cancer --departure 2",
        "fedtheory verify eq-28 --instance 'quadratic m=3 P=1 d=1 l2/beta=1000 l1=10 seed=1'",
        "fedtheory verify efl/st-lemma --given message=3,1/2,-1 --keep cases",
        "fedtheory verify elastic-aggregation/",
        "fedtheory verify mine.py::lemma-4 --problem quadratic",
    ),
)
@with_options(*_OF_A_STATEMENT)
def verify_command(
    statement: Annotated[str | None, Argument(
        metavar="STATEMENT|PAPER/|FILE.py",
        help="A statement (`fedtheory list`), all of a PAPER/, or your own in FILE.py, a file "
        "that is run; without one, all there are.",
    )] = None,
    problem: Annotated[str | None, _one(
        help="A named problem, or a file NAME.json (default: one for the paper).",
    )] = None,
    participants: Participants = None,
    instance: Annotated[str | None, _one(
        metavar="NAME",
        help="An instance of the campaign, as its report names it; --seed, --scale and --quick as "
        "the campaign had them.",
    )] = None,
    rounds: Annotated[int | None, _one(
        "--rounds", "-T", help="T: rounds of a statement about runs.",
    )] = None,
    scenarios: Annotated[int | None, _one(
        "--scenarios", "-S",
        help="The most runs that Monte Carlo takes (default 1000; of EFL 200).",
    )] = None,
    mode: Annotated[_Mode, _one("--mode", help="How expectations are taken.")] = "auto",
    figure: Annotated[str | None, _one(
        "--figure", metavar="[FILE]",
        help="Draw bound against measured: FILE.png and FILE.pdf, with the data in FILE.csv.",
    )] = None,
    size: Annotated[FigureSize, _one("--size", help=SIZE_HELP)] = "page",
    no_title: Annotated[bool, _one("--no-title", help=NO_TITLE_HELP)] = False,
    quick: Annotated[bool, _all(
        "--quick", help="A tenth of the instances, no long runs, a small search.",
    )] = False,
    scale: Annotated[float, _all(
        min=0.0, max=1000.0, help="Size of the battery, 1 is about 600 instances.",
    )] = 1.0,
    long_runs: Annotated[bool, _all(
        "--long-runs/--no-long-runs", help="1,000 rounds by Monte Carlo.",
    )] = True,
    budget: Annotated[int | None, _all(
        min=0, metavar="N", help="Size of the search for counterexamples (default 1,000).",
    )] = None,
    workers: Workers = None,
    engine: Engine = "local",
    address: Address = None,
    details: Annotated[bool, _all(
        "--details", help="Also every form under both rules, and where it is tightest.",
    )] = False,
    seed: Seed = 0,
    json: Json = False,
    out: Out = None,
    **options: Any,
) -> None:
    """Judge a statement on a problem of yours, or all statements.

    Without a statement this is a campaign: all are judged on the whole battery; PAPER/ are those of
    one paper; FILE.py those of a Python file, on instances of their own, with a search for
    counterexamples; FILE.py::NAME with --problem is one of them on a problem.

    The campaign exits with 1 when a verdict is not the recorded one, and writes campaign.json,
    report.html and report.md (to results/ unless --out says otherwise; of PAPER/ to results/PAPER/,
    of FILE.py to results/FILE/). Interrupted, it writes what it has and exits with 130; so does one
    statement, once a stage of Monte Carlo is finished. Killed or interrupted, the same command goes
    on from its finished pieces: those of a statement are kept in NAME.steps.sqlite beside its result
    (in results/ without --out), from the fifth second on and up to its end.

    --figure without FILE names the picture after the statement and the problem, in the folder of
    --out, or in results/; `fedtheory draw` draws it again from its data.

    FILE.py is run as Python, with all the rights that you have: name none that you have not
    read."""
    from fedtheory.cli import campaign as campaigning
    from fedtheory.cli import verify as verifying

    file, name = (None, "") if statement is None else in_file(statement)
    paper = paper_named(statement or "") if file is None else None
    given = {**options, "problem": problem, "participants": participants}
    given |= {"rounds": rounds, "figure": figure}
    refuse_look(figure is not None, size, no_title)
    if instance is not None:
        from fedtheory.cli.instance import verify_instance

        of_problem = {**given, "budget": budget, "workers": workers}
        of_problem |= {"scenarios": scenarios, "address": address}
        battery = (0.1, False) if quick else (scale, long_runs)
        raise typer.Exit(verify_instance(statement, instance, of_problem, seed, battery, json, out))
    if statement is not None and paper is None and (file is None or problem or options.get("data")):
        refuse_given({
            "quick": quick, "scale": scale != 1.0, "no_long_runs": not long_runs, "budget": budget,
            "workers": workers, "details": details, "engine": engine != "local", "address": address,
        }, f"only without a statement, for the whole campaign; leave it out, or leave {statement} out")
        look = {"size": size, "title": not no_title}
        how = {
            "rounds": rounds, "scenarios": scenarios, "mode": mode, "figure": figure, "look": look,
        }
        one = (statement, problem, options, participants, how, seed, json, out)
        raise typer.Exit(verifying.verify_one(*one))
    if file and name and options.get("given"):
        from fedtheory.cli.statement_proofs import prove_with

        own = {n: v for n, v in given.items() if n != "given"}
        refuse_given(own, "only with a problem", f"fedtheory verify {statement} --problem quadratic")
        prove_with(file, name, options["given"], json, out)
        return
    if file and name:
        refuse_given(given, "only with a problem", f"fedtheory verify {statement} --problem quadratic")
    whose = f"{file}::" if file else statement or ""
    refuse_given(given, "only with a statement", f"fedtheory verify {f'{whose}NAME' if whose else 'theorem-3.1'}")
    papers = [paper] if paper is not None else None if file is None else statements_in(file, name)
    of = paper.id if paper is not None else file.stem if file is not None else ""
    budget = budget if budget is not None else (100 if quick else 1000)
    workers = workers or campaigning.default_workers()
    rest = (workers, budget, details, json, papers, engine, address)
    folder = out or Path("results") / of
    o = campaigning.CampaignOptions(folder, seed, quick, scale, long_runs, *rest)
    raise typer.Exit(campaigning.campaign_command(o))


@app.command(
    "proof",
    first=(
        "problem", "form", "witness", "participants", "rounds", "round", "details", "figure",
        "json", "out",
    ),
    topics=Topics("theorem", partial(statement_topic, "proof")), rich_help_panel=THEOREM,
    epilog=examples(
        "fedtheory proof", "fedtheory proof theorem-3.1",
        "fedtheory proof theorem-3.1 --figure waterfall.png",
        "fedtheory proof theorem-3.1 --problem diabetes --participants 2",
        "fedtheory proof theorem-3.1 --problem diabetes --form printed --round 2",
        "fedtheory proof theorem-3.1 --witness fedelasticnet-theorem-3.1-no-floor-sign --form "
        "repaired",
        "fedtheory proof mine.py::theorem-1 --problem quadratic --details",
    ),
)
@with_options(*_OF_A_STATEMENT)
def proof_command(
    theorem: Annotated[str | None, Argument(
        help="A theorem with a proof in steps, or FILE.py::NAME, a file that is run; without one, "
        "those there are.",
    )] = None,
    problem: Annotated[str | None, Option(
        help="A named problem, or a file NAME.json (default: the proof's own witness, in "
        "fractions).",
    )] = None,
    form: Annotated[str | None, Option(
        help="Which form's proof (default: the repaired one, and below it the printed one on a "
        "witness).",
    )] = None,
    witness: Annotated[str | None, Option(
        help="The run of this witness: one of `fedtheory list witnesses`, or a file NAME.json.",
    )] = None,
    participants: Participants = None,
    rounds: Annotated[int | None, Option(
        "--rounds", "-T", help="How many rounds are walked.",
    )] = None,
    scenarios: Annotated[int | None, Option(
        "--scenarios", "-S", help="The most runs, where cohorts are drawn.",
    )] = None,
    mode: Annotated[_Mode, Option("--mode", help="How expectations are taken.")] = "auto",
    round: Annotated[int | None, Option(
        "--round", "-t", help="Each step in this round, with its numbers put in.",
    )] = None,
    details: Annotated[bool, Option(
        "--details", help="Each step in every round, with its numbers put in.",
    )] = False,
    figure: Annotated[Path | None, Option(
        metavar="FILE", help="Draw the waterfall: NAME.png, .pdf or .svg.",
    )] = None,
    seed: Seed = 0,
    json: Json = False,
    out: Out = None,
    **options: Any,
) -> None:
    """Walk a proof step by step, and say where slack is lost.

    Every step of one run stands in order, with both sides. The slack of a bound is the sum of what
    its steps lose, each with its weight; --figure draws them as a waterfall, its data beside it. A
    step that fails is named with the round and both sides. The exit code is 1 where one fails that
    is on record as holding.

    Without a problem the repaired proof comes first, on a run in fractions, and below it the
    printed one with the step that breaks."""
    from fedtheory.cli import proof as proving

    if theorem is None:
        given = {**options, "problem": problem, "form": form, "witness": witness}
        given |= {"participants": participants, "rounds": rounds, "round": round}
        given |= {"details": details, "figure": figure}
        refuse_given(given, "only with a theorem", "fedtheory proof theorem-3.1")
        raise typer.Exit(proving.list_proofs(json, out))
    how = {"rounds": rounds, "scenarios": scenarios, "mode": mode}
    show = {
        "form": form, "witness": witness, "round": round, "details": details, "figure": figure,
        "rule": options.get("rule"),
    }
    of = (theorem, problem, options, participants, how, seed, show, json, out)
    raise typer.Exit(proving.prove(*of))


@app.command(
    "report", first=("paper", "json", "out"), rich_help_panel=RESULTS,
    epilog=examples(
        "fedtheory report", "fedtheory report results/efl/campaign.json",
        "fedtheory report --out page",
        "fedtheory report results/mine/campaign.json --paper mine.py",
    ),
)
def report_command(
    campaign: Annotated[Path, Argument(
        metavar="CAMPAIGN.json", help="What a campaign of `fedtheory verify` wrote.",
    )] = Path("results/campaign.json"),
    paper: Annotated[Path | None, Option(
        metavar="FILE.py", help="The Python file whose statements it is about; it is run.",
    )] = None,
    json: Json = False,
    out: Out = None,
) -> None:
    """Write the page of a saved campaign again.

    report.html needs nothing else and opens from a file; report.md is the same as text. Both go
    beside the campaign unless --out names another folder. Figures are taken from the folder figures
    beside it."""
    from fedtheory.cli import report as reporting

    reporting.report(campaign, out, paper, json)


@app.command(
    "replay", first=("paper", "method", "criterion", "proof", "coq", "json", "out"), rich_help_panel=THEOREM,
    epilog=examples(
        "fedtheory replay theorem-3.1", "fedtheory list witnesses",
        "fedtheory replay NAME-FROM-THAT-LIST", "fedtheory replay my-witness.json",
        "fedtheory replay results/mine/witnesses/NAME.json --paper mine.py",
        "fedtheory replay results/CERTIFICATE.json --method mine.py:MyMethod",
        "fedtheory replay results/CERTIFICATE.json --coq theorem.v",
    ),
)
def replay_command(
    file: Annotated[str, Argument(
        help="A witness file, a certificate, a shipped witness (`fedtheory list witnesses`), or a "
        "statement that has a witness.",
    )],
    paper: Annotated[Path | None, Option(
        metavar="FILE.py", help="The Python file whose statement it is about; it is run.",
    )] = None,
    method: Annotated[str | None, Option(
        metavar="FILE.py:CLASS", help="The method that a certificate is about, where it is yours; "
        "the file is run.",
    )] = None,
    criterion: Annotated[str | None, Option(
        metavar="FILE.py:FUNCTION", help="The criterion that a certificate is about, where it is "
        "yours; the file is run.",
    )] = None,
    proof: Annotated[Path | None, Option(
        metavar="FILE", help="Write the proof of a certificate to be read: NAME.tex in LaTeX, or "
        "NAME.py, a script that checks itself with SymPy.",
    )] = None,
    coq: Annotated[Path | None, Option(
        metavar="OUT.v", help="Write a certificate as a theorem of Coq, with the library in a folder "
        "Fedtheory beside it, and have Coq check it where coqc is found.",
    )] = None,
    json: Json = False,
    out: Out = None,
) -> None:
    """Rerun a counterexample in fractions, or check a certificate.

    Both sides are printed as fractions; a certificate is one of `worst-case`. A file that does not
    prove what it claims ends with exit code 2."""
    from fedtheory.cli import replay as replaying

    replaying.replay(file, json, out, paper, method, criterion, proof, coq)


def _numbers(panel: str, words: dict[str, str]) -> list[Parameter]:
    """Options that take a number as it is written."""
    return [option(name, str | None, None, text, panel) for name, text in words.items()]


_OF_LOSSES = _numbers("The losses", {
    "smoothness": "L of every loss (default 1).",
    "strong_convexity": "mu of every loss (default 0).",
    "lipschitz": "G, of subgradient, fedmls and mopes: root mean square of the longest gradients "
    "(default 1).",
    "heterogeneity": "Root mean square of the clients' gradients at x* (default 1).",
    "distance": "||x_0 - x*|| (default 1).",
})
_OF_METHOD = _numbers("The method", OF_METHOD)
_GIVEN_TO_METHOD = [option(
    "given", list[str] | None, None,
    "Another number of the method, as in --given server_lr=1/2; or for any compressor of its messages: contraction=1/2 "
    "(contraction_down of the server's), feedback=false.",
    "The method", metavar="NAME=VALUE",
)]


@app.command(
    "worst-case",
    first=(
        "clients", "participants", "local_steps", "rounds", "criterion", "step", "smoothness",
        "strong_convexity", "lyapunov", "instance", "out",
    ),
    topics=Topics("method", worst_case_topic), rich_help_panel=THEOREM,
    epilog=examples(
        "fedtheory worst-case fedavg --local-steps 4 --rounds 2 --step 1/4",
        "fedtheory worst-case mine.py:MyMethod --rounds 3 --step 1/4 --given beta=1/2",
        "fedtheory worst-case scaffold --local-steps 2 --rounds 3 --step 1/4 --criterion gradient",
        "fedtheory worst-case scaffold -K 2 --step 1/4 --given initial=gradient",
        "fedtheory worst-case scaffold --clients 4 --participants 2 --rounds 2 --step 1/4 "
        "--criterion distance",
        "fedtheory worst-case fedavg --rounds 2 --step 1/100 --group '9/10: L=1 mu=1/10' --group "
        "'1/10: L=100 mu=1'",
        "fedtheory worst-case subgradient --rounds 4 --criterion best-gap",
        "fedtheory worst-case fedmls --rounds 3",
        "fedtheory worst-case scaffold -N 2 --local-steps 3 --rounds 2 --step 1/2 --instance "
        "worst.json",
        "fedtheory worst-case feddyn --alpha 1 --step 1/4 --lyapunov",
        "fedtheory worst-case scaffold -N 10 -P 1 -K 2 --step 1/4 --lyapunov",
    ),
)
@with_options(_OF_LOSSES, _OF_METHOD, _GIVEN_TO_METHOD)
def worst_case_command(
    method: Annotated[str, Argument(
        metavar="METHOD", help="A method of `fedtheory list`, mopes, or FILE.py:CLASS, a class of "
        "yours; the file is run.",
    )],
    clients: Annotated[int | None, Option(
        "--clients", "-N", min=1, metavar="N", help="N: the clients (default 10).",
    )] = None,
    participants: Participants = None,
    group: Annotated[list[str] | None, Option(
        metavar="GROUP", help="Clients with losses of their own class: a share of all weights, how "
        "many where clients weigh differently, and L, mu or G, as in '9/10: L=1 mu=1/10' or "
        "'1/2, one client: L=2'. Give one for each group; N is then the least with two in each.",
    )] = None,
    local_steps: Annotated[int, Option(
        "--local-steps", "-K", min=1, metavar="K", help="K: local gradient steps of a round.",
    )] = 1,
    rounds: Annotated[int, Option("--rounds", "-T", min=1, metavar="T", help="T: rounds.")] = 1,
    criterion: Annotated[str, Option(
        help="What is bounded after T rounds: gap, best-gap, distance or gradient (the last two "
        "squared), or FILE.py:FUNCTION, a function of the models of yours.",
    )] = "gap",
    step: Annotated[str | None, Option(
        help="Step size of K local gradient steps (default: local problems are solved exactly where "
        "they have a curvature, else 1/L).",
    )] = None,
    lyapunov: Annotated[bool, Option(
        "--lyapunov", help="Find the best quadratic potential, cross terms and values of F included.",
    )] = False,
    fewest: Annotated[bool, Option(
        "--fewest", help="Leave out the inequalities that the proof can do without.",
    )] = False,
    instance: Annotated[Path | None, Option(
        metavar="FILE",
        help="Also write losses on which a run ends with the worst value, a problem NAME.json.",
    )] = None,
    json: Json = False,
    out: Folder = Path("results"),
    **options: Any,
) -> None:
    """Bound what a method can end with at worst, with a proof.

    The bound is over all losses of a class, and is proved in fractions. A semidefinite programme
    finds the worst value and the multipliers of a proof; these are rounded to fractions, and the
    bound that is reported is the one that they prove. Numbers are taken exactly as they are
    written. The certificate is written to OUT; `fedtheory replay` checks it without a solver.

    With --lyapunov the question is one round from any state, E V+ <= rho V: how small can rho be, over
    all quadratic forms V of what the server and the clients keep? Bounds of other shapes are written
    in a file, potential(V=..., D=...), and `fedtheory verify` proves them: `fedtheory verify one-round`
    has those of the literature."""
    from fedtheory.cli import potential
    from fedtheory.cli import worst_case as worst
    from fedtheory.cli.worst_function import check_instance

    def given(names: Iterable[str]) -> dict[str, str | None]:
        return {name: options[name] for name in names}

    of_all = (10 if clients is None and not group else clients, participants, local_steps)
    of_method = {"step": step, **given(p.name for p in (*_OF_METHOD, *_GIVEN_TO_METHOD)), "group": group}
    if lyapunov:
        if instance is not None:
            check_instance(instance, True)
        of_runs = {
            "rounds": rounds if rounds != 1 else None,
            "criterion": criterion if criterion != "gap" else None, "fewest": fewest or None,
            **given(("lipschitz", "heterogeneity", "distance")),
        }
        refused = {flag(name): value for name, value in of_runs.items() if value is not None}
        numbers = given(("smoothness", "strong_convexity"))
        potential.lyapunov(method, *of_all, numbers, of_method, refused, json, out)
        return
    numbers = given(p.name for p in _OF_LOSSES)
    worst.worst_case(method, *of_all, rounds, criterion, numbers, of_method, json, out, instance, fewest)
