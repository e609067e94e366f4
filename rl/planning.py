"""Planning with a policy: its decisions for an instance, group by group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from instances import PART_STEPS, GpuPool, GpuType, InputError, Instance, Objective, PlacedGpu, SloRule, Workload
from instances.arrays import Floats, Ints
from instances.catalogue import gpu_type
from instances.view import View
from rl.cluster import Cluster
from rl.environment import admit, predicted, serve
from rl.grouping import ROUNDING, Dealt, NoFitError, deal
from rl.policy import Policy
from rl.two_stage import Decision, TwoStage

STEP_S = 1.0
"""Length of a decision step in ``queues``, in seconds, as in training."""

SPREAD = 3.0
"""Divisor of the first stage's logits when GPUs are drawn; above 1, so that the drawn decisions differ more."""

LATE_RPS = 1e9
"""Penalty in the value of a decision for each required workload that is not served in time; exceeds any throughput."""


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions of a policy for an instance.

    Attributes
    ----------
    dealt, decision
        Assignment of the workloads to the groups, and one decision for each group.
    rate_rps
        Admitted part of ``dealt.rate_rps``: all of it, or the part served in time if requests may be rejected.
    worth
        Value of each group by the performance model, shape (groups,). If requests may be rejected, it is the admitted
        rate; otherwise it is the throughput, less ``LATE_RPS`` for each workload whose rate is not served in time.
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
    def unplaced(self) -> Ints:
        """Positions of the required workloads without a GPU."""
        return np.concatenate([self.unplaced_in(group) for group in range(self.groups)])

    def unplaced_in(self, group: int) -> Ints:
        """Return the positions of the required workloads without a GPU in one group."""
        if self.policy.objective == Objective.GOODPUT:  # no workload is required
            return self.dealt.position[group, :0]
        without_gpu = (self.dealt.rate_rps[group] > 0.0) & (self.decision.gpu[group] < 0)
        return self.dealt.position[group, without_gpu]

    def residents(self, group: int) -> list[Ints]:
        """Return, for each GPU of a group that is not empty, the places whose workloads are on it."""
        gpu = np.where(self.dealt.position[group] >= 0, self.decision.gpu[group], -1)
        return [np.flatnonzero(gpu == k) for k in range(self.policy.gpus) if np.any(gpu == k)]

    def gpus(self) -> list[PlacedGpu]:
        """Return all GPUs as divided by the second stage."""
        return [gpu for group in range(self.groups) for gpu in self.gpus_of(group)]

    def gpus_of(self, group: int) -> list[PlacedGpu]:
        """Return the GPUs of one group as divided by the second stage, without workloads of admitted rate 0."""
        view = View.of(self.instance, self.instance.gpus[0].type)
        columns = self.dealt.position, self.decision.units, self.decision.batch, self.rate_rps
        served = [places[self.rate_rps[group, places] > 0.0] for places in self.residents(group)]
        return [view.placed(*(column[group, places] for column in columns)) for places in served if len(places)]


DealFunction = Callable[[Policy, Sequence[Workload], int], Dealt]
"""Type of a function that divides workloads among the groups of a number of GPUs."""


def decided(
    instance: Instance,
    policy: Policy,
    drawn: int,
    seed: int,
    ranks: int = 1,
    deal_by: DealFunction = deal,
    earlier_steps: int = 0,
) -> list[Decided]:
    """Divide the workloads among groups, decide in all groups at once, and return the best decisions.

    Item n of the result has the n-th best decision of each group.

    Parameters
    ----------
    drawn
        Number of decisions drawn for each group besides the likeliest.
    ranks
        Largest length of the result.
    earlier_steps
        Number of decision steps before the plan; they determine the queues that the policy sees (``queues``).

    Raises
    ------
    NoFitError
        If the policy was not trained for the instance.
    """
    pool = fitting_pool(instance, policy)
    dealt = deal_by(policy, instance.workloads, pool.count or 0)
    agent = agent_for(policy, pool.type)
    agent.reseed(seed)
    queued = queues(agent, dealt.rate_rps, earlier_steps, policy.headroom)
    rates_rps, decisions = several_decisions(agent, dealt.rate_rps, drawn, queued)
    steps = np.repeat(_steps(instance, dealt), 1 + drawn, axis=0)
    admitted_rps, worth = _admitted_and_worth(agent.cluster, decisions, rates_rps, steps, policy.comparison_headroom)
    order = np.argsort(-worth.reshape(-1, 1 + drawn), axis=1, kind="stable")
    first_of_group = np.arange(len(order)) * (1 + drawn)
    ranked = [first_of_group + order[:, rank] for rank in range(min(ranks, 1 + drawn))]
    return [Decided(instance, policy, dealt, decisions.rows(rows), admitted_rps[rows], worth[rows]) for rows in ranked]


