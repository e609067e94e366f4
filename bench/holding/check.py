"""Test of a plan: ten long simulations of the plan, and longer simulations of its unclear parts.

A plan holds under three conditions. A test at ``LEVEL`` divided by the number of workloads (Bonferroni) finds no
workload late. No workload is unclear. A test at ``LEVEL`` does not find the attainment of all requests together below
the target by more than ``POOLED_MARGIN``. The tests are in ``bench.holding.attainment`` and ``bench.holding.verdict``.
The simulations have dynamic interference and no noise. Their servers drop late requests if the instance says so. Under
``goodput`` only admitted requests count.

Workloads with few requests, or with queues that settle slowly, need more simulated time. Their GPUs are simulated again
for longer, without the other GPUs of the plan, until the test can tell or a limit is reached. Only the last simulations
of a workload decide about it.
"""

from collections.abc import Generator, Mapping, Sequence
from typing import cast

from bench.holding.attainment import Spread, counts_of, longer_factor, workload_attainments
from bench.holding.parts import PlanPart, independent_parts, rate_rps
from bench.holding.verdict import LEVEL, Holding, WorkloadAttainment, with_overloads
from bench.holding.windows import SIMULATIONS, Windows, windows_of
from bench.plan_simulation import Result, expected_requests, simulation, warmup_of
from bench.simulation.arrivals import Arrivals
from bench.simulation.load import Overload
from bench.simulation.result import Series
from bench.simulation.services import MOST_REQUESTS
from bench.simulation.serving_rules import offered_rps
from bench.simulation.settings import Settings
from instances import InputError, Instance, Plan
from instances.errors import FieldName

LEAST_FACTOR, LARGEST_FACTOR = 4.0, 100.0
"""Least and largest factor on the simulated time of an unclear part."""

LONGEST_S = 1_000_000.0
"""Longest measured time of a simulation."""

MOST_FURTHER_REQUESTS = 500_000_000
"""Most requests in the longer simulations of a plan: about ten seconds of one core."""

WARMUP_FRACTION = 0.1
"""Least warm-up of a longer simulation, as a fraction of its measured time."""

_WHOLE_PLAN_FRACTION = 0.8
"""Finished fraction after the simulations of the whole plan."""


def holding(
    plan: Plan,
    instance: Instance,
    arrivals: Arrivals,
    truth: Instance | None = None,
    *,
    dropping: bool | None = None,
    seconds: float | None = None,
) -> Generator[float, None, Holding]:
    """Test whether a plan holds; yield the finished fraction.

    Parameters
    ----------
    plan, instance, truth
        As in ``bench.plan_simulation.simulate``.
    arrivals
        Arrivals of the requests.
    dropping
        Whether the servers drop late requests; ``None``: as the instance says.
    seconds
        Measured time of each simulation; ``None``: ``SECONDS``, and more for parts that are unclear.

    Raises
    ------
    InputError
        If the plan cannot be simulated, or the instance has applications.
    """
    if instance.applications:
        problem = f"{instance.name} has applications; only workloads with an SLO of their own are tested"
        raise InputError(FieldName("check"), problem)
    whole = PlanPart(plan, instance, truth or instance)
    windows = windows_of(arrivals, rate_rps(whole), seconds)
    workloads = yield from _Test(whole, dropping).run(windows, lengthen=seconds is None)
    drops = Settings(dropping=dropping).drops(instance)
    return Holding(instance.attainment, drops, windows.seconds, tuple(workloads))


