"""First screen of the page: three sentences, a scatter of distance over time, and a table of comparable results."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

from bench.command_text import command_line
from bench.formatting import objective_of, percent, seconds, worth
from bench.ledger.row import Row
from instances.grouping import grouped
from reports.charts.tradeoff import Tradeoff
from reports.entrants import entrants, facets_of
from reports.page.curves import mean
from reports.page.instance_results import AT_OTHER_RATES, InstanceResults
from reports.statistics.complete_table import CompleteTable, complete_table
from reports.statistics.gaps import TOLERANCE, UNSOLVED, achieved, gap_to_best, used_up_limit
from reports.statistics.summary import undiscriminating

_LIMITS = {10.0: "10 s", 1.0: "1 s", 0.1: "0.1 s", 0.01: "10 ms"}
"""Limits of the decision time, in seconds and in words; a sentence names the best scheduler within a limit."""

_SERVERS_TEXT = "(on servers that drop late requests, or that drop none where the instance says so)"


@dataclass(frozen=True, slots=True)
class Result:
    """Results of an entrant (a scheduler, with the parameters that distinguish its runs) on a selection's instances.

    Attributes
    ----------
    name, scheduler
        The entrant and its scheduler.
    solved, runs
        Number of runs with a feasible plan, and number of all runs.
    best_on
        Number of instances on which a run has the best known value.
    value
        Value in words, mean over the seeds; empty if a run has no plan, and with several instances, which differ in
        size.
    gaps
        Mean relative distance of the runs on each instance to its certified bound, or to its best known value if
        ``Selection.bounded`` is false. The distance of a run without a feasible plan is 1.
    times_s
        Decision times of the runs.
    holds
        Number of plans by whether they hold, that is, pass the test of ``--check-holds``: ``True``, ``False``, or
        ``None`` for untested plans.
    late
        Mean fraction of requests not in time in the simulations of the runs; ``None`` without a simulation.
    why
        Reason why the entrant has no feasible plan; empty if it has one.
    """

    name: str
    scheduler: str
    solved: int
    runs: int
    best_on: int
    value: str
    gaps: Sequence[float]
    times_s: Sequence[float]
    holds: Mapping[bool | None, int]
    late: float | None
    why: str

    @property
    def gap(self) -> float:
        """Mean distance."""
        return fmean(self.gaps)

    @property
    def decision_s(self) -> float | None:
        """Median decision time."""
        return median(self.times_s) if self.times_s else None

    @property
    def held(self) -> str:
        """HTML attribute ``data-holds``: ``no`` if a plan fails the test, ``yes`` if all pass it, otherwise empty."""
        return "no" if self.holds.get(False) else "yes" if self.holds.get(True) == self.runs else ""

    @property
    def holds_words(self) -> str:
        """Number of plans that hold, in words."""
        failed, unchecked = self.holds.get(False, 0), self.holds.get(None, 0)
        if failed:
            return f"{failed} of {self.runs} do not hold"
        return "unchecked" if unchecked == self.runs else f"{self.runs - unchecked} of {self.runs} hold"


@dataclass(frozen=True)
class Selection:
    """Comparable results of entrants that all ran on the same instances.

    Attributes
    ----------
    choices
        Pairs of suite and objective that select these results; an empty text stands for all.
    results
        Results of the entrants, the best first; entrants without a feasible plan come last.
    instances
        Names of the instances on which all entrants ran.
    instance_count
        Number of instances of the selection, including those on which not all ran.
    bounded
        Whether distances are to certified bounds; if not, they are to the best known values.
    proven
        Number of instances whose best known value is proven optimal in its class.
    left_out
        Entrants that did not run on all these instances.
    undecided
        Instances on which ``random`` reaches the best known value.
    open_at_limit
        Time limit in seconds of each scheduler that stopped at this limit before it proved an optimum.
    """

    choices: Sequence[tuple[str, str]]
    results: Sequence[Result]
    instances: Sequence[str]
    instance_count: int
    bounded: bool
    proven: int
    left_out: Sequence[str]
    undecided: Sequence[str]
    open_at_limit: Mapping[str, float]

    @cached_property
    def solvers(self) -> list[Result]:
        """Results with a feasible plan on at least one instance."""
        return [result for result in self.results if result.solved]

    def tradeoffs(self) -> list[Tradeoff]:
        """Return the marks of the scatter."""
        return [
            Tradeoff(
                result.name,
                (min(result.times_s), median(result.times_s), max(result.times_s)),
                (100.0 * min(result.gaps), 100.0 * result.gap, 100.0 * max(result.gaps)),
                {"yes": True, "no": False}.get(result.held),
                result.holds_words,
            )
            for result in self.solvers
            if result.times_s
        ]

    def sentences(self) -> list[tuple[str, str]]:
        """Return questions with their answers; an empty list without a feasible plan."""
        if not self.solvers:
            return []
        answers = [("Which scheduler is best?", self._which()), ("How far from the optimum?", self._how_far())]
        return [*answers, ("Do its plans hold?", self._holds())]

    @cached_property
    def _leaders(self) -> list[Result]:
        """Results whose mean distance is the smallest, up to rounding errors."""
        best = self.solvers[0].gap
        return [result for result in self.solvers if result.gap - best <= TOLERANCE]

    def _short(self, result: Result) -> str:
        """Return the scheduler's name; the entrant's name if several results have the same scheduler."""
        results_of_scheduler = sum(result.scheduler == other.scheduler for other in self.solvers)
        return result.scheduler if results_of_scheduler == 1 else result.name

    def _which(self) -> str:
        leader, count = self._leaders[0], len(self.instances)
        text = f"{_names(self._leaders)}: best known plan on {leader.best_on} of {count}"
        text += f" instance{'s' * (count != 1)}, decided in {seconds(leader.decision_s)}{' (median)' * (count > 1)}"
        for limit_s, limit_text in _LIMITS.items():
            quick_results = [
                result for result in self.solvers if result.decision_s is not None and result.decision_s <= limit_s
            ]
            if leader not in quick_results and quick_results:
                best = [result for result in quick_results if result.gap - quick_results[0].gap <= TOLERANCE]
                distance_text = (
                    f"{_names(best)}, {percent(best[0].gap)} away from {'the bound' if self.bounded else 'it'}"
                )
                return f"{text}. Within {limit_text}, the best {'is' if len(best) == 1 else 'are'} {distance_text}."
        return f"{text}."

    def _how_far(self) -> str:
        leader = self._leaders[0]
        target = (
            "the certified bound" if self.bounded else "the best known plan; not all instances have a certified bound"
        )
        text = f"{percent(leader.gap)}: the mean distance of {self._short(leader)} to {target}"
        if self.bounded:
            count = len(self.instances)
            text += f"; the best plan is proven optimal in its plan class on {self.proven} of {count} instances"
        if leader.scheduler in self.open_at_limit:
            limit_s = self.open_at_limit[leader.scheduler]
            text += (
                f"; a run of {self._short(leader)} stopped at its limit of {limit_s:g} s, so more time may prove more"
            )
        other_gaps = [result.gap for result in self.solvers if result not in self._leaders]
        if other_gaps:
            range_texts = [percent(gap) for gap in (min(other_gaps), max(other_gaps))]
            distances = range_texts[0] if range_texts[0] == range_texts[1] else " to ".join(range_texts)
            text += f". The others are {distances} away"
        return f"{text}."

    def _holds(self) -> str:
        leader = self._leaders[0]
        failed, unchecked = leader.holds.get(False, 0), leader.holds.get(None, 0)
        if failed:
            text = f"No: random arrivals make workloads late in {failed} of {leader.runs} plans of"
            text += f" {self._short(leader)} {_SERVERS_TEXT}."
        elif unchecked:
            text = f"Not tested: {command_line('run', check_holds=True)} tests the plans of {self._short(leader)}."
            if leader.late is not None:
                text += f" In their own simulations, {percent(leader.late)} of the requests are not in time."
        else:
            text = (
                f"Yes: no workload is late under random arrivals in the {leader.runs} plans of {self._short(leader)}"
                f" {_SERVERS_TEXT}."
            )
        if leader.held == "yes":
            return text
        holding_result = next((result for result in self.solvers if result.held == "yes"), None)
        if holding_result is not None:
            return f"{text} All plans of {self._short(holding_result)} hold, {percent(holding_result.gap)} away."
        if all(result.held == "no" for result in self.solvers):
            return f"{text} All other schedulers have plans that do not hold, too." if len(self.solvers) > 1 else text
        return f"{text} No scheduler's plans are all known to hold."


def selections(all_results: Sequence[InstanceResults]) -> list[Selection]:
    """Return the comparable results of all instances, of each suite, of each objective, and of each pair of both."""
    results_of_choice = grouped(
        ((suite, objective), instance_results)
        for instance_results in comparable_instances(all_results)
        for objective in ("", instance_results.objective)
        for suite in ("", instance_results.suite)
    )
    choices_by_instances = grouped(
        (tuple(instance_results.fingerprint for instance_results in chosen), choice)
        for choice, chosen in results_of_choice.items()
    )
    candidates = (_selection(choices, results_of_choice[choices[0]]) for choices in choices_by_instances.values())
    return [selection for selection in candidates if selection.results]


def comparable_instances(all_results: Sequence[InstanceResults]) -> list[InstanceResults]:
    """Return the instances whose runs can be compared: no scenario sets, and no instances of ``bench max-rate``."""
    with_runs = (instance_results for instance_results in all_results if instance_results.rows)
    return [
        instance_results
        for instance_results in with_runs
        if instance_results.objective != "scenarios" and not instance_results.suite.endswith(AT_OTHER_RATES)
    ]


def comparable_table(all_results: Sequence[InstanceResults]) -> tuple[CompleteTable, list[Row]]:
    """Return the largest complete table of the runs on these instances, and all of these runs."""
    rows = [row for instance_results in all_results for row in instance_results.rows if row.truth is None]
    arrivals = {key: name for instance_results in all_results for key, name in instance_results.arrivals.items()}
    names = entrants(rows, facets_of(rows, arrivals))
    return complete_table(rows, names, [instance_results.fingerprint for instance_results in all_results]), rows


def _selection(choices: Sequence[tuple[str, str]], all_results: Sequence[InstanceResults]) -> Selection:
    """Return the comparable results of instances that several ``choices`` of suite and objective select."""
    table, rows = comparable_table(all_results)
    results_of = {
        instance_results.fingerprint: instance_results
        for instance_results in all_results
        if instance_results.fingerprint in table.best
    }
    gaps = {
        row.key: instance_results.gaps[row.key].gap
        for instance_results in results_of.values()
        for row in instance_results.rows
    }
    table_rows = [row for runs in table.runs.values() for instance_runs in runs.values() for row in instance_runs]
    bounded = bool(table_rows) and all(gaps[row.key] is not None for row in table_rows if achieved(row) is not None)
    results = [_result(name, table, gaps if bounded else None) for name in table.runs]
    results.sort(key=lambda result: (not result.solved, round(result.gap, 9), result.decision_s or 0.0, result.name))
    open_at_limit = {
        row.scheduler: row.time_limit_s
        for row in table_rows
        if row.bound is not None and row.status != "optimal" and used_up_limit(row)
    }
    proven = sum(
        _proven(instance_results, table.best[fingerprint]) for fingerprint, instance_results in results_of.items()
    )
    names = [instance_results.name for instance_results in results_of.values()]
    undecided = undiscriminating(rows, table.best)
    return Selection(
        choices, results, names, len(all_results), bounded, proven, table.left_out, undecided, open_at_limit
    )


def _proven(instance_results: InstanceResults, best: float | None) -> bool:
    """Return whether a plan with the best known value meets its certified bound."""
    gaps_of_best = (
        instance_results.gaps[row.key].gap
        for row in instance_results.rows
        if gap_to_best(achieved(row), best) <= TOLERANCE
    )
    return any(gap is not None and gap <= TOLERANCE for gap in gaps_of_best)


def _result(name: str, table: CompleteTable, gaps: Mapping[str, float | None] | None) -> Result:
    """Return the result of an entrant.

    ``gaps`` are the runs' gaps to certified bounds by run key; if ``None``, distances are to the best known values.
    """
    runs = table.runs[name]
    rows = [row for instance_runs in runs.values() for row in instance_runs]
    on_one_instance = len(runs) == 1 and None not in map(achieved, rows)

    def distance(row: Row, best: float | None) -> float:
        if gaps is None or achieved(row) is None:
            return gap_to_best(achieved(row), best)
        gap = gaps[row.key]
        return UNSOLVED if gap is None else gap

    solved = sum(achieved(row) is not None for row in rows)
    return Result(
        name,
        rows[0].scheduler,
        solved,
        len(rows),
        sum(
            any(gap_to_best(achieved(row), best) <= TOLERANCE for row in runs[fingerprint])
            for fingerprint, best in table.best.items()
        ),
        worth(mean(row.value for row in rows), objective_of(rows[0])) if on_one_instance else "",
        [fmean(distance(row, best) for row in runs[fingerprint]) for fingerprint, best in table.best.items()],
        [min(max(row.decision_s, 1e-6), 1e9) for row in rows if row.decision_s is not None],
        Counter(row.holds for row in rows if row.value is not None),
        mean(row.sim_violation_rate for row in rows),
        "" if solved else why_no_plan(rows),
    )


def why_no_plan(rows: Sequence[Row]) -> str:
    """Return the most frequent reason why runs have no feasible plan."""
    reasons = Counter(_reason(row) for row in rows)
    return reasons.most_common(1)[0][0] if reasons else ""


def _reason(row: Row) -> str:
    if row.feasible is False:
        kinds = Counter(str(detail["kind"]) for detail in row.violation_details or ())
        words = f", such as {kinds.most_common(1)[0][0]}" if kinds else ""
        return f"breaks {row.violations} constraint{'s' * (row.violations != 1)}{words}"
    ended = "no plan" if row.termination == "finished" else str(row.termination).replace("_", " ")
    return f"{ended}: {row.reason}" if row.reason else ended


def _names(results: Sequence[Result]) -> str:
    names = [result.name for result in results[:3]]
    if len(results) > 3:
        return f"{', '.join(names)} and {len(results) - 3} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
