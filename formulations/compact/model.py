"""Compact model: the Pyomo model, its index sets, and its nonlinear relations.

Index o is an option (a workload on one GPU type), and (t, k) is GPU number k of type t; see ``build``.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyomo.environ as pyo

from formulations.compact.options import Option, Range
from formulations.problem import Offer
from instances import GOODPUT_STEP, Instance, Objective
from instances.arrays import Ints
from instances.one_gpu import Pattern, Resident

Expr = Any
"""Pyomo variable or expression (Pyomo publishes no types)."""

ROW_TOLERANCE = 1e-6
"""Relative tolerance of the nonlinear rows, so that a solver's rounding cuts off no plan."""


@dataclass(frozen=True, slots=True)
class Relation:
    """Nonlinear relation ``result = value(first, second)`` between Pyomo variables of one option.

    Only ``result >= value`` matters, because no plan gains from a larger result. Of a throughput only ``result <=
    value`` matters.

    Attributes
    ----------
    name
        Name of the result.
    value
        The function on numbers.
    exact
        The relation as a Pyomo constraint without divisions.
    relaxed
        The relation as constraints that are scaled to about 1 and have the tolerance ``ROW_TOLERANCE``.
    points
        Values of (first, second) over the option's configurations, shape (points, 2); ``None`` if these are continuous.
    """

    name: str
    result: Expr
    first: Expr
    second: Expr
    value: Callable[[float, float], float]
    exact: Expr
    relaxed: tuple[Expr, ...]
    points: Ints | None = None


def price_unit(prices: Iterable[float]) -> float:
    """Return the power of 1024 nearest to the largest price: 1 if that price is between $0.04 and $30 per hour.

    Solvers have absolute tolerances that suit objectives of about 1.
    """
    largest = max(prices, default=0.0)
    return 1024.0 ** round(math.log2(largest) / 10.0) if largest > 0.0 else 1.0


@dataclass(slots=True)
class CompactModel:
    """Compact model of an instance.

    Attributes
    ----------
    options
        The workloads on each GPU type.
    pyomo
        The Pyomo model; the relations are added to it later, exactly, with tolerance or linearised.
    gpus_of
        GPUs that each option may be on, as (offer, number).
    options_on_gpu
        Options that may be on each GPU.
    rank_of
        Rank of each option among the options of its GPU type; GPUs are numbered by the lowest rank on them.
    steps_of
        Rate steps that each option may be planned for (``goodput``).
    objective_unit
        Value of the instance's objective that the model counts as 1.
    """

    instance: Instance
    offers: Sequence[Offer]
    options: Sequence[Option]
    pyomo: Any
    rank_of: Sequence[int]
    relations: list[Relation] = field(default_factory=list)
    gpus_of: dict[int, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    options_on_gpu: dict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    steps_of: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    objective_unit: float = 1.0

    def state_relations(self, exact: bool) -> None:
        """Add every relation: its ``exact`` row, or its ``relaxed`` rows if ``exact`` is false (a relaxation)."""
        self.pyomo.relation = pyo.ConstraintList()
        for relation in self.relations:
            for row in (relation.exact,) if exact else relation.relaxed:
                self.pyomo.relation.add(row)

    def require(self, limit: float | None) -> None:
        """Restrict the model to plans whose objective reaches ``limit``; ``None`` permits all."""
        if limit is not None:
            value, minimised = self.pyomo.value.expr, self.instance.objective.minimised
            scaled = limit / self.objective_unit
            self.pyomo.better = pyo.Constraint(expr=value <= scaled if minimised else value >= scaled)

    def _rate_rps(self, o: int, value_of: Callable[[Expr], float]) -> float:
        """Return the planned rate of an option in a solution."""
        rate = self.instance.workloads[self.options[o].workload].rate_rps
        if self.instance.objective is Objective.GOODPUT:
            at_step = self.pyomo.at_step
            rate *= GOODPUT_STEP * max(self.steps_of[o], key=lambda s: value_of(at_step[o, s]))
        return rate

    def patterns(self, value_of: Callable[[Expr], float]) -> list[Pattern]:
        """Read placement, batches and rates from the values of a solution's variables."""
        m = self.pyomo
        residents_of_gpu: dict[tuple[int, int], list[Resident]] = defaultdict(list)
        for o, t, k in m.V:
            if value_of(m.v[o, t, k]) > 0.5:
                batch, rate = round(value_of(m.b[o])), self._rate_rps(o, value_of)
                residents_of_gpu[t, k].append(Resident(self.options[o].workload, batch, rate))
        return [Pattern.of(t, tuple(residents)) for (t, _), residents in sorted(residents_of_gpu.items())]

    def spread(self, name: str, totals: Sequence[Expr], ranges: Sequence[Range]) -> Any:
        """Return variables equal to ``totals[o] * v[o, t, k]`` by linear rows; each option is on at most one GPU.

        ``ranges`` is the range of every expression in ``totals``. The names of the new components begin with ``name``.
        """
        m = self.pyomo
        ranges_with_zero = [(min(0.0, low), max(0.0, high)) for low, high in ranges]
        amount_on_gpu = pyo.Var(
            m.V,
            bounds=lambda _, o, t, k: ranges_with_zero[o],
            doc=f"{name} of option o on GPU k of type t; 0 if it is not there",
        )
        # ``m.elsewhere`` is 1 for an option on no GPU; it is fixed to 0 where every option must be placed.
        amount_elsewhere = pyo.Var(
            m.O,
            bounds=lambda _, o: ranges_with_zero[o] if m.elsewhere[o].ub else (0.0, 0.0),
            doc=f"{name} of option o if it is on no GPU",
        )
        rows = pyo.ConstraintList()
        for suffix, component in (("on", amount_on_gpu), ("away", amount_elsewhere), ("rows", rows)):
            m.add_component(f"{name}_{suffix}", component)
        for o in m.O:
            low, high = ranges[o]
            placements = [(amount_on_gpu[o, t, k], m.v[o, t, k]) for t, k in self.gpus_of[o]]
            if m.elsewhere[o].ub:  # 0 for the only option of a workload that must be placed
                placements.append((amount_elsewhere[o], m.elsewhere[o]))
            for amount, chosen in placements:
                rows.add(amount >= low * chosen)
                rows.add(amount <= high * chosen)
            rows.add(sum_of(amount for amount, _ in placements) == totals[o])
        return amount_on_gpu


def sum_of(terms: Iterable[Expr]) -> Expr:
    """Sum expressions; no terms sum to 0."""
    return sum(terms, 0.0)
