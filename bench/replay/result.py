"""Result of a replay: the schema of a simulation, and fields that only a replay has."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from bench.replay.recording import Recording
from bench.replay.requests import DROPPED, NO_SLOT, SERVED, Records
from bench.simulation.histogram import counts_of
from bench.simulation.result import RequestCounts, Served, Simulated, served
from instances.arrays import Flags, Floats

LATEST_MS = 1.0
"""A replay whose load generator was later than this at P99 did not offer the load that it says."""

PARTS = ("queue", "upload", "compute", "feedback")
"""Of a latency: until its batch starts; to the device; there; until the result is in the host's hands."""


NOTHING_REPLAYED: dict[str, Any] = {
    "valid": True,
    "invalid_reason": None,
    "generator": None,
    "slots": [],
    "failures": [],
    "switch": None,
    "gpus": [],
}
"""What a simulation in the place of a replay says of all that only a replay knows."""


def to_json(course: Recording) -> dict[str, Any]:
    """Return all that a replay measured as JSON values."""
    found = measured(course)
    values = found.to_json()
    requests = course.requests[_while_measured(course)]
    for w, workload in enumerate(values["workloads"]):
        workload["split"] = split(requests[requests["workload"] == w])
        workload["predicted"] = None
    late = lateness(requests)
    reason = invalid(late)
    return values | {
        "valid": reason is None,
        "invalid_reason": reason,
        "generator": late,
        "slots": [_slot(course, requests, number) for number in range(len(course.places))],
        "failures": [
            {"gpu": f.executor.gpu, "gpulet": f.executor.gpulet, "plan": f.sheet, "reason": f.reason}
            | {"workloads": [course.sheets[f.sheet].workloads[slot.workload].id for slot in f.executor.slots]}
            for f in course.failures
        ],
        "switch": _switch(course),
        "gpus": [{"gpu": gpu, **_means([asdict(state) for state in states])} for gpu, states in course.gpus.items()],
    }


def measured(course: Recording) -> Simulated:
    """Return what became of the requests that were due while it was measured."""
    requests = course.requests[_while_measured(course)]
    workloads = tuple(_served(course, w, requests[requests["workload"] == w]) for w in range(_workloads(course)))
    return Simulated(workloads, (), course.settings.seconds, course.wall_s)


def split(requests: Records) -> dict[str, dict[str, float] | None]:
    """Return the parts of the latencies of those served, and their batches: mean and percentiles.

    Parts are in ms and add up to the latency, request by request.
    """
    done = requests[requests["outcome"] == SERVED]
    queue_ms, latency_ms = done["started_ms"] - done["due_ms"], done["done_ms"] - done["due_ms"]
    feedback_ms = latency_ms - queue_ms - done["upload_ms"] - done["compute_ms"]
    parts = (queue_ms, done["upload_ms"], done["compute_ms"], feedback_ms)
    spread = {f"{name}_ms": _spread(values) for name, values in zip(PARTS, parts, strict=True)}
    return spread | {"batch": _spread(done["size"])}


def lateness(requests: Records) -> dict[str, float] | None:
    """Return how late requests were sent, in ms: mean, P50, P90, P99 and the largest."""
    return _spread((requests["sent_ms"] - requests["due_ms"])[requests["slot"] != NO_SLOT])


def invalid(late: dict[str, float] | None) -> str | None:
    """Return why a replay whose load generator was so late is not valid, ``None`` where it is."""
    if late is None:
        return "no request was sent"
    if late["p99"] > LATEST_MS:
        return f"the load generator was {late['p99']:.2f} ms late at P99; at most {LATEST_MS:g} ms count as in time"
    return None


def _served(course: Recording, w: int, requests: Records) -> Served:
    customer = course.sheets[0].workloads[w]
    done = requests[requests["outcome"] == SERVED]
    latency_ms = done["done_ms"] - done["due_ms"]
    outcome = RequestCounts(
        len(requests),
        len(done),
        int((latency_ms > customer.slo_ms).sum()),
        int((requests["outcome"] == DROPPED).sum()),
    )
    return served(
        customer.id,
        customer.slo_ms,
        len(requests) / course.settings.seconds if len(course.sheets) > 1 else customer.offered_rps,
        course.settings.seconds,
        outcome,
        counts_of(latency_ms),
        float(latency_ms.max(initial=0.0)),
        float(latency_ms.sum()),
        float((done["started_ms"] - done["due_ms"]).sum()),
    )


