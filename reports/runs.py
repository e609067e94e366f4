"""Runs of a ledger for the queries of a document, with lists of the used and the missing runs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from bench.ledger.refutation import Refutation, ledger_refutations, upheld
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.max_rate import Climb, retraced, with_all_served
from instances.instance import Instance
from instances.suites import SCENARIO_SUITES, SUITES
from reports.code_age import is_outdated
from reports.need import Need, rows_matching


class MissingDataError(Exception):
    """Error for a number whose runs or measurements are missing; the message has two words, such as ``no runs``."""


@dataclass
class Runs:
    """The runs in a ledger.

    Attributes
    ----------
    used
        Rows that the queries so far have read, by key.
    missing
        Needs of the queries so far for which the ledger lacks runs.
    outdated
        Needs of the queries so far, each for one scheduler, that used a run with outdated code: the scheduler's code
        has changed since the run, or the run does not state its code.
    """

    ledger: Ledger
    used: dict[str, Row] = field(default_factory=dict)
    missing: list[Need] = field(default_factory=list)
    outdated: dict[Need, None] = field(default_factory=dict)
    _by_scheduler: dict[str, list[Row]] = field(default_factory=dict)
    _climbs: dict[Need, Mapping[str, Climb]] = field(default_factory=dict)

    def rows(self, need: Need) -> list[Row]:
        """Return the latest row of each run, ordered by instance, scheduler and seed.

        Raises
        ------
        MissingDataError
            If the ledger lacks a run; the need is then added to ``missing``.
        """
        return self.rows_of_each([need])[0]

    def row(self, need: Need) -> Row:
        """Return the latest row of a need that names one run; see ``rows``."""
        (row,) = self.rows(need)
        return row

    def rows_of_each(self, needs: Iterable[Need]) -> list[list[Row]]:
        """Return the rows of several needs; see ``rows``. Every need with a missing run is added to ``missing``."""
        rows_by_need = [self._rows_or_none(need) for need in needs]
        if any(rows is None for rows in rows_by_need):
            raise MissingDataError("no runs")
        return [rows for rows in rows_by_need if rows is not None]

    def climbs(self, need: Need) -> Mapping[str, Climb]:
        """Return the searches for the largest rates that a need demands, by instance; see ``rows``."""
        if need not in self._climbs:
            rows = self._matching_rows(need)
            instances = instances_named(need.instances)
            self._climbs[need] = {
                name: retraced(with_all_served(instance), rows, need.from_above) for name, instance in instances.items()
            }
        climbs = self._climbs[need]
        if any(climb.next is not None or climb.failed_run is not None for climb in climbs.values()):
            self._record_missing(replace(need, climb=True))
            raise MissingDataError("no runs")
        self._record_used([row for climb in climbs.values() for row in climb.rows.values()], replace(need, climb=True))
        return climbs

    def _rows_or_none(self, need: Need) -> list[Row] | None:
        """Return the rows of a need and record them as used; ``None`` if a run is missing, which is recorded too."""
        latest = {(row.instance_hash, row.scheduler, row.seed): row for row in self._matching_rows(need)}
        needed_runs = [
            (fingerprint, scheduler, seed)
            for fingerprint in _fingerprints(need.instances)
            for scheduler in need.schedulers
            for seed in need.seeds
        ]
        if not all(run in latest for run in needed_runs):
            self._record_missing(need)
            return None
        rows = [latest[run] for run in needed_runs]
        self._record_used(rows, need)
        return rows

    def _matching_rows(self, need: Need) -> list[Row]:
        rows = [row for scheduler in need.schedulers for row in self._rows_of(scheduler)]
        return [row for row in rows_matching(rows, need) if _within_limits(row, need)]

    def _rows_of(self, scheduler: str) -> list[Row]:
        if scheduler not in self._by_scheduler:
            self._by_scheduler[scheduler] = upheld(self.ledger.rows(scheduler=scheduler), self._refuted)
        return self._by_scheduler[scheduler]

    @cached_property
    def _refuted(self) -> dict[str, Refutation]:
        return ledger_refutations(self.ledger)

    def _record_used(self, rows: Sequence[Row], need: Need) -> None:
        self.used |= {row.key: row for row in rows}
        outdated = {row.scheduler for row in rows if is_outdated(row) is not False}
        self.outdated |= {replace(need, schedulers=(name,)): None for name in need.schedulers if name in outdated}

    def _record_missing(self, need: Need) -> None:
        if need not in self.missing:
            self.missing.append(need)


def _within_limits(row: Row, need: Need) -> bool:
    """Return whether a run has the limits of a need; a need without a work limit accepts only runs without one."""
    return need.time_limit_s in (None, row.time_limit_s) and need.work_limit == row.work_limit


def merged(needs: Sequence[Need]) -> list[Need]:
    """Return needs for the same runs; needs that differ only in their schedulers become one need."""
    schedulers: dict[Need, dict[str, None]] = {}
    for need in needs:
        schedulers.setdefault(replace(need, schedulers=()), {}).update(dict.fromkeys(need.schedulers))
    return [replace(need, schedulers=tuple(names)) for need, names in schedulers.items()]


def the_instance(name: str) -> Instance:
    """Return the instance ``name`` of a suite."""
    return instances_named(name)[name]


@cache
def instances_named(names: str) -> Mapping[str, Instance]:
    """Return instances by name, in the order of the suites.

    ``names`` has names of suites and instances, separated by commas, as in ``Need.instances``.
    """
    name_list = names.split(",")
    return {
        instance.name: instance
        for suite in SUITES.values()
        for instance in suite.build()
        if {suite.name, instance.name} & {*name_list}
    }


@cache
def _fingerprints(names: str) -> Sequence[str]:
    """Return the fingerprints of the instances of ``names``; a scenario set has one fingerprint."""
    if names in SCENARIO_SUITES:
        return [SCENARIO_SUITES[names].build().fingerprint]
    return [instance.fingerprint for instance in instances_named(names).values()]
