"""The V100 on which the authors' gpulet scheduler was run: their latency table, shares and pair factor."""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from heuristics.gpulet.state import Gpulets
from instances import DnnModel, GpuPool, GpuType, Hardware, Instance, Objective, Provenance, SloRule, Workload
from instances.gpu import PairFactor, SoloProfile
from instances.view import View

FIXTURE = json.loads((Path(__file__).parents[1] / "fixtures" / "glet_verdicts.json").read_text())
MODELS: list[str] = FIXTURE["models"]
BUFFER = 1.1
"""The authors' latency buffer."""


@dataclass(frozen=True)
class Scenario:
    """A rate for each model, a number of GPUs, and the authors' schedulers that can serve them."""

    group: tuple[str, int]
    rates_rps: tuple[float, ...]
    schedulable: frozenset[str]

    def instance(self, objective: Objective = Objective.COST, interference: bool = True) -> Instance:
        return serving(list(self.rates_rps), self.group[1], objective, interference)


SCENARIOS = [
    Scenario(
        (name, gpus),
        tuple(rates),
        frozenset(kind for kind, verdict in zip(FIXTURE["verdicts"], verdicts, strict=True) if verdict == "1"),
    )
    for name, gpus, rates, verdicts in FIXTURE["scenarios"]
]


@lru_cache
def gpu(interference: bool = True) -> GpuType:
    """Return the GPU type; without interference its pair factor is 1."""
    provenance = Provenance("measured", "iGniter's V100, as given to the authors' scheduler")
    own_l2, other_l2, own_dram, other_dram, constant = FIXTURE["factor"]
    pair = PairFactor(own_l2, other_l2, own_dram, other_dram, constant) if interference else PairFactor(0, 0, 0, 0, 1)
    return GpuType(
        name="glet-v100",
        share_units=10,
        memory_mib=1e6,
        price_per_hour=1.0,
        hardware=Hardware(1e7, 0.0, 1e9, 1530.0, 0.0, 0.0, 0.0),
        models={name: _model(name, provenance) for name in MODELS},
        provenance=provenance,
        allowed_shares=tuple(pct // 10 for pct in FIXTURE["share_pct"]),
        pair=pair,
    )


def _model(name: str, provenance: Provenance) -> DnnModel:
    profiled_batches, l2, dram = (
        np.array(column, dtype=float) for column in zip(*FIXTURE["utilisation"][name], strict=True)
    )
    batches = range(1, len(FIXTURE["latency_ms"][name]) + 1)
    solo = SoloProfile(
        batch=tuple(batches),
        share_pct=tuple(map(float, FIXTURE["share_pct"])),
        gpu_ms=tuple(map(tuple, FIXTURE["latency_ms"][name])),
        l2_pct=tuple(np.interp(batches, profiled_batches, l2).tolist()),
        dram_pct=tuple(np.interp(batches, profiled_batches, dram).tolist()),
        l2=(0.0, 0.0),
        dram=(0.0, 0.0),
        span=1.0,
    )
    # Transfers are part of the times in the table; iGniter's coefficients are not used.
    return DnnModel(
        name, 32, (1.0, 1.0, 1.0, 1.0, 1.0), (0.0, 0.0), (0.0, 0.0), 0.0, 0.0, 0, 0, 0, 0.0, 0.0, provenance, solo
    )


def serving(
    rates_rps: list[float], gpus: int | None, objective: Objective = Objective.COST, interference: bool = True
) -> Instance:
    """Return an instance that serves every model at its rate; a rate of 0 leaves the model out."""
    workloads = tuple(
        Workload(model, model, float(slo_ms), float(rate))
        for model, slo_ms, rate in zip(MODELS, FIXTURE["slo_ms"], rates_rps, strict=True)
        if rate > 0
    )
    pools = (GpuPool(gpu(interference), gpus),)
    return Instance("glet", objective, SloRule.DUTY_CYCLE, "gpulet", pools, workloads, latency_buffer=BUFFER)


def view_of(problem: Instance, gpus: int = 1) -> tuple[View, Gpulets]:
    """Return the view of the instance for its first GPU type, and undivided GPUs of that type."""
    view = View.of(problem, problem.gpus[0].type)
    return view, Gpulets.undivided(view, gpus, interference=True)
