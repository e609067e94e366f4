"""``bench plan`` with too few GPUs: the rates that are served, those that are turned away, and the plan file."""

import json
from pathlib import Path

import pytest
from conftest import Call

SERVICES = "service,model,rate_rps,slo_ms,weight,priority\ntags,vgg19,300,60,1,\nsearch,vgg19,440,60,3,1\n"


def test_with_too_few_gpus_the_answer_has_the_served_and_the_refused_rates(call: Call, tmp_path: Path) -> None:
    (tmp_path / "services.csv").write_text(SERVICES)
    (tmp_path / "gpus.csv").write_text("gpu,count\nv100,1\n")
    planned = call("plan", "services.csv", "--gpus", "gpus.csv", "--time-limit", "30", "-o", "plan.json")

    assert planned.code == 1
    lines = planned.out.splitlines()
    starts = ("1 served: ", "2 turned away: ", "3 one more GPU: ", "4 proven: ", "5 ")
    assert [line[: len(start)] for line, start in zip(lines, starts, strict=False)] == [*starts], planned.out
    # Nothing of the lower priority fits, and its proven bound is below one step of its rate.
    assert "priority 1: no plan serves more; priority 0: no plan serves more" in lines[3]
    instance = json.loads((tmp_path / "plan.json").read_text())["instance"]
    assert sum(workload["rate_rps"] for workload in instance["workloads"]) < 740.0
    assert call("verify", "plan.json", "--strict").code == 0


def test_wrong_weights_and_priorities_get_one_line(call: Call, tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "gpus.csv").write_text("gpu,count\nv100,1\n")
    for wrong, column in (("0,1", "weight"), ("3,1.5", "priority"), ("3,-1", "priority")):
        with subtests.test(wrong):
            (tmp_path / "services.csv").write_text(SERVICES.replace("3,1", wrong))
            refused = call("plan", "services.csv", "--gpus", "gpus.csv")

            assert refused.code == 2
            assert f"column {column}" in refused.err
            assert len(refused.err.splitlines()) == 1
