"""Leaderboards: one table per suite and objective."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from bench.formatting import HOLDS_MEANS, NOT_IN_TIME_MEANS, holds, holds_attribute, percent, result, seconds, worth
from bench.ledger.row import Row
from bench.simulation.allowance import VIOLATIONS_ALLOWED
from instances.grouping import grouped
from reports.page.curves import mean
from reports.page.instance_results import AT_OTHER_RATES, InstanceResults
from reports.page.overview import why_no_plan

BROKEN = "breaks constraints"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: its text, and the number by which it is sorted; ``None`` for text alone."""

    text: str
    number: float | None = None
    held: str | None = None
    """Worst ``bench.formatting.holds_attribute`` of the entrant's plans, in the column "Holds" only."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column, with a longer explanation."""

    text: str
    meaning: str
    minor: bool = False
    """Whether the page hides the column on a phone."""


@dataclass(frozen=True, slots=True)
class LeaderboardLine:
    """An entrant on a leaderboard.

    Attributes
    ----------
    name, scheduler
        The entrant, and its scheduler, which determines the colour.
    outcomes
        Number of its runs by outcome: see ``outcome``.
    runs
        Number of runs.
    rank
        Rank from 1, the best; tied entrants have the same rank. ``None`` if the entrant is not ranked.
    cells
        Cells, one for each column of the board.
    why
        Reason why the entrant has no feasible plan; empty if it has one.
    """

    name: str
    scheduler: str
    outcomes: Counter[str]
    runs: int
    rank: int | None
    cells: tuple[Cell, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Board:
    """Leaderboard of a suite and objective: a note, the heads of the columns, and the lines, the best first."""

    suite: str
    objective: str
    note: str
    heads: tuple[Head, ...]
    lines: Sequence[LeaderboardLine]


def leaderboards(all_results: Sequence[InstanceResults]) -> list[Board]:
    """Return a leaderboard for every suite and objective."""
    groups = grouped(
        ((instance_results.suite, instance_results.objective), instance_results)
        for instance_results in all_results
        if instance_results.rows
    )
    return [_board(suite, objective, board_results) for (suite, objective), board_results in groups.items()]


def outcome(row: Row) -> str:
    """Return the outcome by which runs are filtered: the scheduler's claim, unless the judge contradicts it."""
    if row.objective == "scenarios" and row.termination == "finished":
        return "decided"  # separate columns count the scenarios with a good plan
    return BROKEN if row.feasible is False else result(row)


_INSTANCES = Head("Instances", "Instances with a feasible plan, of all instances of the suite with runs")
_FEASIBLE = Head("Feasible", "Runs with a feasible plan, of all runs", minor=True)
_GAP = Head("Gap to bound", "|value − bound| / max(|value|, |bound|), mean over the runs with a gap")
_BEHIND = Head(
    "Behind best", "Distance to the best known plan of the same instance, mean over feasible plans", minor=True
)
_DECISION = Head("Decision", "Median of the scheduler's own time", minor=True)
_LATE = Head(
    f"Not in time ({100.0 * VIOLATIONS_ALLOWED:g} % allowed)",
    f"{NOT_IN_TIME_MEANS}; mean over the simulated runs",
    minor=True,
)
_HOLDS = Head("Holds", f"{HOLDS_MEANS}; a plan in red holds on paper only")
_VALUE = Head("Value", "The judge's value of the best plan")
_GPUS = Head("GPUs", "GPUs of the best plan", minor=True)
_SCENARIOS = (
    Head("Scenarios", "Decided scenarios, of the set"),
    Head("Schedulable", "Scenarios with a plan"),
    Head("Served", "Scenarios whose plan the judge accepts"),
    Head("Decision", "Median time per scenario"),
)


def _board(suite: str, objective: str, all_results: Sequence[InstanceResults]) -> Board:
    """Return the leaderboard of the instances of one suite and objective."""
    runs = grouped(
        ((instance_results.entrants[row.key], row.scheduler), (instance_results, row))
        for instance_results in all_results
        for row in instance_results.rows
    )
    if objective == "scenarios":
        heads, score = _SCENARIOS, _scenario_score
    else:
        first_heads = (_INSTANCES,) if len(all_results) > 1 else (_VALUE, _GPUS)
        heads, score = (*first_heads, _GAP, _HOLDS, _FEASIBLE, _BEHIND, _DECISION, _LATE), _score
    # At other rates, every scheduler had rates of its own, so there is no ranking.
    scores = {
        entrant: None if suite.endswith(AT_OTHER_RATES) else score(entrant_runs)
        for entrant, entrant_runs in runs.items()
    }
    ordered_scores = sorted(entrant_score for entrant_score in scores.values() if entrant_score is not None)
    lines = [
        LeaderboardLine(
            name,
            scheduler,
            Counter(outcome(row) for _, row in entrant_runs),
            len(entrant_runs),
            None if (own_score := scores[name, scheduler]) is None else bisect_left(ordered_scores, own_score) + 1,
            tuple(
                _scenario_cells(entrant_runs) if objective == "scenarios" else _cells(entrant_runs, len(all_results))
            ),
            ""
            if any(row.feasible or row.scenarios for _, row in entrant_runs)
            else why_no_plan([row for _, row in entrant_runs]),
        )
        for (name, scheduler), entrant_runs in runs.items()
    ]
    lines.sort(key=lambda line: (line.rank is None, line.rank or 0, line.name))
    return Board(suite, objective, _note(suite, objective, len(all_results)), heads, lines)


def _note(suite: str, objective: str, instance_count: int) -> str:
    if objective == "scenarios":
        return "one set of scenarios, ranked by the number served"
    better = "lower is better" if objective == "cost" else "higher is better"
    count = f"{instance_count:,} instance{'s' * (instance_count != 1)}, {better}"
    if suite.endswith(AT_OTHER_RATES):
        return f"{count}; schedulers are not ranked, since each had rates of its own"
    return count if instance_count == 1 else f"{count}; ranked by solved instances, then by distance to the best plan"


EntrantRuns = list[tuple[InstanceResults, Row]]
"""Runs of one entrant, each with the results on its instance."""

Score = tuple[float, float]
"""Sort key of an entrant; the smallest key is the best."""


def _score(runs: EntrantRuns) -> Score | None:
    """Return the score by solved instances, then by distance to the best known value, rounded to 0.001 %."""
    behind = mean(instance_results.behind_best(row) for instance_results, row in runs)
    return None if behind is None else (-_solved(runs), round(behind, 5))


def _solved(runs: EntrantRuns) -> float:
    """Return the number of instances with a feasible plan; an instance counts as the feasible fraction of its runs."""
    by_instance = grouped((instance_results.fingerprint, bool(row.feasible)) for instance_results, row in runs)
    return round(sum(fmean(feasible) for feasible in by_instance.values()), 9)


def _cells(runs: EntrantRuns, instance_count: int) -> list[Cell]:
    rows = [row for _, row in runs]
    feasible = sum(bool(row.feasible) for row in rows)
    gap = mean(instance_results.gaps[row.key].gap for instance_results, row in runs)
    behind = mean(instance_results.behind_best(row) for instance_results, row in runs)
    times = [row.decision_s for row in rows if row.decision_s is not None]
    late = mean(row.sim_violation_rate for row in rows)
    cells = [
        Cell(percent(gap), gap),
        _holds_cell(rows),
        Cell(f"{feasible} of {len(rows)}", feasible / len(rows)),
        Cell(percent(behind), behind),
        Cell(seconds(median(times)) if times else "-", median(times) if times else None),
        Cell(percent(late), late),
    ]
    if instance_count > 1:
        solved = len({instance_results.fingerprint for instance_results, row in runs if row.feasible})
        return [Cell(f"{solved:,} of {instance_count:,}", solved), *cells]
    instance_results = runs[0][0]
    best = min(rows, key=instance_results.rank)
    gpus = Cell("-" if best.gpus_used is None else str(best.gpus_used), best.gpus_used)
    return [Cell(worth(best.value, instance_results.objective), best.value), gpus, *cells]


def _holds_cell(rows: Sequence[Row]) -> Cell:
    """Return the number of an entrant's plans that hold; the cell is green if all hold, and red if one does not."""
    counts = Counter(holds_attribute(row) for row in rows)
    words = [f"{name or 'unchecked'} × {counts[name]}" for name in ("yes", "no", "") if counts[name]]
    worst = next(name for name in ("no", "", "yes") if counts[name])
    return Cell(holds(rows[0]) if len(rows) == 1 else ", ".join(words), counts["yes"] / len(rows), worst)


def _scenario_score(runs: EntrantRuns) -> Score | None:
    return None if all(row.scenarios is None for _, row in runs) else (-_best_counts(runs)["served"], 0.0)


def _scenario_cells(runs: EntrantRuns) -> list[Cell]:
    best = _best_counts(runs)
    counts = [Cell(f"{best[name]:,}", best[name]) for name in ("decided", "accepted", "served")]
    return [*counts, Cell(seconds(best["decision_median_s"]), best["decision_median_s"])]


def _best_counts(runs: EntrantRuns) -> Any:
    """Return the counts of the run that served the most scenarios."""
    return max((_counts(row) for _, row in runs), key=lambda counts: counts["served"])


def _counts(row: Row) -> Any:
    """Return the counts of a run on a scenario set; all are 0 if the run was not begun."""
    return row.scenarios or {"decided": 0, "accepted": 0, "served": 0, "decision_median_s": None}
