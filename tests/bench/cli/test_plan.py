"""``bench plan`` and ``bench deploy``: options and errors."""

import json
import re
from pathlib import Path

import pytest
from conftest import Call

from tests.instances.test_own_tables import GPUS, SERVICES, profile


@pytest.mark.soak
def test_a_guessed_interference_is_printed_as_a_guess_with_its_cost(call: Call, tmp_path: Path) -> None:
    for name, text in (("services", SERVICES), ("profile", profile()), ("gpus", GPUS)):
        (tmp_path / f"{name}.csv").write_text(text)
    planned = call("plan", "services.csv", "--profile", "profile.csv", "--gpus", "gpus.csv", "--time-limit", "10")
    assert planned.code == 0, planned.err
    assert (
        "every neighbour adds 81 % (a guess: P95 of the catalogue's measured pairs; --pairs replaces it)" in planned.err
    )
    (line,) = (line for line in planned.out.splitlines() if line.startswith("  a guess of the interference costs "))
    assert re.search(r"at 31 % \d GPUs?, \$\d+\.\d\d/h, at 0 % \d GPUs?, .*, which may be late; measuring ", line)
    (line,) = (line for line in planned.out.splitlines() if line.startswith("  measure next on x9, 10 pairs in place"))
    assert "; all: bench profile run --pairs auto --models " in line
    assert line.count(" beside ") == 10


@pytest.mark.soak
def test_unknown_models_on_an_unknown_gpu_are_planned_and_deployed(call: Call, tmp_path: Path) -> None:
    for name, text in (("services", SERVICES), ("profile", profile()), ("gpus", GPUS)):
        (tmp_path / f"{name}.csv").write_text(text)
    options = ["--profile", "profile.csv", "--gpus", "gpus.csv", "--time-limit", "30", "--interference", "1.2"]
    planned = call("plan", "services.csv", *options, "-o", "plan.json", "--survive-gpus", "1")
    assert planned.code == 0, planned.err
    assert "survives any one GPU with a spare x9" in planned.out
    replanned = call("plan", "services.csv", *options, "-o", "next.json", "--from", "plan.json", "--max-moves", "1")
    assert replanned.code == 0, replanned.err
    assert "moves: no moves" in replanned.out
    written = call("deploy", "plan.json", "--to", "kubernetes", "-o", "out")
    assert written.code == 0, written.err
    assert (tmp_path / "out" / "plan.yaml").exists()
    assert call("verify", "plan.json", "--strict").code == 0


@pytest.mark.soak
def test_no_drop_plans_for_servers_that_serve_all_requests_and_prints_both_costs(call: Call, tmp_path: Path) -> None:
    for name, text in (("services", SERVICES), ("profile", profile()), ("gpus", GPUS)):
        (tmp_path / f"{name}.csv").write_text(text)
    tables = ["services.csv", "--profile", "profile.csv", "--gpus", "gpus.csv", "--interference", "1.2"]
    planned = call("plan", *tables, "--time-limit", "15", "--no-drop", "-o", "plan.json")

    assert planned.code == 0, planned.err
    first, _, third = planned.out.splitlines()[:3]
    assert third.startswith("3 holds on servers that drop no requests: every service keeps ")
    (cost,) = (line for line in planned.out.splitlines() if line.startswith("  not dropping costs "))
    assert re.search(r"servers that drop late requests would take \d+ GPUs?, \$\d+\.\d\d/h$", cost)
    assert re.search(r" for \$\d+\.\d\d/h", first)
    assert json.loads((tmp_path / "plan.json").read_text())["instance"]["dropping"] is False


def test_language_models_are_planned_and_deployed(call: Call, tmp_path: Path) -> None:
    columns = "service,model,rate_rps,prompt_tokens,output_tokens,ttft_ms,tpot_ms"
    services = (columns, "chat,llama-7b,4,192,96,600,50", "drafts,llama-7b,3,128,64,600,50")
    (tmp_path / "services.csv").write_text("\n".join(services) + "\n")
    (tmp_path / "gpus.csv").write_text("gpu\na100-llm\n")
    planned = call("plan", "services.csv", "--gpus", "gpus.csv", "--time-limit", "20", "-o", "plan.json")

    assert planned.code == 0, planned.err
    assert planned.out.splitlines()[1].startswith("2 proven: no plan is cheaper")
    assert re.search(r"memory: [\d,]+ MiB of weights and CUDA contexts, [\d,]+ MiB of KV cache", planned.out)
    written = call("deploy", "plan.json", "--to", "compose", "-o", "out")
    assert written.code == 0, written.err
    assert "chat-decode" in (tmp_path / "out" / "compose.yaml").read_text()


