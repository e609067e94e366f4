"""HTML pages of a ledger."""

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment

from bench.api import Status
from bench.formatting import HOLDS_MEANS, NOT_IN_TIME_MEANS, ON_PAPER_MEANS, percent, servers
from bench.ledger.store import Ledger
from instances.library import LIBRARY
from instances.performance import performance_in_words
from reports.charts.page import styled
from reports.charts.tradeoff import HELD
from reports.page.curves import METRICS
from reports.page.entries.rows import library_picture, library_rows
from reports.page.environment import assets, environment
from reports.page.files import check_folder, file_contents, write_folder
from reports.page.instance_page import instance_page
from reports.page.instance_results import HEAVY, IN_LIBRARY, InstanceResults, in_gpus, read_results
from reports.page.leaderboard import leaderboards, outcome
from reports.page.overview import Selection, comparable_instances, comparable_table, selections
from reports.page.overview_pictures import hold_pictures, scaling_pictures
from reports.page.pictures import Picture, tradeoff_picture
from reports.page.runs import all_runs
from reports.page.styles import page_look
from reports.statistics.summary import summary
from reports.statistics.tables import sentences as stats_sentences
from reports.statistics.tables import stats_tables

_NAME_LENGTH = 60
"""Largest number of letters of an instance's name in the name of its page's file."""


def write_site(ledger: Ledger, folder: Path) -> Path:
    """Write the report of a ledger into ``folder`` and return its first page.

    Equal rows give equal files.

    Raises
    ------
    InputError
        If ``folder`` contains other files than a former report, or cannot be written.
    """
    check_folder(folder)
    write_folder(folder, site_files(ledger))
    return folder / "index.html"


def site_files(ledger: Ledger) -> dict[str, str]:
    """Return the files of the report of a ledger, by path within its folder."""
    all_results = read_results(ledger)
    schedulers = sorted({row.scheduler for instance_results in all_results for row in instance_results.all_rows})
    templates = environment()
    templates.globals |= {
        "ledger": ledger.path.name,
        "looks": {name: page_look(name) for name in schedulers},
        "held": HELD,
        "library": any(instance_results.suite == IN_LIBRARY for instance_results in all_results),
        "holds_means": HOLDS_MEANS,
        "on_paper_means": ON_PAPER_MEANS,
        "performance_in_words": performance_in_words,
        "servers": servers,
        "not_in_time_means": NOT_IN_TIME_MEANS,
    }
    process_ledger = partial(_process_ledger, ledger, os.getpid())
    file_of = {
        instance_results.fingerprint: _file_name(instance_results)
        for instance_results in all_results
        if instance_results.instance is not None
    }
    pages = {
        file_of[instance_results.fingerprint]: partial(_instance_text, templates, instance_results, process_ledger)
        for instance_results in all_results
        if instance_results.instance is not None
    }
    overviews = {
        "index.html": partial(_index_text, templates, all_results, file_of, process_ledger),
        "runs.html": partial(_runs_text, templates, all_results, file_of),
        "library.html": partial(_library_text, templates),
    }
    with styled():  # loads Matplotlib, which takes a second, once before the processes are forked
        return assets() | file_contents({**pages, **overviews})


def _index_text(
    templates: Environment,
    all_results: Sequence[InstanceResults],
    file_of: Mapping[str, str],
    process_ledger: Callable[[], Ledger],
) -> str:
    all_selections, boards = selections(all_results), leaderboards(all_results)
    statistics = _statistics(all_results, process_ledger()) if all_selections else None
    return templates.get_template("index.html.j2").render(
        root="",
        selections=all_selections,
        suites=dict.fromkeys(suite for selection in all_selections for suite, _ in selection.choices),
        objectives=dict.fromkeys(objective for selection in all_selections for _, objective in selection.choices),
        scatters=[_scatter(number, selection) for number, selection in enumerate(all_selections)],
        hold=hold_pictures(all_results),
        statistics=statistics,
        boards=boards,
        meanings={head.text: head.meaning for board in boards for head in board.heads}.items(),
        runs=sum(len(instance_results.all_rows) for instance_results in all_results),
        outcomes=Counter(outcome(row) for instance_results in all_results for row in instance_results.rows),
        optimal=sum(
            row.status == Status.OPTIMAL and row.feasible is not False
            for instance_results in all_results
            for row in instance_results.rows
        ),
        refuted=[refutation for instance_results in all_results for refutation in instance_results.refuted.values()],
        lines=[
            _instance_line(instance_results, file_of.get(instance_results.fingerprint))
            for instance_results in all_results
        ],
        scaling=scaling_pictures(all_results),
        metrics=METRICS,
    )


