"""Scores on library entries: ratios worked out by hand, missing runs, and the order of statistics' tables."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.api import Scope
from bench.ledger.row import Row, Termination
from bench.ledger.store import Ledger
from instances import InputError
from instances.library import LIBRARY
from reports.statistics.ledger_summary import ledger_summary
from reports.statistics.library_score import WORST_RATIO, LibraryScores, library_scores

COST, GOODPUT = LIBRARY.entry("cost-turing-4"), LIBRARY.entry("goodput-t4-4")
ENTRIES = (COST, GOODPUT)

MakeRow = Callable[..., Row]


@pytest.fixture
def ran(make_row: MakeRow) -> MakeRow:
    """Make a row of a run on an entry, whose value is ``factor`` times worse than the best one."""

    def make(entry: Any, scheduler: str, factor: float, **values: Any) -> Row:
        minimised = entry.instance.objective.minimised
        of_run = {
            "key": f"{scheduler}-{entry.instance.name}-{values.get('seed', 0)}",
            "instance": entry.instance.name,
            "instance_hash": entry.instance.fingerprint,
            "scheduler": scheduler,
            "parameters": {},
            "objective": "cost" if minimised else "throughput",
            "throughput_of": None if minimised else str(entry.instance.objective),
            "plan": entry.plan,
            "plan_class": "spatial",
            "feasible": True,
            "value": entry.value * factor if minimised else entry.value / factor,
            "decision_s": 1.0,
            "headroom": 1.0,
        }
        return make_row(**{**of_run, **values})

    return make


def scored(folder: Path, rows: Sequence[Row], **options: Any) -> LibraryScores:
    with Ledger(folder / f"{len(list(folder.iterdir()))}.sqlite", create=True) as ledger:
        for row in rows:
            ledger.add(row, next(each.instance for each in ENTRIES if each.instance.name == row.instance))
        return library_scores(ledger, ENTRIES, **options)


def certified(value: float, **scope: Any) -> dict[str, Any]:
    return {"bound": value, "bound_certified": True, "bound_scope": Scope(**scope)}


def test_a_score_is_the_geometric_mean_of_ratios_over_entries(tmp_path: Path, ran: MakeRow) -> None:
    assert (COST.value, COST.instance.gpus[0].type.price_per_hour) == (2.0, 1.0)
    rows = [ran(COST, "a", 2.0, **certified(0.6)), ran(GOODPUT, "a", 1.25, **certified(GOODPUT.value * 1.5))]
    (score,) = scored(tmp_path, rows).scores
    assert score.plans == pytest.approx(math.sqrt(2.0 * 1.25))
    assert score.bounds == pytest.approx(math.sqrt(2.0 * 1.5))  # the bound 0.6 is raised to a whole GPU
    assert (score.planned, score.bounded) == (2, 2)


def test_missing_runs_plans_and_bounds_count_as_the_worst_ratio(tmp_path: Path, ran: MakeRow) -> None:
    rows = [
        ran(COST, "a", 1.0),
        ran(COST, "b", 1.0, feasible=False),
        ran(GOODPUT, "b", 1e6),
        ran(COST, "c", 1.0, termination=Termination.SKIPPED),
    ]
    scores = {score.name: score for score in scored(tmp_path, rows).scores}
    assert scores.keys() == {"a", "b"}
    assert scores["a"].plans == pytest.approx(math.sqrt(WORST_RATIO))
    assert scores["b"].plans == scores["b"].bounds == pytest.approx(WORST_RATIO)
    assert (scores["a"].planned, scores["a"].bounded, scores["b"].planned) == (1, 0, 1)


@pytest.mark.parametrize(
    "values",
    [{"bound": 2.0, "bound_certified": False}, certified(2.0, max_batch=1), certified(2.0, allowed_shares=(1,))],
)
def test_only_certified_bounds_on_the_best_plan_count(tmp_path: Path, ran: MakeRow, values: dict[str, Any]) -> None:
    (score,) = scored(tmp_path, [ran(COST, "a", 1.0, **values), ran(GOODPUT, "a", 1.0)]).scores
    assert score.bounds == pytest.approx(WORST_RATIO)


def test_a_refuted_bound_does_not_count(tmp_path: Path, ran: MakeRow) -> None:
    (score,) = scored(tmp_path, [ran(COST, "a", 1.0, **certified(3.0)), ran(GOODPUT, "a", 1.0)]).scores
    assert score.bounds == pytest.approx(WORST_RATIO)


def test_seeds_share_the_weight_of_their_entry(tmp_path: Path, ran: MakeRow) -> None:
    rows = [ran(COST, "a", 1.0, seed=0), ran(COST, "a", 4.0, seed=1), ran(GOODPUT, "a", 1.0)]
    (score,) = scored(tmp_path, rows).scores
    assert score.plans == pytest.approx(2.0**0.5)


def test_integrals_are_means_over_the_entries(tmp_path: Path, ran: MakeRow) -> None:
    rows = [ran(COST, "a", 2.0, decision_s=4.0, time_limit_s=10.0, **certified(2.0))]
    scores = scored(tmp_path, rows)
    assert scores.horizon_s == 10.0
    assert scores.scores[0].primal_s == pytest.approx(((4.0 + 0.5 * 6.0) + 10.0) / 2.0)
    assert scores.scores[0].dual_s == pytest.approx((4.0 + 10.0) / 2.0)


def test_with_work_limits_a_score_does_not_depend_on_times(tmp_path: Path, ran: MakeRow) -> None:
    def rows(slowness: float) -> list[Row]:
        point = {"t_s": slowness, "value": 5.0, "feasible": True, "bound": None, "bound_certified": None}
        times = {"decision_s": 2.0 * slowness, "wall_s": 3.0 * slowness, "trajectory": [point]}
        return [ran(entry, "a", 1.5, work_limit=100, **times) for entry in ENTRIES]

    idle, loaded = scored(tmp_path, rows(1.0)), scored(tmp_path, rows(9.0))
    assert idle == loaded
    assert (idle.horizon_s, idle.scores[0].primal_s, idle.scores[0].dual_s) == (None, None, None)


def test_ledgers_of_different_schedulers_are_ordered_as_in_their_tables(tmp_path: Path, ran: MakeRow) -> None:
    """Each ledger has its own schedulers; a common reference is in none of them."""
    factors = {"a": (1.0, 1.3), "b": (1.1, 1.0), "c": (2.0, 1.2), "d": (1.0, 1.0), "e": (4.0, 1.0)}
    scores, gaps = {}, {}
    for number, names in enumerate(("abc", "de")):
        with Ledger(tmp_path / f"{number}", create=True) as ledger:
            for name in names:
                for entry, factor in zip(ENTRIES, factors[name], strict=True):
                    ledger.add(ran(entry, name, factor), entry.instance)
            scores |= {score.name: score.plans for score in library_scores(ledger, ENTRIES).scores}
            gaps |= {standing.name: standing.gap for standing in ledger_summary(ledger).standings}
    assert sorted(scores, key=scores.__getitem__) == sorted(gaps, key=gaps.__getitem__) == ["d", "b", "a", "c", "e"]


def test_schedulers_can_be_chosen_and_a_ledger_without_runs_is_refused(tmp_path: Path, ran: MakeRow) -> None:
    rows = [ran(COST, name, 1.0) for name in "ab"]
    assert [score.name for score in scored(tmp_path, rows, schedulers=["b"]).scores] == ["b"]
    with pytest.raises(InputError, match='unknown scheduler "z"'):
        scored(tmp_path, rows, schedulers=["z"])
    with pytest.raises(InputError, match="has no run on these entries"):
        scored(tmp_path, [])
