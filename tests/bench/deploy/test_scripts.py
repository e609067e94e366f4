"""Scripts of a deployment, run by a shell with a fake MPS daemon and fake servers."""

import itertools
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bench.deploy.deployment import Deployment, deployed
from bench.deploy.hosts import read_shell, write_shell
from bench.deploy.mig_parted import profile_names, read_mig_parted
from bench.deploy.servers import in_percents, servers
from bench.deploy.target import Target
from bench.judging.judge import judge
from instances import InputError, Instance, Plan
from instances.files import read_plan
from instances.suites import suite
from tests.bench.deploy.fakes import Host, ends
from tests.bench.deploy.plans import named, placed


@pytest.fixture
def host(mix: Instance, tmp_path: Path) -> Iterator[Host]:
    instance = named(mix, "a", "b", "c")
    files = write_shell(servers(placed(instance, "a", "b", "c"), in_percents(instance)))
    running = Host(tmp_path, files)
    yield running
    running.run("stop.sh")


@pytest.mark.parametrize("target", [Target.SHELL, Target.TRITON])
def test_the_scripts_start_check_and_stop(
    deployments: Mapping[Target, Deployment], target: Target, tmp_path: Path
) -> None:
    deployment = deployments[target]
    host = Host(tmp_path, deployment.files)
    try:
        started = host.run("start.sh")
        assert started.returncode == 0, started.stdout
        assert started.stdout == "all processes run, and every MPS daemon serves its processes\n"
        shares = sorted(each["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] for each in host.environments(5))
        assert shares == sorted(str(gpulet.share_units) for gpu in deployment.plan.gpus for gpulet in gpu.gpulets)
        pids = host.pids()
        assert len(pids) == len(shares)
        assert len(host.daemons()) == 1
    finally:
        assert host.run("stop.sh").returncode == 0
    assert all(ends(pid) for pid in pids.values())
    assert not host.daemons()


def test_the_processes_go_on_when_the_terminal_closes(host: Host) -> None:
    assert host.run("start.sh").returncode == 0
    for pid in host.pids().values():
        os.kill(pid, signal.SIGHUP)  # as the kernel does
    time.sleep(0.2)
    assert host.run("check.sh").returncode == 0


def test_a_process_that_does_not_use_mps_is_reported(host: Host) -> None:
    started = host.run("start.sh", BYPASSING="b", WAIT_S="2")
    assert started.returncode == 1
    assert "not served by MPS, so without limits: b; see" in started.stdout


def test_a_process_that_ends_is_reported(host: Host) -> None:
    started = host.run("start.sh", FAILING="c", WAIT_S="20")
    assert started.returncode == 1
    assert "c (process " in started.stdout
    assert "has ended" in started.stdout


@pytest.mark.parametrize("killed", [order for n in range(4) for order in itertools.combinations("abc", n)])
def test_stop_ends_the_daemon_after_any_crash(host: Host, killed: tuple[str, ...]) -> None:
    assert host.run("start.sh").returncode == 0
    pids = host.pids()
    for name in killed:
        os.kill(pids[name], signal.SIGKILL)
        assert ends(pids[name])
    assert (host.run("check.sh").returncode == 0) == (not killed)
    assert host.run("stop.sh").returncode == 0
    assert all(ends(pid) for pid in pids.values())
    assert not host.daemons()


def test_stop_does_not_kill_another_program_with_the_process_id_of_an_ended_server(host: Host) -> None:
    assert host.run("start.sh").returncode == 0
    pids = host.pids()
    (host.folder / "servers.pid").write_text(f"{os.getpid()} a\n3999999\n")
    assert host.run("stop.sh").returncode == 0
    assert not host.daemons()
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)


def test_a_second_start_fails_and_leaves_the_first_running(host: Host) -> None:
    assert host.run("start.sh").returncode == 0
    pids = host.pids()
    assert host.run("start.sh").returncode != 0
    assert host.pids() == pids


@pytest.fixture
def mig_plan() -> tuple[Plan, Instance]:
    (instance,) = [each for each in suite("parvagpu").build() if each.name == "parvagpu-1"]
    plan, _ = read_plan(Path(__file__).parents[2] / "fixtures" / "parvagpu_plans" / "parvagpu-1.json")
    return plan, instance


@pytest.fixture
def mig_host(mig_plan: tuple[Plan, Instance], tmp_path: Path) -> Iterator[Host]:
    running = Host(tmp_path, deployed(*mig_plan, Target.MIG_PARTED).files)
    yield running
    running.run("stop.sh")


def process_count(plan: Plan) -> int:
    return sum(gpulet.processes for gpu in plan.gpus for gpulet in gpu.gpulets)


def test_every_mig_instance_with_several_processes_has_a_daemon(
    mig_plan: tuple[Plan, Instance], mig_host: Host
) -> None:
    shared = [gpulet for gpu in mig_plan[0].gpus for gpulet in gpu.gpulets if gpulet.processes > 1]
    started = mig_host.run("start.sh")
    assert started.returncode == 0, started.stdout
    assert len(mig_host.daemons()) == len(shared) > 0
    environments = mig_host.environments(process_count(mig_plan[0]))
    with_mps = [each for each in environments if "CUDA_MPS_PIPE_DIRECTORY" in each]
    assert len(with_mps) == sum(gpulet.processes for gpulet in shared)
    assert {each["CUDA_VISIBLE_DEVICES"] for each in with_mps} == {"0"}
    pids = mig_host.pids()
    assert mig_host.run("stop.sh").returncode == 0
    assert all(ends(pid) for pid in pids.values())
    assert not mig_host.daemons()


def test_on_mig_stop_ends_every_daemon_after_a_crash(mig_host: Host) -> None:
    assert mig_host.run("start.sh").returncode == 0
    (killed, pid), *_ = pids = list(mig_host.pids().items())
    os.kill(pid, signal.SIGKILL)
    assert ends(pid)
    checked = mig_host.run("check.sh")
    assert checked.returncode == 1
    assert f"{killed} (process {pid}) has ended" in checked.stdout
    assert mig_host.run("stop.sh").returncode == 0
    assert all(ends(pid) for _, pid in pids)
    assert not mig_host.daemons()


def test_a_process_on_mig_that_does_not_use_its_daemon_is_reported(
    mig_plan: tuple[Plan, Instance], mig_host: Host
) -> None:
    name = next(g.slots[0].workload for gpu in mig_plan[0].gpus for g in gpu.gpulets if g.processes > 1)
    started = mig_host.run("start.sh", BYPASSING=name, WAIT_S="2")
    assert started.returncode == 1
    assert f"not served by MPS, so without limits: {name}" in started.stdout


def test_processes_on_mig_have_ports_drop_rules_and_a_front_end(mig_plan: tuple[Plan, Instance]) -> None:
    plan, instance = mig_plan
    files = deployed(plan, instance, Target.MIG_PARTED).files
    environments = read_shell(files)
    assert len(environments) == process_count(plan)
    assert len({each["GPUSHARE_PORT"] for each in environments}) == len(environments)
    latency_ms = {
        (position, gpulet.start): slot.t_inf_ms
        for (position, gpulet, _), slot in zip(plan.slots(), judge(plan, instance).slots, strict=True)
    }
    for each in environments:
        workload = instance.workloads[instance.workload_index[each["GPUSHARE_WORKLOAD"]]]
        assert float(each["GPUSHARE_SLO_MS"]) == workload.slo_ms
        assert each["GPUSHARE_DROP"] == "late"
        spare_us = 1000.0 * (workload.slo_ms - latency_ms[int(each["GPUSHARE_GPU"]), int(each["GPUSHARE_START"])])
        assert spare_us - 1.0 <= int(each["GPUSHARE_LONGEST_WAIT_US"]) <= spare_us
    # The front end divides the rate of a MIG instance equally among its processes.
    for name in instance.workload_index:
        slots = [(gpulet.processes, slot.rate_rps) for _, gpulet, slot in plan.slots() if slot.workload == name]
        rates = [rate_rps / processes for processes, rate_rps in slots for _ in range(processes)]
        upstream = re.search(rf"upstream {name} {{(.*?)}}", files["nginx.conf"], re.DOTALL)
        assert (upstream is not None) == (len(rates) > 1)
        if upstream is not None:
            weights = [int(weight) for weight in re.findall(r"weight=(\d+);", upstream[1])]
            assert weights == pytest.approx([1000 * rate / max(rates) for rate in rates], abs=0.5)


def test_files_with_one_port_for_two_processes_are_refused(mig_plan: tuple[Plan, Instance]) -> None:
    plan, instance = mig_plan
    files = deployed(plan, instance, Target.MIG_PARTED).files
    changed = {**files, "start.sh": files["start.sh"].replace("GPUSHARE_PORT=9002 ", "GPUSHARE_PORT=9001 ")}
    with pytest.raises(ValueError, match="two processes have the same port"):
        read_mig_parted(changed, instance)


def test_mig_plans_are_deployed_by_mig_parted_and_other_plans_are_not(
    mig_plan: tuple[Plan, Instance], mix: Instance, plan: Plan
) -> None:
    published, instance = mig_plan
    deployment = deployed(published, instance, Target.MIG_PARTED)
    assert deployment.plan == published
    with pytest.raises(InputError, match="a100-mig is cut into MIG instances; expected `target` mig-parted"):
        deployed(published, instance, Target.SHELL)
    with pytest.raises(InputError, match="target mig-parted: v100 is divided into MPS shares"):
        deployed(plan, mix, Target.MIG_PARTED)


@pytest.mark.parametrize(
    ("memory_mib", "slices", "name"),
    [
        (81920.0, 3, "3g.40gb"),
        (40960.0, 1, "1g.5gb"),
        (24576.0, 2, "2g.12gb"),
        (143771.0, 3, "3g.71gb"),
        (183359.0, 1, "1g.23gb"),
    ],
)
def test_profile_names_are_those_of_the_vendor(memory_mib: float, slices: int, name: str) -> None:
    """Names are from the MIG User Guide, memories from nvidia-smi on A100 (80 and 40 GB), A30, H200 and B200."""
    assert profile_names(memory_mib, "gpu")[slices] == name


def test_a_gpu_without_known_profiles_is_refused() -> None:
    with pytest.raises(InputError, match="big: no MIG profiles are known for a GPU of 60 GB; expected one of 24, 40"):
        profile_names(61440.0, "big")