def _scatter(number: int, selection: Selection) -> Picture | None:
    marks = selection.tradeoffs()
    reference = "certified bound" if selection.bounded else "best known plan"
    return tradeoff_picture(f"scatter-{number}", reference, marks) if marks else None


def _statistics(all_results: Sequence[InstanceResults], ledger: Ledger) -> dict[str, Any]:
    """Return tables and sentences of the statistics over the instances on which the same schedulers ran."""
    instances_to_compare = comparable_instances(all_results)
    trajectories = {row.key: row.trajectory for row in ledger.rows(without=HEAVY - {"trajectory"})}
    table, rows = comparable_table(instances_to_compare)
    runs = {
        name: {
            fingerprint: [replace(row, trajectory=trajectories[row.key] or []) for row in seed_rows]
            for fingerprint, seed_rows in runs_by_instance.items()
        }
        for name, runs_by_instance in table.runs.items()
    }
    gaps = {
        row.key: instance_results.gaps[row.key]
        for instance_results in instances_to_compare
        for row in instance_results.rows
    }
    results = summary(replace(table, runs=runs), gaps, rows)
    return {"tables": stats_tables(results), "sentences": stats_sentences(results), "reference": results.reference}


def _runs_text(templates: Environment, all_results: Sequence[InstanceResults], file_of: Mapping[str, str]) -> str:
    runs = [(instance_results, row) for instance_results in all_results for row in instance_results.all_rows]
    choices = {
        "suite": sorted({instance_results.suite for instance_results, _ in runs}),
        "objective": sorted({instance_results.objective for instance_results, _ in runs}),
        "outcome": sorted({outcome(row) for _, row in runs}),
    }
    template = templates.get_template("runs.html.j2")
    return template.render(root="", runs=all_runs(all_results), pages=file_of, choices=choices)


def _library_text(templates: Environment) -> str:
    lines = LIBRARY.summaries()
    rows = library_rows(lines)
    holders = Counter(row.line.plan_by for row in rows if row.line.plan_by is not None).most_common()
    template = templates.get_template("library.html.j2")
    return template.render(root="", rows=rows, picture=library_picture(lines), holders=holders)


def _process_ledger(ledger: Ledger, opener_pid: int) -> Ledger:
    """Return the ledger for use in the current process; ``opener_pid`` is the process that opened ``ledger``.

    A forked process opens the file again, because an SQLite connection must not be used after a fork.
    """
    return ledger if os.getpid() == opener_pid else _opened_in_fork(ledger.path)


@cache
def _opened_in_fork(path: Path) -> Ledger:
    return Ledger(path)


def _instance_text(
    templates: Environment, instance_results: InstanceResults, process_ledger: Callable[[], Ledger]
) -> str:
    page = instance_page(instance_results, process_ledger())
    return templates.get_template("instance.html.j2").render(root="../", page=page)


def _file_name(instance_results: InstanceResults) -> str:
    """Return a file name that is valid on all systems and unique to the instance."""
    safe_name = re.sub(r"[^A-Za-z0-9._-]", "_", instance_results.name).lstrip(".-")[:_NAME_LENGTH] or "_"
    return f"instances/{safe_name}-{instance_results.fingerprint[:12]}.html"


def _instance_line(instance_results: InstanceResults, file: str | None) -> dict[str, Any]:
    best = min(instance_results.rows, key=instance_results.rank, default=None)
    gaps = [gap.gap for gap in instance_results.gaps.values() if gap.gap is not None]
    bound = None if best is None else instance_results.bounds[best.key]
    return {
        "name": instance_results.name,
        "suite": instance_results.suite,
        "objective": instance_results.objective,
        "file": file,
        "size": None
        if instance_results.instance is None
        else len(instance_results.instance.workloads) or len(instance_results.instance.jobs),
        "runs": len(instance_results.all_rows),
        "best": in_gpus(instance_results.best_known, instance_results),
        "best_number": instance_results.best_known,
        "bound": "-" if bound is None else in_gpus(bound.value, instance_results),
        "bound_number": None if bound is None else bound.value,
        "gap": percent(min(gaps, default=None)),
        "gap_number": min(gaps, default=None),
    }
