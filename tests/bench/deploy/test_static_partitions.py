"""Static SM partitions of MPS: plans in whole chunks of SMs, and their scripts, run with a fake daemon."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.api import Run
from bench.deploy.deployment import Deployment, deployed, instance_for
from bench.deploy.static_partitions import chunks_of, in_chunks, read_mps_static
from bench.deploy.target import Target
from bench.judging.judge import judge
from heuristics.baselines.local_search import LocalSearch
from instances import Gpulet, GpuPool, InputError, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload
from instances.catalogue import gpu_type, gpu_type_names
from tests.bench.deploy.fakes import Host, ends

OLDER_THAN_AMPERE = ("rtx2080ti", "rtx2080ti-arxiv", "t4", "v100", "v100-rapp")


def instance_on(gpu: str, *services: tuple[str, str, float]) -> Instance:
    """Return an instance of services (name, model, requests per second) with long SLOs on one GPU type."""
    workloads = tuple(Workload(name, model, 400.0, rate) for name, model, rate in services)
    return Instance(
        "static", Objective.COST, SloRule.HALF_SLO, "hybrid", (GpuPool(gpu_type(gpu)),), workloads=workloads
    )


@pytest.fixture(scope="module")
def asked() -> Instance:
    return instance_on("a100", ("a", "resnet50", 300.0), ("b", "vgg16", 100.0), ("c", "resnet101", 80.0))


@pytest.fixture(scope="module")
def planned(asked: Instance) -> Plan:
    plan = LocalSearch(rounds=200).schedule(instance_for(asked, Target.MPS_STATIC), Run()).plan
    assert plan is not None
    return plan


@pytest.fixture(scope="module")
def deployment(asked: Instance, planned: Plan) -> Deployment:
    return deployed(planned, instance_for(asked, Target.MPS_STATIC), Target.MPS_STATIC)


@pytest.fixture
def host(deployment: Deployment, tmp_path: Path) -> Iterator[Host]:
    running = Host(tmp_path, deployment.files)
    yield running
    running.run("stop.sh")


@pytest.mark.parametrize(
    ("gpu", "sms", "chunk_sms"), [("a100-inss", 108, 4), ("l4", 58, 4), ("h100-sxm", 132, 8), ("h200", 132, 8)]
)
def test_chunks_are_those_of_the_vendor(gpu: str, sms: int, chunk_sms: int) -> None:
    chunks = chunks_of(gpu)
    assert (chunks.sms, chunks.chunk_sms) == (sms, chunk_sms)
    assert chunks.sms % gpu_type(gpu).share_units == 0  # a share unit of the catalogue is a whole number of SMs


@pytest.mark.parametrize("gpu", [name for name in gpu_type_names() if gpu_type(name).mig is None])
def test_every_gpu_of_the_catalogue_has_chunks_or_is_older_than_ampere(gpu: str) -> None:
    if gpu in OLDER_THAN_AMPERE:
        with pytest.raises(InputError, match=f"{gpu} is older than Ampere and has no static SM partitions; expected"):
            chunks_of(gpu)
    else:
        assert chunks_of(gpu).sms > 0


def test_an_unknown_gpu_is_refused(asked: Instance) -> None:
    unknown = replace(asked, gpus=(GpuPool(replace(asked.gpus[0].type, name="x9")),))
    with pytest.raises(InputError, match="target mps-static: the number of SMs of x9 is not known; expected a name"):
        instance_for(unknown, Target.MPS_STATIC)


def test_only_allowed_shares_that_are_whole_chunks_are_planned(asked: Instance) -> None:
    permitted = replace(asked.gpus[0].type, allowed_shares=(20, 27, 33, 40, 47, 54))
    chunked = in_chunks(replace(asked, gpus=(GpuPool(permitted),)))
    allowed = chunked.gpus[0].type.allowed_shares
    assert allowed == (40, 80, 108)  # in SMs
    whole = replace(asked.gpus[0].type, name="h100", share_units=66, allowed_shares=(66,))
    with pytest.raises(InputError, match="h100 is planned in shares of 100 % only, and none is whole chunks of 8 SMs"):
        in_chunks(replace(asked, gpus=(GpuPool(whole),)))


def test_a_plan_for_the_target_is_deployed_unchanged(asked: Instance, planned: Plan, deployment: Deployment) -> None:
    assert deployment.plan == planned
    assert judge(planned, instance_for(asked, Target.MPS_STATIC)).feasible
    shares = [gpulet.share_units for gpu in planned.gpus for gpulet in gpu.gpulets]
    assert all(share % 4 == 0 for share in shares)
    environments = read_mps_static(deployment.files)
    assert [int(each["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]) for each in environments] == shares
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in deployment.files["start.sh"]


def test_a_plan_in_other_units_is_deployed_if_its_shares_are_whole_chunks(asked: Instance) -> None:
    easy = replace(asked, workloads=tuple(replace(workload, rate_rps=1.0) for workload in asked.workloads))

    def plan(units: int) -> Plan:
        gpulets = tuple(Gpulet(units, (Slot(workload.id, 1, 1.0),)) for workload in easy.workloads)
        return Plan(easy.name, (PlacedGpu("a100", gpulets),))

    deployment = deployed(plan(16), easy, Target.MPS_STATIC)
    assert {gpulet.share_units for gpulet in deployment.plan.gpus[0].gpulets} == {32}
    with pytest.raises(InputError) as refused:
        deployed(plan(15), easy, Target.MPS_STATIC)
    assert str(refused.value) == (
        "plan: gpus[0]: a share is 27.78 % of its 108 SMs, not a whole number of chunks of 4 SMs;"
        " plan again (bench plan) for the target mps-static"
    )


def test_files_without_a_partition_for_each_server_are_refused(deployment: Deployment) -> None:
    start = deployment.files["start.sh"]
    for changed in (start.replace("$partition_1", "$partition_0"), start.replace("add_partition UUID-OF-GPU-000", "x")):
        with pytest.raises(ValueError, match="has no partition of its own on its GPU"):
            read_mps_static({"start.sh": changed})


def test_the_scripts_reserve_and_release_the_partitions(host: Host, planned: Plan) -> None:
    started = host.run("start.sh", CHUNKS="27")
    assert started.returncode == 0, started.stdout
    assert started.stdout == "all processes run, and every MPS daemon serves its processes\n"
    reserved = {
        f"UUID-OF-GPU-{number:03d}": sorted(gpulet.share_units // 4 for gpulet in gpu.gpulets)
        for number, gpu in enumerate(planned.gpus)
    }
    assert {gpu: sorted(chunks) for gpu, chunks in host.partitions().items()} == reserved
    partitions_of_servers = [each["CUDA_MPS_SM_PARTITION"] for each in host.environments(3)]
    assert len(set(partitions_of_servers)) == 3
    assert all("/D" in name and name.endswith("/AA=") for name in partitions_of_servers)
    pids = host.pids()
    stopped = host.run("stop.sh")
    assert (stopped.returncode, stopped.stdout) == (0, "")
    assert all(ends(pid) for pid in pids.values())
    assert not host.partitions()
    assert not host.daemons()


@pytest.mark.parametrize("killed", ["a", "b", "c"])
def test_after_a_crash_the_other_partitions_remain_until_stop_releases_all(host: Host, killed: str) -> None:
    assert host.run("start.sh", CHUNKS="27").returncode == 0
    reserved, pids = host.partitions(), host.pids()
    os.kill(pids[killed], signal.SIGKILL)
    assert ends(pids[killed])
    checked = host.run("check.sh")
    assert checked.returncode == 1
    assert f"{killed} (process {pids[killed]}) has ended" in checked.stdout
    assert host.partitions() == reserved
    assert host.run("stop.sh").returncode == 0
    assert all(ends(pid) for pid in pids.values())
    assert not host.partitions()
    assert not host.daemons()


def test_too_few_chunks_stop_the_start(host: Host) -> None:
    started = host.run("start.sh", CHUNKS="1")
    assert started.returncode == 1
    assert "MPS reserves no partition of " in started.stdout
    assert "not enough chunks" in started.stdout
    assert not list((host.folder / "logs").iterdir())
    assert not host.partitions()
    assert not host.daemons()


def test_other_targets_have_their_own_units_of_shares(asked: Instance) -> None:
    assert instance_for(asked, Target.COMPOSE).gpus[0].type.share_units == 100
    with pytest.raises(InputError, match="target device-plugin: the number of equal shares follows from the plan"):
        instance_for(asked, Target.DEVICE_PLUGIN)
    with pytest.raises(InputError, match="target mig-parted: a100 is divided into MPS shares"):
        instance_for(asked, Target.MIG_PARTED)