class _Test:
    """Test of a plan and of its parts; the level and the overloaded servers are those of the whole plan."""

    def __init__(self, whole: PlanPart, dropping: bool | None) -> None:
        self._whole, self._dropping = whole, dropping
        offered = offered_rps(whole.plan, whole.instance)
        self._tested = {name for name, rate in offered.items() if rate > 0.0}
        self._overloads: Sequence[Overload] = ()

    def run(self, windows: Windows, lengthen: bool) -> Generator[float, None, list[WorkloadAttainment]]:
        """Test the whole plan; with ``lengthen``, then test its unclear parts in longer simulations."""
        whole_plan_results = yield from _scaled(self._simulated(self._whole, windows), 0.0, _WHOLE_PLAN_FRACTION)
        result_by_name = {result.workload: result for result in whole_plan_results}
        parts = independent_parts(self._whole) if lengthen and windows.spread is not Spread.TRACE_PARTS else []
        parts = [part for part in parts if any(result.unclear for result in _results_of(part, result_by_name))]
        requests_left = float(MOST_FURTHER_REQUESTS)
        for number, part in enumerate(parts):
            begin, end = (
                _WHOLE_PLAN_FRACTION + (1.0 - _WHOLE_PLAN_FRACTION) * done_parts / len(parts)
                for done_parts in (number, number + 1)
            )
            lengthened = self._lengthened(
                part, windows, _results_of(part, result_by_name), requests_left / (len(parts) - number)
            )
            results, requests = yield from _scaled(lengthened, begin, end)
            result_by_name |= {result.workload: result for result in results}
            requests_left -= requests
        return list(result_by_name.values())

    def _lengthened(
        self, part: PlanPart, windows: Windows, results: Sequence[WorkloadAttainment], most_requests: float
    ) -> Generator[float, None, tuple[Sequence[WorkloadAttainment], float]]:
        """Simulate a part for longer until the test can tell or more than ``most_requests`` requests would arrive.

        Return the results of the part and the number of simulated requests.
        """
        requests_per_second = SIMULATIONS * rate_rps(part) * (1.0 + WARMUP_FRACTION)
        requests = 0.0
        while unclear := [result for result in results if result.unclear]:
            # A reserve of a fifth, because ``detectable`` is an estimate.
            factor = 1.2 * max(longer_factor(result.detectable, part.instance.may_miss) for result in unclear)
            longest_s = min(LONGEST_S, (most_requests - requests) / requests_per_second)
            if part.instance.services:  # all requests of a service are in memory, with those of the warm-up
                longest_s = min(longest_s, MOST_REQUESTS / (2.0 * rate_rps(part)))
            seconds = min(longest_s, windows.seconds * min(LARGEST_FACTOR, max(LEAST_FACTOR, factor)))
            if seconds < 2.0 * windows.seconds:  # less than twice the time would hardly help
                break
            windows = windows.at_least(seconds)
            results = yield from self._simulated(part, windows, WARMUP_FRACTION * windows.seconds)
            requests += requests_per_second * windows.seconds
        return results, requests

    def _simulated(
        self, part: PlanPart, windows: Windows, least_warmup_s: float = 0.0
    ) -> Generator[float, None, list[WorkloadAttainment]]:
        """Simulate a part and return its results."""
        plan, instance, truth = part.plan, part.instance, part.truth
        base_settings = Settings(windows.arrivals, dropping=self._dropping)
        warmup_s = max(least_warmup_s, warmup_of(plan, instance, base_settings, truth))
        settings = [windows.settings(number, warmup_s, self._dropping) for number in range(SIMULATIONS)]
        series = []
        for number, simulation_settings in enumerate(settings):
            begin, end = number / SIMULATIONS, (number + 1) / SIMULATIONS
            simulated = yield from _scaled(simulation(plan, instance, simulation_settings, truth), begin, end)
            assert simulated.series is not None
            series.append(simulated.series)
        if part is self._whole:
            self._overloads = simulated.overloads
        counts = counts_of(series, [simulation_settings.backlog for simulation_settings in settings])
        allowed, level = instance.may_miss, LEVEL / max(1, len(self._tested))
        seconds = SIMULATIONS * windows.seconds
        results = workload_attainments(series[0].workloads, counts, seconds, windows.spread, allowed, level)
        return with_overloads(
            [result for result in results if result.workload in self._tested], self._overloads, allowed
        )


def _results_of(part: PlanPart, results: Mapping[str, WorkloadAttainment]) -> list[WorkloadAttainment]:
    return [results[workload.id] for workload in part.instance.workloads if workload.id in results]


def _scaled(steps: Generator[float, None, Result], begin: float, end: float) -> Generator[float, None, Result]:
    """Run ``steps``; map their finished fraction from [0, 1] to [``begin``, ``end``]."""
    while True:
        try:
            yield begin + (end - begin) * next(steps)
        except StopIteration as finished:
            return cast(Result, finished.value)


def holding_of(simulated: Sequence[Series], instance: Instance, dropping: bool, seconds: float) -> Holding:
    """Return the result of the test for independent simulations of ``seconds`` each, all of which begin idle."""
    counts = counts_of(simulated, [False] * len(simulated))
    tested = int((counts.arrived.sum(axis=(0, 1)) > 0.0).sum())
    level, total_s = LEVEL / max(1, tested), len(simulated) * seconds
    results = workload_attainments(simulated[0].workloads, counts, total_s, Spread.STATIONARY, instance.may_miss, level)
    return Holding(instance.attainment, dropping, seconds, tuple(result for result in results if result.requests))


def expected_requests_of_test(plan: Plan, instance: Instance, arrivals: Arrivals) -> float:
    """Return the mean number of requests that arrive in the simulations of the whole plan."""
    windows = windows_of(arrivals, rate_rps(PlanPart(plan, instance, instance)), None)
    return SIMULATIONS * expected_requests(plan, instance, Settings(arrivals, windows.seconds))
