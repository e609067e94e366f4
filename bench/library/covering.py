"""Covering problem of a small entry: the patterns of every GPU type, and the choice of the best set of patterns.

The checker enumerates the patterns. A solver of integer programs or pseudo-Boolean problems does the rest, and its own
proof needs no trust in the bench beyond the list of the patterns. All numbers of the problem are whole.

- ``cost``: a plan is a set of patterns that serves every workload. A pattern that is part of another one on the same
  GPU type is redundant, so only maximal patterns are listed.
- ``scale``: as ``cost``, with the rates multiplied by the claimed bound, which holds if the problem has no solution.
- ``capacity``, ``goodput``: a plan is a set of disjoint patterns. All patterns are listed, with their worths.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from math import ceil, floor, lcm
from typing import NamedTuple

import numpy as np

from bench.certificate.certificate import BoundClaim, unit_for
from bench.certificate.exhaustive import MOST_WORKLOADS, pattern_worths
from bench.certificate.failures import GivenUpError, NotProvenError
from bench.certificate.patterns import Progress, ignore
from bench.certificate.statement import Statement, classes
from instances import InputError, Instance, Objective, Partition
from instances.library.entry import TIE

_MPS_KINDS = {">=": "G", "=": "E", "<=": "L"}


@dataclass(frozen=True, slots=True)
class ListedPattern:
    """Workloads that one GPU serves, by position, with the whole number that the pattern adds to the objective."""

    gpu_type: int
    workloads: tuple[int, ...]
    worth: int


@dataclass(frozen=True)
class CoveringProblem:
    """Choice of patterns; see the module.

    Attributes
    ----------
    minimised
        Whether the sum of the worths, which are then prices, is minimised.
    relation
        Relation of the number of chosen patterns with a workload to 1: ``>=``, ``=`` or ``<=``.
    unit
        Whole number that stands for one dollar per hour, or for one request per second.
    target
        Largest sum of prices, or least sum of worths, of a solution; ``None`` if the sum is the objective.
    """

    instance: Instance
    patterns: Sequence[ListedPattern]
    minimised: bool
    relation: str
    unit: int
    target: int | None = None

    def with_workload(self, workload: int) -> list[int]:
        """Return the positions of the patterns with a workload."""
        return [position for position, pattern in enumerate(self.patterns) if workload in pattern.workloads]

    def limits(self) -> Iterator[tuple[int, list[int]]]:
        """Yield the number of GPUs of each type with a limit, and the positions of the type's patterns."""
        for gpu_type, pool in enumerate(self.instance.gpus):
            if pool.count is not None:
                yield (
                    pool.count,
                    [position for position, pattern in enumerate(self.patterns) if pattern.gpu_type == gpu_type],
                )

    def legend(self) -> Iterator[str]:
        """Yield lines that tell the meaning of the problem and of every pattern."""
        instance = self.instance
        yield f"covering problem of {instance.name}, objective {instance.objective}; {self.unit} stands for 1"
        yield f"instance {instance.fingerprint}"
        for position, pattern in enumerate(self.patterns, start=1):
            ids = " ".join(instance.workloads[workload].id for workload in pattern.workloads)
            yield f"x{position}: {instance.gpus[pattern.gpu_type].type.name} with {ids}"


def covering_problem(instance: Instance, bound: str | None, progress: Progress = ignore) -> CoveringProblem:
    """Return the covering problem of an instance; ``bound`` is the claimed bound, which only ``scale`` needs.

    Raises
    ------
    InputError
        If the instance has too many workloads, no patterns that the checker can enumerate, or no bound under ``scale``.
    """
    name, count = instance.name, len(instance.workloads)
    if instance.partition is Partition.MIG:
        raise InputError(name, "has GPUs that are cut into MIG instances; they have no list of patterns")
    if count > MOST_WORKLOADS:
        raise InputError(name, f"has {count} workloads; patterns are listed for at most {MOST_WORKLOADS}")
    if instance.objective is Objective.SCALE and bound is None:
        raise InputError(name, "has no bound; under scale, the patterns are those at the bound's multiple of the rates")
    try:
        statement = Statement.of(instance, BoundClaim(bound=bound or "0", plan_class="spatial", parts=None))
        return _problem(statement, instance, progress)
    except (NotProvenError, GivenUpError) as failure:
        raise InputError(name, f"has no list of patterns: {failure}") from None


