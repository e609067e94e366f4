"""Scenario sets: one row for thousands of instances, which run, are limited and are stored in chunks."""

import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import TaskFactory, target
from hypothesis import given
from hypothesis import strategies as st

from bench.api import Run
from bench.evaluation import Trial
from bench.judging.judge import judge
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.runner.listener import Listener
from bench.runner.runner import run_tasks
from bench.runner.worker import CHUNK
from bench.scenarios import Tally, pack, unpack
from bench.task import Stage, Task
from heuristics.gpulet.best_fit import GreedyBestFit
from instances import Instance, Objective, ScenarioSet
from instances.misspecification import misspecified
from instances.suites import SCENARIO_SUITES

COUNT = CHUNK + 44
"""One whole chunk and a part of a second one."""

FAILING_SCENARIO = CHUNK + 4


@pytest.fixture(scope="module")
def scenarios(make_instance: Callable[..., Instance]) -> ScenarioSet:
    """``COUNT`` scenarios in which w1 has requests; in every third, w2 has some, too."""
    rates = np.array([(10.0 + at, 20.0 if at % 3 == 0 else 0.0) for at in range(COUNT)])
    return ScenarioSet(make_instance(), rates)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite", create=True) as opened:
        yield opened


@pytest.fixture
def make_set_task(make_task: TaskFactory, scenarios: ScenarioSet) -> TaskFactory:
    def make(spec: str, *, on: ScenarioSet = scenarios, **terms: object) -> Task:
        return make_task(spec, on.base, scenarios=on, **terms)

    return make


