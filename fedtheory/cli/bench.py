"""`fedtheory bench`: the papers' tables of trained networks, ours beside the printed ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.text import Text

from fedtheory.cli.bench_figures import FIGURES, bench_figure
from fedtheory.cli.bench_options import Options, check_options, numbers, run_options, seeds
from fedtheory.cli.common import emit, out_console, writing, wrote
from fedtheory.cli.local_solvers import check_solvers, solvers_in_words
from fedtheory.cli.resumable import result_store_at
from fedtheory.errors import InvalidInput, MissingCapability
from fedtheory.report.stacked import NARROW, Stacked, plain_table

__all__ = ["FIGURES", "TABLES", "Options", "bench", "chosen"]

TABLES = (
    "fedelasticnet-table2", "fedelasticnet-table3", "fedelasticnet-table4", "fedelasticnet-figure1",
    "efl-table2", "elastic-table",
)
_TITLES = {"fedelasticnet-figure1": "FedElasticNet, Figure 1: test accuracy, 10 % participation"}


def chosen(table: str, o: Options) -> list[Any]:
    """The presets to run, as the options change them."""
    from fedtheory.neural import models
    from fedtheory.neural.benchmarks.presets import expand, of_table

    if o.network not in (None, "table", "text"):
        models.get(o.network)  # an unknown one is told at once
    if o.cohorts == "feddyn" and not table.startswith("fedelasticnet"):
        raise InvalidInput(f"--cohorts feddyn: they are those of FedElasticNet's tables, {table} draws its own; leave it out")
    out: list[Any] = []
    for preset in of_table(table, o.dataset, o.split, o.method):
        if o.quick:
            preset = preset.quick(digits=o.data is None)
        if o.network == "text" and preset.other_network:
            norm = ("normalisation of ResNet-50 (GroupNorm, 32 groups)",) if preset.other_network == "resnet50" else ()
            assumed = (*(a for a in preset.assumed if not a.startswith("network (the text")), *norm)
            preset = replace(preset, assumed=assumed).changed(network=preset.other_network)
        elif o.network not in (None, "table", "text"):
            preset = preset.changed(network=o.network)
        preset = preset.changed(epochs=o.epochs, clip=o.clip, **o.solver_fields())
        if o.cohorts == "feddyn" and preset.probability < 1:
            preset = preset.changed(feddyn_cohorts=True)
        if o.augment and preset.dataset.startswith("cifar"):
            preset = preset.changed(augment="flip-crop")
        if o.quick and o.data is None and any(p.name == preset.name for p in out):
            continue  # the digits stand for every data set: once is enough
        out.append(preset)
    if o.augment and not any(p.augment for p in out):
        raise InvalidInput("--augment: none of these rows is CIFAR's, which alone FedDyn's public code augments; leave it out")
    values = {name: numbers(name, getattr(o, name)) for name in o.swept}
    if o.seeds is not None and o.seed:
        raise InvalidInput(f"--seed {o.seed} with --seeds {o.seeds}: leave one of them out")
    out = expand(out, values, [o.seed] if o.seeds is None else seeds(o.seeds))
    out = [replace(p, more=_metrics(p, o.record)) for p in out]
    for preset in out:  # what they refuse is told at once
        try:
            preset.make_algorithm(), preset.make_solver(), preset.make_sampling()
        except InvalidInput as error:
            if not preset.own:
                raise
            said = " ".join(f"--{option} {value:g}" for option, value in preset.own.items())
            raise InvalidInput(f"{said}, for {preset.method}: {error}") from error
    check_solvers(out)
    return out


def _metrics(preset: Any, record: str | None) -> tuple[str, ...]:
    """Metrics asked for beside those that a table records."""
    from fedtheory.errors import suggest
    from fedtheory.neural.training import RECORD
    from fedtheory.simulation import METRICS

    asked = [name.strip() for name in (record or "").split(",") if name.strip()]
    for name in asked:
        if name not in METRICS:
            raise suggest(name, METRICS, "metric")
    return tuple(dict.fromkeys(name for name in asked if name not in RECORD))


def _tested_on(results: Sequence[Any]) -> list[str]:
    """Say what each client of EFL's table was tested on, as its runs tell."""
    run = [(r.preset.dataset, r.problem.get("tested") is not None) for r in results if r.problem]
    own, mixed = (list(dict.fromkeys(name for name, how in run if how is wanted)) for wanted in (True, False))
    said = [f"its own test samples ({', '.join(own)})"] if own else []
    return said + ([f"the common test samples, weighted to its own mix of labels ({', '.join(mixed)})"] if mixed else [])


