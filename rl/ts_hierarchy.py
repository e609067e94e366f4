"""``ts-hierarchy``: a trained top layer deals the workloads to groups of GPUs, TS decides inside (InSS Sec. 5.1)."""

from dataclasses import dataclass
from typing import ClassVar

from instances import Instance, Objective, PlacedGpu
from instances.arrays import Ints
from rl.hierarchy import deal_in_layers
from rl.planning import decided
from rl.policy import Policy
from rl.ts import Ts


@dataclass(frozen=True, slots=True)
class TsHierarchy(Ts):
    """InSS's scheduler in three layers: where TS deals the workloads to groups evenly, here a trained layer does."""

    name: ClassVar[str] = "ts-hierarchy"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.CAPACITY})
    files: ClassVar[str] = "ts-hierarchy-*"

    def planned(self, instance: Instance, policy: Policy, seed: int) -> tuple[list[PlacedGpu], Ints]:
        """Return the GPUs of the plan, and the positions of the workloads that have to be served and have no place."""
        (best,) = decided(instance, policy, self.further, seed, deal_by=deal_in_layers)
        return best.gpus(), best.homeless
