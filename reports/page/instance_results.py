"""Results on one instance: its suite, its runs, their gaps, and the runs that its page shows."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from bench.formatting import gpu_count, objective_of, worth
from bench.ledger.better_plans import BetterPlan, better_plans
from bench.ledger.bound_scope import Reach
from bench.ledger.entry_rows import entry_rows
from bench.ledger.gap import CertifiedBound, Gap, best_bound, certified_bounds, gap_to, relative_gap
from bench.ledger.refutation import Refutation, by_instance, reaches_of, refutations, upheld
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from instances import InputError, Instance
from instances.costs import whole_gpus
from instances.library import LIBRARY
from instances.suites import SCENARIO_SUITES, SUITES
from reports.entrants import entrants, facets_of, newest

AT_OTHER_RATES = "at other rates"
"""Suffix of the suites of instances that ``bench max-rate`` made."""

IN_LIBRARY = "library"
"""Suite of the library's instances."""

OWN = "own instances"
"""Suite of instances outside all suites, and of instances in an older version of a suite."""


def suites_of(names: Mapping[str, str]) -> dict[str, str]:
    """Return the suite of every instance in a ledger, by fingerprint.

    ``names`` are the names of these instances, by fingerprint. If several suites share an instance, the suite with the
    most instances in the ledger counts. Instances of ``bench max-rate`` belong to a suite at other rates.
    """
    instances_of = {suite.name: suite.build() for suite in SUITES.values()}
    instance_names = set(names.values())
    members = {
        name: {instance.fingerprint for instance in suite_instances if instance.name in instance_names}
        for name, suite_instances in instances_of.items()
    }
    # The suites are reversed, so that the first suite with an instance of a name counts.
    suite_of_name = {
        instance.name: name for name, suite_instances in reversed(instances_of.items()) for instance in suite_instances
    }
    count_in_ledger = Counter({name: len(fingerprints & names.keys()) for name, fingerprints in members.items()})

    def suite_of(fingerprint: str, name: str) -> str:
        candidates = [suite for suite, fingerprints in members.items() if fingerprint in fingerprints]
        if candidates:
            return max(candidates, key=lambda suite: count_in_ledger[suite])
        if _in_library(fingerprint, name):
            return IN_LIBRARY
        base, separator, _ = name.rpartition("*")
        if separator and base in suite_of_name:
            return f"{suite_of_name[base]} {AT_OTHER_RATES}"
        return name if name in SCENARIO_SUITES else OWN

    return {fingerprint: suite_of(fingerprint, name) for fingerprint, name in names.items()}


def _in_library(fingerprint: str, name: str) -> bool:
    try:
        return LIBRARY.has(name) and LIBRARY.instance(name).fingerprint == fingerprint
    except InputError:  # the file of the instance is damaged
        return False


HEAVY = frozenset({"plan", "simulation", "trajectory", "violation_details", "log_tail", "statistics", "scenarios"})
"""Columns that are read only where needed: for scenario sets, for runs on instance pages, and for statistics."""


@dataclass(frozen=True)
class InstanceResults:
    """An instance or a scenario set, and its runs.

    Attributes
    ----------
    name, fingerprint, suite
        Name, fingerprint and suite of the instance.
    instance
        The instance; ``None`` for a scenario set, and if the catalogue has changed since the runs.
    rows
        The competing runs, oldest first, without the columns of ``HEAVY``.
    repeated
        Runs that newer code has repeated, without the columns of ``HEAVY``. Their bounds count, but their plans do not
        compete.
    replays
        Replays of plans on hardware, without the columns of ``HEAVY``. Replays are measurements and do not compete.
    reaches
        Data that determine which bounds apply to the plan of a run or replay, by key; only for rows with a plan.
    arrivals
        Arrivals of the simulated plans, by key.
    entrants
        The entrant of every run, by key. An entrant has the same name on all instances with one suite and objective.
    ledger
        Name of the ledger's file.
    refuted
        Claims that a known feasible plan refutes, by key of the claiming run. The rows omit these claims.
    entries
        The row of the library's entry, or nothing if the instance is not in the library. The entry's plan and bound
        count for gaps.
    """

    name: str
    fingerprint: str
    suite: str
    instance: Instance | None
    rows: Sequence[Row]
    repeated: Sequence[Row]
    replays: Sequence[Row]
    reaches: Mapping[str, Reach]
    arrivals: Mapping[str, str]
    entrants: Mapping[str, str]
    ledger: str
    refuted: Mapping[str, Refutation] = field(default_factory=dict)
    entries: Sequence[Row] = ()

    @property
    def all_rows(self) -> Sequence[Row]:
        """All runs and replays."""
        return [*self.rows, *self.repeated, *self.replays]

    @property
    def objective(self) -> str:
        """The objective in one word; ``scenarios`` for a scenario set."""
        return objective_of(self.all_rows[0])

    @property
    def minimised(self) -> bool:
        """Whether smaller values are better."""
        return self.objective == "cost"

    @cached_property
    def gaps(self) -> dict[str, Gap]:
        """Gaps of all runs by key."""
        return {row.key: gap_to(self.bounds[row.key], row, self.instance) for row in self.all_rows}

    @cached_property
    def bounds(self) -> dict[str, CertifiedBound | None]:
        """Best certified bound for the plan of a run, feasible or not, by key."""
        certified = certified_bounds([*self.rows, *self.repeated, *self.entries], self.minimised, self.instance)
        return {row.key: best_bound(row, self.reaches.get(row.key), certified) for row in self.all_rows}

    @cached_property
    def better(self) -> dict[str, BetterPlan]:
        """For each run with a proven optimum, by key: a better plan outside the optimum's plan class, if known."""
        others = [*self.rows, *self.repeated, *self.entries]
        return better_plans(self.all_rows, others, {**self.reaches, **reaches_of(self.entries)})

    @cached_property
    def best_known(self) -> float | None:
        """Best value of a feasible plan, ``None`` without one; runs with ``--truth`` do not count."""
        known = [*self.rows, *self.entries]
        values = [row.value for row in known if row.feasible and row.value is not None and row.truth is None]
        if not values:
            return None
        return min(values) if self.minimised else max(values)

    def behind_best(self, row: Row) -> float | None:
        """Return the relative distance of a plan from the best known one; ``None`` if the plan does not compete."""
        if not row.feasible or row.value is None or row.truth is not None or self.best_known is None:
            return None
        return relative_gap(row.value, self.best_known)

    def shown(self) -> dict[str, Row]:
        """Return the run that represents each entrant, best first.

        This is the entrant's run with the best feasible plan. Without such a plan, it is the run with the fewest
        violations.
        """
        best: dict[str, Row] = {}
        for row in self.rows:
            name = self.entrants[row.key]
            if row.key in self.reaches and (name not in best or self.rank(row) < self.rank(best[name])):
                best[name] = row
        return dict(sorted(best.items(), key=lambda item: self.rank(item[1])))

    def rank(self, row: Row) -> tuple[bool, float, float]:
        """Return the sort key of runs, best first."""
        value = 0.0 if row.value is None else row.value
        return (not row.feasible, 0.0 if row.feasible else (row.violations or 0), value if self.minimised else -value)