def fitting_pool(instance: Instance, policy: Policy) -> GpuPool:
    """Return the GPUs of an instance if ``policy`` was trained for them; the workloads are not checked.

    Raises
    ------
    NoFitError
        If the policy was trained for other GPUs or settings.
    """
    pool = instance.gpus[0]
    if len(instance.gpus) > 1 or pool.count is None or pool.type.name != policy.gpu:
        raise NoFitError(f"trained for {policy.gpu}; expected a known number of GPUs of this type alone")
    if instance.objective != policy.objective:
        raise NoFitError(f"trained for {policy.objective}")
    if instance.performance_model != policy.performance_model:
        raise NoFitError(f'trained for the performance model "{policy.performance_model}"')
    if instance.slo_rule is not SloRule.ASSEMBLY or instance.latency_buffer != 1.0:
        raise NoFitError(f'trained for the SLO rule "{SloRule.ASSEMBLY}" without a latency buffer')
    return pool


def queues(agent: TwoStage, rates_rps: Floats, steps: int, headroom: float) -> Ints:
    """Return the requests that wait in each group after ``steps`` steps of its likeliest decisions.

    The steps begin with empty queues, and the requests of each step arrive at ``rates_rps``, shape (groups, places).
    """
    cluster = agent.cluster
    queued, running_ms = np.zeros(rates_rps.shape, dtype=np.int64), np.zeros(rates_rps.shape)
    for _ in range(steps):
        decision = agent.decide(rates_rps, queued, 0.0, exploring=False)
        inference_ms, _ = predicted(cluster, decision.gpu, decision.units, decision.batch)
        slo_ms, accepted_rps = cluster.view.slo_ms, rates_rps
        if cluster.turns_away:
            accepted_rps = admit(rates_rps, slo_ms, decision.batch, inference_ms, headroom)
        arrivals = np.rint(accepted_rps * STEP_S).astype(np.int64)
        serve(slo_ms, decision.batch, inference_ms, arrivals, 1000.0 * STEP_S, queued, running_ms)
    return queued


def several_decisions(
    agent: TwoStage, rates_rps: Floats, drawn: int, queued: Ints | None = None
) -> tuple[Floats, Decision]:
    """Return the rates for each decision, and the decisions: for each group the likeliest, then ``drawn`` others."""
    repeated_rps = np.repeat(rates_rps, 1 + drawn, axis=0)
    queued = np.zeros(rates_rps.shape, dtype=np.int64) if queued is None else queued
    spread = np.tile(np.r_[0.0, np.full(drawn, SPREAD)], len(rates_rps))
    return repeated_rps, agent.decide(repeated_rps, np.repeat(queued, 1 + drawn, axis=0), spread, exploring=False)


def _steps(instance: Instance, dealt: Dealt) -> Ints:
    """Return each rate as a number of admission steps of its workload's whole rate, at least 1."""
    whole_rps = np.array([w.rate_rps for w in instance.workloads])[dealt.position]
    return np.maximum(np.rint(dealt.rate_rps / whole_rps * PART_STEPS), 1.0).astype(np.int64)


def _admitted_and_worth(
    cluster: Cluster, decision: Decision, rates_rps: Floats, steps: Ints, headroom: float
) -> tuple[Floats, Floats]:
    """Return the admitted rates, shape (decisions, workloads), and the value of each decision."""
    inference_ms, throughput_rps = predicted(cluster, decision.gpu, decision.units, decision.batch)
    in_time_rps = admit(rates_rps, cluster.view.slo_ms, decision.batch, inference_ms, headroom, steps)
    if cluster.turns_away:
        return in_time_rps, in_time_rps.sum(axis=1)
    late = np.sum(in_time_rps < rates_rps * (1.0 - ROUNDING), axis=1)
    return rates_rps, throughput_rps.sum(axis=1) - LATE_RPS * late


def agent_for(policy: Policy, gpu: GpuType) -> TwoStage:
    """Return the agent for one group of GPUs; agents for GPU types of the catalogue are cached."""
    try:
        in_catalogue = gpu_type(policy.gpu) == gpu
    except InputError:  # the GPU type is not in the catalogue but defined by the instance
        in_catalogue = False
    return _agent_of_catalogue(policy) if in_catalogue else _agent(policy, gpu)


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
