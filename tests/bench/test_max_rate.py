"""The search for the largest rates: with rows made by hand, and on a real instance."""

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TaskFactory

from bench.cli.app import main
from bench.ledger.row import Row, Termination
from bench.max_rate import (
    LARGEST_MULTIPLE,
    SMALLEST_MULTIPLE,
    climb,
    late_fraction,
    retraced,
    why_failed,
    with_all_served,
)
from bench.task import Task
from instances import InputError, Instance, Objective
from instances.suites import suite

MakeRow = Callable[..., Row]

SERVED = {"applications": [{"id": "traffic", "violation_rate": 0.01}]}


@pytest.fixture
def good(make_row: MakeRow) -> Row:
    return make_row(plan={"gpus": []}, sim_violation_rate=0.01, violation_details=[], simulation=SERVED)


def ladder(good: Row, limits: dict[str, float], tried: list[tuple[str, float]]) -> Callable[[list[Task]], list[Row]]:
    """Return a stand-in for the runner whose schedulers have a plan up to their limits, multiples of the rates.

    It appends every run's (scheduler, multiple) to ``tried``.
    """
    no_plan = replace(good, plan=None, reason="no room")
    return runner(lambda scheduler, multiple: good if multiple <= limits[scheduler] else no_plan, tried)


def runner(row_of: Callable[[str, float], Row], tried: list[tuple[str, float]]) -> Callable[[list[Task]], list[Row]]:
    """Return a stand-in for the runner; ``row_of`` maps a scheduler and a multiple of the rates to a row."""

    def run(tasks: list[Task]) -> list[Row]:
        asked = [(task.scheduler, task.instance.workloads[0].rate_rps / 50.0) for task in tasks]
        tried.extend(asked)
        return [row_of(*one) for one in asked]

    return run


@pytest.mark.parametrize(
    ("limit", "tried"),
    [
        pytest.param(1.3, [1.0, 2.0, 1.25, 1.5625], id="between 1 and 2"),
        pytest.param(5.0, [1.0, 2.0, 4.0, 8.0, 5.0, 6.25], id="reached exactly"),
        pytest.param(0.3, [1.0, 0.5, 0.25, 0.3125], id="below 1"),
        pytest.param(1.99, [1.0, 2.0, 1.25, 1.5625, 1.953125], id="never back to where it failed"),
    ],
)
def test_rates_double_then_grow_by_the_step(
    make_task: TaskFactory, good: Row, limit: float, tried: Iterable[float]
) -> None:
    made: list[tuple[str, float]] = []
    (one,) = climb([make_task("Honest")], ladder(good, {"Honest": limit}, made), step=0.25)

    assert [multiple for _, multiple in made] == pytest.approx(tried)
    assert one.largest_passed == max(multiple for _, multiple in made if multiple <= limit)
    assert one.smallest_failed == min(multiple for _, multiple in made if multiple > limit)
    assert one.reason == "no room"
    assert one.throughput_rps == pytest.approx(70.0 * one.largest_passed)  # 50 and 20 req/s


@pytest.mark.parametrize(
    ("in_time", "tried", "reached", "failed"),
    [
        pytest.param({4.0, 5.0}, [1.0, 2.0, 4.0, 8.0, 16.0, 5.0, 6.25], 5.0, 6.25, id="late at the start only"),
        pytest.param({1.0, 4.0}, [1.0, 2.0, 4.0, 8.0, 16.0, 5.0], 4.0, 5.0, id="late in between"),
        pytest.param({2.0, 2.5, 3.125}, [1.0, 2.0, 4.0, 8.0, 16.0, 2.5, 3.125, 3.90625], 3.125, 3.90625, id="late"),
        pytest.param({0.5}, [1.0, 2.0, 4.0, 8.0, 16.0, 0.5, 0.625], 0.5, 0.625, id="late at all from the start on"),
    ],
)
def test_late_requests_do_not_end_the_doubling_since_higher_rates_may_hold(
    make_task: TaskFactory, good: Row, in_time: set[float], tried: Iterable[float], reached: float, failed: float
) -> None:
    late, no_plan = replace(good, sim_violation_rate=0.02), replace(good, plan=None, reason="no room")

    def row_of(_: str, multiple: float) -> Row:
        return no_plan if multiple > 9.0 else good if round(multiple, 9) in in_time else late

    made: list[tuple[str, float]] = []
    (one,) = climb([make_task("Honest")], runner(row_of, made), step=0.25)

    assert [multiple for _, multiple in made] == pytest.approx(tried)
    assert (one.largest_passed, one.smallest_failed) == pytest.approx((reached, failed))
    assert one.reason == "2.0 % of the requests not in time"


