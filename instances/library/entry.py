"""Entry of the library: an instance, its best-known plan, and its best proven bound with the certificate."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instances.instance import Instance, Objective
from instances.library.difficulty import Difficulty, MeasuredDifficulty
from instances.plan import Plan

TIE = 1e-7
"""Relative difference below which two values, or a value and a bound, count as equal."""

SCALE_TIE = 0.005
"""Step of the scales. Scales that differ by less than a step count as equal; so do a scale and a bound one step above.

The bound is the least scale on the grid that no plan reaches.
"""

NONE = "none"
"""Bound of an instance for which no spatial plan exists."""


@dataclass(frozen=True, slots=True)
class Credit:
    """Finder of a plan or a bound: a scheduler or a person, the version of the bench, and the day (ISO 8601).

    ``machine`` and ``work`` are the processor and the amount of computing; ``None`` if they are unknown.
    """

    by: str
    version: str
    date: str
    machine: str | None = None
    work: str | None = None


@dataclass(frozen=True)
class LibraryEntry:
    """One instance of the library, with the best known plan and bound.

    Attributes
    ----------
    plan, value, plan_credit
        Best-known spatial plan, its value and its finder; ``None`` if no plan is known.
    claim, proof, proof_credit
        Claim and proof of the certificate with the best bound, and its finder; ``None`` if no bound is known.
    measured
        Difficulty on record; ``None`` if it was not measured.
    """

    instance: Instance
    plan: Plan | None = None
    value: float | None = None
    plan_credit: Credit | None = None
    claim: Mapping[str, Any] | None = None
    proof: Mapping[str, Any] | None = None
    proof_credit: Credit | None = None
    measured: MeasuredDifficulty | None = None

    @property
    def difficulty(self) -> Difficulty | None:
        """Difficulty of the entry; ``None`` for a proven entry that was not measured."""
        if not self.closed:
            return Difficulty.OPEN
        return None if self.measured is None else self.measured.difficulty

    @property
    def bound(self) -> str | None:
        """The proven bound as text; ``none`` if no plan exists, and ``None`` if there is no proof."""
        return None if self.claim is None else str(self.claim["bound"])

    @property
    def closed(self) -> bool:
        """Whether the bound proves that no spatial plan is better than the best-known plan, or that no plan exists.

        Differences up to ``TIE`` or ``SCALE_TIE`` do not count. Under ``scale``, an entry without a plan has the value
        0, so it is closed if its bound is at most ``SCALE_TIE``.
        """
        objective = self.instance.objective
        value = 0.0 if self.value is None and objective is Objective.SCALE else self.value
        if self.bound is None or value is None:
            return self.bound == NONE
        return self.bound == NONE or closes(float(self.bound), value, objective)

    @property
    def degenerate(self) -> bool:
        """Whether the bound proves that nothing can be served: no plan exists, or none has a value above zero.

        Under ``scale``, the least multiple of the rates is not feasible then.
        """
        if self.bound is None or self.bound == NONE:
            return self.bound == NONE
        objective = self.instance.objective
        least = SCALE_TIE if objective is Objective.SCALE else 0.0
        return not objective.minimised and float(self.bound) <= least

    @property
    def why_open(self) -> str | None:
        """Sentence that says what is missing for a proof; ``None`` for a proven entry."""
        if self.closed:
            return None
        if self.proof is None:
            return "No bound has a certificate whose check ended within its time limit."
        gap = "" if self.gap is None else f", {100.0 * self.gap:.2g} % from the best plan"
        if self.proof["kind"] == "tree":
            return f"The branching tree of column generation ends at the bound {self.bound}{gap}."
        if self.proof["kind"] == "exhaustive":
            return f"No plan with the proven bound {self.bound} is known{gap}."
        return f"Duals prove only {self.bound}{gap}, and no branching tree that closes the gap is known."

    @property
    def gap(self) -> float | None:
        """Relative gap of the value to the bound; 0 if the entry is closed, ``None`` without a value or a bound."""
        if self.closed:
            return 0.0
        if self.value is None or self.bound is None:
            return None
        bound = float(self.bound)
        return abs(self.value - bound) / max(abs(self.value), abs(bound))

    def summary(self) -> "LibraryLine":
        """Return the entry's line of the index."""
        instance = self.instance
        return LibraryLine(
            name=instance.name,
            objective=str(instance.objective),
            slo_rule=str(instance.slo_rule),
            performance_model=instance.performance_model,
            workloads=len(instance.workloads),
            gpus={pool.type.name: pool.count for pool in instance.gpus},
            value=self.value,
            bound=self.bound,
            gap=self.gap,
            closed=self.closed,
            difficulty=self.difficulty and str(self.difficulty),
            why_open=self.why_open,
            plan_by=None if self.plan_credit is None else self.plan_credit.by,
            proof_by=None if self.proof_credit is None else self.proof_credit.by,
            proof=None if self.proof is None else str(self.proof["kind"]),
        )


@dataclass(frozen=True, slots=True)
class LibraryLine:
    """Line of the index: an entry without its workloads, plan and proof; fields as in ``LibraryEntry``."""

    name: str
    objective: str
    slo_rule: str
    performance_model: str
    workloads: int
    gpus: Mapping[str, int | None]
    value: float | None
    bound: str | None
    gap: float | None
    closed: bool
    difficulty: str | None
    why_open: str | None
    plan_by: str | None
    proof_by: str | None
    proof: str | None


def better(value: float, other: float, objective: Objective) -> bool:
    """Return whether a value is better than another by more than ``TIE`` or, under ``scale``, by ``SCALE_TIE``."""
    tolerance = SCALE_TIE * (1.0 - 1e-6) if objective is Objective.SCALE else TIE * max(abs(value), abs(other))
    return value < other - tolerance if objective.minimised else value > other + tolerance


def closes(bound: float, value: float, objective: Objective) -> bool:
    """Return whether a bound proves that no plan has a better value, up to ``TIE`` or ``SCALE_TIE``."""
    if objective is Objective.SCALE:
        return bound <= value + SCALE_TIE * (1.0 + 1e-6)
    return not better(bound, value, objective)
