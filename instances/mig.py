"""Multi-instance GPUs (MIG): which isolated instances a GPU can be cut into, and what every model does on each.

Instances of one GPU do not disturb each other: a model's latency depends on its own instance alone, so there is no
continuous share and no interference, only a table of measured configurations. Inside an instance several processes of
the same model may run side by side under MPS (ParvaGPU calls that a GPU segment).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

MIG_TABLE = "mig-table"
"""Name of the performance model of instances on such GPUs: measured configurations, looked up."""

Layout = tuple[tuple[int, int], ...]
"""The instances that one GPU is cut into, as (slice units, start), by ascending start."""


@dataclass(frozen=True, slots=True)
class MigSlice:
    """A size of instance.

    Attributes
    ----------
    units
        Compute slices it has (NVIDIA's GPCs); its share of the GPU.
    span
        Consecutive positions that it occupies. On an A100 three compute slices come with four memory slices: an
        instance of 3 at 0 also blocks position 3.
    starts
        Positions at which it may begin, ascending.
    """

    units: int
    span: int
    starts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MigConfiguration:
    """One way to run a model in an instance, with what it was measured to do.

    Attributes
    ----------
    units
        Size of the instance.
    batch
        Requests per batch.
    processes
        Processes of the model side by side in the instance.
    throughput_rps
        Requests per second of all processes together.
    latency_ms
        Of a batch, from input to result, with all processes busy.
    """

    units: int
    batch: int
    processes: int
    throughput_rps: float
    latency_ms: float


@dataclass(frozen=True, slots=True)
class MigProfile:
    """How a GPU type is cut into instances, and the measured configurations.

    Attributes
    ----------
    slices
        The sizes of instance there are.
    models
        Configurations of each model, by name. A configuration that another one of the same size matches or beats in
        both throughput and latency is left out.
    """

    slices: tuple[MigSlice, ...]
    models: Mapping[str, tuple[MigConfiguration, ...]]

    def slice_of(self, units: int) -> MigSlice | None:
        """Return the slice of ``units``, or ``None`` where there is none of that size."""
        return next((one for one in self.slices if one.units == units), None)

    def configuration(self, model: str, units: int, batch: int, processes: int) -> MigConfiguration | None:
        """Return what is known of ``model`` run that way, or ``None``."""
        asked = (units, batch, processes)
        return next((one for one in self.models[model] if (one.units, one.batch, one.processes) == asked), None)

    def fastest(self, model: str, units: int, latency_ms: float) -> MigConfiguration | None:
        """Return the configuration with the most throughput whose latency is within ``latency_ms``, or ``None``."""
        allowed = (one for one in self.models[model] if one.units == units and one.latency_ms <= latency_ms)
        return max(allowed, key=lambda one: (one.throughput_rps, -one.latency_ms, -one.processes), default=None)

    def layouts(self) -> tuple[Layout, ...]:
        """Return the ways to cut a GPU; see ``layouts``."""
        return layouts(self.slices)


@lru_cache
def layouts(slices: tuple[MigSlice, ...]) -> tuple[Layout, ...]:
    """Return the ways to cut a GPU, as far as they matter to what can run on it.

    Where an instance begins changes nothing it does: of the layouts with the same multiset of sizes one stands for all,
    and multisets that another one contains are left out.
    """
    by_sizes = {tuple(sorted(units for units, _ in placed)): placed for placed in _packings(slices, 0)}
    counts = {sizes: Counter(sizes) for sizes in by_sizes}
    return tuple(
        by_sizes[sizes]
        for sizes in sorted(by_sizes)
        if not any(counts[sizes] < other for other in counts.values())  # proper inclusion of multisets
    )


def _packings(slices: Sequence[MigSlice], begin: int) -> Iterator[Layout]:
    """Yield every set of instances that begin at ``begin`` or later and do not overlap."""
    yield ()
    for one in slices:
        for start in one.starts:
            if start >= begin:
                for rest in _packings(slices, start + one.span):
                    yield ((one.units, start), *rest)
