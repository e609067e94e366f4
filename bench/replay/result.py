"""Result of a replay: the schema of a simulation, with additional fields."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from bench.replay.gpus import GpuState
from bench.replay.recording import DROPPED, NO_SLOT, SERVED, Recording
from bench.simulation.histogram import counts_of
from bench.simulation.result import RequestCounts, Served, Simulated, served
from instances.arrays import Floats, Records

LATEST_MS = 1.0
"""Largest P99 lateness of the load generator in a valid replay; a later generator changes the offered load."""

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
    """Return the measurements of a replay as JSON values; they cover the requests due during the measurement."""
    settings, due_ms = recording.settings, recording.requests["due_ms"]
    begin_ms = 1000.0 * settings.warmup_s
    requests = recording.requests[(due_ms >= begin_ms) & (due_ms < begin_ms + 1000.0 * settings.seconds)]
    requests_by_workload = [
        requests[requests["workload"] == index] for index in range(len(recording.plans[0].workloads))
    ]
    workloads = tuple(
        _served(recording, index, workload_requests) for index, workload_requests in enumerate(requests_by_workload)
    )
    values = Simulated(workloads, (), settings.seconds, recording.wall_s).to_json()
    for workload, workload_requests in zip(values["workloads"], requests_by_workload, strict=True):
        workload.update(split=latency_parts(workload_requests), predicted=None)
    delay = lateness(requests)
    reason = invalid_reason(delay)
    return values | {
        "valid": reason is None,
        "invalid_reason": reason,
        "generator": delay,
        "slots": [_slot(recording, requests, number) for number in range(len(recording.places))],
        "failures": [
            {
                "gpu": failure.executor.gpu,
                "gpulet": failure.executor.gpulet,
                "plan": failure.plan,
                "reason": failure.reason,
            }
            | {
                "workloads": [
                    recording.plans[failure.plan].workloads[slot.workload].id for slot in failure.executor.slots
                ]
            }
            for failure in recording.failures
        ],
        "switch": _switch(recording),
        "gpus": [{"gpu": gpu, **_mean_state(states)} for gpu, states in recording.gpus.items()],
    }


def latency_parts(requests: Records) -> dict[str, dict[str, float] | None]:
    """Return mean and percentiles of the parts of the latency, and of the batch size, over the served requests.

    The parts of a request are in ms and add up to its latency.
    """
    served_requests = requests[requests["outcome"] == SERVED]
    queue_ms = served_requests["started_ms"] - served_requests["due_ms"]
    latency_ms = served_requests["done_ms"] - served_requests["due_ms"]
    feedback_ms = latency_ms - queue_ms - served_requests["upload_ms"] - served_requests["compute_ms"]
    parts = (queue_ms, served_requests["upload_ms"], served_requests["compute_ms"], feedback_ms)
    summaries = {f"{name}_ms": _summary(values) for name, values in zip(PARTS, parts, strict=True)}
    return summaries | {"batch": _summary(served_requests["size"])}


def lateness(requests: Records) -> dict[str, float] | None:
    """Return mean, P50, P90, P99 and maximum of the delay in ms with which requests were sent."""
    return _summary((requests["sent_ms"] - requests["due_ms"])[requests["slot"] != NO_SLOT])


def invalid_reason(delay_ms: dict[str, float] | None) -> str | None:
    """Return why a replay with this lateness of the load generator is invalid, or ``None`` if it is valid."""
    if delay_ms is None:
        return "no request was sent"
    if delay_ms["p99"] > LATEST_MS:
        return (
            f"the load generator was {delay_ms['p99']:.2f} ms late at P99; a valid replay has at most {LATEST_MS:g} ms"
        )
    return None


def _served(recording: Recording, index: int, requests: Records) -> Served:
    """Return the results of one workload, in the schema of a simulation."""
    workload = recording.plans[0].workloads[index]
    served_requests = requests[requests["outcome"] == SERVED]
    latency_ms = served_requests["done_ms"] - served_requests["due_ms"]
    counts = RequestCounts(
        len(requests),
        len(served_requests),
        int((latency_ms > workload.slo_ms).sum()),
        int((requests["outcome"] == DROPPED).sum()),
    )
    return served(
        workload.id,
        workload.slo_ms,
        len(requests) / recording.settings.seconds if len(recording.plans) > 1 else workload.offered_rps,
        recording.settings.seconds,
        counts,
        counts_of(latency_ms),
        float(latency_ms.max(initial=0.0)),
        float(latency_ms.sum()),
        float((served_requests["started_ms"] - served_requests["due_ms"]).sum()),
    )


def _slot(recording: Recording, requests: Records, number: int) -> dict[str, Any]:
    """Return the results of one slot; ``gpu_ms`` is the median computation time of its full batches."""
    place = recording.places[number]
    slot_requests = requests[(requests["slot"] == number) & (requests["outcome"] == SERVED)]
    full_batches_ms = slot_requests["compute_ms"][slot_requests["size"] == place.slot.batch]
    timeout_ms, warm_up_ms = recording.times_ms.get(number, (None, None))
    return {
        "plan": place.plan,
        "gpu": place.executor.gpu,
        "gpulet": place.executor.gpulet,
        "share_pct": place.executor.share_pct,
        "workload": recording.plans[place.plan].workloads[place.slot.workload].id,
        "model": place.slot.model,
        "batch": place.slot.batch,
        "timeout_ms": timeout_ms,
        "warm_up_ms": warm_up_ms,
        "requests": len(slot_requests),
        "batches": len(np.unique(slot_requests["started_ms"])),
        "gpu_ms": float(np.median(full_batches_ms)) if len(full_batches_ms) else None,
    }


def _switch(recording: Recording) -> dict[str, Any] | None:
    """Return the times of the switch to the second plan, in measured seconds, and its effect on each workload.

    A workload is without service from the due time of its first request for a slot of the second plan until the worker
    of that slot reads the request. The workers of the first plan serve all requests that they have received.
    """
    if len(recording.plans) == 1:
        return None
    begin_ms = 1000.0 * recording.settings.warmup_s
    at_ms = {"began_s": recording.began_ms, "switched_s": recording.switched_ms, "drained_s": recording.drained_ms}
    times: dict[str, Any] = {name: None if ms is None else (ms - begin_ms) / 1000.0 for name, ms in at_ms.items()}
    if recording.began_ms is None or recording.switched_ms is None or recording.drained_ms is None:
        return times | {"workloads": []}
    due_ms = recording.requests["due_ms"]
    switch_requests = recording.requests[(due_ms >= recording.began_ms) & (due_ms <= recording.drained_ms)]
    workloads = []
    for index, workload in enumerate(recording.plans[1].workloads):
        served_requests = switch_requests[
            (switch_requests["workload"] == index) & (switch_requests["outcome"] == SERVED)
        ]
        latency = _summary(served_requests["done_ms"] - served_requests["due_ms"])
        workloads.append(
            {
                "id": workload.id,
                "without_service_ms": max(_takeovers_ms(recording, index), default=None),
                "p99_ms": None if latency is None else latency["p99"],
            }
        )
    return times | {"workloads": workloads}


def _takeovers_ms(recording: Recording, workload: int) -> Iterator[float]:
    """Yield the time that the first request of each slot of a workload in the second plan took to reach its worker."""
    for number, place in enumerate(recording.places):
        slot_requests = recording.requests[
            (recording.requests["slot"] == number) & (recording.requests["taken_ms"] != 0.0)
        ]
        if place.plan == 1 and place.slot.workload == workload and len(slot_requests):
            yield float(slot_requests["taken_ms"][0] - slot_requests["due_ms"][0])


def _summary(values: Floats) -> dict[str, float] | None:
    """Return mean, P50, P90, P99 and maximum, or ``None`` if there are no values."""
    if not len(values):
        return None
    p50, p90, p99 = (float(quantile) for quantile in np.quantile(values, (0.5, 0.9, 0.99), method="inverted_cdf"))
    return {"mean": float(values.mean()), "p50": p50, "p90": p90, "p99": p99, "max": float(values.max())}


def _mean_state(samples: list[GpuState]) -> dict[str, float | None]:
    """Return the mean of each quantity over the samples in which it is known."""
    means: dict[str, float | None] = {"samples": len(samples)}
    for name in ("power_w", "frequency_mhz", "utilisation_pct"):
        values = [value for sample in samples if not np.isnan(value := getattr(sample, name))]
        means[name] = float(np.mean(values)) if values else None
    return means
