"""Plans for a day of traffic: rates per window from a trace, the cheapest sequence of plans, and its bound."""

import gzip
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from bench.api import Scope, Status
from bench.cli.views.day import day_view
from bench.fleet.day import planned_day
from bench.fleet.solving import BEST, Solve, solved
from bench.fleet.trace import STEP, read_day_of_traffic, window_instances
from bench.judging.judge import judge
from bench.ledger.row import Row
from instances import InputError, Instance, PlanClass
from instances.arrays import Floats
from instances.generate import generate


@pytest.fixture(scope="module")
def mix() -> Instance:
    return generate("igniter-mix", 3, 0)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def rounded_from(rates: Floats, exact: ArrayLike) -> bool:
    """Whether ``rates`` are ``exact`` rounded up by less than the factor ``STEP``."""
    ratio = rates / np.asarray(exact)
    return bool(np.all((ratio >= 1.0 - 1e-9) & (ratio < STEP)))


def test_the_rate_of_a_window_is_that_of_its_busiest_minute(tmp_path: Path, mix: Instance) -> None:
    names = [workload.id for workload in mix.workloads]
    lines = [f"{30 * part},{part + 1},10,{100 - part}" for part in range(8)]
    text = f"time_s,{','.join(names)}\n" + "\n".join(lines) + "\n"
    day = read_day_of_traffic(write(tmp_path / "t.csv", text), mix, 120.0)
    assert rounded_from(day.rates_rps, [[3.5, 10.0, 99.5], [7.5, 10.0, 95.5]])
    assert [each.workloads[0].rate_rps for each in window_instances(day, mix)] == day.rates_rps[:, 0].tolist()


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("TIMESTAMP,ContextTokens,GeneratedTokens", ["2023-11-16 18:00:00.1234567,1,2", "2023-11-16 18:02:30.0,1,2"]),
        ("app,func,end_timestamp,duration", ["a,f,10.5,10", "a,f,150.0,0.5"]),
        ("timestamp,input_length,output_length,hash_ids", ['0,1,2,"[1]"', '150000,1,2,"[1]"']),
    ],
)
def test_a_trace_of_timestamps_gives_every_service_the_same_shape_of_the_day(
    tmp_path: Path, mix: Instance, header: str, rows: list[str]
) -> None:
    text = "\n".join([header, *rows])
    day = read_day_of_traffic(write(tmp_path / "t.csv", text), mix, 60.0)
    assert day.words == "one shape of the day for every service"
    mean = np.array([workload.rate_rps for workload in mix.workloads])
    assert rounded_from(day.rates_rps[[0, 2]], 1.5 * mean)  # two requests in three minutes
    assert rounded_from(day.rates_rps[1], 1.5 * mean / 1000.0)  # a quiet window has a thousandth of the peak


def test_requests_are_counted_by_service(tmp_path: Path, mix: Instance) -> None:
    names = [workload.id for workload in mix.workloads]
    text = "time_s,service,requests\n" + "\n".join(f"{t},{name},{6 * (t + 1)}" for t in (0, 60) for name in names)
    day = read_day_of_traffic(write(tmp_path / "t.csv", text), mix, 60.0)
    assert rounded_from(day.rates_rps, [[0.1] * 3, [6.1] * 3])


def test_a_column_of_counts_may_be_compressed(tmp_path: Path, mix: Instance) -> None:
    with gzip.open(tmp_path / "t.csv.gz", "wt") as file:
        file.write("rps\n" + "1\n" * 60 + "3\n" * 60)
    day = read_day_of_traffic(tmp_path / "t.csv.gz", mix, 60.0)
    assert rounded_from(day.rates_rps[:, 0] / mix.workloads[0].rate_rps, [0.5, 1.5])


def test_a_wrong_trace_names_its_file_and_the_fault(tmp_path: Path, mix: Instance) -> None:
    first = mix.workloads[0].id
    for text, problem in (
        ("rps\n1\nx\n", "t.csv: line 3, column rps: is"),
        ("rps\n1\n-1\n", "t.csv: line 3, column rps: is"),
        ("TIMESTAMP\nyesterday\n", "t.csv: line 2, column TIMESTAMP: is"),
        (f"time_s,{first}\n0,1\n", "t.csv: line 1, column .*: is missing; the trace lacks"),
        ("", "t.csv: line 1, column 1: is empty"),
        ("rps\n", "t.csv: line 2, column 1: is empty"),
        ("rps\n\n5\n", "t.csv: line 2, column rps: is"),
        ("a,rps\n1\n2,3\n", "t.csv: line 2, column rps: is"),
        ("a,b\n1,2\n", "t.csv: line 1: has the columns a, b, which are those of no known trace; expected time_s"),
        ("speed\n1\n2\n", "t.csv: line 1: has the columns speed, which are those of no known trace"),
        (
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,scheduled_time\n"
            "pod-0,12000,16384,1,460,T4,LS,Running,9661695,9661699\n",
            "t.csv: line 1: is an Alibaba list of pods; it has requests for GPUs",
        ),
        ("apiVersion: v1\nkind: Pod\n", "t.csv: line 1: is a Kubernetes manifest"),
        ("TIMESTAMP,func\n\n", "t.csv: line 2, column TIMESTAMP: is"),
        ("rps\n0\n0\n", f"t.csv: has no requests of {first}; expected"),
        (
            "time_s,service,requests\n" + "".join(f"0,{w.id},{n}\n" for n, w in enumerate(mix.workloads)),
            f"t.csv: has no requests of {first}",
        ),
    ):
        with pytest.raises(InputError, match=problem):
            read_day_of_traffic(write(tmp_path / "t.csv", text), mix, 60.0)


