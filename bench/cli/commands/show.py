"""``bench show``: the leaderboard of a ledger, one run in full, or an instance."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.completion import complete_instance
from bench.cli.options import DEFAULT_LEDGER, Format, FormatOption, LedgerOption, output_option
from bench.cli.terminal import listed, one_line, print_json, say
from bench.cli.views.answers import answers, better_plan_notes
from bench.cli.views.run import show_run
from bench.cli.views.run_tables import best_in_sentences, best_tables, by_seeds, rank, row_json, run_tables
from bench.cli.views.tables import show, table
from bench.formatting import servers, short_key
from bench.ledger.gap import ledger_gaps
from bench.ledger.row import Row
from bench.ledger.sql import DETAILS
from bench.ledger.store import Ledger
from bench.planning import base_of
from bench.selection import known_names, looks_like_file, named_instances, pool_in_words
from instances import InputError, Instance, ScenarioSet
from instances.errors import unknown_name
from instances.files import instance_to_json, plan_to_json, read_instance, write_json
from instances.performance import performance_in_words
from instances.suites import SCENARIO_SUITES
from reports.code_age import is_outdated

_UNSHOWN = DETAILS - {"provenance"}
"""Columns that tables of the best runs do not need; the provenance tells the age of the code."""

EXAMPLES = (
    "bench show                          # the best of each scheduler",
    "bench show 64gpu-cost               # an instance, and the best of each scheduler on it",
    "bench show 3f9c2a1b                 # the run whose key starts with 3f9c2a1b",
    "bench show 3f9c2a1b --plan -o plan.json",
    "bench show --best                   # the best of each instance, its gap, and whether its plan holds",
)

_KEY = re.compile("[0-9a-f]{4,64}", re.IGNORECASE)
"""Start of a run's key, long enough to name a run."""

_SHORT_KEY = re.compile("[0-9a-f]{1,3}", re.IGNORECASE)
"""Start of a run's key, too short to name a run."""


def show_things(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN|INSTANCE",
            autocompletion=complete_instance,
            help="Start of a run's key, or instance, suite or file. Default: all.",
        ),
    ] = None,
    ledger_file: LedgerOption = DEFAULT_LEDGER,
    plan: Annotated[
        bool, typer.Option("--plan", help="Write only the run's plan, with its instance, as JSON.")
    ] = False,
    output: Annotated[Path | None, output_option("File for the plan (--plan) or the instance.")] = None,
    best: Annotated[
        bool,
        typer.Option(
            "--best",
            help="Only the best scheduler and the best heuristic of each instance: gap to the best bound, and whether"
            " the plan holds under the simulated arrivals.",
        ),
    ] = False,
    every_line: Annotated[bool, typer.Option("--all", help="Show lists in full, also on a terminal.")] = False,
    form: FormatOption = "table",
) -> None:
    """Show the best results so far, one run in full, or an instance."""
    if best:
        if plan or output is not None or form != "table":
            raise InputError("--best", "shows a table of instances; omit --plan, --output and --format")
        _show_best(names or [], ledger_file, every_line)
    elif plan or output is not None:
        if names is None or len(names) != 1:
            raise InputError("--plan" if plan else "--output", "expected exactly one run or instance")
        _write(names[0], ledger_file, plan, output)
    elif not names:
        with Ledger(ledger_file) as ledger:
            _show_leaderboard(ledger, form, every_line)
    else:
        _show_each(names, ledger_file, form, every_line)


def _write(name: str, ledger_file: Path, plan: bool, output: Path | None) -> None:
    """Write the plan of a run if ``plan``, otherwise an instance; without ``output``, to standard output."""
    if plan:
        with Ledger(ledger_file) as ledger:
            row = ledger.row(name)
            if row.plan is None:
                raise InputError(f"run {name}", f"has no plan: {row.termination} {row.reason}".rstrip())
            data = plan_to_json(row.plan, ledger.instance(row.instance_hash))
    else:
        problems = _problems(name, ledger_file)
        if len(problems) != 1 or isinstance(problems[0], ScenarioSet):
            problem_text = f"{len(problems)} instances"
            if len(problems) < 2:
                problem_text = "a scenario set" if problems else "no instance"
            raise InputError("--output", f'"{name}" is {problem_text}; expected one instance, or --plan and a run')
        data = instance_to_json(problems[0])
    if output is None:
        print_json(data)
    else:
        write_json(output, data)
        say(f"wrote {output}")


def _show_each(names: Sequence[str], ledger_file: Path, form: Format, every_line: bool) -> None:
    """Show runs and instances; JSON is an object for one of them, and a list for several."""
    json_entries: list[dict[str, object]] = []
    for name in names:
        problems = _problems(name, ledger_file)
        for problem in problems:
            scenario_fields = {"scenarios": len(problem)} if isinstance(problem, ScenarioSet) else {}
            if form == "json":
                json_entries.append(instance_to_json(base_of(problem)) | scenario_fields)
                continue
            if scenario_fields:
                show(f"{scenario_fields['scenarios']:,} scenarios with different rates; the highest rates are:")
            _show_instance(base_of(problem), every_line)
            if os.path.isfile(ledger_file):  # noqa: PTH113 - False for impossible file names
                with Ledger(ledger_file) as ledger:
                    _show_leaderboard(ledger, form, every_line, problem.fingerprint)
        if problems:
            continue
        with Ledger(ledger_file) as ledger:
            row = ledger.row(name)
            gaps = ledger_gaps([row], ledger)
            if form == "json":
                json_entries.append(row_json(row, gaps))
            else:
                show_run(row, gaps[row.key], ledger, every_line)
    if form == "json":
        print_json(json_entries[0] if len(json_entries) == 1 else json_entries)