def _as_feddyns_code(presets: Sequence[Any]) -> list[str]:
    """Say where these runs differ from FedDyn's public code, with which the table was made."""
    clips, notes = sorted({p.clip or 0.0 for p in presets}), []
    if clips == [0.0]:
        notes.append("Gradients are not clipped; FedDyn's public code clips them at norm 10 (--clip 10).")
    elif clips:
        norms = " and ".join(f"at norm {c:g}" if c else "not at all" for c in clips)
        notes.append(f"Gradients of loss and penalty are clipped {norms}, before weight decay; FedDyn's public code does so at 10.")
    how = {p.augment for p in presets if p.dataset.startswith("cifar")}
    if None in how:
        some = "some runs" if len(how) > 1 else "here"
        notes.append(f"FedDyn's public code mirrors and crops CIFAR's training images at random; {some} take them as they are.")
    elif how:
        notes.append("CIFAR's training images are mirrored and cropped at random, as in FedDyn's public code.")
    drawn = {p.feddyn_cohorts for p in presets if p.probability < 1}
    if drawn == {True}:
        notes.append("Who takes part is FedDyn's public code's draw, the round its seed: dense counts are the paper's.")
    elif True not in drawn and drawn:
        notes.append("Who takes part is drawn with the paper's probability; --cohorts feddyn takes the draws of FedDyn's code.")
    elif drawn:
        notes.append("Who takes part is drawn anew in some runs, and is FedDyn's public code's draw in others.")
    return notes


def _digits_rows(table: str, o: Options) -> str:
    """Say which data sets' settings the digits run with, and which have the same names there."""
    from fedtheory.neural.benchmarks.presets import of_table

    runs: dict[str, list[str]] = {}
    for preset in of_table(table, o.dataset, o.split, o.method):
        runs.setdefault(preset.quick(digits=True).name, []).append(preset.dataset)
    shown: dict[str, list[str]] = {}
    for first, *others in runs.values():
        shown[first] = list(dict.fromkeys([*shown.get(first, ()), *others]))
    said = (first + (f" (not {', '.join(others)})" if others else "") for first, others in shown.items())
    return (
        "On the digits, settings that are alike in split, participation and method have one name: "
        f"the first of them is run, with its values. Run here: {', for other rows '.join(said)}."
    )


def _notes(table: str, presets: Sequence[Any], results: Sequence[Any], o: Options) -> list[str]:
    """Collect a table's notes: its networks, assumptions, oddities in print, and rows not run."""
    from fedtheory.neural.benchmarks import printed_tables as papers

    notes = []
    if table == "fedelasticnet-figure1":
        from paper_figures.fedelasticnet.table_runs import claims

        notes = [
            f"{_setting(c)}: {c['method']} {_points(c)} points from {c['baseline']}'s {c['accuracy'][0]:.2f} % (mean of the last "
            f"rounds up to {c['rounds']}); the paper: {c['paper']}."
            for c in claims(results)
        ]
    if o.quick:
        on = "scikit-learn's digits" if o.data is None else "200 samples a client"
        size = "ten clients, three rounds of one epoch" if o.rounds is None and o.epochs is None else "ten clients"
        notes.append(f"Quick: {size}, {on}. It shows that it runs; figures are not comparable.")
    if o.quick and o.data is None:
        notes.append(_digits_rows(table, o))
    if not (o.verify or o.report or (o.quick and o.data is None)):
        notes.append("Data files were read as they are, not held against the releases' checksums (--no-verify).")
    networks = {p.dataset: (p.network, p.other_network) for p in presets}
    used = ", ".join(f"{network} for {dataset}" for dataset, (network, _) in networks.items())
    notes.append(f"Networks: {used}.")
    others = any(network != other and other for network, other in networks.values())
    if others and table == "efl-table2":
        notes.append(
            "EFL's MNIST row is printed for a ResNet-50; here it is 784-200-200-10, for days of a CPU: --network text trains a "
            "ResNet-50, with GroupNorm (32 groups), for batch statistics do not average."
        )
    if others and table.startswith("fedelasticnet"):
        notes.append(
            "The printed nonzeros of Table 2 are, to the last digit, uploads times parameters of the networks of FedDyn's public "
            "code (MNIST 784-200-200-10, EMNIST-L 784-100-100-10, CIFAR 384 and 192 units), and not of those in the text (200-100; "
            "394); --network text runs the text's."
        )
    notes += solvers_in_words(presets)
    if any(r.problem.get("precision") == "tf32" for r in results):
        notes.append("Factors of the products and convolutions of training steps were rounded to TF32 (--precision tf32).")
    mixed = sorted({r.problem["autocast"] for r in results if r.problem.get("autocast")})
    if mixed:
        notes.append(f"Trained in mixed precision ({', '.join(mixed)}); what is measured is computed in single precision.")
    assumed = list(dict.fromkeys(a for p in presets for a in p.assumed))
    if assumed:
        settings = sorted({f"{p.dataset}: lr {p.lr:g}, epochs {p.epochs}, weight decay {p.weight_decay:g}" for p in presets})
        where = " in the settings that the digits stand for" if o.quick and o.data is None else ""
        notes.append(f"Not printed in the paper, and assumed{where}: {', '.join(assumed)}. Here {'; '.join(settings)}.")
    if table.startswith("fedelasticnet"):
        notes.append(
            "Algorithms 1 to 3 as printed, with subgradient steps on the l1 penalty; but Algorithm 1 averages over the cohort by "
            "samples, for line 7's n_k/n, summed over a tenth of the clients, would shrink every update to a tenth."
        )
        notes += _as_feddyns_code(presets)
    if table in ("fedelasticnet-table3", "fedelasticnet-table4"):
        notes.append(
            "Entropy: of the messages of all clients of a round, in bits an entry, bins of 0.01, summed over the rounds. SCAFFOLD "
            "sends the model, as in FedDyn's public code, and the change of the control variate; Algorithm 2 sends two changes. Each "
            "message has a histogram of its own: shown is 'sum = first + second', with '?' where an older run did not keep it; what "
            "one histogram of both gives is entropy_pooled in the JSON. The paper does not say how it joins clients and messages."
        )
    if table == "efl-table2":
        notes.append(
            f"Ours: the best over the measured rounds of the clients' mean accuracy, of its own model where the method makes one; each "
            f"client's on {' and on '.join(_tested_on(results)) or 'nothing yet'}. The paper averages over the participants and does "
            "not say what each is tested on."
        )
    if table.startswith("fedelasticnet-table"):
        notes.append(
            "After fewer rounds than printed, the ratio compares with that share of the printed "
            "sum: for sparse messages, whose rounds are not alike, it says little before the end."
        )
    elif any(0 < r.rounds < r.preset.rounds for r in results):
        notes.append("Where fewer rounds are done than the setting has, the accuracy is that so far, and the ratio too.")
    if table in papers.TABLES:
        notes += papers.table(table).notes
    return notes


