"""Files of every deployment target: they are valid, and read back, they are a feasible plan."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
import yaml

from bench.deploy import clusters, hosts
from bench.deploy.deployment import Deployment, deployed
from bench.deploy.placeholders import placeholders
from bench.deploy.servers import in_percents, plan_of_environments, rounded_up, servers
from bench.deploy.target import Target
from bench.judging.judge import judge
from bench.simulation.layout import sites
from instances import Gpulet, InputError, Instance, PlacedGpu, Plan, Slot
from tests.bench.deploy.conftest import BY_SHARE


@pytest.mark.parametrize("target", BY_SHARE)
def test_the_plan_read_back_from_the_files_is_feasible(
    deployments: Mapping[Target, Deployment], mix: Instance, plan: Plan, target: Target
) -> None:
    deployment = deployments[target]
    assert judge(deployment.plan, deployment.instance).feasible
    assert {slot.workload for _, _, slot in deployment.plan.slots()} == set(mix.workload_index)
    assert all(gpu.share_units <= 100 for gpu in deployment.plan.gpus)
    assert judge(deployment.plan, deployment.instance).cost_per_hour >= judge(plan, mix).cost_per_hour
    assert deployment.notes


def documents(deployment: Deployment) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(deployment.files["plan.yaml"]))


@pytest.mark.parametrize("target", [Target.KUBERNETES, Target.DRA, Target.DEVICE_PLUGIN, Target.HAMI])
def test_kubernetes_accepts_every_document(deployments: Mapping[Target, Deployment], target: Target) -> None:
    checker = pytest.importorskip("kubernetes_validate")
    for document in documents(deployments[target]):
        checker.validate(document, "1.34", strict=True)
    with pytest.raises(checker.ValidationError):
        checker.validate({**documents(deployments[target])[-1], "speck": {}}, "1.34", strict=True)


DEVICES = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["capabilities"],
        "additionalProperties": False,
        "properties": {
            "driver": {"type": "string"},
            "device_ids": {"type": "array", "items": {"type": "string"}},
            "capabilities": {"type": "array", "items": {"type": "string"}},
        },
    },
}
COMPOSE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["services"],
    "properties": {
        "services": {
            "type": "object",
            "additionalProperties": False,
            "patternProperties": {
                "^[a-zA-Z0-9._-]+$": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["image"],
                    "properties": {
                        "image": {"type": "string"},
                        "command": {"type": "array", "items": {"type": "string"}},
                        "stop_signal": {"type": "string"},
                        "restart": {"enum": ["no", "always", "on-failure", "unless-stopped"]},
                        "ipc": {"type": "string"},
                        "pid": {"type": "string"},
                        "ports": {"type": "array", "items": {"type": "string", "pattern": "^[0-9]+:[0-9]+$"}},
                        "depends_on": {
                            "oneOf": [
                                {"type": "array", "items": {"type": "string"}},
                                {
                                    "type": "object",
                                    "additionalProperties": {
                                        "type": "object",
                                        "required": ["condition"],
                                        "additionalProperties": False,
                                        "properties": {
                                            "condition": {"enum": ["service_started", "service_healthy"]},
                                            "restart": {"type": "boolean"},
                                        },
                                    },
                                },
                            ]
                        },
                        "healthcheck": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {
                                "test": {"type": "array", "items": {"type": "string"}},
                                "interval": {"type": "string"},
                                "timeout": {"type": "string"},
                                "retries": {"type": "integer"},
                            },
                        },
                        "networks": {
                            "type": "object",
                            "additionalProperties": {
                                "type": "object",
                                "additionalProperties": False,
                                "properties": {"aliases": {"type": "array", "items": {"type": "string"}}},
                            },
                        },
                        "environment": {"type": "object", "additionalProperties": {"type": "string"}},
                        "volumes": {"type": "array", "items": {"type": "string"}},
                        "deploy": {
                            "type": "object",
                            "additionalProperties": False,
                            "properties": {
                                "resources": {
                                    "type": "object",
                                    "additionalProperties": False,
                                    "properties": {
                                        "reservations": {
                                            "type": "object",
                                            "additionalProperties": False,
                                            "properties": {"devices": DEVICES},
                                        }
                                    },
                                }
                            },
                        },
                    },
                }
            },
        }
    },
}
"""Schema from the Compose specification, with only the keys that deployments write."""


def test_the_compose_file_has_its_schema(deployments: Mapping[Target, Deployment]) -> None:
    schema = pytest.importorskip("jsonschema")
    schema.validate(yaml.safe_load(deployments[Target.COMPOSE].files["compose.yaml"]), COMPOSE)


def test_triton_parses_its_configurations(deployments: Mapping[Target, Deployment]) -> None:
    messages = pytest.importorskip("tritonclient.grpc.model_config_pb2")
    text_format = pytest.importorskip("google.protobuf.text_format")
    deployment = deployments[Target.TRITON]
    texts = [text for path, text in deployment.files.items() if path.endswith("config.pbtxt")]
    assert len(texts) == 5
    for text in texts:
        config = text_format.Parse(text, messages.ModelConfig())
        assert config.dynamic_batching.preferred_batch_size == [config.max_batch_size]
        assert config.dynamic_batching.max_queue_delay_microseconds > 0


def test_the_device_plugin_has_equal_shares_and_enough_memory(deployments: Mapping[Target, Deployment]) -> None:
    deployment = deployments[Target.DEVICE_PLUGIN]
    config = yaml.safe_load(deployment.files["device-plugin-v100.yaml"])
    (resource,) = config["sharing"]["mps"]["resources"]
    assert config["version"] == "v1"
    replicas = resource["replicas"]
    assert {gpulet.share_units for gpu in deployment.plan.gpus for gpulet in gpu.gpulets} == {100 // replicas}
    assert all(len(gpu.gpulets) <= replicas for gpu in deployment.plan.gpus)
    memory = [server.memory_mib for server in servers(deployment.plan, deployment.instance)]
    assert max(memory) * replicas <= deployment.instance.gpus[0].type.memory_mib


def test_shares_are_rounded_up_to_percents_if_they_fit(mix: Instance) -> None:
    workloads = mix.workloads
    thirds = tuple(Gpulet(13, (Slot(w.id, 1, w.rate_rps),)) for w in workloads[:3])
    full = PlacedGpu("v100", (*thirds, Gpulet(1, (Slot(workloads[3].id, 1, 1.0),))))
    assert rounded_up(Plan(mix.name, (full,)), mix) is None  # 33 + 33 + 33 + 3 percent
    easy = replace(mix, workloads=(replace(workloads[0], slo_ms=1000.0, rate_rps=1.0),))
    rounded = rounded_up(Plan(mix.name, (PlacedGpu("v100", (Gpulet(13, (Slot(workloads[0].id, 1, 1.0),)),)),)), easy)
    assert rounded is not None
    assert rounded.gpus[0].share_units == 33
    assert judge(rounded, in_percents(easy)).feasible

    (pool,) = easy.gpus
    whole = replace(easy, gpus=(replace(pool, type=replace(pool.type, allowed_shares=(pool.type.share_units,))),))
    assert in_percents(whole).gpus[0].type.allowed_shares == (100,)
    assert in_percents(whole, (100,)).gpus[0].type.allowed_shares == (100,)
    with pytest.raises(InputError, match="measured at 50 %"):
        in_percents(whole, (50,))
    two_shares = replace(whole, gpus=(replace(pool, type=replace(pool.type, allowed_shares=(13, 20))),))
    assert in_percents(two_shares).gpus[0].type.allowed_shares == (33, 34, 50, 51, 52)
    units = Plan(easy.name, (PlacedGpu("v100", (Gpulet(40, (Slot(workloads[0].id, 1, 1.0),)),)),))
    assert rounded_up(units, whole) is not None


def test_services_keep_their_gpus_and_slack_where_rounded_shares_do_not_fit(
    mix: Instance, subtests: pytest.Subtests
) -> None:
    """A full GPU whose shares are no whole percents gets other shares, not another plan."""
    full = 0
    for first, second in combinations(mix.workloads, 2):
        pair = replace(mix, workloads=(first, second))
        plan = colocated(pair)
        if plan is None or rounded_up(plan, pair) is not None:
            continue
        full += 1
        with subtests.test(first=first.id, second=second.id):
            deployment = deployed(plan, pair, Target.COMPOSE)
            (planned,), (gpu,) = plan.gpus, deployment.plan.gpus
            assert [g.slots for g in gpu.gpulets] == [g.slots for g in planned.gpulets]
            planned_slack = judge(plan, pair).least_slack
            slack = judge(deployment.plan, deployment.instance).least_slack
            assert planned_slack is not None
            assert slack is not None
            assert slack >= planned_slack - 0.05
            assert "services keep their GPUs and batches" in deployment.notes[0]
    assert full > 0


def colocated(pair: Instance) -> Plan | None:
    """Return a plan of two services that fills one GPU with shares of which no sum of rounded ones fits, if any."""
    (pool,) = pair.gpus
    units = pool.type.share_units
    for share in range(1, units, 2):  # odd numbers of 2.5 % are no whole percents
        gpulets = [
            Gpulet(u, (Slot(w.id, 4, w.rate_rps),)) for u, w in zip((share, units - share), pair.workloads, strict=True)
        ]
        plan = Plan(pair.name, (PlacedGpu(pool.type.name, tuple(gpulets)),))
        if judge(plan, pair).feasible:
            return plan
    return None


def test_a_changed_file_is_another_plan_or_refused(deployments: Mapping[Target, Deployment], mix: Instance) -> None:
    deployment = deployments[Target.SHELL]
    share = deployment.plan.gpus[0].gpulets[0].share_units
    changed = deployment.files["start.sh"].replace(f"PERCENTAGE={share} ", f"PERCENTAGE={share - 1} ", 1)
    assert plan_of_environments(mix.name, hosts.read_shell({"start.sh": changed})) != deployment.plan
    claims = deployments[Target.DRA].files["plan.yaml"]
    largest_share = max(gpulet.share_units for gpulet in deployment.plan.gpus[0].gpulets)
    lowered = claims.replace(f"defaultActiveThreadPercentage: {largest_share}\n", "defaultActiveThreadPercentage: 1\n")
    with pytest.raises(ValueError, match="more than the default of its claim"):
        clusters.read_dra({"plan.yaml": lowered})


def test_placeholders_are_listed(deployments: Mapping[Target, Deployment]) -> None:
    def listed(target: Target) -> list[str]:
        return [word for word in placeholders(deployments[target].files) if not re.fullmatch(r"UUID-OF-GPU-\d+", word)]

    assert listed(Target.SHELL) == ["SERVER_COMMAND"]
    assert listed(Target.TRITON) == ["BACKEND", "MODEL_FILE"]
    assert listed(Target.COMPOSE) == ["REGISTRY/CUDA:TAG", "REGISTRY/SERVER:TAG"]
    assert "NODE-OF-GPU-000" in listed(Target.DRA)
    for target in (Target.SHELL, Target.COMPOSE, Target.KUBERNETES, Target.TRITON):
        gpus = range(len(deployments[target].plan.gpus))
        uuids = [f"UUID-OF-GPU-{gpu:03d}" for gpu in gpus]
        assert set(uuids) == set(placeholders(deployments[target].files)) - set(listed(target)), target


def test_an_unused_gpu_is_noted(mix: Instance, plan: Plan) -> None:
    deployment = deployed(replace(plan, gpus=(PlacedGpu("v100", ()), *plan.gpus)), mix, Target.SHELL, 20.0)
    assert any(note.startswith("1 GPU of the plan without a service") for note in deployment.notes)


def test_timeouts_of_partial_batches_are_those_of_the_simulation(mix: Instance, plan: Plan) -> None:
    instance = in_percents(replace(mix, latency_buffer=1.5))
    timeouts_us = [server.timeout_us for server in servers(plan, instance)]
    (site,) = sites(plan, instance, instance)
    assert timeouts_us == pytest.approx(1000.0 * site.slots["timeout_ms"], abs=0.5)
    assert timeouts_us != [server.timeout_us for server in servers(plan, in_percents(mix))]


def test_slots_that_take_turns_are_refused(mix: Instance) -> None:
    slots = tuple(Slot(w.id, 1, 1.0) for w in mix.workloads[:2])
    turns = Plan(mix.name, (PlacedGpu("v100", (Gpulet(100, slots, 50.0),)),))
    with pytest.raises(InputError, match="slots take turns; expected one slot per gpulet to deploy"):
        servers(turns, in_percents(mix))
