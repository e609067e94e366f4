"""Plan files and serving plans of up to three workloads for tests of replays."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.replay.serving_plan import ServingPlan
from bench.selection import find_plan

Slot = tuple[str, int, float]

REPLAY = (sys.executable, "-c", "import sys; from bench.cli import main; sys.exit(main(sys.argv[1:]))", "replay")
"""The command ``bench replay``."""

MODELS = {"w1": "alexnet", "w2": "resnet50", "w3": "vgg19"}
SLO_MS = {"w1": 400.0, "w2": 600.0, "w3": 800.0}
RATE_RPS = {"w1": 60.0, "w2": 40.0, "w3": 20.0}


def instance_data(ids: Sequence[str], **fields: object) -> dict[str, Any]:
    """Return an instance file with the workloads ``ids``."""
    workloads = [{"id": w, "model": MODELS[w], "slo_ms": SLO_MS[w], "rate_rps": RATE_RPS[w]} for w in ids]
    return {
        "version": 1,
        "name": "replayed",
        "objective": "cost",
        "slo_rule": "half-slo",
        "performance_model": "igniter",
        "gpus": [{"type": "v100", "count": None}],
        "workloads": workloads,
        **fields,
    }


def gpulet_data(*slots: Slot, share_units: int = 12, duty_cycle_ms: float | None = None) -> dict[str, Any]:
    """Return a gpulet with slots (workload, batch, rate)."""
    served = [{"workload": w, "batch": batch, "rate_rps": rate} for w, batch, rate in slots]
    return {"share_units": share_units, "duty_cycle_ms": duty_cycle_ms, "slots": served}


def plan_data(
    ids: Sequence[str] = tuple(MODELS), gpulets: Sequence[object] | None = None, **instance_fields: object
) -> Any:
    """Return a plan file with one GPU, which has ``gpulets``, by default one for each workload."""
    on_one_gpu = [gpulet_data((w, 4, RATE_RPS[w])) for w in ids] if gpulets is None else list(gpulets)
    gpus = [{"type": "v100", "gpulets": on_one_gpu}]
    return {"version": 1, "instance": instance_data(ids, **instance_fields), "gpus": gpus}


def write_plan(folder: Path, data: object, name: str = "plan.json") -> Path:
    """Write a plan file."""
    file = folder / name
    file.write_text(json.dumps(data), encoding="utf-8")
    return file


def serving_plan_of(folder: Path, data: object) -> ServingPlan:
    """Return the serving plan of a plan file."""
    return ServingPlan.of(*find_plan(write_plan(folder, data), None))
