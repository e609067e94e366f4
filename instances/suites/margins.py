"""Workloads like those of ``bench profile cost``; they show the cost of margins and of random arrivals, and of both.

The instances have the hybrid model, whose predictions have margins, and only models with measured pairs.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar

import numpy as np

from instances.budget import SloRule
from instances.catalogue import gpu_type
from instances.gpu import GpuType
from instances.instance import GpuPool, Instance, Objective
from instances.margin import MODEL
from instances.performance.model import alone_ms, transfers_ms
from instances.workload import Workload

_Value = TypeVar("_Value")

WORKLOADS = 12
"""Number of workloads of an instance."""

MOST_SLACK = {"v100": 1.6, "a100": 1.8}
"""Largest slack of a workload in latency and rate, by GPU type; the least is 1.02."""

_BATCHES = (2, 4, 8, 16)
_SHARES_PCT = (20.0, 40.0, 50.0, 60.0, 80.0)


def margins() -> tuple[Instance, ...]:
    """Return an instance on V100s and one on A100s, each under the rules ``half-slo`` and ``attainment``."""
    under_half_slo = [_drawn(gpu_type(name), most_slack) for name, most_slack in MOST_SLACK.items()]
    return (
        *under_half_slo,
        *(replace(instance, name=f"{instance.name}-hold", slo_rule=SloRule.ATTAINMENT) for instance in under_half_slo),
    )


def _drawn(gpu: GpuType, most_slack: float) -> Instance:
    """Draw workloads of the models with measured pairs.

    The time alone ``t`` of a random configuration with batch ``b`` gives the SLO ``2 t u`` and the rate ``b / (t v)``,
    with ``u`` and ``v`` uniform from 1.02 to ``most_slack`` (``instances.model_error.pairing.draw_demands``).
    """
    random = Random(0)
    models = sorted(gpu.margins[0].by_batch)
    workloads = []
    for position in range(WORKLOADS):
        model, batch = gpu.model(_one_of(models, random)), np.array(float(_one_of(_BATCHES, random)))
        gpu_ms = alone_ms(model.profiled(gpu.name), batch, np.array(_one_of(_SHARES_PCT, random)))
        time_ms = float(gpu_ms + sum(transfers_ms(gpu, model, batch)))
        u, v = (1.02 + (most_slack - 1.02) * random.random() for _ in range(2))
        slo_ms, rate_rps = round(2.0 * time_ms * u, 1), round(1000.0 * float(batch) / (time_ms * v), 1)
        workloads.append(Workload(f"W{position + 1}", model.name, slo_ms, rate_rps))
    source = f"drawn from configurations of models with measured pairs on {gpu.name}, as the experiment on model errors"
    return Instance(
        name=f"margins-{gpu.name}",
        objective=Objective.COST,
        slo_rule=SloRule.HALF_SLO,
        performance_model=MODEL,
        gpus=(GpuPool(gpu),),
        workloads=tuple(workloads),
        provenance=source,
    )


def _one_of(values: Sequence[_Value], random: Random) -> _Value:
    """Draw a value with ``Random.random``, whose sequence Python guarantees across versions."""
    return values[int(random.random() * len(values))]
