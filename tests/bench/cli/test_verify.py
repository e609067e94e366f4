"""``bench verify`` on iGniter's published plan and with measured times, and ``bench schema``."""

import json
from pathlib import Path

import pytest
from conftest import Call

from bench.judging.measured import MeasuredTruth
from instances import PlanClass
from instances.files import read_plan, schemas, write_json
from instances.measurements import Configuration
from instances.performance.validation import latencies_ms
from tests.bench.cli.conftest import PLAN


def test_verify_judges_the_published_plan_on_the_instance_that_it_names(call: Call, tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", PLAN)
    done = call("verify", "plan.json", "--format", "json")
    verdict = json.loads(done.out)
    assert done.code == 0
    assert verdict["feasible"] is True
    assert verdict["violations"] == []
    assert verdict["gpus_used"] == 1
    assert verdict["value"] == pytest.approx(3.06)
    assert verdict["fragments_pct"] == pytest.approx(22.5)
    assert verdict["plan_class"] == str(PlanClass.SPATIAL)


def test_verify_shows_the_plan_with_shares_and_batches(call: Call, tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", PLAN)
    shown = call("verify", "plan.json").out
    assert "feasible: plan for igniter-3" in shown
    assert "3.06 $/h on 1 GPU" in shown
    (line,) = (line for line in shown.splitlines() if " W3 " in line)
    assert line.split()[:5] == ["█" * 15, "37.5", "%", "W3", "vgg19"]


def infeasible_plan() -> dict[str, object]:
    plan = json.loads(json.dumps(PLAN))
    plan["gpus"][0]["gpulets"][0]["share_units"] = 1
    return plan  # type: ignore[no-any-return]


def test_an_infeasible_plan_is_an_error_only_with_strict(call: Call, tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", infeasible_plan())
    done = call("verify", "plan.json", "--format", "json")
    verdict = json.loads(done.out)
    assert (done.code, verdict["feasible"]) == (0, False)
    assert {violation["workload"] for violation in verdict["violations"]} == {"W1"}
    assert call("verify", "plan.json", "--strict").code == 1
    assert "W1: GPU time" in call("verify", "plan.json").out


def test_verify_takes_the_instance_from_a_file_or_from_the_plan(call: Call, tmp_path: Path) -> None:
    call("show", "igniter-3", "-o", "three.json")
    write_json(tmp_path / "plan.json", PLAN)
    from_file = call("verify", "plan.json", "three.json", "--format", "json")
    write_json(tmp_path / "alone.json", PLAN | {"instance": json.loads((tmp_path / "three.json").read_text())})
    embedded = call("verify", "alone.json", "--format", "json")
    assert from_file.code == embedded.code == 0
    assert json.loads(from_file.out) == json.loads(embedded.out)


@pytest.mark.parametrize("kind", ["instance", "plan"])
def test_schema_prints_the_schema_of_the_files(call: Call, kind: str) -> None:
    assert json.loads(call("schema", kind).out) == schemas()[kind]


SOLO = "model,batch,share_pct,latency_ms\nalexnet,4,50,2.5\nresnet50,8,50,6.0\n"
PAIRS = (
    "model_a,batch_a,share_a_pct,model_b,batch_b,share_b_pct,latency_a_ms,latency_b_ms\n"
    "alexnet,4,50,resnet50,8,50,{alexnet_ms},{resnet_ms}\n"
)


def two_services(share_units: int = 20, batch: int = 4) -> dict[str, object]:
    """Return a plan of two services on one V100, with its instance."""
    workloads = [
        {"id": "a", "model": "alexnet", "slo_ms": 10, "rate_rps": 300},
        {"id": "r", "model": "resnet50", "slo_ms": 30, "rate_rps": 400},
    ]
    instance = {
        "version": 1, "name": "two", "objective": "cost", "slo_rule": "half-slo", "performance_model": "hybrid",
        "gpus": [{"type": "v100"}], "workloads": workloads,
    }  # fmt: skip
    gpulets = [
        {"share_units": share_units, "slots": [{"workload": "a", "batch": batch, "rate_rps": 300}]},
        {"share_units": 20, "slots": [{"workload": "r", "batch": 8, "rate_rps": 400}]},
    ]
    return {"version": 1, "instance": instance, "gpus": [{"type": "v100", "gpulets": gpulets}]}


def write_measurements(folder: Path, alexnet_ms: float, resnet_ms: float) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "solo.csv").write_text(SOLO)
    (folder / "pairs.csv").write_text(PAIRS.format(alexnet_ms=alexnet_ms, resnet_ms=resnet_ms))


def test_a_measured_truth_judges_a_plan_by_its_latencies(call: Call, tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", two_services())
    command = ("verify", "plan.json", "--truth", "measured:here", "--format", "json", "--strict")
    # half of the SLO of service a is 5 ms, and 8 requests of r arrive in 20 ms
    for alexnet_ms, resnet_ms, late in (
        (4.9, 14.9, []),
        (5.1, 14.9, ["a"]),
        (4.9, 15.1, ["r"]),
        (5.1, 15.1, ["a", "r"]),
    ):
        write_measurements(tmp_path / "here", alexnet_ms, resnet_ms)
        done = call(*command)
        verdict = json.loads(done.out)
        assert [slot["t_inf_ms"] for slot in verdict["slots"]] == pytest.approx([alexnet_ms, resnet_ms])
        assert [violation["workload"] for violation in verdict["violations"]] == late
        assert done.code == (1 if late else 0)
    by_model = json.loads(call("verify", "plan.json", "--format", "json").out)
    assert by_model["feasible"] is True
    by_igniter = json.loads(call("verify", "plan.json", "--truth", "igniter", "--format", "json").out)
    assert by_igniter["slots"][0]["t_gpu_ms"] != by_model["slots"][0]["t_gpu_ms"]


def test_a_measured_truth_refuses_plans_that_were_not_measured(call: Call, tmp_path: Path) -> None:
    write_measurements(tmp_path / "here", 4.0, 10.0)
    write_json(tmp_path / "three.json", PLAN)
    write_json(tmp_path / "share.json", two_services(share_units=16))
    write_json(tmp_path / "batch.json", two_services(batch=2))
    alone = two_services()
    alone["gpus"] = [{"type": "v100", "gpulets": [gpulet]} for gpulet in alone["gpus"][0]["gpulets"]]  # type: ignore[index]
    write_json(tmp_path / "alone.json", alone)
    assert call("verify", "alone.json", "--truth", "measured:here", "--strict").code == 0
    for plan, truth, problem in (
        ("three", "measured:here", "plan: gpus[0]: has 3 slots; here has one or two configurations on a GPU"),
        (
            "share",
            "measured:here",
            "plan: gpus[0]: alexnet b4 40 % beside resnet50 b8 50 % was not measured in here; noth",
        ),
        (
            "batch",
            "measured:here",
            "plan: gpus[0]: alexnet b2 50 % beside resnet50 b8 50 % was not measured in here; noth",
        ),
        ("alone", "measured:nowhere", "nowhere/solo.csv: cannot be read: No such file"),
        ("alone", "crystal-ball", '--truth: unknown performance model "crystal-ball"'),
    ):
        done = call("verify", f"{plan}.json", "--truth", truth)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(f"error: {problem}"), done.err


def test_a_simulation_uses_measured_times(call: Call, tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", two_services())
    write_measurements(tmp_path / "here", 3.0, 8.0)
    truth = MeasuredTruth.read(tmp_path / "here")
    plan, instance = read_plan(tmp_path / "plan.json")
    assert instance is not None
    _, planned, true = truth.simulated(plan, instance)
    gpu = true.gpus[0].type
    configurations = (Configuration("a", 4, 50.0), Configuration("r", 8, 50.0))
    assert latencies_ms(gpu, "hybrid", [configurations])[0] == pytest.approx([3.0, 8.0])
    assert [latencies_ms(gpu, "hybrid", [(side,)])[0][0] for side in configurations] == pytest.approx([2.5, 6.0])
    assert planned.performance_model == "hybrid"

    in_time, late = (
        (
            write_measurements(tmp_path / "here", *times),
            call("simulate", "plan.json", "--truth", "measured:here", "--check"),
        )[1]
        for times in ((3.0, 8.0), (40.0, 60.0))
    )
    assert (in_time.code, late.code) == (0, 1), in_time.out + in_time.err
    assert "times of smaller batches are interpolated by the solo profile" in in_time.err
    write_json(tmp_path / "three.json", PLAN)
    refused = call("simulate", "three.json", "--truth", "measured:here")
    assert (refused.code, refused.err.startswith("error: plan: gpus[0]: has 3 slots")) == (2, True)
    refused = call("simulate", "plan.json", "--truth", "measured:here", "--error", "0.1")
    assert refused.err == "error: --error: is given; measured latencies have no error\n"
