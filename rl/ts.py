"""Schedulers ``ts``, ``ts-ni`` and ``ts-hierarchy``: plans by trained policies (InSS Sec. 5)."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from bench.api import Outcome, Run, Status
from instances import InputError, Instance, Objective, PlacedGpu, Plan
from instances.arrays import Ints
from instances.catalogue import gpu_type
from rl.cluster import OBJECTIVES
from rl.grouping import NoFitError, deal
from rl.hierarchy import deal_in_layers
from rl.planning import DealFunction, Decided, agent_for, decided
from rl.policy import Policy, load_policy

GROUPS_WARMED = 16
"""Number of groups in the warm-up of a large cluster: the first decision in fresh memory takes twice as long."""

SHIPPED = Path(__file__).parent / "policies"
"""Folder of the shipped policies, each beside its model card."""

PUBLISHED = "published-4gpu"
"""Name of the policy trained with the paper's settings."""


@dataclass(frozen=True, slots=True)
class Ts:
    """Two-stage agent of InSS (TS) with a trained policy; larger clusters are divided into independent groups.

    Every plan comes from a trained policy. If no policy was trained for the workloads, the rates and the GPUs, there is
    no plan, and the reason says for each policy what does not fit. Under ``capacity``, a policy may place a workload
    where it misses its SLO, and the judge reports this.

    Attributes
    ----------
    policy
        A file from ``bench train ts``, or ``None`` for the shipped policies.
    training
        Training seed of the shipped policy to use.
    drawn
        Number of decisions drawn from the policy besides its likeliest. Of all these, one that breaks the fewest
        constraints by the policy's performance model is taken, and of several the one with the highest value. The
        paper is silent on decisions after training; 0 takes the likeliest one.
    earlier_steps
        Number of decision steps before the plan. In each, the likeliest decision serves the instance's rates by
        equation (3). The state of the plan's step has the queues that are left, as in the paper; with 0, it has none.
    published
        Whether to use the policy trained with the paper's settings, ``bench train ts --preset paper``. It takes the
        likeliest decision after one earlier step, regardless of ``drawn`` and ``earlier_steps``.
    """

    name: ClassVar[str] = "ts"
    objectives: ClassVar[frozenset[Objective]] = OBJECTIVES
    own_model: ClassVar[bool] = True
    interference: ClassVar[bool] = True
    files: ClassVar[str] = "ts*-4gpu*"
    deal_by: ClassVar[DealFunction] = deal

    policy: Path | None = None
    training: int = 0
    drawn: int = 63
    earlier_steps: int = 0
    published: bool = False

    def __post_init__(self) -> None:
        if self.drawn < 0:
            raise ValueError(f"drawn is {self.drawn}; expected at least 0")
        if self.training < 0:
            raise ValueError(f"training is {self.training}; expected at least 0")
        if self.earlier_steps < 0:
            raise ValueError(f"earlier_steps is {self.earlier_steps}; expected at least 0")

    def decisions(self, instance: Instance, policy: Policy, seed: int, ranks: int = 1) -> list[Decided]:
        """Return the best decisions of ``policy``, see ``rl.planning.decided``."""
        drawn, earlier_steps = (0, 1) if self.published else (self.drawn, self.earlier_steps)
        return decided(instance, policy, drawn, seed, ranks, type(self).deal_by, earlier_steps)

    def warm(self, objective: Objective) -> None:
        """Plan a large cluster and a single group with each policy, which loads torch, tables, memory and kernels."""
        for _, policy in self._policies():
            try:
                trained_for = agent_for(policy, gpu_type(policy.gpu)).cluster.view.instance
                for groups in (GROUPS_WARMED, 1):
                    self.planned(_copies(trained_for, groups), policy, 0)
            except (InputError, NoFitError):  # the error is reported when the policy has to decide
                continue

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return the plan of the first policy that fits."""
        reasons = []
        for path, policy in self._policies():
            try:
                gpus, unplaced = self.planned(instance, policy, run.seed)
            except NoFitError as error:
                reasons.append(f"{path.stem}: {error}")
                continue
            if len(unplaced):
                return Outcome(Status.UNKNOWN, reason=f"no memory is left for {instance.workloads[unplaced[0]].id}")
            return Outcome(Status.FEASIBLE, Plan(instance.name, tuple(gpus)))
        details = "; ".join(reasons) or f"none is shipped for {self.name}; train one: bench train ts"
        return Outcome(Status.UNKNOWN, reason=f"no trained policy fits: {details}")

    def planned(self, instance: Instance, policy: Policy, seed: int) -> tuple[list[PlacedGpu], Ints]:
        """Return the GPUs of the plan, and the positions of the required workloads without a GPU."""
        (best,) = self.decisions(instance, policy, seed)
        return best.gpus(), best.unplaced

    def _policies(self) -> list[tuple[Path, Policy]]:
        if self.policy is not None:
            return [(self.policy, load_policy(self.policy))]
        files = PUBLISHED if self.published else self.files
        shipped = ((path, load_policy(path)) for path in sorted(SHIPPED.glob(f"{files}-s{self.training}.pt")))
        return [(path, policy) for path, policy in shipped if policy.interference == self.interference]


def _copies(instance: Instance, count: int) -> Instance:
    """Return ``count`` copies of the workloads on ``count`` times the GPUs."""
    (pool,) = instance.gpus
    workloads = tuple(replace(w, id=f"{w.id}-{copy}") for copy in range(count) for w in instance.workloads)
    return replace(instance, workloads=workloads, gpus=(replace(pool, count=(pool.count or 0) * count),))


@dataclass(frozen=True, slots=True)
class TsNi(Ts):
    """Two-stage agent of InSS without interference (InSS-ni): trained as if co-located workloads did not interfere."""

    name: ClassVar[str] = "ts-ni"
    interference: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class TsHierarchy(Ts):
    """Three-layer agent of InSS: a trained top layer assigns workloads to groups; ``ts`` assigns them evenly."""

    name: ClassVar[str] = "ts-hierarchy"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.CAPACITY})
    files: ClassVar[str] = "ts-hierarchy-*"
    deal_by: ClassVar[DealFunction] = deal_in_layers