def _setting(claim: dict[str, Any]) -> str:
    """'mnist, dirichlet-0.3, l1 0.01'."""
    return ", ".join([claim["dataset"], claim["split"], *(f"{k} {v:g}" for k, v in claim["own"].items())])


def _points(claim: dict[str, Any]) -> str:
    """'+0.12', and over several seeds '+0.12 [-0.03, +0.20]'."""
    each = claim["points_of_seeds"]
    return f"{claim['points']:+.2f}" + (f" [{min(each):+.2f}, {max(each):+.2f}]" if len(each) > 1 else "")


def _show(
    console: Any, table: str, title: str, rows: Sequence[dict[str, Any]], notes: Sequence[str], swept: Sequence[str]
) -> None:
    from fedtheory.neural.benchmarks.run import headings, texts

    console.print(Text(title, "bold"))
    cells = [texts(table, row, swept) for row in rows]
    if console.width < NARROW:
        stacked, before = Stacked(["data, split;\n  method", *headings(swept)[3:]], right=range(1, 6 + len(swept))), None
        for data, split, method, *numbers in cells:
            if (data, split) != before:
                stacked.add_row(", ".join(filter(None, (data, split))))
            before = (data, split)
            stacked.add_row(f"  {method}", *numbers)
        console.print(stacked)
    else:
        grid = plain_table(headings(swept), right=range(3, len(headings(swept))), whole=range(3))
        for texts_of_row in cells:
            grid.add_row(*map(Text, texts_of_row))
        console.print(grid)
    for note in notes:
        console.print(Text(f"· {note}", "dim"))
    for row in rows:
        if row["error"]:
            console.print(Text(f"{row['dataset']}, {row['split']}, {row['method']}: {row['error']}", "red"))


def bench(table: str, o: Options) -> None:
    """Run a table's settings, show and write it; what is interrupted is written as far as it got.
    Or a figure's, and draw it."""
    if table not in (*TABLES, *FIGURES):
        from fedtheory.errors import suggest

        raise suggest(table, (*TABLES, *FIGURES), "table")
    try:
        import torch

        if o.tensorboard is not None:
            import torch.utils.tensorboard
    except ModuleNotFoundError as error:
        lacks = "tensorboard" if "tensorboard" in str(error.name) else "torch"
        raise MissingCapability(f"fedtheory bench needs {lacks}: pip install 'fedtheory[{lacks}]'") from error
    check_options(o)
    if o.threads is not None:
        torch.set_num_threads(o.threads)
    if table in FIGURES:
        _tell_figure(bench_figure(table, o), o)
    else:
        _bench_table(table, o)


