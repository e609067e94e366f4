"""Options of a replay and the record of its events."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.replay.nvml import GpuState
from bench.replay.requests import Records
from bench.replay.serving_plan import Executor, Serving, Sheet
from bench.simulation.settings import Settings


class ReplayFailedError(Exception):
    """Failure that ends a replay, such as a first plan that cannot be served."""


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options for serving models and for the switch to the second plan.

    Attributes
    ----------
    half
        Whether models run in half precision.
    graphs
        Whether batches run as CUDA graphs.
    switch_at_s
        Measured second at which the switch to the second plan begins.
    """

    half: bool = False
    graphs: bool = False
    switch_at_s: float | None = None


@dataclass(frozen=True, slots=True)
class SlotPlace:
    """Position of a slot: the number of its serving plan, its executor, and the slot itself."""

    sheet: int
    executor: Executor
    serving: Serving


@dataclass(frozen=True, slots=True)
class Failure:
    """Failure of an executor during the replay: the number of its serving plan, the executor, and the reason."""

    sheet: int
    executor: Executor
    reason: str


@dataclass(slots=True)
class Recording:
    """Record of a replay.

    Attributes
    ----------
    sheets, settings
        The serving plans and the settings of the replay.
    places
        All slots; requests refer to a slot by its index here.
    requests
        Records of ``bench.replay.requests.REQUEST``.
    times_ms
        Timeout, and time of a full batch during the warm-up, of each slot that served.
    failures
        Executors that failed.
    began_ms, switched_ms, drained_ms
        Start of the switch to the second plan, first routing to the second plan, end of the first plan's last worker.
    gpus
        Samples of the GPUs during the measurement, by position.
    wall_s
        Wall time of the whole replay.
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
