"""Gaps to the best known value: both directions, failures, seeds."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.statistics.complete_table import complete_table
from reports.statistics.gaps import achieved, best_known, gap_to_best, mean_gap

POSITIVE = st.floats(0.01, 1e6)


def test_a_value_counts_only_if_the_judge_finds_its_plan_feasible(make_row):
    assert achieved(make_row(value=6.12, feasible=True)) == 6.12
    assert achieved(make_row(value=3.06, feasible=False, violations=2)) is None
    assert achieved(make_row(value=None, feasible=None, termination="crashed", status="unknown")) is None


def test_a_scenario_set_counts_its_scenarios_served_despite_violations(make_row):
    assert achieved(make_row(value=812.0, feasible=False, objective="scenarios", scenarios={"count": 1023})) == 812.0


def test_the_best_cost_is_the_least_and_the_best_rate_the_largest(make_row):
    costs = [make_row(objective="cost", value=value, feasible=True) for value in (9.18, 6.12)]
    infeasible = make_row(objective="cost", value=3.06, feasible=False)
    assert best_known([*costs, infeasible]) == 6.12
    rates = [make_row(objective="throughput", value=value, feasible=True) for value in (100.0, 80.0)]
    assert best_known(rates) == 100.0
    assert best_known([infeasible]) is None


@pytest.mark.parametrize(
    ("value", "best", "gap"),
    [(8.0, 6.0, 0.25), (6.0, 8.0, 0.25), (6.0, 6.0, 0.0), (0.0, 0.0, 0.0), (None, 6.0, 1.0), (6.0, None, 1.0)],
)
def test_the_gap_to_the_best_is_as_worked_out_by_hand(value, best, gap):
    assert gap_to_best(value, best) == gap


@given(POSITIVE, POSITIVE)
def test_a_gap_lies_between_0_and_1_and_gives_the_factor(value, best):
    gap = gap_to_best(value, best)
    assert 0.0 <= gap < 1.0
    assert 1.0 / (1.0 - gap) == pytest.approx(max(value / best, best / value))


def test_seeds_are_averaged_and_a_failed_one_counts_as_1(make_row):
    cost = {"objective": "cost", "feasible": True}
    seeds = [make_row(value=8.0, **cost), make_row(value=None, termination="crashed", objective="cost")]
    assert mean_gap(seeds, 6.0) == (0.25 + 1.0) / 2
    assert mean_gap(seeds[:1], 8.0) == 0.0


class CountedRow(SimpleNamespace):
    """Row that counts how often its instance is read."""

    reads = 0

    @property
    def instance_hash(self):
        CountedRow.reads += 1
        return self.instance


def test_a_table_of_many_instances_reads_each_row_a_few_times():
    blank = {"seed": 0, "termination": "finished", "feasible": True, "scenarios": None, "objective": "cost"}
    names = [f"i{number}" for number in range(100)]
    rows = [CountedRow(key=name, instance=name, value=1.0, **blank) for name in names]
    table = complete_table(rows, dict.fromkeys(names, "igniter"), names)
    assert len(table.best) == len(rows)
    assert CountedRow.reads < 10 * len(rows)
