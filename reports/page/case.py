"""What the ledger knows of one instance: its runs, how far they are from the best, and which of them are shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from bench.ledger.gap import Gap, best_bound, certified_bounds, gaps, relative_gap
from bench.ledger.reach import Reach
from bench.ledger.row import Row
from instances import InputError, Instance
from reports.page.entrants import entrants
from reports.page.suites import suites_of

if TYPE_CHECKING:
    from bench.ledger.store import Ledger

HEAVY = frozenset({"plan", "simulation", "trajectory", "violation_details", "log_tail", "statistics", "scenarios"})
"""Columns that only runs which are shown in full, and scenario sets, are read with."""


@dataclass(frozen=True)
class Case:
    """An instance or a scenario set, and its runs.

    Attributes
    ----------
    name, fingerprint, suite
        Of the instance.
    instance
        ``None`` of scenario sets, and where the catalogue has changed since the runs.
    rows
        All runs, oldest first, without ``HEAVY`` columns.
    replays
        Plans that were replayed on hardware, likewise: they are measured, and compete with nobody.
    reaches
        What decides which bounds hold for the plan of a run or replay, by key, where there is a plan.
    """

    name: str
    fingerprint: str
    suite: str
    instance: Instance | None
    rows: Sequence[Row]
    replays: Sequence[Row]
    reaches: Mapping[str, Reach]

    @property
    def all_rows(self) -> Sequence[Row]:
        """Runs and replays."""
        return [*self.rows, *self.replays]

    @property
    def objective(self) -> str:
        """In one word; ``scenarios`` of a scenario set."""
        one = self.all_rows[0]
        return one.throughput_of or one.objective

    @property
    def minimised(self) -> bool:
        """Whether smaller values are better."""
        return self.objective == "cost"

    @cached_property
    def entrants(self) -> dict[str, str]:
        """The entrant behind every run, by key."""
        return entrants(self.all_rows)

    @cached_property
    def gaps(self) -> dict[str, Gap]:
        """Gaps of all runs by key."""
        return gaps(self.all_rows, self.rows, self.instance, self.reaches)

    @cached_property
    def bounds(self) -> dict[str, float | None]:
        """By key the best certified bound that holds for the plan of a run, feasible or not."""
        certified = certified_bounds(self.rows, self.minimised, self.instance)
        return {row.key: best_bound(row, self.reaches.get(row.key), certified) for row in self.all_rows}

    @cached_property
    def best_known(self) -> float | None:
        """The best value of a plan that breaks no constraint; ``None`` if there is none."""
        values = [row.value for row in self.rows if row.feasible and row.value is not None and row.truth is None]
        if not values:
            return None
        return min(values) if self.minimised else max(values)

    def behind_best(self, row: Row) -> float | None:
        """Return how far a feasible plan is from the best known one, relatively."""
        if not row.feasible or row.value is None or row.truth is not None or self.best_known is None:
            return None
        return relative_gap(row.value, self.best_known)

    def shown(self) -> dict[str, Row]:
        """Return the run of every entrant that stands for it, best first.

        The one with the best plan that breaks no constraint; without any, the one with the fewest violations.
        """
        best: dict[str, Row] = {}
        for row in self.rows:
            name = self.entrants[row.key]
            if row.key in self.reaches and (name not in best or self.rank(row) < self.rank(best[name])):
                best[name] = row
        return dict(sorted(best.items(), key=lambda item: self.rank(item[1])))

    def rank(self, row: Row) -> tuple[bool, float, float]:
        """Return what orders runs, best first."""
        value = 0.0 if row.value is None else row.value
        return (not row.feasible, 0.0 if row.feasible else (row.violations or 0), value if self.minimised else -value)


def read_cases(ledger: "Ledger") -> list[Case]:
    """Return what a ledger knows of each of its instances, by suite and name."""
    rows: dict[str, list[Row]] = {}
    for row in ledger.rows(without=HEAVY):
        rows.setdefault(row.instance_hash, []).append(row)
    reaches = ledger.reaches()
    suites = suites_of({fingerprint: found[0].instance for fingerprint, found in rows.items()})
    cases = []
    for fingerprint, found in rows.items():
        if found[0].objective == "scenarios":
            counts = {row.key: row.scenarios for row in ledger.rows(instance_hash=fingerprint)}
            found = [replace(row, scenarios=counts[row.key]) for row in found]
        case = Case(
            found[0].instance,
            fingerprint,
            suites[fingerprint],
            _instance(ledger, fingerprint),
            [row for row in found if row.source == "plan"],
            [row for row in found if row.source != "plan"],
            {row.key: reaches[row.key] for row in found if row.key in reaches},
        )
        cases.append(case)
    return sorted(cases, key=lambda case: (case.suite, case.name, case.fingerprint))


def _instance(ledger: "Ledger", fingerprint: str) -> Instance | None:
    try:
        return ledger.instance(fingerprint)
    except InputError:
        return None
