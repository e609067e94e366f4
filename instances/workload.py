"""Workloads, applications and best-effort jobs of an instance."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from instances.continuous import CONTINUOUS
from instances.services import Service

LEAST_RATE_RPS, MOST_RATE_RPS = 1e-200, 1e200
"""Range of the rates in files. Within it, parts and multiples of rates and times of batches are finite and not 0."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A stream of requests to one DNN model under a latency SLO.

    Attributes
    ----------
    id
        Unique within its instance.
    model
        Name of the DNN model.
    slo_ms
        Largest permitted latency of a request, from arrival to result.
    rate_rps
        Mean arrival rate.
    arrivals
        Name of an arrival trace (a file of requests per second), or ``None`` for a stationary stream.
    rule
        ``continuous`` for the decoding of a service; ``None`` for the instance's SLO rule.
    service
        Language-model service of which this workload is the prefill or, under ``continuous``, the decoding.
    """

    id: str
    model: str
    slo_ms: float
    rate_rps: float
    arrivals: str | None = None
    rule: str | None = None
    service: Service | None = None

    @property
    def steps(self) -> int:
        """Decoding steps of a request under ``continuous``; 0 under other rules, where one batch serves a request."""
        return self.service.output_tokens if self.service is not None and self.rule == CONTINUOUS else 0


def service_workloads(service: Service, rate_rps: float) -> tuple[Workload, Workload]:
    """Return the prefill and the decode workload of a service.

    The first token waits for the next decoding step, so the SLO of prefill is the time to first token minus one step.
    """
    prefill_ms = service.ttft_ms - service.tpot_ms
    return (
        Workload(f"{service.name}/prefill", service.prefill_model, prefill_ms, rate_rps, service=service),
        Workload(f"{service.name}/decode", service.decode_model, service.tpot_ms, rate_rps, None, CONTINUOUS, service),
    )


@dataclass(frozen=True, slots=True)
class Application:
    """A directed acyclic graph of workloads under one end-to-end SLO (gpulet's ``game`` and ``traffic``).

    Attributes
    ----------
    id
        Unique within its instance.
    stages
        Ids of the workloads that one request visits.
    edges
        Pairs (before, after) of stage ids.
    slo_ms
        Largest permitted latency of the whole request.
    """

    id: str
    stages: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    slo_ms: float


@dataclass(frozen=True, slots=True)
class Job:
    """A best-effort inference job without an SLO (MediatorDNN).

    Attributes
    ----------
    id
        Unique within its instance.
    model
        Name of the DNN model.
    batches, batch_weights
        Batch sizes that the job draws from, and their relative frequencies.
    interarrival_ms, interarrival_weights
        Gaps between batches that the job draws from, and their relative frequencies.
    """

    id: str
    model: str
    batches: tuple[int, ...]
    batch_weights: tuple[float, ...]
    interarrival_ms: tuple[float, ...]
    interarrival_weights: tuple[float, ...]

    @property
    def mean_batch(self) -> float:
        """Requests per batch in the long run."""
        return _mean(self.batches, self.batch_weights)

    @property
    def mean_gap_ms(self) -> float:
        """Time from batch to batch in the long run; 0 if a next batch is always ready."""
        return _mean(self.interarrival_ms, self.interarrival_weights)

    @property
    def rate_rps(self) -> float:
        """Requests per second that arrive in the long run; infinite if a next batch is always ready."""
        return 1000.0 * self.mean_batch / self.mean_gap_ms if self.mean_gap_ms > 0.0 else inf


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
