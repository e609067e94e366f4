"""Planning with a policy: its decisions for an instance, group by group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from instances import GpuPool, GpuType, InputError, Instance, Objective, PlacedGpu, SloRule, Workload
from instances.arrays import Floats, Ints
from instances.catalogue import gpu_type
from instances.plan import spatial_gpu
from rl.admission import STEPS
from rl.cluster import Cluster
from rl.environment import let_in, predicted
from rl.grouping import ROUNDING, Dealt, NoFitError, deal
from rl.policy import Policy
from rl.two_stage import Decision, TwoStage

SPREAD = 3.0
"""The logits of the first stage are divided by it when places are drawn: many different good ones are wanted."""

LATE_RPS = 1e9
"""What a decision is worth less for every workload that has to be served and is not in time: more than any gains."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What a policy decides for an instance.

    Attributes
    ----------
    instance, policy
        Who decided, and what.
    dealt, decision
        Who is at which place of which group, and what is decided there.
    rate_rps
        What is let in of ``dealt.rate_rps``: all, or where requests may be turned away what is served in time.
    worth
        Of each group, by the latency model, shape (groups,): requests let in or, where none may be turned away, the
        throughput, far below 0 where somebody is not served in time.
    """

    instance: Instance
    policy: Policy
    dealt: Dealt
    decision: Decision
    rate_rps: Floats
    worth: Floats

    @property
    def groups(self) -> int:
        """Groups of GPUs."""
        return len(self.dealt.position)

    @property
    def homeless(self) -> Ints:
        """Positions of the workloads that have to be served and have no place."""
        return np.concatenate([self.homeless_in(group) for group in range(self.groups)])

    def homeless_in(self, group: int) -> Ints:
        """Return those of a group."""
        nowhere = (self.dealt.rate_rps[group] > 0.0) & (self.decision.gpu[group] < 0)
        return self.dealt.position[group, nowhere & (self.policy.objective != Objective.GOODPUT)]

    def residents(self, group: int) -> list[Ints]:
        """Return the places of those on each GPU of a group that has somebody."""
        gpu = np.where(self.dealt.position[group] >= 0, self.decision.gpu[group], -1)
        return [np.flatnonzero(gpu == k) for k in range(self.policy.gpus) if np.any(gpu == k)]

    def gpu(self, group: int, places: Ints) -> PlacedGpu | None:
        """Return a GPU as the second stage divides it, without those who are turned away altogether."""
        rows = [
            (
                self.instance.workloads[self.dealt.position[group, place]].id,
                int(self.decision.units[group, place]),
                int(self.decision.batch[group, place]),
                float(self.rate_rps[group, place]),
            )
            for place in places
            if self.rate_rps[group, place] > 0.0
        ]
        return spatial_gpu(self.policy.gpu, rows) if rows else None

    def gpus(self) -> list[PlacedGpu]:
        """Return all GPUs as the second stage divides them."""
        return [gpu for group in range(self.groups) for gpu in self.gpus_of(group)]

    def gpus_of(self, group: int) -> list[PlacedGpu]:
        """Return those of a group."""
        gpus = (self.gpu(group, places) for places in self.residents(group))
        return [gpu for gpu in gpus if gpu is not None]


Deal = Callable[[Policy, Sequence[Workload], int], Dealt]
"""Divides workloads among the groups of so many GPUs."""


def decided(
    instance: Instance, policy: Policy, drawn: int, seed: int, kept: int = 1, deal_by: Deal = deal
) -> list[Decided]:
    """Deal the workloads into groups, decide in all of them at once, and return the best decisions, best first.

    Parameters
    ----------
    instance, policy
        What is decided, and by which policy.
    drawn
        Decisions of each group that are drawn from the policy besides its likeliest.
    seed
        Of the drawing.
    kept
        Of those, how many are returned.
    deal_by
        Which group takes which workload.

    Raises
    ------
    NoFitError
        If the policy was trained for something else.
    """
    pool = fitting_pool(instance, policy)
    dealt = deal_by(policy, instance.workloads, pool.count or 0)
    agent = agent_for(policy, pool.type)
    agent.reseed(seed)
    rates_rps, tried = several(agent, dealt.rate_rps, drawn)
    steps = np.repeat(_steps(instance, dealt), 1 + drawn, axis=0)
    let_in_rps, worth = _valued(agent.cluster, tried, rates_rps, steps, policy.headroom)
    order = np.argsort(-worth.reshape(-1, 1 + drawn), axis=1, kind="stable")
    first = np.arange(len(order)) * (1 + drawn)
    ranked = [first + order[:, rank] for rank in range(min(kept, 1 + drawn))]
    return [Decided(instance, policy, dealt, tried.rows(rows), let_in_rps[rows], worth[rows]) for rows in ranked]


def fitting_pool(instance: Instance, policy: Policy) -> GpuPool:
    """Return the GPUs of an instance that ``policy`` was trained for, its workloads apart.

    Raises
    ------
    NoFitError
        If it was trained for another.
    """
    pool = instance.gpus[0]
    if len(instance.gpus) > 1 or pool.count is None or pool.type.name != policy.gpu:
        raise NoFitError(f"trained for a known number of {policy.gpu}")
    if instance.objective != policy.objective:
        raise NoFitError(f"trained for {policy.objective}")
    if instance.performance_model != policy.performance_model:
        raise NoFitError(f'trained for the performance model "{policy.performance_model}"')
    if instance.slo_rule is not SloRule.ASSEMBLY or instance.latency_buffer != 1.0:
        raise NoFitError(f'trained for the SLO rule "{SloRule.ASSEMBLY}" without a latency buffer')
    return pool


def several(agent: TwoStage, rates_rps: Floats, drawn: int) -> tuple[Floats, Decision]:
    """Return the likeliest decision of each group and ``drawn`` others, next to each other, and the rates of each."""
    each_rps = np.repeat(rates_rps, 1 + drawn, axis=0)
    spread = np.tile(np.r_[0.0, np.full(drawn, SPREAD)], len(rates_rps))
    return each_rps, agent.decide(each_rps, np.zeros(each_rps.shape, dtype=np.int64), spread, blurred=False)


def _steps(instance: Instance, dealt: Dealt) -> Ints:
    """Return how many of the steps of its workload's whole rate each rate has, at least 1."""
    whole_rps = np.array([w.rate_rps for w in instance.workloads])[dealt.position]
    steps: Ints = np.maximum(np.rint(dealt.rate_rps / whole_rps * STEPS), 1.0).astype(np.int64)
    return steps


