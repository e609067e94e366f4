"""What asks to be served: workloads, applications made of them, and best-effort jobs."""

from dataclasses import dataclass


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
        Latency objective of a request, arrival to result.
    rate_rps
        Mean arrival rate.
    arrivals
        Name of an arrival trace (a file of requests per second), or ``None`` for a stationary stream.
    """

    id: str
    model: str
    slo_ms: float
    rate_rps: float
    arrivals: str | None = None


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
        End-to-end latency objective.
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
        Batch sizes the job draws from, and their relative frequencies.
    interarrival_ms, interarrival_weights
        Gaps between batches the job draws from, and their relative frequencies.
    """

    id: str
    model: str
    batches: tuple[int, ...]
    batch_weights: tuple[float, ...]
    interarrival_ms: tuple[float, ...]
    interarrival_weights: tuple[float, ...]
