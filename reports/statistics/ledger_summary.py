"""Statistics of a ledger's runs, all or chosen by instance and scheduler."""

from collections.abc import Sequence

from bench.formatting import labels
from bench.ledger.gap import ledger_gaps
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

    Replays and runs on other GPUs than planned for (``--truth``) do not count.

    Parameters
    ----------
    instances
        Instances, suites or files; all instances by default.
    schedulers
        Schedulers, or variants as the table names them, that the table must have; by default it may lack any.
    reference
        Scheduler to compare with all others; by default the one with the least mean gap to the best known value.

    Raises
    ------
    InputError
        If the ledger has no such instance or scheduler, no runs, or no instance on which all of ``schedulers`` ran.
    """
    where = str(ledger.path)
    rows = [row for row in ledger.rows(without=UNREAD) if row.source == "plan" and row.truth is None]
    rows = chosen_instances(upheld(rows, ledger_refutations(ledger)), instances, where)
    facets = facets_of(rows, ledger.arrivals())
    runs = by_instance(sorted(rows, key=lambda row: row.instance))
    last = {key for each in runs.values() for key in newest(each, facets)}
    names = entrants([row for row in rows if row.key in last], facets)
    wanted = _wanted(schedulers, rows, names, where)
    own = [row for row in rows if names.get(row.key) in wanted] if schedulers else [r for r in rows if r.key in last]
    table = complete_table(own, names, list(runs), required=wanted if schedulers else (), known=rows)
    if not own:
        raise InputError(where, "has no runs to compare (replays and `truth` do not count); `bench run` adds some")
    if not table.best:
        raise InputError(where, "has no instance on which all of these schedulers ran; name fewer schedulers")
    if reference is not None and reference not in table.runs:
        raise unknown_name(FieldName("reference"), "scheduler", reference, list(table.runs))
    gaps = ledger_gaps([row for row in own if row.instance_hash in table.best], ledger, ledger.reaches())
    return summary(table, gaps, rows, reference)


def chosen_instances(rows: Sequence[Row], names: Sequence[str], where: str) -> list[Row]:
    """Return the rows on the instances, suites or files called ``names``; all without names.

    Raises
    ------
    InputError
        If a name is unknown or no row is on its instances; ``where`` names the ledger.
    """
    if not names:
        return list(rows)
    known = list(dict.fromkeys(row.instance for row in rows))
    found: set[str] = set()
    for name in names:
        hashes = {row.instance_hash for row in rows if row.instance == name}
        if not hashes and (name in known_names() or looks_like_file(name)):
            hashes = {each.fingerprint for each in find_problems([name], FieldName("instances"))}
            if not any(row.instance_hash in hashes for row in rows):
                raise InputError(where, f'has no run on "{name}"')
        if not hashes:
            raise unknown_name(where, "instance", name, known)
        found |= hashes
    return [row for row in rows if row.instance_hash in found]


def chosen_schedulers(rows: Sequence[Row], names: Sequence[str], where: str) -> list[Row]:
    """Return the rows of the schedulers called ``names``; all without names.

    Raises
    ------
    InputError
        If no row is of such a scheduler; ``where`` names the ledger.
    """
    known = list(dict.fromkeys(row.scheduler for row in rows))
    for name in names:
        if name not in known:
            raise unknown_name(where, "scheduler", name, known)
    return [row for row in rows if not names or row.scheduler in names]


def _wanted(schedulers: Sequence[str], rows: Sequence[Row], names: dict[str, str], where: str) -> list[str]:
    """Return the contestants called ``schedulers``, as tables of statistics or of runs name them.

    A scheduler's name stands for all of its variants.
    """
    named = labels(rows)
    called = {names[row.key]: (names[row.key], row.scheduler, named[row.key]) for row in rows if row.key in names}
    found: list[str] = []
    for name in schedulers:
        own = [each for each, known in called.items() if name in known]
        if not own:
            raise unknown_name(
                where, "scheduler", name, [*dict.fromkeys(each for known in called.values() for each in known)]
            )
        found += own
    return list(dict.fromkeys(found))
