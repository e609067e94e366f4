"""Test of a plan: ten long simulations, and longer ones of those parts of it of which these cannot tell.

A plan holds if no workload is late by a test at ``LEVEL`` divided by the number of workloads (Bonferroni), none is
unclear, and the pooled attainment is at least the target minus ``POOLED_MARGIN``; see ``bench.holding.attainment``. The
simulations have dynamic interference and no noise; their servers drop late requests if the instance says so. Under
``goodput`` only admitted requests count.

Workloads with few requests, and those whose queues settle slowly, need more simulated time than others. Their GPUs are
simulated anew for longer, without the rest of the plan, until the test can tell or a limit is reached. The last
simulations of a workload alone decide about it.
"""

import math
from collections.abc import Generator, Sequence

from bench.holding.attainment import Spread, attained, counts_of, longer_factor
from bench.holding.parts import PlanPart, independent_parts
from bench.holding.verdict import Attained, Holding, with_overloads
from bench.holding.windows import SIMULATIONS, Windows, windows_of
from bench.plan_simulation import expected_requests, simulation, warmup_of
from bench.simulation.arrivals import Arrivals
from bench.simulation.load import Overload
from bench.simulation.result import Series
from bench.simulation.services import MOST_REQUESTS
from bench.simulation.serving_rules import offered_rps
from bench.simulation.settings import Settings
from instances import InputError, Instance, Plan

LEVEL = 0.05
"""Probability that a plan whose workloads all miss exactly the allowed fraction does not pass."""

LONGER, MOST_LONGER = 4.0, 100.0
"""Least and largest factor on the time of simulations that cannot tell."""

LONGEST_S = 1_000_000.0
"""Longest measured time of a simulation."""

MOST_FURTHER_REQUESTS = 500_000_000
"""Most requests in the longer simulations of a plan: some ten seconds of one core."""

WARMUP_PART = 0.1
"""Least warm-up of a longer simulation, as a part of its measured time."""

_FIRST_PART = 0.8
"""Finished fraction after the simulations of the whole plan."""


