"""First screen of the page: three sentences, the scatter of distance over time, and one table of comparable results."""

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
"""Decision times in seconds, and in words, within which the sentences look for the best scheduler."""

_SERVERS = "(on servers that drop late requests, or that drop none where the instance says so)"


@dataclass(frozen=True, slots=True)
class Result:
    """Results of an entrant on all instances of a selection.

    Attributes
    ----------
    name, scheduler
        The entrant and its scheduler.
    solved, runs
        Number of runs with a feasible plan, and of all.
    best_on
        Number of instances on which a run has the best known value.
    value
        Mean value over the instances in words; empty if they have several objectives or some run has no plan.
    gaps
        Mean distance of each instance to the certified bound, or to the best known value if ``Selection.bounded`` is
        false.
    times_s
        Decision times of the runs.
    holds
        Number of runs by the result of the test: ``True``, ``False`` or ``None`` for unchecked.
    late
        Mean fraction of the requests not in time in the runs' own simulations; ``None`` without a simulation.
    why
        Reason why it has no feasible plan; empty otherwise.
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
        """Whether its plans hold, as a page's attribute: ``no`` if one does not, ``yes`` if all were tested and do."""
        return "no" if self.holds.get(False) else "yes" if self.holds.get(True) == self.runs else ""

    @property
    def holds_words(self) -> str:
        """Whether its plans hold, in words."""
        late, unchecked = self.holds.get(False, 0), self.holds.get(None, 0)
        if late:
            return f"{late} of {self.runs} do not hold"
        return "unchecked" if unchecked == self.runs else f"{self.runs - unchecked} of {self.runs} hold"


@dataclass(frozen=True)
class Selection:
    """Comparable results: entrants that all ran on the same instances.

    Attributes
    ----------
    choices
        Suites and objectives that select it; empty texts for all.
    results
        Entrants, the best first; those without a plan last.
    instances
        Names of the instances on which all of them ran.
    of
        Number of instances of the selection.
    bounded
        Whether distances are to certified bounds; otherwise they are to the best known values.
    proven
        Number of instances whose best known value is proven optimal in its class.
    left_out
        Entrants that did not run on all of the instances.
    undecided
        Instances on which ``random`` reaches the best known value.
    open_at_limit
        Schedulers that stopped at their time limit with an open gap, and the limits in seconds.
    """

    choices: Sequence[tuple[str, str]]
    results: Sequence[Result]
    instances: Sequence[str]
    of: int
    bounded: bool
    proven: int
    left_out: Sequence[str]
    undecided: Sequence[str]
    open_at_limit: Mapping[str, float]

    @cached_property
    def solvers(self) -> list[Result]:
        """Entrants with a feasible plan on some instance."""
        return [one for one in self.results if one.solved]

    def tradeoffs(self) -> list[Tradeoff]:
        """Return the marks of the scatter."""
        return [
            Tradeoff(
                one.name,
                (min(one.times_s), median(one.times_s), max(one.times_s)),
                (100.0 * min(one.gaps), 100.0 * one.gap, 100.0 * max(one.gaps)),
                {"yes": True, "no": False}.get(one.held),
                one.holds_words,
            )
            for one in self.solvers
            if one.times_s
        ]

    def sentences(self) -> list[tuple[str, str]]:
        """Return questions and their answers; none without a feasible plan."""
        if not self.solvers:
            return []
        answers = [("Which scheduler is best?", self._which()), ("How far from the optimum?", self._how_far())]
        return [*answers, ("Do its plans hold?", self._holds())]

    @cached_property
    def _leaders(self) -> list[Result]:
        best = self.solvers[0].gap
        return [one for one in self.solvers if one.gap - best <= TOLERANCE]

    def _short(self, one: Result) -> str:
        """Return the name without parameters, where no other result is of the same scheduler."""
        return one.scheduler if sum(one.scheduler == each.scheduler for each in self.solvers) == 1 else one.name

    def _which(self) -> str:
        leader, count = self._leaders[0], len(self.instances)
        text = f"{_names(self._leaders)}: best known plan on {leader.best_on} of {count}"
        text += f" instance{'s' * (count != 1)}, decided in {seconds(leader.decision_s)}{' (median)' * (count > 1)}"
        for limit_s, limit in _LIMITS.items():
            quick = [one for one in self.solvers if one.decision_s is not None and one.decision_s <= limit_s]
            if leader not in quick and quick:
                best = [one for one in quick if one.gap - quick[0].gap <= TOLERANCE]
                away = f"{_names(best)}, {percent(best[0].gap)} away from {'the bound' if self.bounded else 'it'}"
                return f"{text}. Within {limit}, the best {'is' if len(best) == 1 else 'are'} {away}."
        return f"{text}."

    def _how_far(self) -> str:
        leader = self._leaders[0]
        to = "the certified bound" if self.bounded else "the best known plan; not all instances have a certified bound"
        text = f"{percent(leader.gap)}: the mean distance of {self._short(leader)} to {to}"
        if self.bounded:
            count = len(self.instances)
            text += f"; the best plan is proven optimal in its plan class on {self.proven} of {count} instances"
        if leader.scheduler in self.open_at_limit:
            limit_s = self.open_at_limit[leader.scheduler]
            text += (
                f"; a run of {self._short(leader)} stopped at its limit of {limit_s:g} s, so more time may prove more"
            )
        others = [one.gap for one in self.solvers if one not in self._leaders]
        if others:
            ends = [percent(end) for end in (min(others), max(others))]
            text += f". The others are {ends[0] if ends[0] == ends[1] else f'{ends[0]} to {ends[1]}'} away"
        return f"{text}."

    def _holds(self) -> str:
        leader = self._leaders[0]
        late, unchecked = leader.holds.get(False, 0), leader.holds.get(None, 0)
        if late:
            text = f"No: random arrivals make workloads late in {late} of {leader.runs} plans of {self._short(leader)}"
            text += f" {_SERVERS}."
        elif unchecked:
            text = f"Not tested: {command_line('run', check_holds=True)} tests the plans of {self._short(leader)}."
            if leader.late is not None:
                text += f" In their own simulations, {percent(leader.late)} of the requests are not in time."
        else:
            text = (
                f"Yes: no workload is late under random arrivals in the {leader.runs} plans of {self._short(leader)}"
                f" {_SERVERS}."
            )
        if leader.held == "yes":
            return text
        safe = next((one for one in self.solvers if one.held == "yes"), None)
        if safe is not None:
            return f"{text} All plans of {self._short(safe)} hold, {percent(safe.gap)} away."
        if all(one.held == "no" for one in self.solvers):
            return f"{text} All other schedulers have plans that do not hold, too." if len(self.solvers) > 1 else text
        return f"{text} No scheduler's plans are all known to hold."


