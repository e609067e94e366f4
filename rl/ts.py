"""TS and TS without interference as schedulers: trained policies decide (InSS Sec. 5)."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from bench.api import Outcome, Run, Status
from instances import GpuPool, GpuType, InputError, Instance, Objective, PlacedGpu, Plan, SloRule, Workload
from instances.catalogue import gpu_type
from instances.plan import spatial_gpu
from rl.cluster import Cluster
from rl.grouping import NoFitError, deal
from rl.policy import Policy, load_policy
from rl.two_stage import TwoStage

SHIPPED = Path(__file__).parent / "policies"
"""Where the policies are that come with the project, each beside its model card."""


@dataclass(frozen=True, slots=True)
class Ts:
    """InSS's two-stage scheduler with a trained policy; larger clusters in groups, each decided by itself.

    It never decides without training: where no policy was trained for the workloads, the rates and the GPUs, there is
    no plan and the reason says what each policy was trained for. The policy may put a workload where it misses its SLO;
    the judge says so.

    Attributes
    ----------
    policy
        File that ``bench train ts`` wrote, or ``None`` for those that come with the project.
    """

    name: ClassVar[str] = "ts"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.CAPACITY})
    own_model: ClassVar[bool] = True
    interference: ClassVar[bool] = True

    policy: str | None = None

    def warm(self) -> None:
        """Decide once by each policy, which loads torch and tabulates the GPUs."""
        for _, policy in self._policies():
            try:
                agent = _agent(gpu_type(policy.gpu), policy)
            except InputError:  # a GPU type of the user's own: it comes with the instance
                continue
            rates_rps = np.array([policy.rate_rps])
            agent.decide(rates_rps, np.zeros(rates_rps.shape, dtype=np.int64), greedy=True)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Let the first policy that fits decide."""
        torch.set_num_threads(run.threads)
        reasons = []
        for path, policy in self._policies():
            try:
                return _decided(instance, policy)
            except NoFitError as why:
                reasons.append(f"{path.stem}: {why}")
        found = "; ".join(reasons) or f"none is shipped for {self.name}; train one: bench train ts"
        return Outcome(Status.UNKNOWN, reason=f"no trained policy fits: {found}")

    def _policies(self) -> list[tuple[Path, Policy]]:
        if self.policy is not None:
            path = Path(self.policy)
            if not path.is_file():
                raise InputError("policy", f'there is no file "{path}"')
            return [(path, load_policy(path))]
        shipped = ((path, load_policy(path)) for path in sorted(SHIPPED.glob("*.pt")))
        return [(path, policy) for path, policy in shipped if policy.interference == self.interference]


@dataclass(frozen=True, slots=True)
class TsNi(Ts):
    """InSS-ni: the same, trained as if co-located workloads did not disturb each other."""

    name: ClassVar[str] = "ts-ni"
    interference: ClassVar[bool] = False


def _decided(instance: Instance, policy: Policy) -> Outcome:
    """Deal the workloads into groups and decide in all of them at once.

    Raises
    ------
    NoFitError
        If the policy was trained for something else.
    """
    pool = instance.gpus[0]
    if len(instance.gpus) > 1 or pool.count is None or pool.type.name != policy.gpu:
        raise NoFitError(f"trained for a known number of {policy.gpu}")
    if instance.performance_model != policy.performance_model:
        raise NoFitError(f'trained for the performance model "{policy.performance_model}"')
    if instance.slo_rule is not SloRule.ASSEMBLY or instance.latency_buffer != 1.0:
        raise NoFitError(f'trained for the SLO rule "{SloRule.ASSEMBLY}" without a latency buffer')
    dealt = deal(policy, instance.workloads, pool.count)
    there = dealt >= 0
    rates_rps = np.where(there, np.array([w.rate_rps for w in instance.workloads])[np.maximum(dealt, 0)], 0.0)
    agent = _agent(pool.type, policy)
    decision = agent.decide(rates_rps, np.zeros(dealt.shape, dtype=np.int64), greedy=True)
    homeless = dealt[there & (decision.gpu < 0)]
    if len(homeless):
        return Outcome(Status.UNKNOWN, reason=f"no memory is left for {instance.workloads[homeless[0]].id}")
    gpus: list[PlacedGpu] = []
    for group in range(len(dealt)):
        for k in range(policy.gpus):
            rows = []
            for place in np.flatnonzero(there[group] & (decision.gpu[group] == k)):
                workload = instance.workloads[dealt[group, place]]
                units, batch = decision.units[group, place], decision.batch[group, place]
                rows.append((workload.id, int(units), int(batch), workload.rate_rps))
            if rows:
                gpus.append(spatial_gpu(policy.gpu, rows))
    return Outcome(Status.FEASIBLE, Plan(instance.name, tuple(gpus)), statistics={"groups": len(dealt)})


def _agent(gpu: GpuType, policy: Policy) -> TwoStage:
    """Return the agent for one group of GPUs."""
    workloads = tuple(
        Workload(f"w{place}", model, slo_ms, rate_rps)
        for place, (model, slo_ms, rate_rps) in enumerate(
            zip(policy.models, policy.slo_ms, policy.rate_rps, strict=True)
        )
    )
    pool = GpuPool(gpu, policy.gpus)
    group = Instance("group", Objective.CAPACITY, SloRule.ASSEMBLY, policy.performance_model, (pool,), workloads)
    return policy.agent(Cluster.of(group, policy.interference))
