"""Instances on V100s, and certificates with claims about them that tests choose."""

import json
from collections.abc import Mapping
from typing import Any

from bench.certificate.checking import check
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload
from instances.catalogue import gpu_type
from instances.files import instance_to_json, plan_to_json

V100 = gpu_type("v100")
ASKED = Workload("w", "alexnet", 30.0, 100.0)
EXHAUSTIVE = {"kind": "exhaustive"}


def asking(*workloads: Workload, objective: Objective = Objective.COST, count: int | None = None) -> Instance:
    return Instance("asked", objective, SloRule.HALF_SLO, "igniter", (GpuPool(V100, count),), workloads)


def claiming(
    instance: Instance,
    bound: str,
    proof: Mapping[str, Any] = EXHAUSTIVE,
    plan: Plan | None = None,
    kind: str = "spatial",
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "version": 1,
        "instance": instance_to_json(instance, frozen=True),
        "plan": None if plan is None else plan_to_json(plan),
        "claim": {"bound": bound, "plan_class": kind},
        "proof": proof,
    }
    read: dict[str, Any] = json.loads(json.dumps(data))
    return read


def said(data: Mapping[str, Any]) -> str:
    return check(data, "proof").sentence


def duals(*workloads: int, gpu: int = 0, unit: int = 10**9) -> dict[str, Any]:
    return {"kind": "dual", "unit": unit, "workloads": list(workloads), "gpus": [gpu]}