def _slot(course: Recording, requests: Records, number: int) -> dict[str, Any]:
    """Return what became of one slot's batches; ``gpu_ms`` is the median computation of the full ones."""
    place = course.places[number]
    serving = place.serving
    mine = requests[(requests["slot"] == number) & (requests["outcome"] == SERVED)]
    full = mine["compute_ms"][mine["size"] == serving.batch]
    timeout_ms, full_ms = course.times_ms.get(number, (None, None))
    return {
        "plan": place.sheet,
        "gpu": place.executor.gpu,
        "gpulet": place.executor.gpulet,
        "share_pct": place.executor.share_pct,
        "workload": course.sheets[place.sheet].workloads[serving.workload].id,
        "model": serving.model,
        "batch": serving.batch,
        "timeout_ms": timeout_ms,
        "warm_up_ms": full_ms,
        "requests": len(mine),
        "batches": len(np.unique(mine["started_ms"])),
        "gpu_ms": float(np.median(full)) if len(full) else None,
    }


def _switch(course: Recording) -> dict[str, Any] | None:
    """Return how the change to the second plan went: moments in seconds of what is measured, and who felt it.

    A workload is without service from when its first request is sent to a worker of the second plan until that worker
    has it: the first plan's workers serve all that were sent to them.
    """
    if len(course.sheets) == 1:
        return None
    from_ms = 1000.0 * course.settings.warmup_s
    at_ms = {"began_s": course.began_ms, "switched_s": course.switched_ms, "drained_s": course.drained_ms}
    moments: dict[str, Any] = {name: None if ms is None else (ms - from_ms) / 1000.0 for name, ms in at_ms.items()}
    if course.began_ms is None or course.switched_ms is None or course.drained_ms is None:
        return moments | {"workloads": []}
    due_ms = course.requests["due_ms"]
    during = course.requests[(due_ms >= course.began_ms) & (due_ms <= course.drained_ms)]
    workloads = []
    for w, customer in enumerate(course.sheets[1].workloads):
        done = during[(during["workload"] == w) & (during["outcome"] == SERVED)]
        latency = _spread(done["done_ms"] - done["due_ms"])
        workloads.append(
            {
                "id": customer.id,
                "without_service_ms": max(_takeovers_ms(course, w), default=None),
                "p99_ms": None if latency is None else latency["p99"],
            }
        )
    return moments | {"workloads": workloads}


def _takeovers_ms(course: Recording, w: int) -> Iterator[float]:
    """Yield how long the first request took to each of a workload's slots in the second plan."""
    for number, place in enumerate(course.places):
        mine = course.requests[(course.requests["slot"] == number) & (course.requests["taken_ms"] != 0.0)]
        if place.sheet == 1 and place.serving.workload == w and len(mine):
            yield float(mine["taken_ms"][0] - mine["due_ms"][0])


def _while_measured(course: Recording) -> Flags:
    from_ms = 1000.0 * course.settings.warmup_s
    due_ms = course.requests["due_ms"]
    inside: Flags = (due_ms >= from_ms) & (due_ms < from_ms + 1000.0 * course.settings.seconds)
    return inside


def _workloads(course: Recording) -> int:
    return len(course.sheets[0].workloads)


def _spread(values: Floats) -> dict[str, float] | None:
    """Return mean, P50, P90, P99 and maximum; ``None`` of nothing."""
    if not len(values):
        return None
    p50, p90, p99 = (float(q) for q in np.quantile(values, (0.5, 0.9, 0.99), method="inverted_cdf"))
    return {"mean": float(values.mean()), "p50": p50, "p90": p90, "p99": p99, "max": float(values.max())}


def _means(samples: list[dict[str, float]]) -> dict[str, float | None]:
    """Return the mean of each quantity over the samples that tell it."""
    found: dict[str, float | None] = {"samples": len(samples)}
    for name in ("power_w", "frequency_mhz", "utilisation_pct"):
        told = [sample[name] for sample in samples if not np.isnan(sample[name])]
        found[name] = float(np.mean(told)) if told else None
    return found