class Decided(Listener):
    """Records the number of decided scenarios after each chunk."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def advanced(self, task: Task, decided: int) -> None:
        self.steps.append(decided)


@given(st.lists(st.booleans()))
def test_verdicts_survive_packing(verdicts: list[bool]) -> None:
    assert unpack(pack(verdicts), len(verdicts)).tolist() == verdicts


def test_the_packed_verdicts_of_20000_scenarios_are_short() -> None:
    assert len(pack([number % 5 > 0 for number in range(20_000)])) < 100


def test_a_set_is_one_row_with_the_number_of_served_scenarios(
    make_set_task: TaskFactory, scenarios: ScenarioSet, ledger: Ledger
) -> None:
    listener = Decided()
    (row,) = run_tasks([make_set_task("ServesOne", seed=7)], ledger, 1, listener)
    accepted = [at % 3 > 0 for at in range(COUNT)]
    assert (row.instance, row.instance_hash, row.seed) == ("mix", scenarios.fingerprint, 7)
    assert (row.objective, row.value, row.feasible, row.violations) == ("scenarios", sum(accepted), True, 0)
    assert (row.status, row.termination, row.reason, row.plan) == ("unknown", "finished", "", None)
    assert row.scenarios is not None
    assert [row.scenarios[name] for name in ("count", "decided", "accepted", "served")] == [COUNT, COUNT, 200, 200]
    assert unpack(row.scenarios["accepted_bits"], COUNT).tolist() == accepted
    assert 0.0 < row.scenarios["decision_median_s"] <= row.scenarios["decision_max_s"] < row.decision_s < row.wall_s
    assert listener.steps == [CHUNK, COUNT]
    assert ledger.rows() == [row]


def test_decision_times_are_measured_by_the_bench(make_set_task: TaskFactory, scenarios: ScenarioSet) -> None:
    (row,) = run_tasks([make_set_task("Clock", on=ScenarioSet(scenarios.base, scenarios.rates_rps[:3]))], None)
    assert (row.status, row.value) == ("feasible", 3)
    assert row.decision_s is not None
    assert 3.0 <= row.decision_s < row.wall_s
    assert "which counts" in row.reason


def test_a_set_with_a_plan_for_every_scenario_is_feasible(make_set_task: TaskFactory) -> None:
    (row,) = run_tasks([make_set_task("Honest")], None)
    assert (row.status, row.value, row.feasible) == ("feasible", COUNT, True)


def test_a_scenario_is_served_if_the_judge_accepts_its_plan() -> None:
    all_mixes = SCENARIO_SUITES["gpulet-1023"].build()
    sampled = ScenarioSet(all_mixes.base, all_mixes.rates_rps[::40])
    greedy = Stage("greedy-best-fit", "heuristics.gpulet.best_fit:GreedyBestFit")
    (row,) = run_tasks([Task(sampled.base, (greedy,), scenarios=sampled)], None)

    plans = [GreedyBestFit().schedule(sampled.scenario(at), Run()).plan for at in range(len(sampled))]
    served = [plan is not None and judge(plan, sampled.scenario(at)).feasible for at, plan in enumerate(plans)]
    assert row.scenarios is not None
    assert unpack(row.scenarios["accepted_bits"], len(sampled)).tolist() == [plan is not None for plan in plans]
    assert unpack(row.scenarios["served_bits"], len(sampled)).tolist() == served
    assert row.value == sum(served)
    assert row.violations == sum(plan is not None for plan in plans) - sum(served) > 0
    assert row.feasible is False


def test_sets_are_planned_with_headroom_and_judged_by_the_truth() -> None:
    all_mixes = SCENARIO_SUITES["gpulet-1023"].build()
    sampled = ScenarioSet(all_mixes.base, all_mixes.rates_rps[::40])
    greedy = Stage("greedy-best-fit", "heuristics.gpulet.best_fit:GreedyBestFit")
    trial = Trial(headroom=1.3, error=0.3)
    (row,) = run_tasks([Task(sampled.base, (greedy,), scenarios=sampled, trial=trial)], None)

    true_set = replace(sampled, base=misspecified(sampled.base, None, 0.3, seed=0))
    planned_set = replace(sampled, base=replace(sampled.base, latency_buffer=1.3 * sampled.base.latency_buffer))
    plans = [GreedyBestFit().schedule(planned_set.scenario(at), Run()).plan for at in range(len(sampled))]
    served = [plan is not None and judge(plan, true_set.scenario(at)).feasible for at, plan in enumerate(plans)]
    assert row.scenarios is not None
    assert unpack(row.scenarios["accepted_bits"], len(sampled)).tolist() == [plan is not None for plan in plans]
    assert unpack(row.scenarios["served_bits"], len(sampled)).tolist() == served
    assert row.instance_hash == sampled.fingerprint


@pytest.mark.parametrize(
    ("other", "how", "termination", "reason"),
    [
        ("Crash", "raise", "exception", "LookupError: no such thing (mix#260)"),
        ("Crash", "kill", "crashed", "died of SIGKILL while scheduling; not killed by the bench"),
        ("Greedy", "array", "memory_limit", "data type float64 (mix#260)"),
        ("Endless", "ignores-signals", "wall_limit", "into a time limit of 1 s"),
    ],
)
def test_a_failing_chunk_ends_the_set_and_says_how_far_it_came(
    make_set_task: TaskFactory, ledger: Ledger, other: str, how: str, termination: str, reason: str
) -> None:
    parameters = {"at": f"mix#{FAILING_SCENARIO}", "other": target(other), "how": how}
    (row,) = run_tasks([make_set_task("ServesOne", parameters=parameters, time_limit_s=1.0)], ledger, grace_s=0.2)
    assert row.termination == termination
    assert reason in row.reason
    assert row.reason.endswith(f"; {CHUNK} of {COUNT} scenarios were decided")
    assert row.scenarios is not None
    assert row.scenarios["decided"] == CHUNK
    assert row.value == row.scenarios["served"] == sum(at % 3 > 0 for at in range(CHUNK))
    assert ledger.rows() == [row]


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("other-instance", 'mix#260: plan: instance: made for "another"; expected a plan for "mix#260"'),
        ("no-plan", 'status is "optimal" but there is no plan (mix#260)'),
        ("text", "ServesOne returned a str; expected an Outcome (mix#260)"),
    ],
)
def test_an_answer_without_a_plan_for_its_scenario_is_refused(
    make_set_task: TaskFactory, how: str, reason: str
) -> None:
    parameters = {"at": f"mix#{FAILING_SCENARIO}", "other": target("OddOutcome"), "how": how}
    (row,) = run_tasks([make_set_task("ServesOne", parameters=parameters)], None)
    assert row.termination == "invalid_plan"
    assert row.reason.startswith(reason)
    assert row.scenarios is not None
    assert row.scenarios["decided"] == CHUNK


def test_the_time_limit_applies_to_each_chunk(make_set_task: TaskFactory, scenarios: ScenarioSet) -> None:
    few = ScenarioSet(scenarios.base, scenarios.rates_rps[:6])
    listener = Decided()
    (row,) = run_tasks([make_set_task("UsesHalfTheTime", on=few, time_limit_s=0.2)], None, 1, listener, grace_s=0.1)
    assert (row.termination, row.value) == ("finished", 6)
    assert row.decision_s is not None
    assert row.decision_s > row.time_limit_s + 0.1
    assert len(listener.steps) > 2
    assert row.overshoot_s == 0.0


def test_an_interrupted_set_resumes_after_its_last_chunk(
    make_set_task: TaskFactory, ledger: Ledger, tmp_path: Path
) -> None:
    class Interrupts(Listener):
        def advanced(self, task: Task, decided: int) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    log, gate = tmp_path / "log", tmp_path / "gate"
    task = make_set_task("ServesOne", parameters={"at": f"mix#{FAILING_SCENARIO}", "log": log, "gate": gate})
    with pytest.raises(KeyboardInterrupt):
        run_tasks([task], ledger, 1, Interrupts())
    assert ledger.rows() == []
    (chunk,) = ledger.chunks(task.key)
    assert (chunk["first"], len(chunk["accepted"])) == (0, CHUNK)

    gate.touch()
    log.unlink()
    (row,) = run_tasks([task], ledger)
    assert log.read_text().splitlines() == [f"mix#{at}" for at in range(CHUNK, COUNT)]
    assert row.scenarios is not None
    assert (row.termination, row.scenarios["decided"], row.value) == ("finished", COUNT, 200)
    assert ledger.chunks(task.key) == []


def test_chunks_that_do_not_follow_the_previous_one_are_ignored(scenarios: ScenarioSet) -> None:
    def chunk(first: int, length: int) -> dict[str, object]:
        return {"first": first, "accepted": [True] * length, "served": [False] * length, "decision_s": [0.1] * length}

    tally = Tally(scenarios, [chunk(0, 10), chunk(5, 10), chunk(10, 2), chunk(20, 5)])
    assert tally.decided == 12
    assert tally.decision_s == pytest.approx(1.2)


def test_keys_differ_between_sets_and_their_base_instance(
    make_set_task: TaskFactory, make_task: TaskFactory, scenarios: ScenarioSet
) -> None:
    fewer = ScenarioSet(scenarios.base, scenarios.rates_rps[:-1])
    copied = ScenarioSet(scenarios.base, scenarios.rates_rps.copy())
    tasks = [make_set_task("Honest"), make_set_task("Honest", on=fewer), make_task("Honest", scenarios.base)]
    assert len({task.key for task in tasks}) == 3
    assert make_set_task("Honest", on=copied).key == tasks[0].key


def test_a_set_with_an_objective_that_the_scheduler_lacks_is_skipped(
    make_set_task: TaskFactory, scenarios: ScenarioSet
) -> None:
    scale = ScenarioSet(replace(scenarios.base, objective=Objective.SCALE), scenarios.rates_rps)
    (row,) = run_tasks([make_set_task("Honest", on=scale)], None)
    assert row.termination == "skipped"
    assert row.reason.startswith("Honest does not solve scale")
    assert row.value is None


def test_rows_of_sets_survive_json(make_set_task: TaskFactory) -> None:
    (row,) = run_tasks([make_set_task("ServesOne")], None)
    assert Row.from_json(row.to_json()) == row
