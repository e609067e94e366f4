"""Tests of serving plans: plan files without pydantic, and the requests that come."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.replay.plan_file import read_embedded_plan
from bench.replay.requests import SharedRequests, draw
from bench.replay.serving_plan import Serving, Sheet
from bench.simulation.arrivals import Stream
from bench.simulation.layout import sites
from bench.simulation.settings import Settings
from instances import InputError
from instances.files import read_plan
from tests.bench.replay.serving_plans import gpulet_data, plan_data, write_plan

SPLIT = plan_data(
    ("w1", "w2"),
    [
        gpulet_data(("w1", 4, 30.0), ("w2", 2, 40.0), duty_cycle_ms=40.0),
        gpulet_data(("w1", 8, 30.0), share_units=10),
    ],
)


@pytest.fixture
def sheet(tmp_path: Path) -> Callable[..., Sheet]:
    return lambda data=SPLIT: Sheet.of(*read_embedded_plan(write_plan(tmp_path, data)))


@pytest.mark.parametrize(
    "data",
    [
        SPLIT,
        plan_data(),
        plan_data(objective="throughput", throughput_of="goodput", latency_buffer=1.5, slo_rule="assembly"),
    ],
)
def test_a_plan_is_read_as_pydantic_reads_it(data: Any, tmp_path: Path) -> None:
    file = write_plan(tmp_path, data)

    assert read_embedded_plan(file) == read_plan(file)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"instance": "mix"}, "instance: only names the instance; expected the instance itself"),
        ({"instance": 3}, "instance: is 3; expected an object"),
        ({"gpus": {}}, "gpus: is {}; expected a list"),
        ({"gpus": [3]}, "gpus[0]: is not a JSON object"),
        ({"gpus": [{"type": "v10", "gpulets": []}]}, 'gpus[0].type: unknown type "v10"; did you mean "v100"?'),
        ({"gpus": [{"gpulets": []}]}, "gpus[0].type: is missing; expected text"),
        (plan_data(("w1",), [gpulet_data(("w2", 1, 1.0))]), 'slots[0].workload: unknown workload "w2"'),
        (plan_data(("w1",), [gpulet_data(("w1", 0, 1.0))]), "batch: is 0; expected a whole number of at least 1"),
        (plan_data(("w1",), [gpulet_data(("w1", 2.5, 1.0))]), "batch: is 2.5; expected a whole number"),
        (plan_data(("w1",), [gpulet_data(("w1", True, 1.0))]), "batch: is true; expected a whole number"),
        (plan_data(("w1",), [gpulet_data(("w1", 1, 0.0))]), "rate_rps: is 0.0; expected a finite number greater"),
        (plan_data(("w1",), [gpulet_data(("w1", 1, float("nan")))]), "rate_rps: is nan; expected a finite number"),
        (
            plan_data(("w1", "w2"), [gpulet_data(("w1", 1, 1.0), ("w2", 1, 1.0))]),
            "duty_cycle_ms: is missing; 2 slots that take turns need a duty cycle",
        ),
        (plan_data(slo_rule="half"), 'instance.slo_rule: unknown slo_rule "half"; did you mean "half-slo"?'),
        (
            plan_data(objective="colocation"),
            "instance.objective: cannot be replayed; expected an objective over workloads with SLOs",
        ),
        (plan_data(gpus=[{"type": "v1000"}]), 'instance.gpus[0].type: unknown GPU type "v1000"; did you mean "v100"?'),
    ],
)
def test_a_bad_plan_file_is_one_line_that_says_where(change: Any, problem: str, tmp_path: Path) -> None:
    file = write_plan(tmp_path, {**plan_data(), **change})

    with pytest.raises(InputError) as refused:
        read_embedded_plan(file)

    assert str(refused.value).startswith(f"{file}: ")
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("content", "problem"), [(b"{", "is not JSON"), (b"\xff", "is not JSON"), (b"[1]", "not a JSON object")]
)
def test_what_is_no_plan_file_at_all_is_said_to_be_none(content: bytes, problem: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(content)

    with pytest.raises(InputError, match=problem):
        read_embedded_plan(file)
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_embedded_plan(tmp_path / "none.json")


def test_a_sheet_says_who_has_what_share(sheet: Callable[..., Sheet]) -> None:
    found = sheet()

    assert [(e.gpu, e.gpulet, e.share_pct) for e in found.executors] == [(0, 0, 30.0), (0, 1, 25.0)]
    assert [[(s.workload, s.model, s.batch) for s in e.slots] for e in found.executors] == [
        [(0, "alexnet", 4), (1, "resnet50", 2)],
        [(0, "alexnet", 8)],
    ]
    # Of the catalogue: 733.1 + 4 b and 597.5 + 38.2 b
    assert found.memory_mib(0) == pytest.approx(733.1 + 16.0 + 597.5 + 76.4 + 733.1 + 32.0)
    assert found.memory_mib(1) == 0.0


@pytest.mark.parametrize("rule", ["half-slo", "assembly", "duty-cycle"])
def test_timeouts_are_those_of_the_simulator(rule: str, sheet: Callable[..., Sheet], tmp_path: Path) -> None:
    data = {**SPLIT, "instance": {**SPLIT["instance"], "slo_rule": rule, "latency_buffer": 1.1}}
    plan, instance = read_plan(write_plan(tmp_path, data))
    assert instance is not None
    (site,) = sites(plan, instance, instance)

    slots = [slot for executor in sheet(data).executors for slot in executor.slots]
    found = [slot.timeout_ms(site.times[row, slot.batch]["promised_ms"]) for row, slot in enumerate(slots)]

    assert found == list(site.slots["timeout_ms"])


def test_slots_go_to_workers_and_come_back_the_same(sheet: Callable[..., Sheet]) -> None:
    for executor in sheet().executors:
        for slot in executor.slots:
            assert Serving.from_json(slot.to_json()) == slot


def test_a_plan_that_serves_nothing_is_refused(sheet: Callable[..., Sheet]) -> None:
    with pytest.raises(InputError, match="it has no slots"):
        sheet(plan_data(gpulets=[]))


def test_requests_are_those_of_a_simulation(sheet: Callable[..., Sheet]) -> None:
    settings = Settings(seconds=20.0, warmup_s=3.0, seed=4)
    requests = draw([sheet()], settings, None)

    assert np.all(np.diff(requests["due_ms"]) >= 0.0)
    for w, (name, rate_rps) in enumerate([("w1", 60.0), ("w2", 40.0)]):
        expected = Stream(settings.arrivals, rate_rps, 4, name).until(23_000.0)
        assert np.array_equal(requests["due_ms"][requests["workload"] == w], expected)


def test_from_the_change_on_requests_come_at_the_second_plans_rates(sheet: Callable[..., Sheet]) -> None:
    before = sheet()
    after = replace(before, workloads=tuple(replace(w, offered_rps=3.0 * w.offered_rps) for w in before.workloads))

    requests = draw([before, after], Settings(seconds=100.0, warmup_s=10.0), 50.0)

    due_ms = requests["due_ms"]
    assert np.sum(due_ms < 60_000.0) == pytest.approx(60 * 100, rel=0.05)
    assert np.sum(due_ms >= 60_000.0) == pytest.approx(50 * 300, rel=0.05)


def test_more_requests_than_memory_holds_are_refused(sheet: Callable[..., Sheet]) -> None:
    with pytest.raises(InputError, match="are too many at 100 requests/s; expected at most 200,000 s"):
        draw([sheet()], Settings(seconds=1_000_000.0), None)


def test_requests_that_the_shared_memory_has_no_room_for_are_in_a_file_on_disk(
    sheet: Callable[..., Sheet], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    drawn = draw([sheet()], Settings(seconds=1.0), None)
    for free_bytes, on_disk in ((2**30, False), (drawn.nbytes, True)):
        monkeypatch.setattr("shutil.disk_usage", lambda _, free=free_bytes: SimpleNamespace(free=free))
        shared = SharedRequests.holding(drawn)
        assert Path(f"/proc/self/fd/{shared.descriptor}").readlink().is_relative_to(tmp_path) == on_disk
        assert np.array_equal(shared.requests, drawn)
        os.close(shared.descriptor)


def test_processes_share_requests_and_the_plan_that_serves(sheet: Callable[..., Sheet]) -> None:
    one = SharedRequests.holding(draw([sheet()], Settings(seconds=1.0), None))
    other = SharedRequests(one.descriptor)

    one.requests["done_ms"][3] = 7.0
    one.sheet = 1

    assert other.requests["done_ms"][3] == 7.0
    assert np.array_equal(one.requests, other.requests)
    assert other.sheet == 1
