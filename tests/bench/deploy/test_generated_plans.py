"""Generated plans with odd names: every target deploys them to files that its readers accept, or has one line."""

from dataclasses import replace
from random import Random

import pytest
import yaml

from bench.api import Run
from bench.deploy.deployment import deployed, instance_for
from bench.deploy.target import Target
from bench.judging.judge import judge
from heuristics.baselines.local_search import LocalSearch
from instances import GpuPool, InputError, Instance, Objective, Plan, SloRule, Workload
from instances.catalogue import gpu_type
from instances.generate import generate
from tests.bench.deploy.conftest import BY_SHARE
from tests.bench.deploy.test_deployments import COMPOSE
from tests.bench.deploy.test_names import odd_names
from tests.soak import first

NAMES = odd_names(250)


def generated(seed: int) -> tuple[Instance, Plan]:
    """Return two to five services with odd names on V100s, or on A100s for every third seed, and a plan for them."""
    draw = Random(seed)
    names = NAMES[5 * seed : 5 * seed + draw.randint(2, 5)]
    if seed % 3 == 1:
        gpu = gpu_type("a100")
        workloads = tuple(
            Workload(name, draw.choice(list(gpu.model_names)), 400.0, draw.uniform(5.0, 100.0)) for name in names
        )
        pools = (GpuPool(gpu),)
        instance = Instance("drawn", Objective.COST, SloRule.HALF_SLO, "hybrid", pools, workloads)
    else:
        instance = generate("igniter-mix", len(names), seed)
        workloads = tuple(
            replace(workload, id=name, rate_rps=workload.rate_rps * draw.uniform(0.2, 1.0))
            for workload, name in zip(instance.workloads, names, strict=True)
        )
        instance = replace(instance, workloads=workloads)
    plan = LocalSearch(rounds=50).schedule(instance, Run(seed=seed)).plan
    assert plan is not None
    return instance, plan


@pytest.mark.parametrize("seed", first(3, range(50)))
def test_every_target_deploys_a_generated_plan_or_has_one_line(seed: int, subtests: pytest.Subtests) -> None:
    instance, plan = generated(seed)
    for target in [each for each in BY_SHARE if each is not Target.DEVICE_PLUGIN or seed % 5 == 4]:
        with subtests.test(target=target):
            check(plan, instance, target)
    with subtests.test(target=Target.MPS_STATIC):
        if instance.gpus[0].type.name == "v100":
            with pytest.raises(InputError, match="v100 is older than Ampere"):
                instance_for(instance, Target.MPS_STATIC)
            return
        chunked = instance_for(instance, Target.MPS_STATIC)
        static_plan = LocalSearch(rounds=50).schedule(chunked, Run(seed=seed)).plan
        assert static_plan is not None
        check(static_plan, chunked, Target.MPS_STATIC)


def check(plan: Plan, instance: Instance, target: Target) -> None:
    """Deploy a plan, and read the files by both versions of YAML and against the target's schema."""
    problem = ""
    try:
        deployment = deployed(plan, instance, target, 3.0)
    except InputError as refused:
        problem = str(refused)
    if target is Target.DEVICE_PLUGIN and problem:
        assert "no plan of equal shares serves all services" in problem
        assert "\n" not in problem
        return
    assert problem == ""
    assert judge(deployment.plan, deployment.instance).feasible
    assert {slot.workload for _, _, slot in deployment.plan.slots()} == set(instance.workload_index)
    ruamel = pytest.importorskip("ruamel.yaml")
    for path, text in deployment.files.items():
        if not path.endswith(".yaml"):
            continue
        documents = list(yaml.safe_load_all(text))
        assert documents == list(ruamel.YAML(typ="safe", pure=True).load_all(text)), path
        if path == "compose.yaml":
            pytest.importorskip("jsonschema").validate(documents[0], COMPOSE)
        if path == "plan.yaml":
            checker = pytest.importorskip("kubernetes_validate")
            for document in documents:
                checker.validate(document, "1.34", strict=True)
    for path, text in deployment.files.items():
        if path.endswith("config.pbtxt"):
            messages = pytest.importorskip("tritonclient.grpc.model_config_pb2")
            pytest.importorskip("google.protobuf.text_format").Parse(text, messages.ModelConfig())
