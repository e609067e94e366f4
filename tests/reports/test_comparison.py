"""Comparison of runs: pairs, changes for better or worse, and their significance."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.ledger.gap import Gap
from instances.suites import suite
from reports.comparison import Measure, Pair, PairVerdict, compare_pairs, pair_runs

INSTANCES = [instance.name for instance in suite("exact-scaling").build()]


@pytest.fixture(scope="module")
def cost_row(make_row):
    """Return a function that makes the row of a run with this cost, or of a failed run if the cost is ``None``."""

    def make(value, instance="igniter-12", **given_):
        solved = {"value": value, "feasible": True} if value is not None else {"termination": "crashed"}
        defaults = {
            "key": f"{instance} {given_}",
            "objective": "cost",
            "decision_s": 1.0,
            "source": "plan",
            "threads": 1,
        }
        return make_row(given_.pop("scheduler", "igniter"), instance, **(defaults | solved | given_))

    return make


def make_pairs(a, b, across=False, gaps=()):
    no_gaps = dict.fromkeys((row.key for row in (*a, *b)), Gap()) | dict(gaps)
    return pair_runs(a, b, no_gaps, no_gaps, across)


def test_paired_runs_agree_in_instance_seed_scheduler_and_trial(cost_row):
    a = [cost_row(6.0), cost_row(7.0, seed=1), cost_row(8.0, scheduler="ffd+"), cost_row(9.0, headroom=1.2)]
    b = [cost_row(9.1, headroom=1.2), cost_row(6.1), cost_row(5.0, "smoke-cost"), cost_row(7.1, seed=1)]
    assert [(pair.a.value, pair.b.value) for pair in make_pairs(a, b)] == [(6.0, 6.1), (7.0, 7.1), (9.0, 9.1)]
    assert [pair.a.value for pair in make_pairs([a[0]], [replace(b[1], scheduler="ffd+")])] == []
    assert [pair.a.value for pair in make_pairs([a[0]], [replace(b[1], scheduler="ffd+")], across=True)] == [6.0]


def test_parameters_and_limits_matter_only_if_there_are_several_candidates(cost_row):
    plain = cost_row(6.0, parameters={"igniter": {}})
    slow, fast = (cost_row(value, parameters={"igniter": {"fast": value < 6.5}}) for value in (7.0, 6.2))
    assert [pair.b.value for pair in make_pairs([plain], [slow])] == [7.0]
    assert [(pair.a.value, pair.b.value) for pair in make_pairs([slow], [slow, fast])] == [(7.0, 7.0)]
    assert make_pairs([plain], [slow, fast]) == []
    long = cost_row(5.0, time_limit_s=60.0)
    assert [pair.b.value for pair in make_pairs([plain], [long], across=True)] == [5.0]
    assert [pair.b.value for pair in make_pairs([plain], [long, slow], across=True)] == [7.0]


def test_the_latest_of_equal_runs_counts_and_skipped_ones_do_not(cost_row):
    skipped = cost_row(None, "smoke-cost", termination="skipped")
    pairs = make_pairs([cost_row(6.0), skipped], [cost_row(8.0), cost_row(7.0), skipped])
    assert [pair.b.value for pair in pairs] == [7.0]


@pytest.mark.parametrize(
    ("objective", "a", "b", "change", "verdict"),
    [
        ("cost", 6.0, 8.0, 0.25, PairVerdict.WORSE),
        ("cost", 8.0, 6.0, -0.25, PairVerdict.BETTER),
        ("throughput", 80.0, 100.0, -0.2, PairVerdict.BETTER),
        ("scale", 4.0, 3.0, 0.25, PairVerdict.WORSE),
        ("cost", 6.0, 6.0 + 1e-9, 0.0, PairVerdict.EQUAL),
        ("cost", 6.0, None, 1.0, PairVerdict.WORSE),
        ("throughput", None, 80.0, -1.0, PairVerdict.BETTER),
        ("cost", None, None, 0.0, PairVerdict.EQUAL),
    ],
)
def test_changes_of_values_are_those_calculated_by_hand(cost_row, objective, a, b, change, verdict):
    pair = Pair(cost_row(a, objective=objective), cost_row(b, objective=objective), None, None, "igniter")
    assert pair.change(Measure.VALUE) == pytest.approx(change)
    assert pair.verdict(Measure.VALUE) is verdict
    assert pair.lost == (b is None and a is not None)


def test_an_infeasible_plan_counts_as_no_plan(cost_row):
    infeasible = replace(cost_row(3.0), feasible=False)
    pair = Pair(cost_row(6.0), infeasible, None, None, "igniter")
    assert pair.lost
    assert pair.change(Measure.VALUE) == 1.0


def test_gaps_differ_in_points_and_need_bounds_on_both_sides(cost_row):
    a, b = cost_row(6.0), cost_row(8.0)
    assert Pair(a, b, 0.0, 0.25, "igniter").change(Measure.GAP) == 0.25
    assert Pair(a, b, None, 0.25, "igniter").change(Measure.GAP) is None
    assert Pair(a, cost_row(None), 0.0, None, "igniter").change(Measure.GAP) == 1.0


@pytest.mark.parametrize(
    ("a_s", "b_s", "verdict"),
    [(1.0, 2.0, "worse"), (2.0, 1.0, "better"), (1.0, 1.05, "equal"), (0.001, 0.009, "equal"), (None, 1.0, None)],
)
def test_times_differ_by_more_than_a_tenth_and_ten_milliseconds(cost_row, a_s, b_s, verdict):
    pair = Pair(cost_row(6.0, decision_s=a_s), cost_row(6.0, decision_s=b_s), None, None, "igniter")
    assert pair.verdict(Measure.DECISION) == verdict


def test_the_time_of_a_failed_run_is_not_compared(cost_row):
    assert Pair(cost_row(6.0), cost_row(None), None, None, "igniter").change(Measure.DECISION) is None


def test_seeds_are_averaged_and_p_values_corrected_for_all_tests(cost_row):
    a = [cost_row(6.0, name, seed=seed) for name in INSTANCES[:6] for seed in (0, 1)]
    b = [cost_row(8.0, name, seed=seed, decision_s=2.0) for name in INSTANCES[:6] for seed in (0, 1)]
    value, time = compare_pairs(make_pairs(a, b), False, 0.05)
    assert (value.scheduler, value.measure, time.measure) == ("igniter", Measure.VALUE, Measure.DECISION)
    assert (value.better, value.equal, value.worse) == (0, 0, 6)
    assert (value.mean_change, value.interval) == (0.25, (0.25, 0.25))
    assert value.p == time.p == 2 / 2**6
    assert value.p_holm == time.p_holm == 2 * 2 / 2**6
    assert value.verdict is None
    assert [test.verdict for test in compare_pairs(make_pairs(a, b), False, 0.1)] == [
        PairVerdict.WORSE,
        PairVerdict.WORSE,
    ]
    assert [test.verdict for test in compare_pairs(make_pairs(b, a), True, 0.1)] == [
        PairVerdict.BETTER,
        PairVerdict.BETTER,
    ]


@given(st.lists(st.sampled_from([None, 3.06, 6.12, 9.18]), min_size=2, max_size=2 * len(INSTANCES)))
def test_swapping_the_sides_swaps_better_and_worse(cost_row, values):
    half = len(values) // 2
    a = [cost_row(value, name) for value, name in zip(values[:half], INSTANCES, strict=False)]
    b = [cost_row(value, name) for value, name in zip(values[half:], INSTANCES, strict=False)]
    forward, backward = compare_pairs(make_pairs(a, b), False, 0.05), compare_pairs(make_pairs(b, a), False, 0.05)
    swapped = {PairVerdict.WORSE: PairVerdict.BETTER, PairVerdict.BETTER: PairVerdict.WORSE, None: None}
    for test, opposite in zip(forward, backward, strict=True):
        assert (test.better, test.equal, test.worse) == (opposite.worse, opposite.equal, opposite.better)
        assert test.mean_change == pytest.approx(-opposite.mean_change)
        assert (test.p, test.p_holm, test.verdict) == (opposite.p, opposite.p_holm, swapped[opposite.verdict])