@pytest.mark.parametrize(
    ("in_time", "tried", "reached", "failed"),
    [
        pytest.param({1.0, 4.096}, [1.0, 2.0, 4.0, 8.0, 6.4, 5.12, 4.096], 4.096, 5.12, id="late below"),
        pytest.param({1.0, 4.0}, [1.0, 2.0, 4.0, 8.0, 6.4, 5.12, 4.096], 4.0, 4.096, id="a doubled rate"),
        pytest.param({0.839, 0.5}, [1.0, 2.0, 4.0, 8.0, 6.4, 5.12, 4.096, 3.277, 2.621, 2.097, 1.678, 1.342, 1.074,
                                    0.859, 0.687, 0.55, 0.44], 0.44, 0.55, id="below the first rates"),
    ],
)  # fmt: skip
def test_a_search_from_above_ends_at_the_first_rate_in_time(
    make_task: TaskFactory, good: Row, in_time: set[float], tried: Iterable[float], reached: float, failed: float
) -> None:
    late, no_plan = replace(good, sim_violation_rate=0.02), replace(good, plan=None, reason="no room")

    def row_of(_: str, multiple: float) -> Row:
        holds = round(multiple, 3) in in_time or multiple < 0.5
        return no_plan if multiple > 7.0 else good if holds else late

    made: list[tuple[str, float]] = []
    (one,) = climb([make_task("Honest")], runner(row_of, made), step=0.25, from_above=True)

    assert [multiple for _, multiple in made] == pytest.approx(tried, rel=1e-3)
    assert (one.largest_passed, one.smallest_failed) == pytest.approx((reached, failed), rel=1e-3)


def test_the_search_of_a_scheduler_with_plans_for_all_rates_ends(make_task: TaskFactory, good: Row) -> None:
    late = replace(good, sim_violation_rate=0.9)
    made: list[tuple[str, float]] = []
    (one,) = climb([make_task("Honest")], runner(lambda _, multiple: good if multiple == 2.0 else late, made), step=0.5)
    assert (one.largest_passed, max(multiple for _, multiple in made)) == (2.0, LARGEST_MULTIPLE)

    made.clear()
    overloaded = replace(late, violation_details=[{"kind": "rate"}])
    (one,) = climb([make_task("Honest")], runner(lambda _, m: good if m <= 2.0 else overloaded, made), step=0.5)
    assert [multiple for _, multiple in made] == [1.0, 2.0, 4.0, 3.0]


def test_a_run_that_failed_ends_its_climb_at_once(make_task: TaskFactory, good: Row) -> None:
    late = replace(good, sim_violation_rate=0.02)
    broken = replace(good, termination=Termination.EXCEPTION, reason="MemoryError", plan=None)
    made: list[tuple[str, float]] = []

    def row_of(scheduler: str, multiple: float) -> Row:
        if scheduler == "Honest":
            return broken
        return broken if multiple > 1.0 else late

    tasks = [make_task("Honest"), make_task("Crash")]
    at_once, later = climb(tasks, runner(row_of, made))

    assert made == [("Honest", 1.0), ("Crash", 1.0), ("Crash", 2.0)]
    assert (at_once.largest_passed, at_once.smallest_failed, at_once.reason) == (0.0, 1.0, "MemoryError")
    assert (later.largest_passed, later.smallest_failed, later.reason) == (0.0, 2.0, "MemoryError")
    assert later.failed_run is broken


def test_a_scheduler_that_serves_no_rate_ends_at_0(make_task: TaskFactory, good: Row) -> None:
    made: list[tuple[str, float]] = []
    (one,) = climb([make_task("Honest")], ladder(good, {"Honest": 0.0}, made))

    assert one.largest_passed == one.throughput_rps == 0.0
    assert made[-1][1] == pytest.approx(SMALLEST_MULTIPLE)


def test_rates_do_not_hold_if_the_loads_prove_that_requests_are_late(good: Row) -> None:
    """A short simulation with a long SLO misses the 15 % of requests that are late in the long run."""

    def of(*overloads: dict[str, object]) -> Row:
        workloads = [{"id": name, "requests": count} for name, count in (("a", 100), ("b", 900))]
        simulation = {"workloads": workloads, "applications": [], "overloads": list(overloads)}
        return replace(good, sim_violation_rate=0.0, simulation=simulation)

    over = {"workloads": ["a"], "load": 1.18, "missed": 0.15}
    assert why_failed(of()) is None
    assert why_failed(of(over)) == "load 1.18 of a"
    assert late_fraction(of(over)) == pytest.approx(0.015)
    assert why_failed(of(over | {"missed": 0.05})) is None  # half a percent of all requests
    both = {"workloads": ["a", "b"], "load": 1.2, "missed": 0.2}
    assert late_fraction(of(both)) == pytest.approx(0.02)  # one of the two misses a fifth; it may be the rarer one


def test_all_searches_advance_together_until_the_last_has_ended(make_task: TaskFactory, good: Row) -> None:
    made: list[tuple[str, float]] = []
    tasks = [make_task("Honest"), make_task("Crash")]
    climbs = climb(tasks, ladder(good, {"Honest": 1.1, "Crash": 9.0}, made), step=0.25)

    assert [one.largest_passed for one in climbs] == pytest.approx([1.0, 8.0])
    assert made[:2] == [("Honest", 1.0), ("Crash", 1.0)]