def _tell_figure(found: dict[str, Any], o: Options) -> None:
    """The figure's words and files."""
    if o.json:
        emit(found)
        return
    console = out_console()
    console.print(Text(found["title"], "bold"))
    console.print(Text(found["caption"]))
    wrote(found["files"])


def _bench_table(table: str, o: Options) -> None:
    from fedtheory.neural.benchmarks import printed_tables as papers
    from fedtheory.neural.benchmarks.many import Datasets, run_presets
    from fedtheory.neural.benchmarks.run import cells, over_seeds, read_result
    from fedtheory.parallel import use_engine

    if o.quick and o.data is None and o.dataset is not None:  # they stand for every data set: naming them filters nothing
        named = [d for d in o.dataset.split(",") if d.strip() and d.strip().lower() != "digits"]
        o = replace(o, dataset=",".join(named) or None)
    presets = chosen(table, o)
    out = o.out / "quick" if o.quick else o.out
    console, results, interrupted = out_console(), [], False
    if o.report:
        results = [r for r in (read_result(p, out) for p in presets) if r is not None]
    else:
        options = {"tensorboard": o.tensorboard, "progress": not o.json}
        data = Datasets(None if o.quick and o.data is None else o.data, o.verify)

        def report(result: Any) -> None:
            if not o.json:
                accuracy = [v for v in result.metrics.get("test_accuracy", []) if v is not None]
                ends = f"accuracy {100 * accuracy[-1]:.2f} %" if accuracy else result.error
                line = f"{result.preset.name}: {result.rounds} rounds, {result.seconds:.0f} s, {ends}"
                console.print(line, style="dim", soft_wrap=True)

        for preset in presets:
            data.of(preset)  # what is missing is told before anything is written
        try:
            with use_engine(o.engine, o.address, o.workers), result_store_at(out / f"{table}.cells.sqlite") as kept:
                if not o.resume:
                    kept.clear()
                options |= run_options(table, o, going_on=kept.begun)
                for result in run_presets(presets, data, out, report, o.workers, o.threads, kept, **options):
                    results.append(result)
                kept.remove()
        except KeyboardInterrupt:
            interrupted, done = True, {r.preset.name for r in results}
            results += [r for r in (read_result(p, out) for p in presets if p.name not in done) if r is not None]
    order = {p.name: i for i, p in enumerate(presets)}
    results.sort(key=lambda r: order.get(r.preset.name, len(order)))  # as asked for, not as finished
    single = cells(table, results, o.quick)
    rows = over_seeds(single)
    title = _TITLES.get(table)
    if title is None:
        paper = papers.TABLES[table]
        title = f"{paper.source}: {paper.title.lower()}"
    notes = _notes(table, [r.preset for r in results] or presets, results, o)
    if o.report and not results:
        notes.insert(0, f"Nothing in {out / 'runs'} was run with these settings: name the options that it was run with.")
    files = _write(table, title, rows, single, notes, results, out, o, interrupted)
    if o.json:
        emit({"table": table, "title": title, "rows": rows, "notes": notes, "files": files, "interrupted": interrupted})
    else:
        _show(console, table, title, rows, notes, o.swept)
        wrote(files)
        if interrupted:
            console.print("interrupted: the same command goes on from here")
    if interrupted:
        import typer

        raise typer.Exit(130)


def _write(
    table: str, title: str, rows: list[dict[str, Any]], single: list[dict[str, Any]],
    notes: list[str], results: list[Any], out: Path, o: Options, interrupted: bool,
) -> list[Path]:
    from fedtheory.neural.benchmarks.run import markdown, result_json
    from fedtheory.provenance import provenance, write_atomic, write_json

    content = {
        "table": table,
        "title": title,
        "quick": o.quick,
        "interrupted": interrupted,
        "rows": rows,
        **({} if rows == single else {"rows_of_seeds": single}),
        "notes": notes,
        "runs": [result_json(r) for r in results],
        "provenance": provenance(o.seed, o.device, o.dtype, "torch"),
    }
    with writing(o.out):
        files = [
            write_json(out / f"{table}.json", content),
            write_atomic(out / f"{table}.md", markdown(table, rows, title, notes, o.swept)),
        ]
        if table == "fedelasticnet-figure1" and any(r.rounds for r in results):
            from paper_figures.fedelasticnet.table_runs import draw_accuracy

            files += draw_accuracy(results, out / table)
    return files