def _problems(name: str, ledger_file: Path) -> list[Instance | ScenarioSet]:
    """Return the instances or the scenario set called ``name``; an empty list if ``name`` can only be a run."""
    if instances := named_instances(name):
        return [*instances]
    if name in SCENARIO_SUITES:
        return [SCENARIO_SUITES[name].build()]
    if os.path.isfile(ledger_file):  # noqa: PTH113 - False for impossible file names
        with Ledger(ledger_file) as ledger:
            if fingerprints := dict.fromkeys(row.instance_hash for row in ledger.rows(instance=name)):
                return [ledger.instance(fingerprint) for fingerprint in fingerprints]
    if looks_like_file(name):
        return [read_instance(Path(name))]
    if _SHORT_KEY.fullmatch(name):
        raise InputError(f'"{name}"', "is too short for the start of a key; expected at least four characters")
    if not _KEY.fullmatch(name):
        raise unknown_name("show", "instance or run", name, known_names())
    return []


def _show_best(names: Sequence[str], ledger_file: Path, every_line: bool) -> None:
    with Ledger(ledger_file) as ledger:
        best = leaders([row for row in ledger.rows(without=DETAILS) if not names or row.instance in names])
        rows = [row for each in best for row in ledger.rows(key=each.key, without=_UNSHOWN)]
        if missing := [name for name in names if name not in {row.instance for row in rows}]:
            raise InputError(f"--best {missing[0]}", f"{ledger_file} has no run on this instance")
        gaps = ledger_gaps(rows, ledger)
        notes = [*answers(rows, gaps, ledger), *_of_older_code(rows)]
        lines = [*notes, "", *best_in_sentences(rows, gaps)]
        show(*best_tables(rows, gaps, ledger.arrivals()), *lines, every_line=every_line)


def _show_leaderboard(ledger: Ledger, form: Format, every_line: bool, fingerprint: str | None = None) -> None:
    """Show the best rows; with ``fingerprint``, those of one instance, and nothing if the instance has no rows."""
    without = _UNSHOWN if form == "table" else ()
    rows = ledger.rows(without={*DETAILS, "plan"}, instance_hash=fingerprint)
    keys = [row.key for row in leaders(rows)]
    if fingerprint is not None and not keys:
        return
    best = [row for key in keys for row in ledger.rows(key=key, without=without)]
    gaps = ledger_gaps(best, ledger)
    if form == "json":
        print_json([row_json(row, gaps) for row in best])
        return
    groups = by_seeds(rows)
    runs_of_seeds = {key: groups[key] for key in keys if len(groups.get(key, ())) > 1}
    gaps |= ledger_gaps([row for group in runs_of_seeds.values() for row in group], ledger, ledger.reaches())
    notes = [*better_plan_notes(best, gaps, ledger), *answers(best, gaps, ledger), *_of_older_code(best)]
    show(*run_tables(best, gaps, runs_of_seeds=runs_of_seeds), *notes, every_line=every_line)


def _of_older_code(rows: Sequence[Row]) -> list[str]:
    """Return a sentence on the rows by schedulers whose code has changed since; none without such rows."""
    runs = [f"{one_line(row.scheduler)} ({short_key(row)})" for row in rows if is_outdated(row)]
    return [f"older code: {listed(runs)}; it has changed since these runs, or is not installed"] if runs else []


def leaders(rows: Sequence[Row]) -> list[Row]:
    """Return the best row of each scheduler on each instance, sorted by instance name and then best first.

    Rows with different parameters, headroom, margin, truth or second objective count as different schedulers. Feasible
    plans rank before infeasible plans, and these before rows without a plan. Ties are broken by the better value, then
    for a plan that was tested for holding, then by the shorter decision time.
    """
    best: dict[tuple[object, ...], Row] = {}
    for row in rows:
        conditions = (
            row.instance_hash,
            row.scheduler,
            str(row.parameters),
            row.reserve,
            row.truth,
            row.second_objective,
        )
        if conditions not in best or rank(row) < rank(best[conditions]):
            best[conditions] = row
    return sorted(best.values(), key=lambda row: (row.instance, row.instance_hash, *rank(row)))


def _show_instance(instance: Instance, every_line: bool) -> None:
    show(
        one_line(f"{instance.name}: {instance.objective} on {pool_in_words(instance)}"),
        *([one_line(f"  {instance.provenance}")] if instance.provenance else []),
        f"  rule {instance.slo_rule}, model {one_line(performance_in_words(instance.performance_model))}, "
        f"latency buffer {instance.latency_buffer:g}, {len(instance.workloads)} workloads"
        + (f", {servers(instance.dropping)}" if instance.workloads else "")
        + (f", {len(instance.jobs)} jobs" if instance.jobs else ""),
        "",
    )
    if instance.workloads:
        rows = [
            [workload.id, workload.model, f"{workload.slo_ms:g} ms", f"{workload.rate_rps:g} req/s"]
            for workload in instance.workloads
        ]
        show(table(["workload", "model", ">SLO", ">rate"], rows), "", every_line=every_line)
    if instance.applications:
        applications = [
            [application.id, list(application.stages), f"{application.slo_ms:g} ms"]
            for application in instance.applications
        ]
        show(table(["application", "stages", ">SLO"], applications), "", every_line=every_line)
    if instance.jobs:
        jobs = [
            [
                job.id,
                job.model,
                f"{job.mean_batch:.3g}",
                max(job.batches),
                f"{job.mean_gap_ms:.4g} ms",
                f"{job.rate_rps:,.4g} req/s",
            ]
            for job in instance.jobs
        ]
        show(table(["job", "model", ">mean batch", ">largest", ">mean gap", ">rate"], jobs), "", every_line=every_line)