def test_a_search_is_reconstructed_from_its_rows(make_task: TaskFactory, good: Row) -> None:
    rows: list[Row] = []

    def run(tasks: list[Task]) -> list[Row]:
        made = ladder(good, {"Honest": 3.0}, [])(tasks)
        rows.extend(
            replace(row, instance_hash=task.instance.fingerprint) for task, row in zip(tasks, made, strict=True)
        )
        return rows[-len(tasks) :]

    task = make_task("Honest")
    (one,) = climb([task], run)

    reconstructed = retraced(task.instance, rows)
    assert (reconstructed.largest_passed, reconstructed.smallest_failed, reconstructed.next) == (
        one.largest_passed,
        one.smallest_failed,
        None,
    )
    assert list(reconstructed.rows) == list(one.rows)
    assert reconstructed.problems == one.problems
    unfinished = retraced(task.instance, rows[:2])
    assert (unfinished.largest_passed, unfinished.next) == (2.0, 4.0)
    assert retraced(task.instance.scaled(1.5), rows).rows == {}


def test_why_rates_are_too_high(make_row: MakeRow, good: Row) -> None:
    assert why_failed(good) is None
    assert why_failed(replace(good, violation_details=[{"kind": "latency"}])) is None  # the simulation knows better
    assert why_failed(replace(good, violation_details=[{"kind": "memory"}, {"kind": "share"}])) == (
        "the plan violates memory, share"
    )
    assert why_failed(replace(good, plan=None, reason="no room")) == "no room"
    assert why_failed(replace(good, sim_violation_rate=None)) == "the plan cannot be simulated"
    late = {"applications": [{"id": "traffic", "violation_rate": 0.02}]}
    assert why_failed(replace(good, simulation=late)) == "2.0 % of the requests not in time"
    assert why_failed(replace(good, sim_violation_rate=0.0101)) == "1.0 % of the requests not in time"


def test_the_largest_rates_need_a_limited_number_of_gpus(instance: Instance) -> None:
    assert with_all_served(suite("gpulet-scen1").build()[0]).objective is Objective.COST
    with pytest.raises(InputError, match="give every GPU type a count"):
        with_all_served(instance)


def test_the_largest_rates_of_two_schedulers_are_searched_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.sqlite"
    command = ["max-rate", "--instances", "gpulet-short-skew", "--schedulers", "sbp,elastic-partitioning"]
    options = ["--param", "sbp.halves=no", "--step", "0.5", "--ledger", str(ledger), "--format", "json"]

    assert main([*command, *options]) == 0
    turns, elastic = json.loads(capsys.readouterr().out)

    for result in (turns, elastic):
        assert result["failed_at"] > result["multiple"] > 0.0
    assert main([*command, *options]) == 0  # all of it is in the ledger
    assert json.loads(capsys.readouterr().out) == [turns, elastic]


def test_rates_that_hold_are_found_above_rates_that_do_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["max-rate", "--instances", "gpulet-scen1", "--schedulers", "sbp", "--step", "0.5", "--format", "json"]
    assert main([*command, "--ledger", str(tmp_path / "ledger.sqlite")]) == 0
    (sbp,) = json.loads(capsys.readouterr().out)
    assert sbp["multiple"] >= 8.0  # already at 1 x the rates, 2.7 % of the requests are late


def test_failed_runs_are_printed_and_give_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["max-rate", "--instances", "gpulet-scen1", "--schedulers", "sbp", "--memory-limit", "1e-9"]
    assert main([*command, "--ledger", str(tmp_path / "ledger.sqlite"), "--format", "json"]) == 1
    printed = capsys.readouterr()
    (one,) = json.loads(printed.out)
    assert (one["multiple"], one["failed_at"], len(one["runs"])) == (0.0, 1.0, 1)
    (failure_line,) = [line for line in printed.err.splitlines() if line.startswith("failed: ")]
    assert one["reason"] in failure_line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--instances", "igniter-3", "--schedulers", "igniter"], "give every GPU type a count"),
        (["--instances", "gpulet-scen1", "--schedulers", "sbp", "--step", "0"], "--step"),
        (["--instances", "gpulet-scen1", "--schedulers", "sbp", "--step", "1e-18"], "--step"),
        (["--instances", "gpulet-scen1", "--schedulers", "sbp", "--seed", str(2**63)], "seed"),
        (["--instances", "gpulet-scen1", "--schedulers", "nobody"], "nobody"),
        (["--instances", "gpulet-1023", "--schedulers", "sbp"], "scenario set"),
        (["--instances", "gpulet-scen1", "--schedulers", "sbp", "--arrivals", "regular"], "regular"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["max-rate", *options, "--ledger", str(tmp_path / "ledger.sqlite")]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
