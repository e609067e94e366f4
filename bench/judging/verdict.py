"""Verdict of the judge: violations of a plan and predictions for every slot."""

import math
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One violated constraint.

    Attributes
    ----------
    kind
        ``latency``, ``share``, ``allowed-share``, ``memory``, ``batch``, ``rate``, ``duty-cycle`` or ``pool``; of MIG
        instances also ``slice``, ``start``, ``overlap``, ``blocked`` and ``configuration`` (``bench.judging.mig``); of
        best-effort jobs also ``job`` (``bench.judging.colocation``).
    gpu, workload
        Position of the GPU in the plan, and id of the workload; ``None`` if the violation is not about one GPU or one
        workload.
    actual, limit
        Actual value and the limit that it breaks, in the units of the message; the limit is 0 where only certain values
        are permitted.
    """

    kind: str
    gpu: int | None
    workload: str | None
    actual: float
    limit: float
    message: str


@dataclass(frozen=True, slots=True)
class SlotVerdict:
    """Prediction of the performance model for one slot.

    Attributes
    ----------
    gpu, workload
        Position of the GPU in the plan, and id of the workload.
    t_gpu_ms, t_inf_ms
        GPU time and whole inference time of a batch with its neighbours.
    budget_ms
        Largest permitted GPU time; with a duty cycle, the time that the SLO leaves after the cycle.
    throughput_rps
        Largest number of requests per second that the slot can serve.
    busy
        Fraction of the time in which the slot executes at its planned rate.
    slack
        Fraction by which the latencies may exceed the planned ones before the SLO breaks (``bench.judging.slack``);
        ``None`` for best-effort jobs, which have no SLO.
    """

    gpu: int
    workload: str
    t_gpu_ms: float
    t_inf_ms: float
    budget_ms: float
    throughput_rps: float
    busy: float
    slack: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict of the judge on one plan.

    Attributes
    ----------
    feasible
        Whether the plan has no violation.
    value
        Value of the instance's objective, also for infeasible plans.
    gpus_used
        Number of GPUs with gpulets.
    cost_per_hour
        Sum of the prices of the used GPUs, in dollars.
    throughput_rps
        Sum of the throughputs of the slots.
    goodput_rps
        Sum of the rates served by slots without violations, at most the rate of each workload; for best-effort jobs,
        their throughput.
    fragments_pct
        Mean unallocated share of the used GPUs (InSS, Sec. 2.4).
    utilisation_pct
        Mean over the used GPUs of share times busy fraction.
    slots
        Prediction for every slot, in plan order.
    over_capacity_pct
        Time in which the jobs of a GPU need more than the whole GPU, mean over the used GPUs
        (``bench.judging.colocation``); ``None`` unless the objective is ``colocation``.
    least_slack
        Least slack of any slot: all latencies may be longer by this fraction before an SLO breaks. ``None`` without
        slots that have an SLO.
    """

    feasible: bool
    violations: tuple[Violation, ...]
    value: float
    gpus_used: int
    cost_per_hour: float
    throughput_rps: float
    goodput_rps: float
    fragments_pct: float
    utilisation_pct: float
    slots: tuple[SlotVerdict, ...]
    over_capacity_pct: float | None = None
    least_slack: float | None = None

    def to_json(self) -> dict[str, object]:
        """Return the verdict as JSON values; times that are not finite become ``null``."""
        return {key: finite(value) for key, value in asdict(self).items()}


def finite(value: object) -> object:
    """Return JSON data with ``None`` in place of every number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    return [finite(entry) for entry in value] if isinstance(value, list | tuple) else value
