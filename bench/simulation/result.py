"""Result of a simulation: latencies, goodput and late requests of every workload."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.simulation.allowance import VIOLATIONS_ALLOWED
from bench.simulation.histogram import compact, quantile_ms
from bench.simulation.load import Overload
from instances.arrays import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Results of one workload, or of one application end to end.

    Attributes
    ----------
    id
        Id of the workload or application.
    slo_ms
        Its latency objective.
    offered_rps
        Nominal rate of its requests.
    requests
        Requests that arrived during the measurement.
    late, dropped, unfinished
        Requests that were served after their deadline, that were dropped, and that were unfinished at the end of the
        simulation.
    p50_ms, p90_ms, p95_ms, p99_ms, max_ms, mean_ms
        Latency of the served requests; ``None`` if there are none. Percentiles come from ``histogram``, within 0.8 %.
    throughput_rps, goodput_rps
        Requests served, and served in time, per second.
    violation_rate
        Fraction of the requests that were not served in time.
    drop_rate
        Fraction of the requests that were not served at all.
    mean_queue
        Mean number of requests that wait for their batch to start.
    histogram
        Counts of latencies: see ``bench.simulation.histogram``.
    allowed
        Permitted fraction of requests not served in time.
    """

    id: str
    slo_ms: float
    offered_rps: float
    requests: int
    late: int
    dropped: int
    unfinished: int
    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    mean_ms: float | None
    throughput_rps: float
    goodput_rps: float
    violation_rate: float
    drop_rate: float
    mean_queue: float | None
    histogram: Ints = field(repr=False, compare=False)
    allowed: float = VIOLATIONS_ALLOWED

    @property
    def violating(self) -> bool:
        """Whether more requests than ``allowed`` were not served in time."""
        return self.violation_rate > self.allowed

    def to_json(self, histograms: bool) -> dict[str, Any]:
        """Return the results as JSON values, with or without the histogram."""
        values = asdict(self)
        values["violating"] = self.violating
        counts, _ = values.pop("histogram"), values.pop("allowed")
        return values | ({"histogram": compact(counts)} if histograms else {})


@dataclass(frozen=True, slots=True)
class Series:
    """Requests by the interval of their arrival; arrays of shape (intervals, workloads).

    Attributes
    ----------
    workloads
        Ids of the workloads.
    interval_s
        Length of an interval; the last one may be shorter.
    arrived, in_time, late, dropped
        Numbers of requests; those unfinished at the end of the simulation are in ``arrived`` only.
    """

    workloads: tuple[str, ...]
    interval_s: float
    arrived: Ints
    in_time: Ints
    late: Ints
    dropped: Ints


@dataclass(frozen=True, slots=True)
class Simulated:
    """Result of a simulation.

    Attributes
    ----------
    workloads, applications
        Results in the order of the instance, including workloads without requests.
    seconds
        Measured simulated time.
    wall_s
        Wall time of the simulation.
    series
        Results by interval, if requested.
    overloads
        Overloaded servers, the largest load first. If they miss more requests than allowed, the plan does not hold,
        even if this simulation is too short to show it.
    """

    workloads: tuple[Served, ...]
    applications: tuple[Served, ...]
    seconds: float
    wall_s: float
    series: Series | None = None
    overloads: tuple[Overload, ...] = ()

    @property
    def requests(self) -> int:
        """Measured requests of all workloads."""
        return sum(result.requests for result in self.workloads)

    @property
    def goodput_rps(self) -> float:
        """Requests served in time per second, of all workloads."""
        return math.fsum(result.goodput_rps for result in self.workloads)

    @property
    def violation_rate(self) -> float:
        """Fraction of all requests that were not served in time."""
        return _fraction(self.workloads, lambda result: result.violation_rate)

    @property
    def drop_rate(self) -> float:
        """Fraction of all requests that were not served."""
        return _fraction(self.workloads, lambda result: result.drop_rate)

    @property
    def missed(self) -> int:
        """Number of requests that were not served in time."""
        return sum(result.late + result.dropped + result.unfinished for result in self.workloads)

    @property
    def violating(self) -> int:
        """Number of violating workloads and applications."""
        return sum(result.violating for result in (*self.workloads, *self.applications))

    @property
    def worst_p99(self) -> float | None:
        """Largest P99 latency as a multiple of its SLO; ``None`` if no request was served."""
        ratios = [
            result.p99_ms / result.slo_ms
            for result in (*self.workloads, *self.applications)
            if result.p99_ms is not None
        ]
        return max(ratios, default=None)

    def to_json(self, histograms: bool = False) -> dict[str, Any]:
        """Return the result as JSON values."""
        values = {name: getattr(self, name) for name in _TOTALS}
        values["workloads"] = [result.to_json(histograms) for result in self.workloads]
        values["applications"] = [result.to_json(histograms) for result in self.applications]
        values["overloads"] = [asdict(result) | {"workloads": list(result.workloads)} for result in self.overloads]
        if self.series is not None:
            values["series"] = {name: getattr(self.series, name).tolist() for name in _SERIES} | {
                "workloads": list(self.series.workloads),
                "interval_s": self.series.interval_s,
            }
        return values


_TOTALS = ("requests", "seconds", "goodput_rps", "violation_rate", "drop_rate", "violating", "worst_p99", "wall_s")
"""Properties of a result in its JSON form."""

_SERIES = ("arrived", "in_time", "late", "dropped")
"""Arrays of a series in its JSON form."""


def _fraction(served: Sequence[Served], rate: Any) -> float:
    """Return the mean of the fractions ``rate(result)``, weighted by the requests of each result."""
    requests = sum(result.requests for result in served)
    return math.fsum(rate(result) * result.requests for result in served) / requests if requests else 0.0


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Numbers of requests that arrived, were served (in time or late), were served late, and were dropped."""

    arrived: int
    served: int
    late: int
    dropped: int


def served(
    name: str,
    slo_ms: float,
    offered_rps: float,
    seconds: float,
    requests: RequestCounts,
    histogram: Ints,
    largest_ms: float,
    latency_sum_ms: float | None = None,
    waiting_sum_ms: float | None = None,
    allowed: float = VIOLATIONS_ALLOWED,
) -> Served:
    """Return the results of one workload or application.

    The sums of latencies and of waiting times are over the served requests; ``None`` if they are unknown.
    """
    arrived, completed = requests.arrived, requests.served
    p50, p90, p95, p99 = (quantile_ms(histogram, fraction, largest_ms) for fraction in (0.5, 0.9, 0.95, 0.99))
    return Served(
        id=name,
        slo_ms=slo_ms,
        offered_rps=offered_rps,
        requests=arrived,
        late=requests.late,
        dropped=requests.dropped,
        unfinished=arrived - completed - requests.dropped,
        p50_ms=p50,
        p90_ms=p90,
        p95_ms=p95,
        p99_ms=p99,
        max_ms=largest_ms if completed else None,
        mean_ms=latency_sum_ms / completed if completed and latency_sum_ms is not None else None,
        throughput_rps=completed / seconds,
        goodput_rps=(completed - requests.late) / seconds,
        violation_rate=(arrived - completed + requests.late) / arrived if arrived else 0.0,
        drop_rate=(arrived - completed) / arrived if arrived else 0.0,
        mean_queue=None if waiting_sum_ms is None else waiting_sum_ms / (seconds * 1000.0),
        histogram=histogram,
        allowed=allowed,
    )
