"""Requests of a replay, drawn before the replay begins, and the record of its events."""

import mmap
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.replay.gpus import GpuState
from bench.replay.serving_plan import Executor, ServedSlot, ServingPlan
from bench.replay.settings import ReplaySettings
from bench.simulation.arrivals import Stream
from instances import InputError
from instances.arrays import Records

REQUEST = np.dtype(
    [
        ("due_ms", "f8"),
        ("sent_ms", "f8"),
        ("taken_ms", "f8"),
        ("started_ms", "f8"),
        ("upload_ms", "f8"),
        ("compute_ms", "f8"),
        ("done_ms", "f8"),
        ("workload", "i4"),
        ("slot", "i4"),
        ("size", "i4"),
        ("outcome", "i4"),
    ]
)
"""Record of a request. The times ``due_ms`` (scheduled arrival), ``sent_ms``, ``taken_ms`` (read by its worker),
``started_ms`` and ``done_ms`` count from the beginning of the replay. ``upload_ms``, ``compute_ms`` and ``size`` belong
to the batch of the request.

``workload`` is a position in the serving plan. ``slot`` is a position among the slots of all serving plans.
``outcome`` is ``WAITING``, ``SERVED`` or ``DROPPED``.
"""

WAITING, SERVED, DROPPED = 0, 1, 2
"""Outcomes of a request."""

NO_SLOT = -1
"""``slot`` of a request that was not sent to a slot."""

MOST_REQUESTS = 20_000_000
"""Largest number of requests in one replay: 1.4 GB."""

_MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 - the files there have no names
"""Folder of files in memory."""

_HEADER_BYTES = 64
"""Length of the header before the requests; it begins with the number of the active serving plan."""


def draw(plans: Sequence[ServingPlan], settings: ReplaySettings, switch_at_s: float | None) -> Records:
    """Return the requests of a replay in the order of time; a simulation with the same settings has the same requests.

    Parameters
    ----------
    plans
        One or two serving plans.
    switch_at_s
        Measured second from which requests arrive at the rates of the second serving plan.

    Raises
    ------
    InputError
        If there are too many requests.
    """
    end_ms = 1000.0 * (settings.warmup_s + settings.seconds)
    switch_ms = end_ms if switch_at_s is None else 1000.0 * (settings.warmup_s + switch_at_s)
    total_rps = max(sum(workload.offered_rps for workload in plan.workloads) for plan in plans)
    if total_rps * end_ms / 1000.0 > MOST_REQUESTS:
        expected = f"expected at most {MOST_REQUESTS / total_rps:,.0f} s including the warm-up"
        raise InputError("seconds", f"are too many at {total_rps:,.0f} requests/s; {expected}")
    times_ms, workloads = [np.empty(0)], [np.empty(0, dtype=np.int32)]
    for plan, from_ms, to_ms in zip(plans, (0.0, switch_ms), (switch_ms, end_ms), strict=False):
        for index, workload in enumerate(plan.workloads):
            if workload.offered_rps > 0.0 and to_ms > from_ms:
                stream = Stream(settings.arrivals, workload.offered_rps, settings.seed, workload.id)
                arrivals_ms = stream.until(np.nextafter(to_ms, 0.0))
                times_ms.append(arrivals_ms[arrivals_ms >= from_ms])
                workloads.append(np.full(len(times_ms[-1]), index, dtype=np.int32))
    due_ms = np.concatenate(times_ms)
    order = np.argsort(due_ms, kind="stable")
    requests = np.zeros(len(due_ms), dtype=REQUEST)
    requests["due_ms"], requests["workload"] = due_ms[order], np.concatenate(workloads)[order]
    requests["slot"] = NO_SLOT
    return requests


class SharedRequests:
    """Requests, as records of ``REQUEST``, in a file without a name, which the system removes even after a crash."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        self._plan = np.frombuffer(memory, dtype=np.int64, count=1)
        self.requests: Records = np.frombuffer(memory, dtype=REQUEST, offset=_HEADER_BYTES)

    @classmethod
    def in_new_file(cls, requests: Records) -> "SharedRequests":
        """Return ``requests`` in a new file."""
        # /dev/shm has only 64 MiB in many containers.
        fits = _MEMORY_FOLDER.is_dir() and shutil.disk_usage(_MEMORY_FOLDER).free > _HEADER_BYTES + requests.nbytes
        with tempfile.TemporaryFile(dir=_MEMORY_FOLDER if fits else None) as file:
            file.write(bytes(_HEADER_BYTES))
            file.write(requests.tobytes())
            file.flush()
            return cls(os.dup(file.fileno()))

    @property
    def plan(self) -> int:
        """Number of the active serving plan: 0, and 1 after the switch."""
        return int(self._plan[0])

    @plan.setter
    def plan(self, plan: int) -> None:
        self._plan[0] = plan


@dataclass(frozen=True, slots=True)
class SlotPlace:
    """A slot with the number of its serving plan and its executor."""

    plan: int
    executor: Executor
    slot: ServedSlot


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of an executor, with the number of its serving plan."""

    plan: int
    executor: Executor
    reason: str


@dataclass(slots=True)
class Recording:
    """Record of a replay.

    Attributes
    ----------
    places
        All slots; requests refer to a slot by its index here.
    requests
        Records of ``REQUEST``.
    times_ms
        Timeout of each slot that served, and the time of its full batch during the warm-up, by index of the slot.
    began_ms, switched_ms, drained_ms
        Times at which the switch began, the second plan got its first request, and the first plan's last worker ended.
    gpus
        Samples of the GPUs during the measurement, by position.
    wall_s
        Wall time of the whole replay.
    """

    plans: Sequence[ServingPlan]
    settings: ReplaySettings
    places: Sequence[SlotPlace]
    requests: Records
    times_ms: dict[int, tuple[float, float]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    began_ms: float | None = None
    switched_ms: float | None = None
    drained_ms: float | None = None
    gpus: dict[int, list[GpuState]] = field(default_factory=dict)
    wall_s: float = 0.0
