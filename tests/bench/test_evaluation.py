"""Runs whose plans are judged and simulated under other conditions than the scheduler saw."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import TaskFactory

from bench.api import Status
from bench.cli.views.run_tables import run_tables
from bench.command_text import command_line
from bench.evaluation import Trial
from bench.judging.judge import judge
from bench.ledger.gap import gaps
from bench.ledger.row import Row, Termination
from bench.planning import RunSettings, plan_tasks
from bench.runner.record import RunRecord
from bench.runner.runner import run_tasks
from bench.runner.scoring import VIOLATIONS_KEPT, Start, score
from bench.simulation.arrivals import Arrivals, Process
from bench.task import Stage, Task
from instances import InputError, Instance, Plan, Workload, spatial_gpu
from instances.files import plan_to_text
from instances.pool_mix import pool_mix
from instances.suites import suite

FIRST_FIT = (Stage("ffd++", "heuristics.igniter.igniter:FfdPlusPlus"),)


@pytest.fixture(scope="module")
def twelve() -> Instance:
    return suite("igniter-12").build()[0]


def run(instance: Instance, *trials: Trial, seed: int = 0) -> list[Row]:
    return run_tasks([Task(instance, FIRST_FIT, seed, trial=trial) for trial in trials], None, 1)


def test_every_condition_is_part_of_the_key(make_task: TaskFactory) -> None:
    conditions = [
        Trial(),
        Trial(headroom=1.1),
        Trial(margin=0.9),
        Trial(margin=0.95),
        Trial(truth="hybrid"),
        Trial(error=0.1),
        Trial(arrivals=Arrivals()),
        Trial(arrivals=Arrivals(Process.CONSTANT)),
        Trial(arrivals=Arrivals(Process.GAMMA, 2.0)),
        Trial(arrivals=Arrivals(Process.GAMMA, 3.0)),
        Trial(arrivals=Arrivals(), seconds=60.0),
    ]

    assert len({make_task("Honest", trial=trial).key for trial in conditions}) == len(conditions)
    assert make_task("Honest", trial=Trial(seconds=60.0)).key == make_task("Honest").key  # nothing is simulated


def test_rows_without_a_simulation_say_so(twelve: Instance) -> None:
    (row,) = run(twelve, Trial())

    assert row.simulation is None
    assert row.sim_violation_rate is None
    assert (row.headroom, row.margin, row.truth) == (1.0, None, None)
    assert "margin" not in Trial().identity  # the keys of earlier rows stay valid


def test_simulated_columns_are_sums_over_the_workloads(twelve: Instance) -> None:
    constant, poisson = run(twelve, Trial(arrivals=Arrivals(Process.CONSTANT)), Trial(arrivals=Arrivals()))

    assert constant.feasible
    assert constant.sim_violation_rate == 0.0
    assert constant.sim_goodput_rps == pytest.approx(5000.0)
    assert poisson.sim_violation_rate is not None
    assert poisson.sim_violation_rate > 0.01  # at full load, random arrivals make requests late
    for row in (constant, poisson):
        assert row.simulation is not None
        workloads = row.simulation["workloads"]
        assert [one["id"] for one in workloads] == [workload.id for workload in twelve.workloads]
        assert sum(one["requests"] for one in workloads) == row.simulation["requests"]
        assert sum(one["violating"] for one in workloads) == row.sim_violating
        for one in workloads:
            served = one["requests"] - one["dropped"] - one["unfinished"]
            assert sum(one["histogram"]["requests"]) == served


def test_schedulers_face_the_same_requests(twelve: Instance) -> None:
    trial = Trial(arrivals=Arrivals())
    other = Task(twelve, (Stage("igniter", "heuristics.igniter.igniter:IGniter"),), trial=trial)
    first, second = run(twelve, trial)[0], run_tasks([other], None, 1)[0]

    assert first.plan != second.plan
    assert first.simulation is not None
    assert second.simulation is not None
    assert [w["requests"] for w in first.simulation["workloads"]] == [
        w["requests"] for w in second.simulation["workloads"]
    ]


def test_headroom_costs_gpus_and_avoids_violations_on_slower_gpus(twelve: Instance) -> None:
    tight, roomy = (
        run(twelve, Trial(headroom=headroom, error=0.1, arrivals=Arrivals(Process.CONSTANT)))[0]
        for headroom in (1.0, 1.3)
    )

    assert tight.value is not None
    assert roomy.value is not None
    assert roomy.value > tight.value
    assert roomy.violations is not None
    assert tight.violations is not None
    assert roomy.violations < tight.violations
    assert roomy.sim_violation_rate is not None
    assert tight.sim_violation_rate is not None
    assert roomy.sim_violation_rate < tight.sim_violation_rate


def test_a_plan_is_judged_by_the_true_model(twelve: Instance) -> None:
    planned, real = run(twelve, Trial(), Trial(truth="hybrid"))

    assert planned.feasible
    assert not real.feasible
    assert real.truth == "hybrid"
    assert planned.plan == real.plan
    assert run(twelve, Trial(truth="hybrid", error=0.2))[0].truth == "hybrid, figures off by up to 20 %"


def test_bounds_are_dropped_where_the_scheduler_saw_other_figures(
    twelve: Instance, make_row: Callable[..., Row]
) -> None:
    colgen = (Stage("colgen", "formulations.colgen:ColGen"),)
    trials = (Trial(), Trial(headroom=1.05), Trial(error=0.1))
    exact, roomy, wrong = run_tasks([Task(twelve, colgen, trial=trial) for trial in trials], None, 1)

    assert exact.bound is not None
    assert roomy.bound is None
    assert wrong.bound is None
    gap_of = gaps([exact, roomy, replace(wrong, feasible=True)], [exact], twelve)
    assert gap_of[exact.key].gap == 0.0
    assert gap_of[roomy.key].gap is not None
    assert gap_of[wrong.key].gap is None


def test_a_run_that_failed_is_not_simulated(make_task: TaskFactory) -> None:
    trial = Trial(arrivals=Arrivals())
    (row,) = run_tasks([make_task("Crash", trial=trial)], None, 1)

    assert row.termination is Termination.EXCEPTION
    assert row.simulation is None


def test_a_plan_for_too_many_requests_is_judged_and_the_row_says_why_it_is_not_simulated(
    make_task: TaskFactory, make_instance: Callable[..., Instance]
) -> None:
    crowd = make_instance()
    crowd = replace(crowd, workloads=tuple(replace(w, rate_rps=1e7) for w in crowd.workloads))
    (row,) = run_tasks([make_task("Honest", crowd, trial=Trial(arrivals=Arrivals()))], None, 1)

    assert row.termination is Termination.FINISHED
    assert row.violations is not None
    assert row.simulation is None
    assert row.reason.startswith("not simulated: 700,000,000 requests would arrive")


@pytest.mark.parametrize(
    ("trial", "problem"),
    [
        (Trial(error=2.0), "expected a fraction from 0 to 0.9"),
        (Trial(error=float("nan")), "expected a fraction from 0 to 0.9"),
        (Trial(truth="igniters"), 'did you mean "igniter"'),
    ],
)
def test_an_impossible_trial_is_refused_before_any_run(make_task: TaskFactory, trial: Trial, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make_task("Honest", trial=trial)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_seeds_fit_into_the_ledger(make_task: TaskFactory, seed: int) -> None:
    with pytest.raises(InputError, match=r"seed: .* from 0 to 2\^63 - 1"):
        make_task("Honest", seed=seed)


def test_of_many_violations_the_row_has_every_kind(
    make_task: TaskFactory, make_instance: Callable[..., Instance]
) -> None:
    """150 workloads are late, and their 150 GPUs are one more than the pool has: a single violation of kind "pool"."""
    workloads = [{"id": f"w{n}", "model": "alexnet", "slo_ms": 0.5, "rate_rps": 50} for n in range(150)]
    crowded = make_instance(workloads=workloads, gpus=[{"type": "v100", "count": 149}])
    (row,) = run_tasks([make_task("Honest", crowded)], None, 1)

    assert row.violations == 151
    assert len(row.violation_details) == VIOLATIONS_KEPT
    assert [violation["kind"] for violation in row.violation_details[-2:]] == ["latency", "pool"]


def test_a_larger_margin_costs_more_and_the_judge_does_not_use_it() -> None:
    """Only the plan with a margin is feasible on the instance with that margin; both are on the one without."""
    mix = pool_mix(8, 0, "a100", performance_model="hybrid")
    trials = [Trial(), Trial(margin=0.8), Trial(margin=0.9), Trial(margin=0.99)]

    rows = run_tasks(
        [Task(mix, (Stage("igniter", "heuristics.igniter.igniter:IGniter"),), trial=trial) for trial in trials], None, 1
    )

    costs = [row.value for row in rows if row.value is not None]
    assert costs == sorted(costs)
    assert costs[0] < costs[-1]
    assert [row.margin for row in rows] == [None, 0.8, 0.9, 0.99]
    assert [row.bound for row in rows[1:]] == [None] * 3
    seen = trials[-1].planner_instance(mix)
    for row, feasible in ((rows[0], False), (rows[-1], True)):
        assert row.plan is not None
        assert row.feasible
        assert judge(row.plan, seen).feasible == feasible


@pytest.mark.parametrize(
    ("level", "gpu", "model", "problem"),
    [
        (0.9, "a100", "igniter", 'has the performance model "igniter"; only "hybrid" has margins'),
        (0.9, "t4", "hybrid", "the type has no margins"),
        (0.999, "a100", "hybrid", "at most the largest of 0.8, 0.9, 0.95, 0.99"),
        (1.0, "a100", "hybrid", "expected a fraction between 0 and 1"),
        (-0.1, "a100", "hybrid", "expected a fraction between 0 and 1"),
    ],
)
def test_margins_that_an_instance_lacks_are_refused_before_any_run(
    level: float, gpu: str, model: str, problem: str
) -> None:
    mix = pool_mix(3, 0, gpu, performance_model=model)
    with pytest.raises(InputError, match=problem) as refused:
        plan_tasks(RunSettings(margin=level).order([mix], ["igniter"]))
    assert refused.value.where == "margin"


@pytest.mark.parametrize("headroom", [0.0, -1.0, float("inf"), float("nan")])
def test_headroom_is_a_positive_factor(headroom: float) -> None:
    with pytest.raises(InputError, match="headroom"):
        Trial(headroom=headroom)


def test_the_holding_check_fills_its_columns_and_changes_no_key_of_runs_without_it(
    make_task: TaskFactory, twelve: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, checked = Trial(arrivals=Arrivals()), Trial(arrivals=Arrivals(), check_holds=True)
    assert "check_holds" not in plain.identity
    assert make_task("Honest", trial=checked).key != make_task("Honest", trial=plain).key
    assert command_line("run", **plain.options) == "bench run"
    assert command_line("run", **checked.options) == "bench run --check-holds"

    monkeypatch.setattr("bench.holding.windows.SECONDS", 30.0)
    task = Task(twelve, FIRST_FIT, trial=checked)
    plan = run(twelve, plain)[0].plan
    assert plan is not None
    holding = checked.holding_of(plan, twelve, 0)

    assert holding is not None
    assert not holding.holds  # planned at full load
    assert len(holding.late) > 0
    row = _scored(task, plan)
    assert (row.holds, row.late_workloads) == (False, len(holding.late))
    unchecked = _scored(replace(task, trial=plain), plan)
    assert (unchecked.holds, unchecked.late_workloads) == (None, None)


def test_a_plan_for_too_many_requests_is_not_checked_and_the_row_says_so(
    twelve: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = run(twelve, Trial())[0].plan
    monkeypatch.setattr("bench.evaluation.MOST_TEST_REQUESTS", 1_000_000)

    row = _scored(Task(twelve, FIRST_FIT, trial=Trial(arrivals=Arrivals(), check_holds=True)), plan)

    assert (row.holds, row.termination) == (None, Termination.FINISHED)
    assert row.reason == "not checked: 15,250,000 requests would arrive, at most 1,000,000 are simulated"


def test_the_holding_check_needs_arrivals() -> None:
    with pytest.raises(InputError, match="simulation is off"):
        Trial(check_holds=True)


@pytest.fixture
def two(twelve: Instance, tmp_path: Path) -> tuple[Instance, Plan]:
    """An instance of two services, and a plan with a GPU for each; the folder ``here`` has both times."""
    services = (Workload("a", "alexnet", 10.0, 300.0), Workload("r", "resnet50", 30.0, 200.0))
    instance = replace(twelve, name="two", workloads=services)
    gpus = (spatial_gpu("v100", [("a", 20, 2, 300.0)]), spatial_gpu("v100", [("r", 20, 4, 200.0)]))
    _measure(tmp_path / "here", 2.5)
    return instance, Plan("two", gpus)


def _measure(folder: Path, alexnet_ms: float) -> None:
    folder.mkdir(exist_ok=True)
    rows = ["model,batch,share_pct,latency_ms", f"alexnet,2,50,{alexnet_ms}", "resnet50,4,50,6.0"]
    (folder / "solo.csv").write_text("\n".join(rows))
    head = "model_a,batch_a,share_a_pct,model_b,batch_b,share_b_pct,latency_a_ms,latency_b_ms"
    (folder / "pairs.csv").write_text(f"{head}\nalexnet,8,50,resnet50,8,50,9.0,9.0\n")


def test_measured_times_judge_and_simulate_a_run(two: tuple[Instance, Plan], tmp_path: Path) -> None:
    instance, plan = two
    trial = Trial(truth=f"measured:{tmp_path / 'here'}", arrivals=Arrivals())
    task = Task(instance, FIRST_FIT, trial=trial)

    in_time, first_key = _scored(task, plan), task.key
    _measure(tmp_path / "here", 40.0)
    late = _scored(replace(task), plan)

    assert (in_time.feasible, in_time.sim_violation_rate) == (True, 0.0)
    assert late.feasible is False
    assert {violation["workload"] for violation in late.violation_details} == {"a"}
    assert late.sim_violation_rate is not None
    assert late.sim_violation_rate > 0.5
    assert in_time.truth == trial.truth
    assert replace(task).key != first_key, "the key has the content of the folder"


def test_a_plan_with_times_that_were_not_measured_is_kept_and_not_judged(
    two: tuple[Instance, Plan], tmp_path: Path
) -> None:
    instance, _ = two
    task = Task(instance, FIRST_FIT, trial=Trial(truth=f"measured:{tmp_path / 'here'}", arrivals=Arrivals()))
    beside = Plan("two", (spatial_gpu("v100", [("a", 20, 2, 300.0), ("r", 20, 4, 200.0)]),))

    row = _scored(task, beside)

    assert (row.plan, row.termination) == (beside, Termination.FINISHED)
    assert (row.feasible, row.value, row.simulation) == (None, None, None)
    assert "not judged: plan: gpus[0]: alexnet b2 50 % beside resnet50 b4 50 % was not measured in" in row.reason
    lines = [line for line in run_tables([row], gaps([row], [], instance)) if isinstance(line, str)]
    assert [line for line in lines if "not judged" in line] == [f"two, ffd++: {row.reason}"]
    assert not any("has no plan" in line for line in lines)


@pytest.mark.parametrize(
    ("truth", "error", "problem"),
    [
        ("measured:nowhere", 0.0, "nowhere/solo.csv: cannot be read"),
        ("measured:here", 0.1, "error: is given; measured latencies have no error"),
        ("crystal-ball", 0.0, 'truth: unknown performance model "crystal-ball"'),
    ],
)
def test_a_wrong_truth_is_refused_before_the_run(
    truth: str, error: float, problem: str, two: tuple[Instance, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=re.escape(problem)):
        Task(two[0], FIRST_FIT, trial=Trial(truth=truth, error=error))


def _scored(task: Task, plan: Plan | None) -> Row:
    """Return the row of a finished run of ``task`` with this plan, judged in this process."""
    assert plan is not None
    record = RunRecord(task, 1.0, plan_text=plan_to_text(plan))
    record.end(Termination.FINISHED, "", Status.FEASIBLE)
    return score(record, Start("2026-01-01T00:00:00+00:00", None))
