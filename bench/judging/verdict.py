"""Verdict of the judge: violations of a plan and predictions for every slot."""

import math
from dataclasses import asdict, dataclass

RATE_TOLERANCE = 1e-9
"""Relative slack on rates alone, for parts of a split workload that do not add up to the last bit and for cycles of
exactly ``1000 b / r``."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken constraint.

    Attributes
    ----------
    kind
        ``latency``, ``share``, ``allowed-share``, ``memory``, ``batch``, ``rate``, ``duty-cycle`` or ``pool``; of MIG
        instances also ``slice``, ``start``, ``overlap``, ``blocked`` and ``configuration`` (``bench.judging.mig``); of
        best-effort jobs also ``job`` (``bench.judging.colocation``).
    gpu
        Position in the plan, or ``None`` when it concerns no single GPU.
    workload
        Its id, or ``None``.
    actual, limit
        What is, and what may be at most (``rate``: at least); units as the message says.
    message
        For people.
    """

    kind: str
    gpu: int | None
    workload: str | None
    actual: float
    limit: float
    message: str


@dataclass(frozen=True, slots=True)
class SlotVerdict:
    """What the performance model predicts for one slot.

    Attributes
    ----------
    gpu, workload
        Position in the plan, and id.
    t_gpu_ms, t_inf_ms
        GPU time and whole inference time of a batch beside its neighbours.
    budget_ms
        Largest permitted GPU time (single-slot gpulets; what is left of the cycle otherwise).
    throughput_rps
        Most requests per second the slot can do.
    busy
        Fraction of time it is executing at the rate it serves.
    """

    gpu: int
    workload: str
    t_gpu_ms: float
    t_inf_ms: float
    budget_ms: float
    throughput_rps: float
    busy: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judge's finding on one plan.

    Attributes
    ----------
    feasible
        Whether no constraint is broken.
    violations
        Every broken constraint.
    value
        Of the instance's objective, also for infeasible plans; ``None`` where it is undefined.
    gpus_used
        GPUs that run something.
    cost_per_hour
        Their prices summed, in dollars.
    throughput_rps
        Sum of what the slots can do.
    goodput_rps
        Sum of the rates served by slots that break no constraint, at most what each workload asks for; of best-effort
        jobs what they get done.
    fragments_pct
        Mean unallocated share of the GPUs that run something (InSS, Sec. 2.4).
    utilisation_pct
        Mean over those GPUs of share times busy fraction.
    slots
        The prediction for every slot, in plan order.
    over_capacity_pct
        Time in which the jobs of a GPU ask for more than all of it, mean over those GPUs (see
        ``bench.judging.colocation``);
        ``None`` unless the objective is ``colocation``.
    """

    feasible: bool
    violations: tuple[Violation, ...]
    value: float | None
    gpus_used: int
    cost_per_hour: float
    throughput_rps: float
    goodput_rps: float
    fragments_pct: float
    utilisation_pct: float
    slots: tuple[SlotVerdict, ...]
    over_capacity_pct: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return the verdict as JSON values; times that are not finite become ``null``."""
        return {key: _finite(value) for key, value in asdict(self).items()}


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    return value
