"""``bench verify`` on iGniter's own plan, and ``bench schema``."""

import json
from pathlib import Path

import pytest
from conftest import Call

from instances import PlanClass
from instances.files import schemas, write_json
from tests.bench.cli.conftest import PLAN


def test_verify_judges_the_published_plan_against_the_instance_it_names(call: Call, tmp_path: Path) -> None:
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


def infeasible() -> dict[str, object]:
    plan = json.loads(json.dumps(PLAN))
    plan["gpus"][0]["gpulets"][0]["share_units"] = 1
    return plan  # type: ignore[no-any-return]


def test_an_infeasible_plan_is_a_result_unless_strict(call: Call, tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", infeasible())
    done = call("verify", "plan.json", "--format", "json")
    verdict = json.loads(done.out)
    assert (done.code, verdict["feasible"]) == (0, False)
    assert {violation["workload"] for violation in verdict["violations"]} == {"W1"}
    assert call("verify", "plan.json", "--strict").code == 1
    assert "W1: GPU time" in call("verify", "plan.json").out


def test_verify_takes_the_instance_from_a_file_and_a_plan_that_embeds_it(call: Call, tmp_path: Path) -> None:
    call("show", "igniter-3", "-o", "three.json")
    write_json(tmp_path / "plan.json", PLAN)
    beside = call("verify", "plan.json", "three.json", "--format", "json")
    write_json(tmp_path / "alone.json", PLAN | {"instance": json.loads((tmp_path / "three.json").read_text())})
    alone = call("verify", "alone.json", "--format", "json")
    assert beside.code == alone.code == 0
    assert json.loads(beside.out) == json.loads(alone.out)


@pytest.mark.parametrize("kind", ["instance", "plan"])
def test_schema_prints_what_the_files_are_checked_against(call: Call, kind: str) -> None:
    assert json.loads(call("schema", kind).out) == schemas()[kind]
