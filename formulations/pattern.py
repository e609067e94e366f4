"""Pattern: the content of one GPU, the same for every search that puts GPUs together."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from instances.one_gpu import Resident


@dataclass(frozen=True, slots=True)
class Pattern:
    """Content of one GPU.

    Attributes
    ----------
    pool
        Position of the GPU type in the instance's pool, or in ``Problem.offers``.
    gpulets
        Share units of each gpulet, and its slots. A share of 0 stands for the least share that suffices. A rate of 0
        stands for the largest rate that the slot can serve.
    throughput_rps
        Requests per second that the slots complete together if they are always busy; 0 where the throughput does not
        count. Patterns that differ in their throughput alone are equal.
    """

    pool: int
    gpulets: tuple[tuple[int, tuple[Resident, ...]], ...]
    throughput_rps: float = field(default=0.0, compare=False)

    @classmethod
    def of(cls, pool: int, residents: Iterable[Resident]) -> "Pattern":
        """Return a pattern with one slot per gpulet, at the least shares."""
        return cls(pool, tuple((0, (resident,)) for resident in residents))

    @property
    def residents(self) -> tuple[Resident, ...]:
        """The slots of all gpulets."""
        return tuple(slot for _, slots in self.gpulets for slot in slots)