def _valued(
    cluster: Cluster, decision: Decision, rates_rps: Floats, steps: Ints, headroom: float
) -> tuple[Floats, Floats]:
    """Return the rates that are let in, shape (decisions, workloads), and what each decision is worth."""
    inference_ms, throughput_rps = predicted(cluster, decision.gpu, decision.units, decision.batch)
    in_time_rps = let_in(rates_rps, cluster.view.slo_ms, decision.batch, inference_ms, headroom, steps)
    if cluster.turns_away:
        return in_time_rps, in_time_rps.sum(axis=1)
    late = np.sum(in_time_rps < rates_rps * (1.0 - ROUNDING), axis=1)
    return rates_rps, throughput_rps.sum(axis=1) - LATE_RPS * late


def agent_for(policy: Policy, gpu: GpuType) -> TwoStage:
    """Return the agent for one group of GPUs; that for a GPU type of the catalogue is made once."""
    try:
        known = gpu_type(policy.gpu) == gpu
    except InputError:  # a type of the user's own: it comes with the instance
        known = False
    return _agent_of_catalogue(policy) if known else _agent(policy, gpu)


@lru_cache(maxsize=32)
def _agent_of_catalogue(policy: Policy) -> TwoStage:
    return _agent(policy, gpu_type(policy.gpu))


def _agent(policy: Policy, gpu: GpuType) -> TwoStage:
    workloads = tuple(
        Workload(f"w{place}", model, slo_ms, rate_rps)
        for place, (model, slo_ms, rate_rps) in enumerate(
            zip(policy.models, policy.slo_ms, policy.rate_rps, strict=True)
        )
    )
    objective, pool = Objective(policy.objective), GpuPool(gpu, policy.gpus)
    group = Instance("group", objective, SloRule.ASSEMBLY, policy.performance_model, (pool,), workloads)
    return policy.agent(Cluster.of(group, policy.interference))
