"""Statistics of the runs of a ledger: all runs, or those on chosen instances and of chosen schedulers."""

from collections.abc import Sequence

from bench.ledger.entry_rows import entry_rows, named
from bench.ledger.gap import ledger_gaps
from bench.ledger.labels import labels
from bench.ledger.refutation import by_instance, ledger_refutations, upheld
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.selection import find_problems, known_names, looks_like_file
from instances import InputError
from instances.errors import FieldName, unknown_name
from reports.entrants import entrants, facets_of, newest
from reports.statistics.complete_table import complete_table
from reports.statistics.summary import Summary, summary

UNREAD = frozenset({"plan", "simulation", "violation_details", "log_tail", "statistics"})
"""Columns that statistics do not need."""


def ledger_summary(
    ledger: Ledger, instances: Sequence[str] = (), schedulers: Sequence[str] = (), reference: str | None = None
) -> Summary:
    """Return the statistics of the largest complete table of a ledger's runs.

    Replays do not count, nor do runs whose real GPUs differ from the planned ones (``--truth``).

    Parameters
    ----------
    instances
        Instances, suites or files; all instances by default.
    schedulers
        Names of schedulers or entrants that the table must have. By default none is required.
    reference
        Entrant to compare with all others; by default the one with the least mean gap to the best known value.

    Raises
    ------
    InputError
        If the ledger has no such instance or scheduler, no runs, or no instance on which all of ``schedulers`` ran.
    """
    where = str(ledger.path)
    rows = [row for row in ledger.rows(without=UNREAD) if row.source == "plan" and row.truth is None]
    rows = chosen_instances(upheld(rows, ledger_refutations(ledger)), instances, where)
    facets = facets_of(rows, ledger.arrivals())
    rows_by_instance = by_instance(sorted(rows, key=lambda row: row.instance))
    newest_keys = {key for instance_rows in rows_by_instance.values() for key in newest(instance_rows, facets)}
    entrant_of = entrants([row for row in rows if row.key in newest_keys], facets)
    required = _named_entrants(schedulers, rows, entrant_of, where)
    counted = (
        [row for row in rows if entrant_of.get(row.key) in required]
        if schedulers
        else [row for row in rows if row.key in newest_keys]
    )
    table = complete_table(
        counted, entrant_of, list(rows_by_instance), required=required if schedulers else (), best_from=rows
    )
    if not counted:
        raise InputError(where, "has no runs to compare (replays and `truth` do not count); `bench run` adds some")
    if not table.best:
        raise InputError(where, "has no instance on which all of these schedulers ran; name fewer schedulers")
    if reference is not None and reference not in table.runs:
        raise unknown_name(FieldName("reference"), "scheduler", reference, list(table.runs))
    gaps = ledger_gaps([row for row in counted if row.instance_hash in table.best], ledger, ledger.reaches())
    return summary(table, gaps, [*rows, *entry_rows(named(rows))], reference)


def chosen_instances(rows: Sequence[Row], names: Sequence[str], where: str) -> list[Row]:
    """Return the rows on the instances, suites or files called ``names``; all rows if ``names`` is empty.

    Raises
    ------
    InputError
        If a name is unknown or no row is on its instances; ``where`` names the ledger.
    """
    if not names:
        return list(rows)
    instance_names = list(dict.fromkeys(row.instance for row in rows))
    chosen_hashes: set[str] = set()
    for name in names:
        hashes = {row.instance_hash for row in rows if row.instance == name}
        if not hashes and (name in known_names() or looks_like_file(name)):
            hashes = {problem.fingerprint for problem in find_problems([name], FieldName("instances"))}
            if not any(row.instance_hash in hashes for row in rows):
                raise InputError(where, f'has no run on "{name}"')
        if not hashes:
            raise unknown_name(where, "instance", name, instance_names)
        chosen_hashes |= hashes
    return [row for row in rows if row.instance_hash in chosen_hashes]


def chosen_schedulers(rows: Sequence[Row], names: Sequence[str], where: str) -> list[Row]:
    """Return the rows of the schedulers called ``names``; all rows if ``names`` is empty.

    Raises
    ------
    InputError
        If a named scheduler has no row; ``where`` names the ledger.
    """
    scheduler_names = list(dict.fromkeys(row.scheduler for row in rows))
    for name in names:
        if name not in scheduler_names:
            raise unknown_name(where, "scheduler", name, scheduler_names)
    return [row for row in rows if not names or row.scheduler in names]


def _named_entrants(
    schedulers: Sequence[str], rows: Sequence[Row], entrant_of: dict[str, str], where: str
) -> list[str]:
    """Return the entrants that have one of the names ``schedulers``.

    An entrant can be named as in the tables of statistics or as in the lists of runs. The name of a scheduler selects
    all of its entrants.
    """
    label_of = labels(rows)
    names_of = {
        entrant_of[row.key]: (entrant_of[row.key], row.scheduler, label_of[row.key])
        for row in rows
        if row.key in entrant_of
    }
    selected_entrants: list[str] = []
    for name in schedulers:
        matches = [entrant for entrant, entrant_names in names_of.items() if name in entrant_names]
        if not matches:
            raise unknown_name(
                where,
                "scheduler",
                name,
                [*dict.fromkeys(entrant_name for entrant_names in names_of.values() for entrant_name in entrant_names)],
            )
        selected_entrants += matches
    return list(dict.fromkeys(selected_entrants))
