"""Table of the latency budgets under ``attainment``; each budget is computed once and stays in memory."""

from functools import lru_cache
from typing import NamedTuple

from instances.arrays import Floats
from instances.attainment_budget import attainment_budgets_ms, bracketed_budgets_ms, least_meeting_share
from instances.attainment_terms import AttainmentTerms
from instances.gpu import GpuType
from instances.slot_times import BatchTimes, batch_times
from instances.tables import Tables

MOST_ROWS = 200_000
"""Largest number of rows in memory for a GPU type, a performance model and terms of the rule; then all are dropped.

A row has the budgets of one slot at every share."""

Key = tuple[int, float, float, int]
"""Model, SLO, rate and batch of a slot."""


@lru_cache(maxsize=64)
def known_rows(
    gpu: GpuType, performance_model: str, terms: AttainmentTerms, order: tuple[str, ...]
) -> dict[Key, Floats]:
    """Return the budgets computed so far for a GPU type under a performance model; the caller adds to them.

    Equal types may list their models in another ``order``, and keys contain the model's position in this order.
    """
    return {}


@lru_cache(maxsize=64)
def known_ranges(
    gpu: GpuType, performance_model: str, terms: AttainmentTerms, order: tuple[str, ...]
) -> dict[Key, tuple[int, int]]:
    """Return the first and last possible position of each slot's least share, as far as tried. See ``known_rows``."""
    return {}


@lru_cache(maxsize=64)
def known_times(gpu: GpuType, performance_model: str, order: tuple[str, ...]) -> dict[tuple[int, int], BatchTimes]:
    """Return the times of batches computed so far, by model and batch; the caller adds to them. See ``known_rows``."""
    return {}


class BudgetTable(NamedTuple):
    """Budgets on one GPU type under one performance model; computed budgets stay in memory.

    A slot that serves a part of its workload is assumed to get each request of the workload with the same probability,
    independently of the others. The simulator's weighted round robin spreads the requests more evenly than that.
    """

    gpu: GpuType
    performance_model: str
    tables: Tables
    terms: AttainmentTerms

    def _known_rows(self, terms: AttainmentTerms) -> dict[Key, Floats]:
        return known_rows(self.gpu, self.performance_model, terms, tuple(self.gpu.models))

    def row_ms(
        self, model: int, slo_ms: float, arriving_rps: float, batch: int, rate_rps: float, units: int = 0
    ) -> Floats:
        """Return ``attainment_budgets_ms`` of a slot whose workload has the rate ``arriving_rps``."""
        terms = self._terms(rate_rps, arriving_rps)
        rows, key = self._known_rows(terms), (model, slo_ms, rate_rps, batch)
        budgets_ms = rows.get(key)
        if budgets_ms is None:
            budgets_ms = attainment_budgets_ms(self.tables, model, slo_ms, rate_rps, batch, terms, units)
            if units == 0:
                if len(rows) >= MOST_ROWS:
                    rows.clear()
                rows[key] = budgets_ms
        return budgets_ms

    def batch_times(self, model: int, batch: int) -> BatchTimes:
        """Return the times of the batches of a slot."""
        times = known_times(self.gpu, self.performance_model, tuple(self.gpu.models))
        if (model, batch) not in times:
            times[model, batch] = batch_times(self.tables, model, batch)
        return times[model, batch]

    def least_meeting_share(
        self, model: int, slo_ms: float, arriving_rps: float, batch: int, rate_rps: float, known_range: tuple[int, int]
    ) -> int:
        """Return ``least_meeting_share`` of a slot whose workload has the rate ``arriving_rps``."""
        times, terms = self.batch_times(model, batch), self._terms(rate_rps, arriving_rps)
        ranges = known_ranges(self.gpu, self.performance_model, terms, tuple(self.gpu.models))
        key, (low, high) = (model, slo_ms, rate_rps, batch), known_range
        known_low, known_high = ranges.get(key, (0, len(self.tables.permitted)))
        if known_low == known_high or known_low > high:
            return known_low
        low, high = max(low, known_low), min(high, known_high, len(self.tables.permitted) - 1)
        position = least_meeting_share(self.tables.permitted, times, slo_ms, rate_rps, terms, (low, high))
        if len(ranges) >= MOST_ROWS:
            ranges.clear()
        ranges[key] = position, position if position <= high else known_high
        return position

    def _terms(self, rate_rps: float, arriving_rps: float) -> AttainmentTerms:
        # Without rounding, parts that should be equal would have different samples of gamma arrivals.
        return self.terms.thinned(min(1.0, round(rate_rps / arriving_rps, 9)))

    def bracket_ms(
        self, model: int, slo_ms: float, batch: int, rate_rps: float, budgets_at_lower_rate_ms: Floats | None
    ) -> tuple[Floats, Floats]:
        """Return ``bracketed_budgets_ms`` of a slot, or the budgets as both bounds if they are already computed."""
        rows = self._known_rows(self.terms)
        budgets_ms = rows.get((model, slo_ms, rate_rps, batch))
        if budgets_ms is not None:
            return budgets_ms, budgets_ms
        return bracketed_budgets_ms(self.tables, model, slo_ms, rate_rps, batch, self.terms, budgets_at_lower_rate_ms)
