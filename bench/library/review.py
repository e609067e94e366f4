"""Review of the library's entries: each entry stays if this version of the bench reproduces its results.

An entry stays under three conditions. The judge accepts its plan, with the stated value up to ``TIE``. The checker
proves its certificate. The latency budgets of its configurations equal, bit by bit, the budgets on record. The record
is a file of digests beside the entries. An entry without a digest does not stay; entries on MIG instances need none. An
entry that does not stay is renewed under another name.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np

from bench.certificate.checking import check
from bench.judging.judge import judge
from instances import PART_STEPS, Instance, Objective, Partition
from instances.files import read_json, write_json
from instances.library import Library, LibraryEntry
from instances.library.entry import TIE
from instances.view import View

RECORD = "budgets.json"
"""File with the digests of the entries' budgets, by the names of the entries."""

MULTIPLES = (0.5, 1.0, 2.0)
"""Multiples of the rates at which budgets are compared under ``scale``."""

STEPS = (PART_STEPS, PART_STEPS // 2, 1)
"""Twentieths of a rate at which budgets are compared under ``goodput``."""


@dataclass(frozen=True, slots=True)
class Review:
    """Result of the review of one entry; ``None`` marks a check that does not apply to the entry.

    Attributes
    ----------
    plan
        Whether the judge accepts the plan with the value that the entry states.
    budgets
        Whether the budgets equal the budgets on record; ``None`` for GPUs that are cut into MIG instances.
    certificate
        Whether the checker proves the certificate.
    """

    name: str
    plan: bool | None
    budgets: bool | None
    certificate: bool | None

    @property
    def stays(self) -> bool:
        """Whether the entry stays: no check has failed."""
        return False not in (self.plan, self.budgets, self.certificate)


def review(entry: LibraryEntry, certificate: Mapping[str, Any] | None, recorded: str | None) -> Review:
    """Judge an entry's plan, check its ``certificate``, and compare its budgets with a ``recorded`` digest."""
    plan = None
    if entry.plan is not None:
        verdict = judge(entry.plan, entry.instance)
        plan = verdict.feasible and entry.value is not None and math.isclose(verdict.value, entry.value, rel_tol=TIE)
    return Review(
        entry.instance.name,
        plan,
        None if entry.instance.partition is Partition.MIG else budgets_digest(entry) == recorded,
        None if certificate is None else check(certificate, entry.instance.name).proven,
    )


def budgets_digest(entry: LibraryEntry) -> str:
    """Return the SHA-256 of the budgets of the configurations: all GPU types, workloads, batches and shares.

    The rates are those of the workloads. Under ``scale``, they are multiplied by each of ``MULTIPLES``. Under
    ``goodput``, they are the parts of the rates that ``STEPS`` lists.
    """
    digest = sha256()
    if entry.instance.partition is Partition.SHARES:
        for instance in _instances(entry):
            for pool in instance.gpus:
                view = View.of(instance, pool.type)
                for workload in range(len(instance.workloads)):
                    batches = np.arange(1, int(view.tables.max_batch[view.model[workload]]) + 1)
                    for rate_rps in _rates(view, workload):
                        digest.update(view.unwidened_budgets_ms(workload, batches, rate_rps).astype("<f8").tobytes())
    return digest.hexdigest()


def read_record(library: Library) -> dict[str, str]:
    """Return the digests on record."""
    file = library.folder / RECORD
    digests: Any = read_json(file) if file.is_file() else {}
    return dict(digests)


def write_record(library: Library, digests: Mapping[str, str]) -> None:
    """Add digests of entries that are not on record, and remove the digests of entries that no longer exist."""
    all_digests, names = dict(digests) | read_record(library), set(library.names())
    write_json(library.folder / RECORD, {name: all_digests[name] for name in sorted(all_digests) if name in names})


def _instances(entry: LibraryEntry) -> Iterator[Instance]:
    """Yield the instance, or under ``scale`` the instance at each of ``MULTIPLES`` of its rates."""
    if entry.instance.objective is Objective.SCALE:
        yield from map(entry.instance.scaled, MULTIPLES)
    else:
        yield entry.instance


def _rates(view: View, workload: int) -> list[float]:
    """Return the rates at which the budgets of a slot are compared."""
    rate_rps = float(view.rate_rps[workload])
    if view.instance.objective is not Objective.GOODPUT:
        return [rate_rps]
    return [rate_rps * (step / PART_STEPS) for step in STEPS]
