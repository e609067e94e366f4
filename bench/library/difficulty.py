"""Measurement of the difficulty of proven entries: the work with which the reference schedulers prove them.

The reference schedulers are the exact schedulers whose bounds are certified and whose work is counted. A work limit
stands for seconds of a core, so that a measurement does not depend on the machine and its load.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

from bench.ledger.gap import reachable
from bench.ledger.row import Row, Termination
from bench.provenance import distribution_version
from instances import Instance, Objective, Partition
from instances.library import LibraryEntry
from instances.library.difficulty import Difficulty, MeasuredDifficulty
from instances.library.entry import better, closes

LIMITS_S: Mapping[int, Difficulty] = MappingProxyType({1: Difficulty.TOY, 10: Difficulty.EASY, 60: Difficulty.MEDIUM})
"""Limits in seconds of a core, and the difficulty of an entry that every reference scheduler proves with the limit."""

WORK_PER_S: Mapping[str, int] = MappingProxyType({"colgen": 300_000, "cpsat": 1, "mig": 20})
"""Units of work that stand for a second of a core, by reference scheduler.

Column generation counts pricing nodes, and CP-SAT its deterministic seconds. ``mig`` counts nodes of HiGHS. Column
generation itself takes these numbers of pricing nodes and of nodes of HiGHS for a second.
"""


def references(instance: Instance) -> list[str]:
    """Return the reference schedulers that must prove an instance."""
    return ["mig"] if instance.partition is Partition.MIG else ["colgen", "cpsat"]


def proves(row: Row, entry: LibraryEntry) -> bool:
    """Return whether a run proves an entry's best value: the run's plan has this value, and its bound closes the gap.

    The bound must be certified and hold for every share and batch.
    """
    objective = entry.instance.objective
    if not row.feasible or row.value is None or row.bound is None or not row.bound_certified or row.bound_scope is None:
        return False
    if row.bound_scope.allowed_shares is not None or row.bound_scope.max_batch is not None:
        return False
    bound = reachable(row.bound, objective is Objective.COST, entry.instance)
    ties_with_entry = entry.value is None or not better(entry.value, row.value, objective)
    return ties_with_entry and closes(bound, row.value, objective)


@dataclass
class Measuring:
    """Measurement of one entry, while it is made.

    Attributes
    ----------
    proven_s
        Smallest limit with which a reference scheduler proved the entry, in seconds of a core.
    tried_s
        Largest limit that each reference scheduler was given.
    """

    entry: LibraryEntry
    proven_s: dict[str, int] = field(default_factory=dict)
    tried_s: dict[str, int] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """Reference schedulers that have not proven the entry."""
        return [name for name in references(self.entry.instance) if name not in self.proven_s]

    def add(self, row: Row, limit_s: int) -> None:
        """Add a run with a limit, unless the run did not finish by itself: it would show nothing about the work."""
        if row.termination is not Termination.FINISHED:
            return
        self.tried_s[row.scheduler] = max(limit_s, self.tried_s.get(row.scheduler, 0))
        if proves(row, self.entry):
            self.proven_s.setdefault(row.scheduler, limit_s)

    @property
    def result(self) -> MeasuredDifficulty | None:
        """The difficulty; ``None`` while a reference scheduler has neither proven the entry nor had the last limit."""
        names, last_s = references(self.entry.instance), max(LIMITS_S)
        if any(self.tried_s.get(name, 0) < last_s for name in self.missing):
            return None
        difficulty = Difficulty.HARD if self.missing else LIMITS_S[max(self.proven_s[name] for name in names)]
        day = datetime.now(UTC).date().isoformat()
        proven_s = {name: self.proven_s.get(name) for name in names}
        return MeasuredDifficulty(difficulty, proven_s, distribution_version("gpushare-bench") or "", day)
