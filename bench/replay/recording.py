"""Settings of a replay besides its plans, and the events during it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.replay.nvml import GpuState
from bench.replay.requests import Records
from bench.replay.serving_plan import Executor, Serving, Sheet
from bench.simulation.settings import Settings


class ReplayFailedError(Exception):
    """Something that a replay cannot go on without went wrong."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """How models are served, and when the second plan takes over.

    Attributes
    ----------
    half
        Half precision.
    graphs
        CUDA graphs.
    switch_at_s
        When the change to the second plan begins, in seconds of what is measured.
    """

    half: bool = False
    graphs: bool = False
    switch_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class SlotPlace:
    """A slot by the number that requests name: its sheet, its executor and what that slot is."""

    sheet: int
    executor: Executor
    serving: Serving


@dataclass(frozen=True, slots=True)
class Failure:
    """A worker that did not serve to the end: the sheet and the executor it failed with, and why."""

    sheet: int
    executor: Executor
    reason: str


@dataclass(slots=True)
class Recording:
    """What happened in a replay.

    Attributes
    ----------
    sheets, settings
        As asked for.
    places
        All slots.
    requests
        Records of ``bench.replay.requests.REQUEST``.
    times_ms
        Of each slot that served: its timeout, and what a full batch took when it was timed.
    failures
        Workers that did not serve to the end.
    began_ms, switched_ms, drained_ms
        When the change to the second plan began, requests went to it, the first plan's last worker was done.
    gpus
        What the GPUs said while it was measured, by position.
    wall_s
        All of it.
    """

    sheets: Sequence[Sheet]
    settings: Settings
    places: Sequence[SlotPlace]
    requests: Records
    times_ms: dict[int, tuple[float, float]] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    began_ms: float | None = None
    switched_ms: float | None = None
    drained_ms: float | None = None
    gpus: dict[int, list[GpuState]] = field(default_factory=dict)
    wall_s: float = 0.0
