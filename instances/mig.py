"""Multi-instance GPUs (MIG): the isolated MIG instances of a GPU and the measured configurations on each.

MIG instances of one GPU do not interfere: a model's latency depends only on its own MIG instance. A table of measured
configurations therefore takes the place of shares and interference. Several processes of the same model may run side by
side in one MIG instance under MPS (a *GPU segment* of ParvaGPU).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

MIG_TABLE = "mig-table"
"""Name of the performance model of MIG instances: a table of measured configurations."""

Layout = tuple[tuple[int, int], ...]
"""The MIG instances that one GPU is cut into, as (slice units, start), by ascending start."""


@dataclass(frozen=True, slots=True)
class MigSlice:
    """A size of MIG instances.

    Attributes
    ----------
    units
        Number of compute slices (NVIDIA's GPCs), the share of the GPU.
    span
        Number of consecutive positions that the MIG instance occupies. On an A100 three compute slices come with four
        memory slices: a MIG instance of 3 at position 0 also blocks position 3.
    starts
        Positions at which the MIG instance may begin, ascending.
    """

    units: int
    span: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MigConfiguration:
    """A measured configuration of a model in a MIG instance.

    Attributes
    ----------
    units
        Size of the MIG instance.
    processes
        Processes of the model side by side in the MIG instance.
    throughput_rps
        Requests per second of all processes together, as measured.
    latency_ms
        Latency of a batch from input to result, with all processes busy.
    """

    units: int
    batch: int
    processes: int
    throughput_rps: float
    latency_ms: float


@dataclass(frozen=True, slots=True)
class MigProfile:
    """MIG instance sizes of a GPU type and the measured configurations.

    Attributes
    ----------
    slices
        The sizes of its MIG instances.
    models
        Undominated configurations of each model, by name. Another configuration of the same size dominates one if it is
        at least as good in both throughput and latency.
    """

    slices: tuple[MigSlice, ...]
    models: Mapping[str, tuple[MigConfiguration, ...]]

    def slice_of(self, units: int) -> MigSlice | None:
        """Return the size with ``units`` compute slices, or ``None`` if that size does not exist."""
        return next((mig_slice for mig_slice in self.slices if mig_slice.units == units), None)

    def configuration(self, model: str, units: int, batch: int, processes: int) -> MigConfiguration | None:
        """Return the measured configuration of ``model`` at this size, batch and number of processes, or ``None``."""
        sought = (units, batch, processes)
        return next((row for row in self.models[model] if (row.units, row.batch, row.processes) == sought), None)

    def fastest(self, model: str, units: int, latency_ms: float) -> MigConfiguration | None:
        """Return the configuration with the most throughput whose latency is within ``latency_ms``, or ``None``."""
        allowed = (row for row in self.models[model] if row.units == units and row.latency_ms <= latency_ms)
        return max(allowed, key=lambda row: (row.throughput_rps, -row.latency_ms, -row.processes), default=None)

    def layouts(self) -> tuple[Layout, ...]:
        """Return the layouts of the GPU; see the function ``layouts``."""
        return layouts(self.slices)


@lru_cache
def layouts(slices: tuple[MigSlice, ...]) -> tuple[Layout, ...]:
    """Return the maximal layouts of a GPU, one per multiset of sizes.

    The position of a MIG instance does not affect its performance, so one layout represents all with the same multiset
    of sizes. A multiset that is contained in another is left out.
    """
    by_sizes = {tuple(sorted(units for units, _ in layout)): layout for layout in _packings(slices, 0)}
    counts = {sizes: Counter(sizes) for sizes in by_sizes}
    return tuple(
        by_sizes[sizes]
        for sizes in sorted(by_sizes)
        if not any(counts[sizes] < larger for larger in counts.values())  # proper inclusion of multisets
    )


def _packings(slices: Sequence[MigSlice], begin: int) -> Iterator[Layout]:
    """Yield every set of MIG instances that begin at ``begin`` or later and do not overlap."""
    yield ()
    for mig_slice in slices:
        for start in mig_slice.starts:
            if start >= begin:
                for later in _packings(slices, start + mig_slice.span):
                    yield ((mig_slice.units, start), *later)
