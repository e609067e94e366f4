"""Best-effort jobs on the command line: run, show and verify print throughput, GPUs and time over capacity."""

import json
from pathlib import Path

import pytest
from conftest import Call

from instances import GpuPool, Instance, Job, Objective, SloRule
from instances.catalogue import gpu_type
from instances.files import instance_to_json, write_json

# Mean loads add up to 1.7 GPUs; the batch of j3 varies.
JOBS = (
    Job("j1", "vgg19", (16,), (1.0,), (50.0,), (1.0,)),
    Job("j2", "resnet50", (16,), (1.0,), (25.0,), (1.0,)),
    Job("j3", "ssd", (1, 32), (1.0, 1.0), (200.0,), (1.0,)),
    Job("j4", "alexnet", (64,), (1.0,), (80.0,), (1.0,)),
)


@pytest.fixture(autouse=True)
def _jobs(tmp_path: Path) -> None:
    rule = SloRule.HALF_SLO
    problem = Instance(
        "jobs", Objective.COLOCATION, rule, "igniter", (GpuPool(gpu_type("v100")),), (), jobs=JOBS, seed=1
    )
    write_json(tmp_path / "jobs.json", instance_to_json(problem))


def test_the_three_scores_are_in_rows_and_in_printed_tables(call: Call) -> None:
    done = call("run --instances jobs.json --plans plans --format json")

    assert done.code == 0
    rows = {row["scheduler"]: row for row in json.loads(done.out)}
    assert set(rows) == {"mediator", "horus", "bin-packing"}  # all schedulers of the objective
    for row in rows.values():
        assert (row["objective"], row["feasible"], row["violations"]) == ("colocation", True, 0)
        assert row["value"] == row["throughput_rps"] > 0
        assert row["gpus_used"] >= 2
        assert 0.0 <= row["over_capacity_pct"] <= 100.0
    assert rows["bin-packing"]["over_capacity_pct"] > 0.0

    table = call("show").out
    assert "over capacity" in table
    assert all(f"{row['over_capacity_pct']:.1f} %" in table for row in rows.values())
    one = call(f"show {rows['horus']['key'][:12]}").out
    assert f"time over capacity      {rows['horus']['over_capacity_pct']:.1f} %" in one

    for file in sorted(Path("plans").iterdir()):
        verdict = json.loads(call(f"verify {file} --format json").out)
        assert verdict["over_capacity_pct"] in [row["over_capacity_pct"] for row in rows.values()]
        seen = call(f"verify {file}").out
        assert f"{verdict['over_capacity_pct']:.1f} % of the time over capacity" in seen
        assert {line.split()[-5] for line in seen.splitlines() if "req/s" in line and "j" in line} == {
            "j1",
            "j2",
            "j3",
            "j4",
        }


def test_jobs_are_listed_and_shown(call: Call) -> None:
    listed = {entry["name"]: entry for entry in json.loads(call("list instances --format json").out)}
    assert {name: listed[name]["jobs"] for name in listed if name.startswith("mediator")} == {
        f"mediator-{name}-s{seed}": count for name, count in (("40", 40), ("pairs", 32)) for seed in range(5)
    }
    shown = call("show jobs.json").out
    assert "0 workloads, 4 jobs" in shown
    assert ["j3", "ssd", "16.5", "32", "200", "ms", "82.5", "req/s"] in [line.split() for line in shown.splitlines()]


def test_other_objectives_have_no_time_over_capacity(call: Call) -> None:
    done = call("run --instances igniter-3 --schedulers igniter")

    assert "over capacity" not in done.out
    (row,) = json.loads(call("run --instances igniter-3 --schedulers igniter --format json").out)
    assert row["over_capacity_pct"] is None