def test_a_damaged_or_endless_trace_is_refused(tmp_path: Path, mix: Instance) -> None:
    damaged = bytearray(gzip.compress(b"rps\n" + b"1\n" * 5000))
    damaged[12:20] = b"\xff" * 8
    (tmp_path / "t.csv.gz").write_bytes(damaged)
    with pytest.raises(InputError, match=r"t.csv.gz: cannot be read"):
        read_day_of_traffic(tmp_path / "t.csv.gz", mix, 60.0)
    with pytest.raises(InputError, match=r"t.csv: is not valid CSV: field larger"):
        read_day_of_traffic(write(tmp_path / "t.csv", "rps\n" + "1" * 200_000), mix, 60.0)
    with pytest.raises(InputError, match="trace: lasts 100000000000 s; expected at most 10,000,000 s"):
        read_day_of_traffic(write(tmp_path / "t.csv", "time_s,service,requests\n0,a,1\n100000000000,a,1\n"), mix, 60.0)


def test_dates_do_not_depend_on_the_time_zone_of_the_host(
    tmp_path: Path, mix: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = write(tmp_path / "t.csv", "TIMESTAMP\n2023-10-29 02:30:00\n2023-10-29 03:30:00\n")
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")  # summer time ends between the two timestamps
        time.tzset()
        day = read_day_of_traffic(trace, mix, 3600.0)
    time.tzset()
    assert len(day.rates_rps) == 2


def test_the_day_costs_no_less_than_its_bound_and_no_more_than_its_peak_and_switching(mix: Instance) -> None:
    factors = (0.3, 0.35, 0.9, 0.3)
    windows = [replace(each, name=f"{mix.name}#{number}") for number, each in enumerate(mix.scaled(f) for f in factors)]
    day = planned_day(windows, 3600.0, 60.0)
    assert day.bound <= day.cost <= day.constant + day.switching
    assert all(each.bound_per_hour <= each.cost_per_hour for each in day.windows)
    assert all(judge(each.chosen, each.instance).feasible for each in day.windows)
    assert day.windows[0].started == 0
    serving = math.fsum(judge(each.chosen, each.instance).cost_per_hour for each in day.windows)
    assert day.cost == pytest.approx(serving + day.switching)
    assert day.switching > 0.0 or all(each.started == 0 for each in day.windows)
    assert len(day_view(day, 3600.0)) == 5


def test_a_gap_is_closed_by_a_search_on_fewer_gpus(mix: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run's plan costs more than its bound; CP-SAT then searches on the fewest GPUs within the bound."""
    light = mix.scaled(0.3)
    assert planned_day([light], 3600.0, 60.0).windows[0].cost_per_hour == pytest.approx(3.06)
    asked: list[str] = []

    def dear(solves: Sequence[Solve], ledger: None, listener: None) -> list[Row]:
        asked.extend(solve.scheduler for solve in solves)
        if solves and solves[0].scheduler == "cpsat":
            assert solves[0].instance.gpus[0].count == 1
            return solved(solves, ledger, listener)
        (row,) = solved([Solve(light, "whole-gpu", 30.0)], None, None)
        return [replace(row, bound=3.0, bound_certified=True)]

    monkeypatch.setattr("bench.fleet.day.solved", dear)
    (window,) = planned_day([light], 3600.0, 60.0).windows
    assert asked == [BEST, "cpsat"]
    assert (window.cost_per_hour, window.bound_per_hour) == pytest.approx((3.06, 3.06))
    assert judge(window.chosen, light).feasible


@pytest.mark.parametrize(("plan_class", "least"), [("spatial", 6.12), ("split", 3.06)])
def test_infeasibility_on_fewer_gpus_raises_the_bound_only_of_classes_that_it_covers(
    mix: Instance, monkeypatch: pytest.MonkeyPatch, plan_class: str, least: float
) -> None:
    light = mix.scaled(0.3)
    (row,) = solved([Solve(light, "whole-gpu", 30.0)], None, None)
    assert row.cost_per_hour is not None
    assert row.cost_per_hour > 6.12

    def answer(solves: Sequence[Solve], ledger: None, listener: None) -> list[Row]:
        if solves and solves[0].scheduler == "cpsat":
            return [replace(row, status=Status.INFEASIBLE, plan=None, feasible=None, cost_per_hour=None)]
        return [replace(row, bound=3.0, bound_certified=True, bound_scope=Scope(plan_class=PlanClass(plan_class)))]

    monkeypatch.setattr("bench.fleet.day.solved", answer)
    (window,) = planned_day([light], 3600.0, 60.0).windows
    assert window.bound_per_hour == pytest.approx(least)
