"""``ts-hierarchy``: a trained top layer assigns workloads to groups of GPUs, and TS decides inside (InSS Sec. 5.1)."""

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
    """Three-layer agent of InSS: a trained top layer assigns workloads to groups; TS deals them evenly instead."""

    name: ClassVar[str] = "ts-hierarchy"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.CAPACITY})
    files: ClassVar[str] = "ts-hierarchy-*"

    def planned(self, instance: Instance, policy: Policy, seed: int) -> tuple[list[PlacedGpu], Ints]:
        """Return the GPUs of the plan, and the positions of the required workloads without a GPU."""
        (best,) = decided(instance, policy, self.further, seed, deal_by=deal_in_layers)
        return best.gpus(), best.homeless
