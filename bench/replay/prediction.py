"""Predictions of the performance model and the simulator for a replayed plan; needs the full installation."""

from typing import Any

from bench.plan_simulation import Settings, no_simulation, simulate
from bench.simulation.layout import sites
from instances import Instance, Plan


def predict(values: dict[str, Any], plan: Plan, instance: Instance, settings: Settings) -> None:
    """Add the predictions to the measurements in ``workloads`` and ``slots``.

    Parameters
    ----------
    values
        The result of ``bench.replay.result.to_json``.
    plan, instance
        The plan that served the whole replay, and its instance.
    settings
        Settings of the replay: the simulation has the same requests.
    """
    if no_simulation(plan, instance) is not None:
        return
    found = simulate(plan, instance, settings)
    for measured, simulated in zip(values["workloads"], found.workloads, strict=True):
        names = ("p50_ms", "p90_ms", "p99_ms", "goodput_rps", "violation_rate", "drop_rate")
        measured["predicted"] = {name: getattr(simulated, name) for name in names}
    gpu_ms = _gpu_ms(plan, instance)
    for slot in values["slots"]:
        slot["predicted_gpu_ms"] = gpu_ms[slot["gpu"], slot["gpulet"], slot["workload"]]


def _gpu_ms(plan: Plan, instance: Instance) -> dict[tuple[int, int, str], float]:
    """Return the GPU time of a full batch with all neighbours active, by GPU, gpulet and workload."""
    found = {}
    laid_out = iter(sites(plan, instance, instance))
    for pool in instance.gpus:
        mine = [(g, gpu) for g, gpu in enumerate(plan.gpus) if gpu.type == pool.type.name and gpu.gpulets]
        if not mine:
            continue
        site = next(laid_out)
        slots = [(g, k, slot) for g, gpu in mine for k, gpulet in enumerate(gpu.gpulets) for slot in gpulet.slots]
        for row, (g, k, slot) in enumerate(slots):
            found[g, k, slot.workload] = float(site.times[row, slot.batch]["gpu_ms"])
    return found