def _problem(statement: Statement, instance: Instance, progress: Progress) -> CoveringProblem:
    count = len(instance.workloads)
    # The same units as in an exhaustive proof.
    unit = lcm(*(price.denominator for price in statement.prices)) if statement.minimised else 10**9
    if instance.objective is Objective.GOODPUT:
        unit = unit_for(max(workload.rate_rps for workload in instance.workloads))
    order = np.argsort(classes(instance), kind="stable").tolist()  # sets have the workloads in the order of classes
    patterns = []
    for gpu_type, price in enumerate(statement.prices):
        worths = pattern_worths(statement, gpu_type, count, unit, progress)
        listed = maximal(worths) if statement.minimised else sorted(worths)
        patterns += [
            ListedPattern(
                gpu_type,
                tuple(sorted(order[bit] for bit in range(count) if positions >> bit & 1)),
                int(price * unit) if statement.minimised else worths[positions],
            )
            for positions in listed
        ]
    relation = ">=" if statement.minimised else "=" if statement.serves_all else "<="
    return CoveringProblem(instance, patterns, statement.minimised, relation, unit)


def maximal(sets: Sequence[int] | dict[int, int]) -> list[int]:
    """Return the sets, as bit masks, that are part of no other one."""
    return sorted(one for one in sets if not any(one != other and one & other == one for other in sets))


def better_than(problem: CoveringProblem, value: float) -> CoveringProblem:
    """Return the problem whose solutions are better than ``value`` by more than ``TIE``; it has no objective."""
    exact = Fraction(repr(value)) * problem.unit
    tie = abs(exact) * Fraction(repr(TIE))
    return replace(problem, target=ceil(exact - tie) - 1 if problem.minimised else floor(exact + tie) + 1)


class _Row(NamedTuple):
    """Row of the problem: a sum with ``relation`` to ``right``; ``terms`` are (coefficient, position of a pattern)."""

    name: str
    terms: Sequence[tuple[int, int]]
    relation: str
    right: int


def _rows(problem: CoveringProblem) -> Iterator[_Row]:
    for workload in range(len(problem.instance.workloads)):
        terms = [(1, position) for position in problem.with_workload(workload)]
        yield _Row(f"serves{workload + 1}", terms, problem.relation, 1)
    for number, (limit, positions) in enumerate(problem.limits(), start=1):
        yield _Row(f"gpus{number}", [(1, position) for position in positions], "<=", limit)
    if problem.target is not None:
        terms = [(pattern.worth, position) for position, pattern in enumerate(problem.patterns)]
        yield _Row("better", terms, "<=" if problem.minimised else ">=", problem.target)


def as_opb(problem: CoveringProblem) -> str:
    """Return the problem in the format of pseudo-Boolean competitions; a maximised objective is negated."""
    rows, sign = list(_rows(problem)), 1 if problem.minimised else -1
    lines = [f"* #variable= {len(problem.patterns)} #constraint= {len(rows)}"]
    lines += [f"* {line}" for line in problem.legend()]
    if problem.target is None:
        terms = " ".join(f"{sign * pattern.worth:+d} x{number}" for number, pattern in enumerate(problem.patterns, 1))
        lines.append(f"min: {terms} ;")
    for row in rows:
        factor = -1 if row.relation == "<=" else 1  # the format has only >= and =
        left = " ".join(f"{factor * coefficient:+d} x{position + 1}" for coefficient, position in row.terms)
        lines.append(f"{left} {'=' if row.relation == '=' else '>='} {factor * row.right} ;")
    return "\n".join(lines) + "\n"


def as_mps(problem: CoveringProblem) -> str:
    """Return the problem in the free MPS format; a maximised objective is negated."""
    rows, sign = list(_rows(problem)), 1 if problem.minimised else -1
    entries: dict[int, list[str]] = {position: [] for position in range(len(problem.patterns))}
    for row in rows:
        for coefficient, position in row.terms:
            entries[position].append(f" x{position + 1} {row.name} {coefficient}")
    if problem.target is None:
        for position, pattern in enumerate(problem.patterns):
            entries[position].append(f" x{position + 1} objective {sign * pattern.worth}")
    lines = [
        *(f"* {line}" for line in problem.legend()),
        f"NAME {problem.instance.name}",
        "ROWS",
        " N objective",
        *(f" {_MPS_KINDS[row.relation]} {row.name}" for row in rows),
        "COLUMNS",
        " MARK1 'MARKER' 'INTORG'",
        *chain.from_iterable(entries.values()),
        " MARK2 'MARKER' 'INTEND'",
        "RHS",
        *(f" RHS {row.name} {row.right}" for row in rows),
        "BOUNDS",
        *(f" BV BND x{position + 1}" for position in entries),
        "ENDATA",
    ]
    return "\n".join(lines) + "\n"