def selections(cases: Sequence[InstanceResults]) -> list[Selection]:
    """Return the comparable results of all instances first, then of each suite, objective, and both together."""
    keys = grouped(
        ((suite, objective), case)
        for case in comparable_cases(cases)
        for objective in ("", case.objective)
        for suite in ("", case.suite)
    )
    by_cases = grouped((tuple(case.fingerprint for case in chosen), choice) for choice, chosen in keys.items())
    found = (_selection(choices, keys[choices[0]]) for choices in by_cases.values())
    return [one for one in found if one.results]


def comparable_cases(cases: Sequence[InstanceResults]) -> list[InstanceResults]:
    """Return the instances with runs whose values can be compared: no scenario sets, no rates of their own."""
    known = (one for one in cases if one.rows)
    return [one for one in known if one.objective != "scenarios" and not one.suite.endswith(AT_OTHER_RATES)]


def comparable(cases: Sequence[InstanceResults]) -> tuple[CompleteTable, list[Row]]:
    """Return the largest complete table of the instances' runs, and all of these runs."""
    rows = [row for case in cases for row in case.rows if row.truth is None]
    arrivals = {key: name for case in cases for key, name in case.arrivals.items()}
    names = entrants(rows, facets_of(rows, arrivals))
    return complete_table(rows, names, [case.fingerprint for case in cases]), rows


def _selection(choices: Sequence[tuple[str, str]], cases: Sequence[InstanceResults]) -> Selection:
    table, rows = comparable(cases)
    by_print = {case.fingerprint: case for case in cases if case.fingerprint in table.best}
    gaps = {row.key: case.gaps[row.key].gap for case in by_print.values() for row in case.rows}
    chosen = [row for by_instance in table.runs.values() for each in by_instance.values() for row in each]
    bounded = bool(chosen) and all(gaps[row.key] is not None for row in chosen if achieved(row) is not None)
    results = [_result(name, table, by_print, gaps if bounded else None) for name in table.runs]
    results.sort(key=lambda one: (not one.solved, round(one.gap, 9), one.decision_s or 0.0, one.name))
    open_at_limit = {
        row.scheduler: row.time_limit_s
        for row in chosen
        if row.bound is not None and row.status != "optimal" and used_up_limit(row)
    }
    proven = sum(_proven(case, table.best[at]) for at, case in by_print.items())
    names = [case.name for case in by_print.values()]
    undecided = undiscriminating(rows, table.best)
    return Selection(choices, results, names, len(cases), bounded, proven, table.left_out, undecided, open_at_limit)


def _proven(case: InstanceResults, best: float | None) -> bool:
    """Return whether a plan with the best known value meets its certified bound."""
    found = (case.gaps[row.key].gap for row in case.rows if gap_to_best(achieved(row), best) <= TOLERANCE)
    return any(gap is not None and gap <= TOLERANCE for gap in found)


def _result(
    name: str, table: CompleteTable, cases: Mapping[str, InstanceResults], gaps: Mapping[str, float | None] | None
) -> Result:
    runs = table.runs[name]
    rows = [row for each in runs.values() for row in each]
    objectives = {objective_of(row) for row in rows}
    values = [mean(row.value for row in each) for each in runs.values() if None not in map(achieved, each)]

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
        sum(any(gap_to_best(achieved(row), best) <= TOLERANCE for row in runs[at]) for at, best in table.best.items()),
        worth(mean(values), next(iter(objectives))) if len(objectives) == 1 and len(values) == len(runs) else "",
        [fmean(distance(row, best) for row in runs[at]) for at, best in table.best.items()],
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
    names = [one.name for one in results[:3]]
    if len(results) > 3:
        return f"{', '.join(names)} and {len(results) - 3} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
