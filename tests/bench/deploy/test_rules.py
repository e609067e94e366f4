"""Rules in deployed files: dropped requests, memory limits, shares of the device plugin, notes to the operator."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from bench.deploy import clusters, hosts, triton
from bench.deploy.deployment import Deployment
from bench.deploy.duties import duties
from bench.deploy.servers import MEMORY_SLACK, Server, in_percents, servers
from bench.deploy.target import Target
from bench.judging.judge import judge
from instances import Instance
from instances.memory import MEMORY_MEASURED
from tests.bench.deploy.conftest import BY_SHARE
from tests.bench.deploy.plans import named, placed


def processes_of(mix: Instance, dropping: bool = True) -> list[Server]:
    instance = replace(named(mix, "a", "b"), dropping=dropping)
    return servers(placed(instance, "a", "b"), in_percents(instance))


def pods_in(files: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the pods of the servers."""
    documents = yaml.safe_load_all(files["plan.yaml"])
    return [each["spec"]["template"] for each in documents if each["kind"] == "Deployment"]


def test_a_server_drops_a_request_once_a_full_batch_would_answer_it_late(mix: Instance) -> None:
    instance = in_percents(named(mix, "a", "b"))
    verdict = judge(placed(instance, "a", "b"), instance)
    for server, slot in zip(processes_of(mix), verdict.slots, strict=True):
        assert server.longest_wait_us is not None
        spare_us = 1000.0 * (server.slo_ms - slot.t_inf_ms)
        assert spare_us - 1.0 <= server.longest_wait_us <= max(1.0, spare_us)


def test_triton_rejects_late_requests_only_if_the_plan_is_for_dropping_servers(mix: Instance) -> None:
    messages = pytest.importorskip("tritonclient.grpc.model_config_pb2")
    text_format = pytest.importorskip("google.protobuf.text_format")
    for dropping in (True, False):
        processes = processes_of(mix, dropping)
        for server in processes:
            text = triton.write_triton([server])[f"{server.name}/{server.service}/config.pbtxt"]
            config = text_format.Parse(text, messages.ModelConfig())
            policy = config.dynamic_batching.default_queue_policy
            assert config.dynamic_batching.HasField("default_queue_policy") == dropping
            assert policy.default_timeout_microseconds == (server.longest_wait_us or 0)
            assert policy.timeout_action == 0  # REJECT
            assert not policy.allow_timeout_override


@pytest.mark.parametrize("dropping", [True, False])
def test_every_server_has_the_drop_rule_in_its_environment(mix: Instance, dropping: bool) -> None:
    for environment in hosts.read_compose(hosts.write_compose(processes_of(mix, dropping))):
        assert environment["GPUSHARE_DROP"] == ("late" if dropping else "never")
        assert float(environment["GPUSHARE_SLO_MS"]) > 0.0
        assert ("GPUSHARE_LONGEST_WAIT_US" in environment) == dropping


def test_only_measured_memory_becomes_a_limit(mix: Instance) -> None:
    assert all(server.memory_limit_mib is None for server in processes_of(mix))
    (pool,) = mix.gpus
    models = {
        name: replace(model, provenance=replace(model.provenance, source=f"own.csv; {MEMORY_MEASURED}"))
        for name, model in pool.type.models.items()
    }
    measured = replace(mix, gpus=(replace(pool, type=replace(pool.type, models=models)),))
    for server in processes_of(measured):
        assert server.memory_limit_mib is not None
        assert 0.0 <= server.memory_limit_mib - MEMORY_SLACK * server.memory_mib < 1.0
        assert server.mps_limits["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == f"0={server.memory_limit_mib}M"


def test_no_file_has_a_limit_of_memory_that_was_not_measured(deployments: Mapping[Target, Deployment]) -> None:
    for target, deployment in deployments.items():
        assert not any("MEM_LIMIT" in text or "PinnedDeviceMemory" in text for text in deployment.files.values()), (
            target
        )
        if target is not Target.DEVICE_PLUGIN:
            expected_note = "in proportion to their expected memories" if target is Target.HAMI else "was not measured"
            assert any(expected_note in note for note in deployment.notes)


@pytest.mark.parametrize("measured", [0, 1, 2])
def test_hami_divides_the_memory_of_a_gpu(mix: Instance, measured: int) -> None:
    """HAMi reserves memory up to each limit, so the limits on a GPU must add up to at most its memory."""
    processes = processes_of(mix)
    processes = [replace(server, memory_limit_mib=10_000) for server in processes[:measured]] + processes[measured:]
    pods = pods_in(clusters.write_hami(processes))
    limits = [pod["spec"]["containers"][0]["resources"]["limits"] for pod in pods]
    assert 90 <= sum(each["nvidia.com/gpumem-percentage"] for each in limits) <= 100
    assert not any("nvidia.com/gpumem" in each for each in limits)


def test_the_device_plugin_never_has_one_replica(mix: Instance) -> None:
    """With fewer than two replicas, the plugin fails, and its node offers no GPU."""
    files = clusters.write_device_plugin(processes_of(mix), 1)
    assert yaml.safe_load(files["device-plugin-v100.yaml"]) == {"version": "v1"}
    for pod in pods_in(files):
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert {each["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] for each in clusters.read_device_plugin(files)} == {"100"}


def test_each_gpu_type_has_a_configuration_of_the_device_plugin(mix: Instance) -> None:
    processes = processes_of(mix)
    processes[1] = replace(processes[1], gpu_type="T4 (16 GB)")
    files = clusters.write_device_plugin(processes, 2)
    assert {path for path in files if path.startswith("device-plugin")} == {
        "device-plugin-v100.yaml",
        "device-plugin-t4-16-gb.yaml",
    }
    assert len(clusters.read_device_plugin(files)) == 2


@pytest.mark.parametrize("target", BY_SHARE)
def test_notes_to_the_operator_name_what_the_plan_needs(mix: Instance, target: Target) -> None:
    instance = named(mix, "a", "b")
    alone = processes_of(mix)
    replicated = servers(placed(instance, "a", "a", "b"), in_percents(instance))
    assert not any("endpoints.csv" in duty for duty in duties(target, alone))
    assert any("a (2 servers)" in duty for duty in duties(target, replicated))
    by_mps = target in (Target.SHELL, Target.COMPOSE, Target.TRITON, Target.KUBERNETES)
    assert any("EXCLUSIVE_PROCESS" in duty for duty in duties(target, alone)) == by_mps


def test_containers_wait_for_the_daemon(mix: Instance) -> None:
    services = yaml.safe_load(hosts.write_compose(processes_of(mix))["compose.yaml"])["services"]
    assert "healthcheck" in services["mps-daemon"]
    assert services["a"]["depends_on"]["mps-daemon"]["condition"] == "service_healthy"
    pods = pods_in(clusters.write_kubernetes(processes_of(mix)))
    assert len(pods) == 2
    assert all("initContainers" in pod["spec"] for pod in pods)
