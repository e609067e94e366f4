"""Control loop of an online run: observe the load, decide, prepare new processes, switch the plan."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from bench.online.observation import Observation
from bench.online.plan_switch import aligned, is_ready, memory_pct, resident
from bench.online.planner import Planner
from bench.online.policy import OnlinePolicy, Reschedule, Static
from bench.online.result import Period, PeriodEnd
from bench.online.share_policies import Reactive, Shadow
from bench.simulation.arrivals import Stream
from bench.simulation.driver import Simulation
from bench.simulation.settings import Settings
from instances import InputError, Instance, Objective, Plan
from instances.errors import FieldName

LEAST_PERIOD_S = 0.001
"""Shortest period; a shorter one contains hardly any request."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Durations of an online run, in simulated seconds.

    The policy decides every ``period_s``. New processes are ready ``reorganisation_s`` after the decision, standby
    processes at once. The gpulet paper measures 10 to 15 s (arXiv'21, Sec. 5).
    """

    seconds: float
    period_s: float
    reorganisation_s: float

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds < math.inf:
            raise InputError(FieldName("seconds"), f"{self.seconds:g}; expected a finite time greater than 0")
        if not LEAST_PERIOD_S <= self.period_s < math.inf:
            raise InputError(
                FieldName("period_s"), f"{self.period_s:g}; expected a finite time of at least {LEAST_PERIOD_S:g} s"
            )
        if not 0.0 <= self.reorganisation_s < math.inf:
            raise InputError(
                FieldName("reorganisation_s"), f"{self.reorganisation_s:g}; expected a finite time of at least 0 s"
            )

    def periods(self) -> Iterator[tuple[float, float]]:
        """Yield begin and end of every period; the last period may be shorter."""
        count = max(1, math.ceil(self.seconds / self.period_s - 1e-9))
        for number in range(count):
            end_s = self.seconds if number == count - 1 else (number + 1) * self.period_s
            yield number * self.period_s, end_s


def online_instance(instance: Instance) -> Instance:
    """Return the instance that an online run serves; the objective ``scale`` becomes ``cost`` on the same pool.

    Raises
    ------
    InputError
        If the instance cannot be served online.
    """
    if instance.applications:
        raise InputError(instance.name, "has applications; an online run needs an instance without applications")
    if instance.services:
        raise InputError(instance.name, "has language-model services, whose requests an online run cannot move")
    if instance.objective in (Objective.GOODPUT, Objective.COLOCATION):
        raise InputError(instance.name, f"has the objective {instance.objective}; expected cost, scale or capacity")
    return replace(instance, objective=Objective.COST) if instance.objective is Objective.SCALE else instance


class Online:
    """One online run; the wall time of decisions has no effect on the simulated time.

    Parameters
    ----------
    plan
        The first plan.
    instance
        Instance of the plan, as ``online_instance`` returns it.
    truth
        Instance with the true figures of the GPUs; ``instance`` by default.
    without_headroom
        Whether ``plan`` was made without the requested headroom.

    Attributes
    ----------
    periods
        Finished periods.
    """

    def __init__(
        self,
        plan: Plan,
        instance: Instance,
        policy: OnlinePolicy,
        requests: Mapping[str, Stream],
        pace: Pace,
        seed: int = 0,
        truth: Instance | None = None,
        without_headroom: bool = False,
    ) -> None:
        self._instance, self._policy, self._pace = instance, policy, pace
        settings = Settings(seconds=pace.seconds, warmup_s=0.0, seed=seed)
        self._simulation = Simulation(plan, instance, settings, truth or instance, requests)
        self._without_headroom = without_headroom
        # Plan in preparation: when its processes are ready, the plan, and whether it was made without the headroom.
        self._pending: tuple[float, Plan, bool] | None = None
        self._total = Observation.empty(len(instance.workloads))
        self.periods: list[Period] = []

    def run(self) -> Iterator[Period]:
        """Serve all periods and yield each one when it ends."""
        for begin_s, end_s in self._pace.periods():
            gpu_s, peak_memory_pct = self._serve(begin_s, end_s)
            observation = self._observed(end_s)
            plan, without_headroom = self._simulation.plan, self._without_headroom
            action = self._end_period(observation, end_s)
            period = Period(
                begin_s, observation, plan, gpu_s / observation.seconds, peak_memory_pct, action, without_headroom
            )
            self.periods.append(period)
            yield period

    def _serve(self, begin_s: float, end_s: float) -> tuple[float, float | None]:
        """Serve until the end of a period; return the GPU seconds in use and the peak resident memory in percent."""
        simulation = self._simulation
        gpu_s, memory_pcts = 0.0, [self._memory_pct()]
        if self._pending is not None and self._pending[0] <= end_s:
            ready_s, plan, without_headroom = self._pending
            gpu_s += (ready_s - begin_s) * self._resident_gpus()
            simulation.advance(1000.0 * ready_s)
            self._exchange(plan, without_headroom)
            self._pending, begin_s = None, ready_s
            memory_pcts.append(self._memory_pct())
        gpu_s += (end_s - begin_s) * self._resident_gpus()
        simulation.advance(1000.0 * end_s)
        if end_s == self._pace.seconds:
            simulation.drain()
        return gpu_s, max((pct for pct in memory_pcts if pct is not None), default=None)

    def _plans(self) -> list[Plan]:
        """Return the plans with resident processes: the active plan, the plan in preparation, and the standby plan."""
        plan = self._simulation.plan
        standby = self._policy.standby(plan)
        return [plan, *([] if self._pending is None else [self._pending[1]]), *([] if standby is None else [standby])]

    def _resident_gpus(self) -> int:
        return len(resident(self._plans()))

    def _memory_pct(self) -> float | None:
        return memory_pct(self._plans(), self._instance)

    def _observed(self, now_s: float) -> Observation:
        """Return the observation of the time since the last call."""
        self._simulation.tally()
        counts = self._simulation.measured.counts
        total = Observation(
            now_s,
            self._simulation.arrived.copy(),
            counts["served"].copy(),
            counts["late"].copy(),
            counts["dropped"].copy(),
            counts["latency_ms"] - counts["waiting_ms"],
        )
        observation, self._total = total - self._total, total
        return observation

    def _end_period(self, observation: Observation, now_s: float) -> PeriodEnd:
        """Let the policy decide, unless a plan is in preparation or the run ends; carry out the decision."""
        if self._pending is not None:
            return PeriodEnd.UNDER_WAY
        if now_s == self._pace.seconds:
            return PeriodEnd.KEPT
        # The resident processes are read before the decision, since a decision that puts standby processes to use
        # removes them from the policy's ``standby`` plan.
        current, resident_plans = self._simulation.plan, self._plans()
        decision = self._policy.decide(current, observation)
        if decision.unschedulable:
            return PeriodEnd.UNSCHEDULABLE
        if decision.plan is None:
            return PeriodEnd.KEPT
        plan = aligned(decision.plan, current)
        without_headroom = decision.without_headroom
        if without_headroom is None:
            without_headroom = self._without_headroom
        ready = is_ready(plan, resident_plans)
        if ready or self._pace.reorganisation_s == 0.0:
            self._exchange(plan, without_headroom)
            # If each plan has all processes of the other, only rates change.
            return PeriodEnd.KEPT if ready and is_ready(current, [plan]) else PeriodEnd.EXCHANGED
        self._pending = now_s + self._pace.reorganisation_s, plan, without_headroom
        return PeriodEnd.REORGANISED

    def _exchange(self, plan: Plan, without_headroom: bool) -> None:
        self._simulation.exchange(plan)
        self._without_headroom = without_headroom


POLICIES: Mapping[str, Callable[[Instance, Planner, float], OnlinePolicy]] = {
    "static": lambda _instance, _planner, _weight: Static(),
    "reschedule": lambda instance, planner, weight: Reschedule(planner, instance, weight),
    "shadow": lambda instance, _planner, _weight: Shadow(instance),
    "reactive": lambda instance, _planner, _weight: Reactive(instance),
}
"""Constructor of each policy; it takes the instance, the planner and the weight of the last period."""
