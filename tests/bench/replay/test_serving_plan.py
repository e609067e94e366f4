"""Serving plans: executors, timeouts and memory, and the requests of a replay."""

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from bench.replay.recording import SharedRequests, draw
from bench.replay.serving_plan import ServedSlot, ServingPlan
from bench.replay.settings import ReplaySettings
from bench.simulation.arrivals import Stream
from bench.simulation.layout import sites
from instances import InputError
from instances.files import instance_from_json, plan_from_json, read_plan
from tests.bench.replay.serving_plans import gpulet_data, plan_data, serving_plan_of, write_plan

SPLIT = plan_data(
    ("w1", "w2"),
    [
        gpulet_data(("w1", 4, 30.0), ("w2", 2, 40.0), duty_cycle_ms=40.0),
        gpulet_data(("w1", 8, 30.0), share_units=10),
    ],
)


@pytest.fixture
def serving_plan(tmp_path: Path) -> Callable[..., ServingPlan]:
    return lambda data=SPLIT: serving_plan_of(tmp_path, data)


def test_executors_have_the_shares_and_slots_of_the_plan(serving_plan: Callable[..., ServingPlan]) -> None:
    plan = serving_plan()

    assert [(e.gpu, e.gpulet, e.share_pct) for e in plan.executors] == [(0, 0, 30.0), (0, 1, 25.0)]
    assert [[(s.workload, s.model, s.batch) for s in e.slots] for e in plan.executors] == [
        [(0, "alexnet", 4), (1, "resnet50", 2)],
        [(0, "alexnet", 8)],
    ]
    # Memory in MiB by the catalogue, at batch b: 733.1 + 4 b for alexnet, 597.5 + 38.2 b for resnet50.
    assert plan.memory_mib(0) == pytest.approx(733.1 + 16.0 + 597.5 + 76.4 + 733.1 + 32.0)
    assert plan.memory_mib(1) == 0.0


@pytest.mark.parametrize("rule", ["half-slo", "assembly", "duty-cycle"])
def test_timeouts_are_those_of_the_simulator(
    rule: str, serving_plan: Callable[..., ServingPlan], tmp_path: Path
) -> None:
    data = {**SPLIT, "instance": {**SPLIT["instance"], "slo_rule": rule, "latency_buffer": 1.1}}
    plan, instance = read_plan(write_plan(tmp_path, data))
    assert instance is not None
    (site,) = sites(plan, instance, instance)

    slots = [slot for executor in serving_plan(data).executors for slot in executor.slots]
    timeouts_ms = [slot.timeout_ms(site.times[row, slot.batch]["promised_ms"]) for row, slot in enumerate(slots)]

    assert timeouts_ms == list(site.slots["timeout_ms"])


def test_slots_are_unchanged_by_json(serving_plan: Callable[..., ServingPlan]) -> None:
    for executor in serving_plan().executors:
        for slot in executor.slots:
            assert ServedSlot.from_json(asdict(slot)) == slot


def test_a_plan_that_serves_nothing_is_refused(serving_plan: Callable[..., ServingPlan]) -> None:
    with pytest.raises(InputError, match="it has no slots"):
        serving_plan(plan_data(gpulets=[]))


def test_a_plan_of_unknown_workloads_is_refused() -> None:
    plan, instance = plan_from_json(SPLIT), instance_from_json(SPLIT["instance"])
    other = replace(instance, workloads=instance.workloads[:1])
    with pytest.raises(InputError, match='unknown workload "w2"'):
        ServingPlan.of(plan, other)


def test_requests_are_those_of_a_simulation(serving_plan: Callable[..., ServingPlan]) -> None:
    settings = ReplaySettings(seconds=20.0, warmup_s=3.0, seed=4)
    requests = draw([serving_plan()], settings, None)

    assert np.all(np.diff(requests["due_ms"]) >= 0.0)
    for w, (name, rate_rps) in enumerate([("w1", 60.0), ("w2", 40.0)]):
        expected = Stream(settings.arrivals, rate_rps, 4, name).until(23_000.0)
        assert np.array_equal(requests["due_ms"][requests["workload"] == w], expected)


def test_after_the_switch_requests_have_the_rates_of_the_second_plan(serving_plan: Callable[..., ServingPlan]) -> None:
    before = serving_plan()
    after = replace(before, workloads=tuple(replace(w, offered_rps=3.0 * w.offered_rps) for w in before.workloads))

    requests = draw([before, after], ReplaySettings(seconds=100.0, warmup_s=10.0), 50.0)

    due_ms = requests["due_ms"]
    assert np.sum(due_ms < 60_000.0) == pytest.approx(60 * 100, rel=0.05)
    assert np.sum(due_ms >= 60_000.0) == pytest.approx(50 * 300, rel=0.05)


def test_more_requests_than_memory_holds_are_refused(serving_plan: Callable[..., ServingPlan]) -> None:
    with pytest.raises(InputError, match="are too many at 100 requests/s; expected at most 200,000 s"):
        draw([serving_plan()], ReplaySettings(seconds=1_000_000.0), None)


def test_requests_are_in_a_file_on_disk_if_shared_memory_is_full(
    serving_plan: Callable[..., ServingPlan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    drawn = draw([serving_plan()], ReplaySettings(seconds=1.0), None)
    for free_bytes, on_disk in ((2**30, False), (drawn.nbytes, True)):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free_bytes: SimpleNamespace(free=free))
        shared = SharedRequests.in_new_file(drawn)
        assert Path(f"/proc/self/fd/{shared.descriptor}").readlink().is_relative_to(tmp_path) == on_disk
        assert np.array_equal(shared.requests, drawn)
        os.close(shared.descriptor)


def test_two_maps_of_one_file_share_requests_and_the_serving_plan(serving_plan: Callable[..., ServingPlan]) -> None:
    first = SharedRequests.in_new_file(draw([serving_plan()], ReplaySettings(seconds=1.0), None))
    second = SharedRequests(first.descriptor)

    first.requests["done_ms"][3] = 7.0
    first.plan = 1

    assert second.requests["done_ms"][3] == 7.0
    assert np.array_equal(first.requests, second.requests)
    assert second.plan == 1
