"""TS and TS without interference as schedulers: trained policies decide (InSS Sec. 5)."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import torch

from bench.api import Outcome, Run, Status
from instances import InputError, Instance, Objective, PlacedGpu, Plan
from instances.arrays import Ints
from instances.catalogue import gpu_type
from rl.cluster import OBJECTIVES
from rl.grouping import NoFitError
from rl.planning import agent_for, decided
from rl.policy import Policy, load_policy

GROUPS_WARMED = 16
"""A first decision takes twice as long as later ones where its memory was never used before."""

SHIPPED = Path(__file__).parent / "policies"
"""Where the policies are that come with the project, each beside its model card."""

PUBLISHED = "published-4gpu"
"""Name of the policy that was trained as the paper says."""


@dataclass(frozen=True, slots=True)
class Ts:
    """InSS's two-stage scheduler with a trained policy; larger clusters in groups, each decided by itself.

    It never decides without training: where no policy was trained for the workloads, the rates and the GPUs, there is
    no plan and the reason says what each policy was trained for. Under ``capacity`` the policy may put a workload where
    it misses its SLO; the judge says so.

    Attributes
    ----------
    policy
        The file that ``bench train ts`` wrote, or ``None`` for those that come with the project.
    training
        Which of those: the seed it was trained with.
    drawn
        Decisions that are drawn from the policy besides its likeliest one; the best by the latency model that it was
        trained with is taken. The paper takes the likeliest: 0.
    published
        Whether the policy is the one that was trained as the paper says, with ``bench train ts --preset paper``, and
        takes the likeliest decision whatever ``drawn`` is.
    """

    name: ClassVar[str] = "ts"
    objectives: ClassVar[frozenset[Objective]] = OBJECTIVES
    own_model: ClassVar[bool] = True
    interference: ClassVar[bool] = True
    files: ClassVar[str] = "ts*-4gpu*"

    policy: Path | None = None
    training: int = 0
    drawn: int = 63
    published: bool = False

    def __post_init__(self) -> None:
        if self.drawn < 0:
            raise ValueError(f"drawn is {self.drawn}; expected at least 0")
        if self.training < 0:
            raise ValueError(f"training is {self.training}; expected at least 0")

    @property
    def further(self) -> int:
        """Decisions that are drawn besides the likeliest."""
        return 0 if self.published else self.drawn

    def warm(self) -> None:
        """Plan a large cluster by each policy: that loads torch, tabulates the GPUs, and takes the memory it needs."""
        for _, policy in self._policies():
            try:
                trained_for = agent_for(policy, gpu_type(policy.gpu)).cluster.view.instance
                self.planned(_copies(trained_for, GROUPS_WARMED), policy, 0)
            except (InputError, NoFitError):  # whatever is wrong with it is said when it has to decide
                continue

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Let the first policy that fits decide."""
        torch.set_num_threads(run.threads)
        reasons = []
        for path, policy in self._policies():
            try:
                gpus, homeless = self.planned(instance, policy, run.seed)
            except NoFitError as why:
                reasons.append(f"{path.stem}: {why}")
                continue
            if len(homeless):
                return Outcome(Status.UNKNOWN, reason=f"no memory is left for {instance.workloads[homeless[0]].id}")
            return Outcome(Status.FEASIBLE, Plan(instance.name, tuple(gpus)))
        known = "; ".join(reasons) or f"none is shipped for {self.name}; train one: bench train ts"
        return Outcome(Status.UNKNOWN, reason=f"no trained policy fits: {known}")

    def planned(self, instance: Instance, policy: Policy, seed: int) -> tuple[list[PlacedGpu], Ints]:
        """Return the GPUs of the plan, and the positions of the workloads that have to be served and have no place."""
        (best,) = decided(instance, policy, self.further, seed)
        return best.gpus(), best.homeless

    def _policies(self) -> list[tuple[Path, Policy]]:
        if self.policy is not None:
            return [(self.policy, load_policy(self.policy))]
        files = PUBLISHED if self.published else self.files
        shipped = ((path, load_policy(path)) for path in sorted(SHIPPED.glob(f"{files}-s{self.training}.pt")))
        return [(path, policy) for path, policy in shipped if policy.interference == self.interference]


def _copies(instance: Instance, count: int) -> Instance:
    """Return ``count`` times the workloads on as many times the GPUs."""
    (pool,) = instance.gpus
    workloads = tuple(replace(w, id=f"{w.id}-{copy}") for copy in range(count) for w in instance.workloads)
    return replace(instance, workloads=workloads, gpus=(replace(pool, count=(pool.count or 0) * count),))


@dataclass(frozen=True, slots=True)
class TsNi(Ts):
    """InSS-ni: the same, trained as if co-located workloads did not disturb each other."""

    name: ClassVar[str] = "ts-ni"
    interference: ClassVar[bool] = False
