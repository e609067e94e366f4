"""Planning with a policy: its decisions for an instance, group by group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from instances import PART_STEPS, GpuPool, GpuType, InputError, Instance, Objective, PlacedGpu, SloRule, Workload
from instances.arrays import Floats, Ints
from instances.catalogue import gpu_type
from instances.plan import spatial_gpu
from rl.cluster import Cluster
from rl.environment import let_in, predicted
from rl.grouping import ROUNDING, Dealt, NoFitError, deal
from rl.policy import Policy
from rl.two_stage import Decision, TwoStage

SPREAD = 3.0
"""Divisor of the first stage's logits when GPUs are drawn, for many different good decisions."""

LATE_RPS = 1e9
"""Penalty in the value of a decision for every required workload that is not served in time: above any gain."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions of a policy for an instance.

    Attributes
    ----------
    instance, policy
        The instance, and the policy that decided.
    dealt, decision
        Workloads at the places of the groups, and the decisions there.
    rate_rps
        Admitted part of ``dealt.rate_rps``: all of it, or the part served in time if requests may be rejected.
    worth
        Value of each group by the performance model, shape (groups,): the admitted rate if requests may be rejected,
        otherwise the throughput; far below 0 if a workload is not served in time.
    """

    instance: Instance
    policy: Policy
    dealt: Dealt
    decision: Decision
    rate_rps: Floats
    worth: Floats

    @property
    def groups(self) -> int:
        """Number of groups of GPUs."""
        return len(self.dealt.position)

    @property
    def homeless(self) -> Ints:
        """Positions of the required workloads without a GPU."""
        return np.concatenate([self.homeless_in(group) for group in range(self.groups)])

    def homeless_in(self, group: int) -> Ints:
        """Return the positions of the required workloads without a GPU in one group."""
        nowhere = (self.dealt.rate_rps[group] > 0.0) & (self.decision.gpu[group] < 0)
        return self.dealt.position[group, nowhere & (self.policy.objective != Objective.GOODPUT)]

    def residents(self, group: int) -> list[Ints]:
        """Return the places of the residents of each GPU of a group; empty GPUs are left out."""
        gpu = np.where(self.dealt.position[group] >= 0, self.decision.gpu[group], -1)
        return [np.flatnonzero(gpu == k) for k in range(self.policy.gpus) if np.any(gpu == k)]

    def gpu(self, group: int, places: Ints) -> PlacedGpu | None:
        """Return a GPU as divided by the second stage, without workloads of admitted rate 0; ``None`` if empty."""
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
        """Return all GPUs as divided by the second stage."""
        return [gpu for group in range(self.groups) for gpu in self.gpus_of(group)]

    def gpus_of(self, group: int) -> list[PlacedGpu]:
        """Return the GPUs of one group as divided by the second stage."""
        gpus = (self.gpu(group, places) for places in self.residents(group))
        return [gpu for gpu in gpus if gpu is not None]


Deal = Callable[[Policy, Sequence[Workload], int], Dealt]
"""Type of a function that divides workloads among the groups of a number of GPUs."""


def decided(
    instance: Instance, policy: Policy, drawn: int, seed: int, kept: int = 1, deal_by: Deal = deal
) -> list[Decided]:
    """Divide the workloads among groups, decide in all groups at once, and return the best decisions, best first.

    Parameters
    ----------
    instance, policy
        The instance, and the policy that decides.
    drawn
        Decisions of each group drawn from the policy besides its likeliest.
    seed
        Seed of the draws.
    kept
        Number of decisions to return.
    deal_by
        Function that divides the workloads among the groups.

    Raises
    ------
    NoFitError
        If the policy was not trained for the instance.
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
    """Return the GPUs of an instance if ``policy`` was trained for them; the workloads are not checked.

    Raises
    ------
    NoFitError
        If the policy was trained for other GPUs or settings.
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
    """Return the likeliest decision of each group and ``drawn`` others, side by side, and the rates of each."""
    each_rps = np.repeat(rates_rps, 1 + drawn, axis=0)
    spread = np.tile(np.r_[0.0, np.full(drawn, SPREAD)], len(rates_rps))
    return each_rps, agent.decide(each_rps, np.zeros(each_rps.shape, dtype=np.int64), spread, blurred=False)


def _steps(instance: Instance, dealt: Dealt) -> Ints:
    """Return the number of steps of the workload's whole rate in each rate, at least 1."""
    whole_rps = np.array([w.rate_rps for w in instance.workloads])[dealt.position]
    steps: Ints = np.maximum(np.rint(dealt.rate_rps / whole_rps * PART_STEPS), 1.0).astype(np.int64)
    return steps


def _valued(
    cluster: Cluster, decision: Decision, rates_rps: Floats, steps: Ints, headroom: float
) -> tuple[Floats, Floats]:
    """Return the admitted rates, shape (decisions, workloads), and the value of each decision."""
    inference_ms, throughput_rps = predicted(cluster, decision.gpu, decision.units, decision.batch)
    in_time_rps = let_in(rates_rps, cluster.view.slo_ms, decision.batch, inference_ms, headroom, steps)
    if cluster.turns_away:
        return in_time_rps, in_time_rps.sum(axis=1)
    late = np.sum(in_time_rps < rates_rps * (1.0 - ROUNDING), axis=1)
    return rates_rps, throughput_rps.sum(axis=1) - LATE_RPS * late


def agent_for(policy: Policy, gpu: GpuType) -> TwoStage:
    """Return the agent for one group of GPUs; agents for GPU types of the catalogue are cached."""
    try:
        known = gpu_type(policy.gpu) == gpu
    except InputError:  # the GPU type is not in the catalogue but defined by the instance
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
