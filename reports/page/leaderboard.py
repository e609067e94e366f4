"""Who is best at what: a table for every suite and objective."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.ledger.row import Row
from bench.wording import percent, result, seconds, worth
from reports.page.case import Case
from reports.page.curves import mean

BROKEN = "breaks constraints"


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table: what it says, and the number that it is sorted by, where that is one."""

    text: str
    number: float | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a column, with a longer explanation."""

    text: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Line:
    """An entrant on a leaderboard.

    Attributes
    ----------
    name, scheduler
        The entrant, and the scheduler whose colour it has.
    outcomes
        What its runs came to: see ``outcome``.
    runs
        How many there are.
    ranked
        Whether any of them has a plan to be ranked by.
    cells
        One for each column of the board.
    """

    name: str
    scheduler: str
    outcomes: Counter[str]
    runs: int
    ranked: bool
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Board:
    """The leaderboard of a suite and objective; ``lines`` with the best first."""

    suite: str
    objective: str
    cases: Sequence[Case]
    heads: tuple[Head, ...]
    lines: Sequence[Line]


def leaderboards(cases: Sequence[Case]) -> list[Board]:
    """Return a leaderboard for every suite and objective."""
    groups: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        if case.rows:
            groups[case.suite, case.objective].append(case)
    return [_board(suite, objective, own) for (suite, objective), own in groups.items()]


def outcome(row: Row) -> str:
    """Return what a run came to, for filtering: the scheduler's claim, unless the judge found otherwise."""
    return BROKEN if row.feasible is False else result(row)


_FEASIBLE = Head("Feasible", "Runs whose plan breaks no constraint, of all runs")
_GAP = Head("Gap to bound", "|value − bound| / max(|value|, |bound|), mean over the runs that have one")
_BEHIND = Head("Behind best", "How far from the best plan known of the same instance, mean over feasible plans")
_DECISION = Head("Decision", "The scheduler's own time, median")
_LATE = Head("Not in time", "Requests served late or dropped in the simulation, mean over the runs simulated")
_VALUE = Head("Value", "What the judge makes of the best plan")
_GPUS = Head("GPUs", "Used by the best plan")
_SCENARIOS = (
    Head("Scenarios", "Decided, of the set"),
    Head("Schedulable", "For which the scheduler has a plan"),
    Head("Served", "Whose plan the judge accepts"),
    Head("Decision", "Median time for a scenario"),
)


def _board(suite: str, objective: str, cases: Sequence[Case]) -> Board:
    runs: dict[tuple[str, str], list[tuple[Case, Row]]] = defaultdict(list)
    for case in cases:
        for row in case.rows:
            runs[case.entrants[row.key], row.scheduler].append((case, row))
    if objective == "scenarios":
        heads, score, cells = _SCENARIOS, _scenario_score, _scenario_cells
    else:
        single = len(cases) == 1
        heads = (*((_VALUE, _GPUS) if single else ()), _FEASIBLE, _GAP, _BEHIND, _DECISION, _LATE)
        score, cells = _score, _cells
    ordered = sorted(runs.items(), key=lambda item: (score(item[1]), item[0]))
    lines = [
        Line(
            name,
            scheduler,
            Counter(outcome(row) for _, row in found),
            len(found),
            any(row.feasible or row.scenarios is not None for _, row in found),
            tuple(cells(found, len(heads))),
        )
        for (name, scheduler), found in ordered
    ]
    return Board(suite, objective, cases, heads, lines)


Runs = Sequence[tuple[Case, Row]]


def _score(runs: Runs) -> tuple[float, float]:
    """More feasible plans first; among equals those closer to the best known."""
    behind = mean(case.behind_best(row) for case, row in runs)
    return -sum(bool(row.feasible) for _, row in runs) / len(runs), 1.0 if behind is None else behind


def _cells(runs: Runs, count: int) -> list[Cell]:
    rows = [row for _, row in runs]
    feasible = sum(bool(row.feasible) for row in rows)
    gap = mean(case.gaps[row.key].gap for case, row in runs)
    behind = mean(case.behind_best(row) for case, row in runs)
    times = [row.decision_s for row in rows if row.decision_s is not None]
    late = mean(row.sim_violation_rate for row in rows)
    found = [
        Cell(f"{feasible} of {len(rows)}", feasible / len(rows)),
        Cell(percent(gap), gap),
        Cell(percent(behind), behind),
        Cell(seconds(median(times)) if times else "-", median(times) if times else None),
        Cell(percent(late), late),
    ]
    if count > len(found):  # all runs are on one instance
        case = runs[0][0]
        best = min(rows, key=case.rank)
        gpus = Cell("-" if best.gpus_used is None else str(best.gpus_used), best.gpus_used)
        found[:0] = [Cell(worth(best.value, case.objective), best.value), gpus]
    return found


def _scenario_score(runs: Runs) -> tuple[float, float]:
    return -max(_counts(row)["served"] for _, row in runs), 0.0


def _scenario_cells(runs: Runs, count: int) -> list[Cell]:
    best = _counts(max((row for _, row in runs), key=lambda row: _counts(row)["served"]))
    told = [Cell(f"{best[name]:,}", best[name]) for name in ("decided", "accepted", "served")]
    return [*told, Cell(seconds(best["decision_median_s"]), best["decision_median_s"])]


def _counts(row: Row) -> Any:
    """Return the counts of a scenario set's run; all 0 where it was not begun."""
    return row.scenarios or {"decided": 0, "accepted": 0, "served": 0, "decision_median_s": None}
