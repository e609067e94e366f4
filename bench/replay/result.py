"""Result of a replay: the schema of a simulation plus fields of its own."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.replay.gpus import GpuState
from bench.replay.recording import DROPPED, NO_SLOT, SERVED, Recording
from bench.simulation.histogram import counts_of
from bench.simulation.result import RequestCounts, Served, Simulated, served
from instances.arrays import Floats, Records

LATEST_MS = 1.0
"""Largest P99 lateness of the load generator in a valid replay; beyond it, the offered load differs from the plan's."""

PARTS = ("queue", "upload", "compute", "feedback")
"""Parts of a latency: wait until the batch starts, copy to the device, computation, return to the host."""

NOTHING_REPLAYED: dict[str, Any] = {
    "valid": True,
    "invalid_reason": None,
    "generator": None,
    "slots": [],
    "failures": [],
    "switch": None,
    "gpus": [],
}
"""Values of the replay's own fields in the result of a simulation."""


def to_json(recording: Recording) -> dict[str, Any]:
    """Return the measurements of a replay as JSON values; they concern the requests due during the measurement."""
    settings, due_ms = recording.settings, recording.requests["due_ms"]
    from_ms = 1000.0 * settings.warmup_s
    requests = recording.requests[(due_ms >= from_ms) & (due_ms < from_ms + 1000.0 * settings.seconds)]
    of_workload = [requests[requests["workload"] == w] for w in range(len(recording.plans[0].workloads))]
    workloads = tuple(_served(recording, w, mine) for w, mine in enumerate(of_workload))
    values = Simulated(workloads, (), settings.seconds, recording.wall_s).to_json()
    for workload, mine in zip(values["workloads"], of_workload, strict=True):
        workload.update(split=split(mine), predicted=None)
    late = lateness(requests)
    reason = invalid(late)
    return values | {
        "valid": reason is None,
        "invalid_reason": reason,
        "generator": late,
        "slots": [_slot(recording, requests, number) for number in range(len(recording.places))],
        "failures": [
            {"gpu": f.executor.gpu, "gpulet": f.executor.gpulet, "plan": f.plan, "reason": f.reason}
            | {"workloads": [recording.plans[f.plan].workloads[slot.workload].id for slot in f.executor.slots]}
            for f in recording.failures
        ],
        "switch": _switch(recording),
        "gpus": [{"gpu": gpu, **_means(states)} for gpu, states in recording.gpus.items()],
    }


def split(requests: Records) -> dict[str, dict[str, float] | None]:
    """Return mean and percentiles of the parts of the latency, and of the batch size, over the served requests.

    The parts of a request are in ms and add up to its latency.
    """
    done = requests[requests["outcome"] == SERVED]
    queue_ms, latency_ms = done["started_ms"] - done["due_ms"], done["done_ms"] - done["due_ms"]
    feedback_ms = latency_ms - queue_ms - done["upload_ms"] - done["compute_ms"]
    parts = (queue_ms, done["upload_ms"], done["compute_ms"], feedback_ms)
    spread = {f"{name}_ms": _spread(values) for name, values in zip(PARTS, parts, strict=True)}
    return spread | {"batch": _spread(done["size"])}


def lateness(requests: Records) -> dict[str, float] | None:
    """Return mean, P50, P90, P99 and maximum of the delay in ms with which requests were sent."""
    return _spread((requests["sent_ms"] - requests["due_ms"])[requests["slot"] != NO_SLOT])


def invalid(late: dict[str, float] | None) -> str | None:
    """Return why a replay with this lateness of the load generator is invalid, or ``None`` if it is valid."""
    if late is None:
        return "no request was sent"
    if late["p99"] > LATEST_MS:
        return f"the load generator was {late['p99']:.2f} ms late at P99; a valid replay has at most {LATEST_MS:g} ms"
    return None