def in_gpus(value: float | None, instance_results: InstanceResults) -> str:
    """Return a value or a bound with its unit; a cost also in whole GPUs if all GPUs have the same price."""
    text = worth(value, instance_results.objective)
    prices = (
        {pool.type.price_per_hour for pool in instance_results.instance.gpus}
        if instance_results.instance is not None
        else set()
    )
    if (
        value is None
        or not instance_results.minimised
        or len(prices) != 1
        or min(prices) <= 0.0
        or value / min(prices) > 1e6
    ):
        return text
    count = whole_gpus(value, min(prices))
    return f"{text} ({gpu_count(count)})"


def read_results(ledger: Ledger) -> list[InstanceResults]:
    """Return the results of a ledger's instances, by suite and name."""
    claiming_rows, reaches, arrivals = ledger.rows(without=HEAVY), ledger.reaches(), ledger.arrivals()
    entries = entry_rows(ledger.instance_names())
    refuted = refutations([*claiming_rows, *entries], reaches | reaches_of(entries))
    entries_of, rows = by_instance(upheld(entries, refuted)), by_instance(upheld(claiming_rows, refuted))
    suites = suites_of({fingerprint: instance_rows[0].instance for fingerprint, instance_rows in rows.items()})
    rows_by_board: dict[tuple[str, str], list[Row]] = {}
    for fingerprint, instance_rows in rows.items():
        rows_by_board.setdefault((suites[fingerprint], objective_of(instance_rows[0])), []).extend(instance_rows)
    facets = facets_of([row for instance_rows in rows.values() for row in instance_rows], arrivals)
    entrants_by_board = {board: entrants(instance_rows, facets) for board, instance_rows in rows_by_board.items()}
    all_results = []
    for fingerprint, instance_rows in rows.items():
        entrant_of = entrants_by_board[suites[fingerprint], objective_of(instance_rows[0])]
        if instance_rows[0].objective == "scenarios":
            counts = {row.key: row.scenarios for row in ledger.rows(instance_hash=fingerprint)}
            instance_rows = [replace(row, scenarios=counts[row.key]) for row in instance_rows]
        plans = [row for row in instance_rows if row.source == "plan"]
        replays = [row for row in instance_rows if row.source != "plan"]
        current_keys = newest(plans, facets) | {row.key for row in replays}
        instance_results = InstanceResults(
            instance_rows[0].instance,
            fingerprint,
            suites[fingerprint],
            _instance(ledger, fingerprint),
            [row for row in plans if row.key in current_keys],
            [row for row in plans if row.key not in current_keys],
            replays,
            {row.key: reaches[row.key] for row in instance_rows if row.key in reaches},
            {row.key: arrivals[row.key] for row in instance_rows if row.key in arrivals},
            {
                row.key: entrant_of[row.key] if row.key in current_keys else f"{entrant_of[row.key]}, older code"
                for row in instance_rows
            },
            ledger.path.name,
            {row.key: refuted[row.key] for row in instance_rows if row.key in refuted},
            entries_of.get(fingerprint, ()),
        )
        all_results.append(instance_results)
    return sorted(
        all_results,
        key=lambda instance_results: (
            instance_results.suite,
            _natural(instance_results.name),
            instance_results.fingerprint,
        ),
    )


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts ``mix-20`` before ``mix-100``: shorter numbers come first."""
    return [(len(part) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", name)]


def _instance(ledger: Ledger, fingerprint: str) -> Instance | None:
    try:
        return ledger.instance(fingerprint)
    except InputError:
        return None
