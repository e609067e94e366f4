"""Choice of the benchmark set. ``python -m instances.library.choosing`` chooses the set anew as the next version."""

from collections import Counter
from collections.abc import Sequence

from instances.library.benchmark import BenchmarkSet
from instances.library.collection import LIBRARY
from instances.library.entry import LibraryLine
from instances.mig import MIG_TABLE

SIZE = 40
"""Number of entries of the set."""

LARGEST = 300
"""Largest number of workloads of an entry of the set."""

SMALLEST_OF_SIZES = (4, 7, 10, 14, 24, 60)
"""Smallest number of workloads in each size group."""


MOST_OF_FAMILY = 2
"""Largest number of entries of a family: entries with the same objective, GPU types, performance model and SLO rule."""


def candidates(lines: Sequence[LibraryLine]) -> list[LibraryLine]:
    """Return the entries that may be in the set: those with a plan, a bound and at most ``LARGEST`` workloads.

    Entries on MIG instances are left out, since schedulers that share GPUs do not plan them.
    """
    return [
        line
        for line in lines
        if line.value is not None
        and line.bound is not None
        and line.workloads <= LARGEST
        and line.performance_model != MIG_TABLE
    ]


def choose(lines: Sequence[LibraryLine], size: int = SIZE) -> list[str]:
    """Return the names of ``size`` diverse entries among ``lines``, in alphabetical order.

    The entries are chosen one by one. The next one has the largest sum over its features of 1 / (1 + n), where n is the
    number of chosen entries with the same feature. The features are objective, performance model, SLO rule, number of
    GPU types, size group and difficulty. Ties are broken by the name that comes first in the alphabet. A family has at
    most ``MOST_OF_FAMILY`` entries.
    """
    chosen: list[str] = []
    counts: Counter[tuple[str, object]] = Counter()
    families = {line.name: _family(line) for line in lines}
    left = {line.name: _features(line) for line in sorted(lines, key=lambda line: line.name)}
    while left and len(chosen) < size:
        # Sums of the same fractions in another order must not differ by rounding.
        novelty = {
            name: round(sum(1.0 / (1 + counts[feature]) for feature in features), 9) for name, features in left.items()
        }
        name = max(left, key=novelty.__getitem__)  # the first of several
        chosen.append(name)
        counts.update(left.pop(name))
        if sum(families[other] == families[name] for other in chosen) == MOST_OF_FAMILY:
            left = {other: features for other, features in left.items() if families[other] != families[name]}
    return sorted(chosen)


def _family(line: LibraryLine) -> tuple[object, ...]:
    return line.objective, tuple(line.gpus), line.performance_model, line.slo_rule


def _features(line: LibraryLine) -> list[tuple[str, object]]:
    """Return the features of an entry, each with its kind."""
    return [
        ("objective", line.objective),
        ("performance model", line.performance_model),
        ("SLO rule", line.slo_rule),
        ("GPU types", len(line.gpus)),
        ("size", sum(line.workloads >= smallest for smallest in SMALLEST_OF_SIZES)),
        ("difficulty", line.difficulty),
    ]


def next_set() -> BenchmarkSet:
    """Return the set chosen from the present library, as the next version."""
    lines, present = candidates(LIBRARY.summaries()), LIBRARY.benchmark
    version = 1 if present is None else present.version + 1
    return BenchmarkSet(version, choose(lines), {line.name: line.difficulty for line in lines})


if __name__ == "__main__":
    LIBRARY.write_benchmark(next_set())