class Check:
    """Test whether a plan holds.

    Parameters
    ----------
    plan, instance, truth
        As in ``bench.plan_simulation.simulate``.
    arrivals
        Arrivals of the requests.
    dropping
        Whether the servers drop late requests; ``None``: as the instance says.
    seconds
        Measured time of each simulation; ``None``: ``SECONDS``, and longer where the test cannot tell.

    Raises
    ------
    InputError
        If the instance has applications.
    """

    def __init__(
        self,
        plan: Plan,
        instance: Instance,
        arrivals: Arrivals,
        truth: Instance | None = None,
        *,
        dropping: bool | None = None,
        seconds: float | None = None,
    ) -> None:
        if instance.applications:
            problem = f"{instance.name} has applications; only workloads with an SLO of their own are tested"
            raise InputError("--check", problem)
        self._whole = PlanPart(plan, instance, truth or instance)
        self._dropping, self._fixed = dropping, seconds is not None
        offered = offered_rps(plan, instance)
        self._windows = windows_of(arrivals, math.fsum(offered.values()), seconds)
        self._level = LEVEL / max(1, sum(rate_rps > 0.0 for rate_rps in offered.values()))
        self._overloads: tuple[Overload, ...] = ()

    def run(self) -> Generator[float, None, Holding]:
        """Test the plan; yield the finished fraction."""
        plan, instance, truth = self._whole.plan, self._whole.instance, self._whole.truth
        first = yield from self._tested(self._whole, self._windows, 0.0, (0.0, _FIRST_PART))
        found = {one.workload: one for one in first}
        if not self._fixed and self._windows.spread is not Spread.PARTS:
            parts = [
                part
                for part in independent_parts(plan, instance, truth)
                if any(found[w.id].unclear for w in part.instance.workloads if w.id in found)
            ]
            left = float(MOST_FURTHER_REQUESTS)
            for number, part in enumerate(parts):
                ends = (_FIRST_PART + (1.0 - _FIRST_PART) * at / len(parts) for at in (number, number + 1))
                most, own = left / (len(parts) - number), [found[w.id] for w in part.instance.workloads if w.id in found]
                own, spent = yield from self._longer(part, own, most, tuple(ends))
                found |= {one.workload: one for one in own}
                left -= spent
        dropping = Settings(dropping=self._dropping).drops(instance)
        return Holding(instance.attainment, dropping, self._windows.seconds, tuple(found.values()))

    def _longer(
        self, part: PlanPart, found: Sequence[Attained], most: float, ends: tuple[float, ...]
    ) -> Generator[float, None, tuple[Sequence[Attained], float]]:
        """Simulate a part for longer until the test can tell or more than ``most`` requests would arrive.

        Return its results and the number of requests.
        """
        plan, instance = part.plan, part.instance
        rate_rps = math.fsum(offered_rps(plan, instance).values())
        windows, spent = self._windows, 0.0
        while unclear := [one for one in found if one.unclear]:
            factor = max(1.2 * longer_factor(one.detectable, instance.may_miss) for one in unclear)
            longest_s = min(LONGEST_S, (most - spent) / (SIMULATIONS * rate_rps * (1.0 + WARMUP_PART)))
            if instance.services:
                longest_s = min(longest_s, MOST_REQUESTS / (2.0 * rate_rps))
            seconds = min(longest_s, windows.seconds * min(MOST_LONGER, max(LONGER, factor)))
            if seconds < 2.0 * windows.seconds:
                break
            windows = windows.at_least(seconds)
            found = yield from self._tested(part, windows, WARMUP_PART * windows.seconds, ends)
            spent += SIMULATIONS * rate_rps * windows.seconds * (1.0 + WARMUP_PART)
        return found, spent

    def _tested(
        self, part: PlanPart, windows: Windows, least_warmup_s: float, ends: tuple[float, ...]
    ) -> Generator[float, None, list[Attained]]:
        """Simulate a part and return its results; the finished fraction goes from the first to the second of ``ends``."""
        plan, instance, truth = part.plan, part.instance, part.truth
        asked = Settings(windows.arrivals, dropping=self._dropping)
        warmup_s = max(least_warmup_s, warmup_of(plan, instance, asked, truth))
        series: list[Series] = []
        backlog = []
        for number in range(SIMULATIONS):
            settings = windows.settings(number, warmup_s, self._dropping)
            steps = simulation(plan, instance, settings, truth)
            try:
                while True:
                    yield ends[0] + (ends[1] - ends[0]) * (number + next(steps)) / SIMULATIONS
            except StopIteration as done:
                result = done.value
            series.append(result.series)
            backlog.append(settings.backlog)
        if part is self._whole:
            self._overloads = result.overloads
        offered, allowed = offered_rps(plan, instance), instance.may_miss
        names = list(series[0].workloads)
        found = attained(
            names, counts_of(series, backlog), SIMULATIONS * windows.seconds, windows.spread, allowed, self._level
        )
        known = [one for one in found if offered[one.workload] > 0.0]
        return with_overloads(known, self._overloads, allowed)


def holding(
    plan: Plan,
    instance: Instance,
    arrivals: Arrivals,
    truth: Instance | None = None,
    *,
    dropping: bool | None = None,
    seconds: float | None = None,
) -> Generator[float, None, Holding]:
    """Test a plan as ``Check`` does; yield the finished fraction."""
    return Check(plan, instance, arrivals, truth, dropping=dropping, seconds=seconds).run()


def expected_requests_of_test(plan: Plan, instance: Instance, arrivals: Arrivals) -> float:
    """Return the mean number of requests that arrive in the simulations of the whole plan."""
    windows = windows_of(arrivals, math.fsum(offered_rps(plan, instance).values()), None)
    return SIMULATIONS * expected_requests(plan, instance, Settings(arrivals, windows.seconds))