def _served(recording: Recording, w: int, requests: Records) -> Served:
    workload = recording.plans[0].workloads[w]
    done = requests[requests["outcome"] == SERVED]
    latency_ms = done["done_ms"] - done["due_ms"]
    outcome = RequestCounts(
        len(requests),
        len(done),
        int((latency_ms > workload.slo_ms).sum()),
        int((requests["outcome"] == DROPPED).sum()),
    )
    return served(
        workload.id,
        workload.slo_ms,
        len(requests) / recording.settings.seconds if len(recording.plans) > 1 else workload.offered_rps,
        recording.settings.seconds,
        outcome,
        counts_of(latency_ms),
        float(latency_ms.max(initial=0.0)),
        float(latency_ms.sum()),
        float((done["started_ms"] - done["due_ms"]).sum()),
    )


def _slot(recording: Recording, requests: Records, number: int) -> dict[str, Any]:
    """Return the results of one slot; ``gpu_ms`` is the median computation time of its full batches."""
    place = recording.places[number]
    mine = requests[(requests["slot"] == number) & (requests["outcome"] == SERVED)]
    full = mine["compute_ms"][mine["size"] == place.slot.batch]
    timeout_ms, full_ms = recording.times_ms.get(number, (None, None))
    return {
        "plan": place.plan,
        "gpu": place.executor.gpu,
        "gpulet": place.executor.gpulet,
        "share_pct": place.executor.share_pct,
        "workload": recording.plans[place.plan].workloads[place.slot.workload].id,
        "model": place.slot.model,
        "batch": place.slot.batch,
        "timeout_ms": timeout_ms,
        "warm_up_ms": full_ms,
        "requests": len(mine),
        "batches": len(np.unique(mine["started_ms"])),
        "gpu_ms": float(np.median(full)) if len(full) else None,
    }


def _switch(recording: Recording) -> dict[str, Any] | None:
    """Return the times of the switch to the second plan, in measured seconds, and its effect on each workload.

    A workload is without service from the due time of its first request for a slot of the second plan until the worker
    of that slot reads the request. The workers of the first plan serve all requests that they were sent.
    """
    if len(recording.plans) == 1:
        return None
    from_ms = 1000.0 * recording.settings.warmup_s
    at_ms = {"began_s": recording.began_ms, "switched_s": recording.switched_ms, "drained_s": recording.drained_ms}
    moments: dict[str, Any] = {name: None if ms is None else (ms - from_ms) / 1000.0 for name, ms in at_ms.items()}
    if recording.began_ms is None or recording.switched_ms is None or recording.drained_ms is None:
        return moments | {"workloads": []}
    due_ms = recording.requests["due_ms"]
    during = recording.requests[(due_ms >= recording.began_ms) & (due_ms <= recording.drained_ms)]
    workloads = []
    for w, workload in enumerate(recording.plans[1].workloads):
        done = during[(during["workload"] == w) & (during["outcome"] == SERVED)]
        latency = _spread(done["done_ms"] - done["due_ms"])
        workloads.append(
            {
                "id": workload.id,
                "without_service_ms": max(_takeovers_ms(recording, w), default=None),
                "p99_ms": None if latency is None else latency["p99"],
            }
        )
    return moments | {"workloads": workloads}


def _takeovers_ms(recording: Recording, w: int) -> Iterator[float]:
    """Yield the time that the first request of each slot of a workload in the second plan took to reach its worker."""
    for number, place in enumerate(recording.places):
        mine = recording.requests[(recording.requests["slot"] == number) & (recording.requests["taken_ms"] != 0.0)]
        if place.plan == 1 and place.slot.workload == w and len(mine):
            yield float(mine["taken_ms"][0] - mine["due_ms"][0])


def _spread(values: Floats) -> dict[str, float] | None:
    """Return mean, P50, P90, P99 and maximum, or ``None`` if there are no values."""
    if not len(values):
        return None
    p50, p90, p99 = (float(q) for q in np.quantile(values, (0.5, 0.9, 0.99), method="inverted_cdf"))
    return {"mean": float(values.mean()), "p50": p50, "p90": p90, "p99": p99, "max": float(values.max())}


def _means(samples: list[GpuState]) -> dict[str, float | None]:
    """Return the mean of each quantity over the samples in which it is known."""
    found: dict[str, float | None] = {"samples": len(samples)}
    for name in ("power_w", "frequency_mhz", "utilisation_pct"):
        known = [value for sample in samples if not np.isnan(value := getattr(sample, name))]
        found[name] = float(np.mean(known)) if known else None
    return found
