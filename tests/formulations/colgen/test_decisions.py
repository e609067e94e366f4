"""Decisions on sets of choices that pricing remembers."""

from itertools import combinations

import numpy as np
import pytest

from formulations.colgen.spatial import decisions as module
from formulations.colgen.spatial.decisions import Decisions, decide_once
from formulations.colgen.spatial.pricer import Pricer
from formulations.colgen.spatial.problem import SpatialProblem, served_by_none
from formulations.colgen.spatial.totals import decide
from instances import Instance
from instances.suites import suite


def pricer_of(name: str) -> Pricer:
    instance: Instance = next(instance for instance in suite("hard").build() if instance.name == name)
    return SpatialProblem(instance, np.inf, served_by_none(instance)).pricers[0]


@pytest.fixture(scope="module")
def pricer() -> Pricer:
    return pricer_of("hard-cost-30")


def sets_of(pricer: Pricer) -> list[np.ndarray]:
    few = range(0, len(pricer.choices.workload), 4)
    return [np.array(chosen) for size in (1, 2, 3, 4) for chosen in combinations(few, size)]


def test_remembered_decisions_are_those_of_a_search(pricer: Pricer) -> None:
    table = Decisions.of(4, keeps_fitting=True)
    seen = set()
    for repetition in range(2):
        table.begin_call()
        for chosen in sets_of(pricer):
            batch, remembered = np.zeros(len(chosen), dtype=np.int64), np.zeros(len(chosen), dtype=np.int64)
            expected, _ = decide(pricer.tables, pricer.choices, chosen, batch, 256)
            decided = decide_once(pricer.tables, pricer.choices, table, chosen, remembered, 256)
            assert decided == expected
            assert decided <= 0 or remembered.tolist() == batch.tolist()
            seen.add(decided)
        assert (table.nodes[0] == 0) == (repetition == 1)  # nothing is searched twice
    assert {0, 1} <= seen
    assert table.used[0] == len(sets_of(pricer))


def test_sets_that_fit_at_upper_bounds_of_budgets_are_not_remembered(pricer: Pricer) -> None:
    table = Decisions.of(4, keeps_fitting=False)
    for chosen in sets_of(pricer):
        batch = np.zeros(len(chosen), dtype=np.int64)
        if decide_once(pricer.tables, pricer.choices, table, chosen, batch, 256) > 0:
            assert table.result[module._row_of(table, chosen)] == module._FREE
    assert 0 < table.used[0] < len(sets_of(pricer))


def test_a_full_table_is_emptied(pricer: Pricer) -> None:
    table = Decisions.of(4, keeps_fitting=True)
    small = table._replace(result=table.result[:64])
    for chosen in sets_of(pricer):
        batch = np.zeros(len(chosen), dtype=np.int64)
        expected, _ = decide(pricer.tables, pricer.choices, chosen, batch.copy(), 256)
        assert decide_once(pricer.tables, pricer.choices, small, chosen, batch, 256) == expected
        assert 0 < small.used[0] <= 32


def test_an_undecided_set_is_searched_longer_once_it_came_up_often(pricer: Pricer) -> None:
    table, hasty = Decisions.of(4, keeps_fitting=True), pricer.choices._replace(batches_limit=1)

    def decided(chosen: np.ndarray) -> int:
        batch = np.zeros(len(chosen), dtype=np.int64)
        return int(decide_once(pricer.tables, hasty, table, chosen, batch, 1))

    table.begin_call()
    undecided = [chosen for chosen in sets_of(pricer) if decided(chosen) < 0]
    rows = [module._row_of(table, chosen) for chosen in undecided]
    assert undecided
    assert set(table.limit[rows].tolist()) == {1}
    table.begin_call()
    for _ in range(module.QUERIES):
        for chosen in undecided:
            decided(chosen)

    searched_again = [row for row in rows if table.result[row] >= 0 or table.limit[row] == module.GROWTH]
    assert len(searched_again) == min(len(rows), module.RETRIES)