@pytest.mark.soak
def test_the_plans_of_the_demo_hold_only_on_the_servers_that_they_are_for(call: Call) -> None:
    call("plan", "--example", "demo-services")
    tables = [
        "demo-services/services.csv",
        "--profile",
        "demo-services/profile.csv",
        "--gpus",
        "demo-services/gpus.csv",
    ]
    for option in ("--drop", "--no-drop"):
        # With more slack (the default), the plan for servers that drop requests would hold on the others, too.
        assert call("plan", *tables, option, "--then", "none", "-o", f"plan{option}.json").code == 0
        checked = call("simulate", f"plan{option}.json", "--check")
        on = "servers that drop late requests" if option == "--drop" else "servers that drop no requests"
        assert checked.code == 0, checked.out
        assert f"holds on {on}: yes" in checked.out
    other = call("simulate", "plan--drop.json", "--check", "--no-drop")
    assert other.code == 1
    assert "holds on servers that drop no requests: no, " in other.out


def test_random_routing_is_planned_tested_and_deployed(call: Call, tmp_path: Path) -> None:
    (tmp_path / "services.csv").write_text("service,model,rate_rps,slo_ms\na,resnet50,1500,100\n")
    (tmp_path / "gpus.csv").write_text("gpu\nt4\n")
    options = ["--gpus", "gpus.csv", "--routing", "random", "--time-limit", "10", "-o", "plan.json"]
    planned = call("plan", "services.csv", *options)
    assert planned.code == 0, planned.err
    price = r"  random routing costs nothing: the plan for turns is the same \d t4 for \$\d\.\d\d/h;.* a \d+\.\d % and "
    assert re.search(price, planned.out)
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["instance"]["random_routing"] is True
    written = call("deploy", "plan.json", "--to", "triton", "-o", "out")
    assert written.code == 0, written.err
    assert "    random;\n" in (tmp_path / "out" / "nginx.conf").read_text()


@pytest.mark.soak
def test_a_plan_for_static_partitions_has_whole_chunks_and_is_deployed(call: Call, tmp_path: Path) -> None:
    (tmp_path / "services.csv").write_text("service,model,rate_rps,slo_ms\na,resnet50,300,100\nb,resnet50,90,150\n")
    for gpu in ("a100", "v100"):
        (tmp_path / f"{gpu}.csv").write_text(f"gpu\n{gpu}\n")
    options = ["--target", "mps-static", "--time-limit", "10", "-o", "plan.json"]
    refused = call("plan", "services.csv", "--gpus", "v100.csv", *options)
    assert refused.code == 2
    assert refused.err.startswith("error: --target mps-static: v100 is older than Ampere and has no static SM partit")
    planned = call("plan", "services.csv", "--gpus", "a100.csv", *options)
    assert planned.code == 0, planned.err
    assert "whole-gpu" in planned.out
    plan = json.loads((tmp_path / "plan.json").read_text())
    assert plan["instance"]["catalogue"]["a100"]["share_units"] == 108
    assert all(gpulet["share_units"] % 4 == 0 for gpu in plan["gpus"] for gpulet in gpu["gpulets"])
    written = call("deploy", "plan.json", "--to", "mps-static", "-o", "out")
    assert written.code == 0, written.err
    assert "shares are whole chunks of SMs" in written.err
    assert "add_partition UUID-OF-GPU-000 " in (tmp_path / "out" / "start.sh").read_text()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("plan", "SERVICES: is missing; the command needs SERVICES and --gpus"),
        ("plan nothing.csv --gpus nothing.csv", "nothing.csv: cannot be read: No such file or directory"),
        ("deploy nothing.json --to compose -o out", "nothing.json: cannot be read"),
        ("deploy nothing.json --to swarm -o out", "--to: 'swarm' is not one of"),
    ],
)
def test_wrong_input_gets_one_line(call: Call, command: str, problem: str) -> None:
    done = call(*command.split())
    assert done.code == 2
    assert done.err.startswith(f"error: {problem}")
    assert len(done.err.splitlines()) == 1
