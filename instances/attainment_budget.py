"""Latency budgets of the SLO rule ``attainment``: the largest GPU time of a full batch at which the rule holds.

The budget of a slot depends on its share, because its partial batches do (``instances.slot_times``).

The budget is the largest number of an absolute grid (``instances.attainment_grid``) at which the rule holds. It is at
least the time of the full batch alone, if the rule holds there. The missed fraction rises with the GPU time and the
rate, and falls with the SLO; so budgets rise with the SLO and fall with the rate and the attainment. At equal time of
the full batch the fraction also rises with the share: a larger share shortens full batches more than partial ones, so
its partial batches are longer. Budgets therefore fall with the share. The search uses all this, and the tests check it.

The missed fraction under Poisson arrivals is that of a Markov chain: ``instances.attainment`` if servers drop requests,
otherwise ``instances.backlog``. Gamma arrivals are sampled, one sample for all slots: its missed fraction plus three
standard errors must meet the target. A sample's fraction is not exactly monotone. Therefore SLOs are rounded down and
rates up to ``GAMMA_STEPS`` steps per doubling, and budgets down to ``GAMMA_STRIDE`` steps of the grid.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from instances.arrays import Floats, Ints
from instances.attainment import MOST_NODES, missed_fraction, most_waiting, node_distance_ms
from instances.attainment_chain import Chain, chain_for
from instances.attainment_grid import NEVER, budgets_of, grid_index, grid_indices, grid_ms
from instances.attainment_terms import AttainmentTerms
from instances.backlog import late_fraction
from instances.backlog_levels import Backlog, backlog_for
from instances.compiled import compiled, kernel
from instances.queueing import missed_fraction_of_sample
from instances.slot_times import SlotTimes, slot_times
from instances.tables import Tables

BRACKETS, BRACKET_GROWTH = 3, 1.12
"""Number of shares at which ``bracketed_budgets_ms`` bounds budgets, from the smallest up, and their least ratio."""

BRACKET_STEPS = 6
"""Largest distance of the two bounds at such a share, in steps of the grid."""

GAMMA_STRIDE = 8
"""Steps of the grid between budgets under gamma arrivals, whose missed fraction is not exactly monotone."""

GAMMA_STEPS = 64
"""Steps from an SLO or rate under gamma arrivals to its double; SLOs are rounded down to a step and rates up."""

GAMMA_REQUESTS = 400_000
"""Requests of the sample of gamma arrivals."""

GAMMA_SEED = 20_220_711

NEAR = 20
"""Distance, in steps, of the first guess from the known upper bound of a budget; also the first step from there."""

FAR = 100
"""The same from an index at which the rule fails for certain."""


LEAST_LOAD = 1e-2
"""Rate in requests per second times SLO in milliseconds below which gamma arrivals count as more: their times would
have too few digits."""


class _Evaluator(NamedTuple):
    """Terms and working memory of one budget row; an empty sample stands for Poisson arrivals.

    Indices of budgets count ``stride`` steps of the grid.
    """

    missed: float
    dropping: bool
    sample: Floats
    stride: int
    chain: Chain
    backlog: Backlog
    result_ms: Floats
    busy_ms: Floats


@kernel
def _missed_at(slot: SlotTimes, terms: _Evaluator, units: int, time_ms: float) -> float:
    """Return the missed fraction of a slot whose full batch takes ``time_ms`` on the GPU."""
    delay_ms = time_ms - slot.alone_ms[slot.batch, units]
    for k in range(1, slot.batch + 1):
        terms.result_ms[k] = slot.alone_ms[k, units] + delay_ms + slot.transfer_ms[k]
        terms.busy_ms[k] = slot.alone_ms[k, units] + delay_ms + slot.exposed_ms[k]
    latest_ms = slot.slo_ms - terms.result_ms[slot.batch]
    if latest_ms < 0.0:
        return 1.0
    rate = slot.rate_per_ms
    capacity = slot.batch / terms.busy_ms[slot.batch]
    if capacity < rate * (1.0 - terms.missed):  # an overloaded server
        return 1.0 - capacity / rate if terms.dropping else 1.0
    if len(terms.sample) > 0:
        if capacity <= rate and not terms.dropping:
            return 1.0
        for k in range(1, slot.batch + 1):
            terms.result_ms[k] *= rate  # now in units of the mean gap
            terms.busy_ms[k] *= rate
        slo = slot.slo_ms * rate
        return missed_fraction_of_sample(
            terms.sample, slo, slot.batch, terms.result_ms, terms.busy_ms, terms.dropping, terms.missed
        )
    batch = most_waiting(rate, slot.batch, terms.busy_ms)
    if not terms.dropping:
        return late_fraction(terms.backlog, rate, slot.slo_ms, batch, terms.result_ms, terms.busy_ms)
    step_ms = slot.slo_ms - terms.result_ms[batch]  # full batches of a reduced size do not occur: one node is enough
    if batch == slot.batch:
        step_ms = node_distance_ms(rate, latest_ms, batch, terms.busy_ms[batch])
    fraction = missed_fraction(terms.chain, rate, slot.slo_ms, batch, terms.result_ms, terms.busy_ms, step_ms)
    return max(1.0 - capacity / rate, fraction)


@kernel
def _missed_near(slot: SlotTimes, terms: _Evaluator, units: int, index: int) -> float:
    """Return the missed fraction at a number of the grid, or at the time alone if that is longer."""
    return _missed_at(slot, terms, units, max(grid_ms(index * terms.stride), slot.alone_ms[slot.batch, units]))


@kernel
def _largest(
    slot: SlotTimes, terms: _Evaluator, units: int, holds: int, fails: int, guess: int, width: int, apart: int = 1
) -> tuple[int, int]:
    """Return an index at which the rule holds and one at which it fails, at most ``apart``.

    It holds at ``holds`` and fails at ``fails``. From ``guess`` the search goes in growing steps until it has a failure
    and a success, then by interpolation: the logarithm of the missed fraction is nearly linear.
    """
    target = np.log(terms.missed)
    good = bad = np.nan
    at = guess
    while fails - holds > apart:
        at = min(max(at, holds + 1), fails - 1)
        value = np.log(max(_missed_near(slot, terms, units, at), 1e-15))
        if value <= target:
            holds, good = at, value
        else:
            fails, bad = at, value
        if np.isnan(bad):
            at += width
        elif np.isnan(good):
            at -= width
        else:
            at = holds + int((fails - holds) * (target - good) / (bad - good) + 0.5)
        width *= 2
    return holds, fails


@kernel
def _first_index(slot: SlotTimes, terms: _Evaluator, units: int) -> int:
    """Return the index that stands for the time of the full batch alone."""
    return grid_index(slot.alone_ms[slot.batch, units]) // terms.stride


@kernel
def _failing_index(slot: SlotTimes, terms: _Evaluator, units: int) -> int:
    """Return an index at which the rule fails: the batch exceeds the SLO, or the server is overloaded."""
    within_ms = slot.slo_ms - slot.transfer_ms[slot.batch]
    missed = terms.missed if terms.dropping else 0.0
    capable_ms = slot.batch / (slot.rate_per_ms * (1.0 - missed)) - slot.exposed_ms[slot.batch]
    most_ms = min(within_ms, capable_ms)
    return max(grid_index(most_ms) // terms.stride if most_ms > 0.0 else NEVER, _first_index(slot, terms, units)) + 1


@kernel
def _holds_alone(slot: SlotTimes, terms: _Evaluator, units: int) -> bool:
    alone_ms = slot.alone_ms[slot.batch, units]
    return alone_ms < np.inf and _missed_at(slot, terms, units, alone_ms) <= terms.missed


@kernel
def _spread_ms(slot: SlotTimes, units: int) -> float:
    return slot.alone_ms[slot.batch, units] - slot.alone_ms[1, units]


@kernel
def _least_place(slot: SlotTimes, terms: _Evaluator, shares: Ints, too_small: int, stride: int) -> int:
    """Return the place of the smallest share at which the rule holds, after ``too_small``; their number if none is.

    The first step is ``stride``.
    """
    last = len(shares) - 1
    while too_small + stride < last and not _holds_alone(slot, terms, shares[too_small + stride]):
        too_small += stride
        stride *= 2
    least = min(too_small + stride, last)
    if least == last and not _holds_alone(slot, terms, shares[last]):
        return last + 1
    while least - too_small > 1:
        middle = (least + too_small) // 2
        if _holds_alone(slot, terms, shares[middle]):
            least = middle
        else:
            too_small = middle
    return least


@kernel
def _fill(slot: SlotTimes, terms: _Evaluator, shares: Ints, index: Ints) -> None:
    """Write the index of each share's budget, ``NEVER`` where the rule does not hold even alone; shares ascend."""
    last = len(shares) - 1
    index[:] = NEVER
    least = _least_place(slot, terms, shares, -1, last + 1)
    if least > last:
        return
    first, fails = _first_index(slot, terms, shares[last]), _failing_index(slot, terms, shares[last])
    index[last] = _largest(slot, terms, shares[last], first, fails, fails - FAR, FAR)[0]
    if least == last:
        return
    first, fails = (
        max(index[last], _first_index(slot, terms, shares[least])),
        _failing_index(slot, terms, shares[least]),
    )
    index[least] = _largest(slot, terms, shares[least], first, fails, first + 1, 1)[0]
    # Budgets fall with the share: halve the distance between shares with known budgets.
    stride = 1
    while stride < last - least:
        stride *= 2
    while stride > 1:
        stride //= 2
        for n in range(last - stride, least, -2 * stride):
            low, high = max(least, n - stride), n + stride
            # The budget is nearly linear in what a full batch takes longer than a single request.
            part = (_spread_ms(slot, shares[n]) - _spread_ms(slot, shares[high])) / (
                _spread_ms(slot, shares[low]) - _spread_ms(slot, shares[high]) + 1e-12
            )
            first = max(index[high], _first_index(slot, terms, shares[n]))
            guess = index[high] + int(part * (index[low] - index[high]) + 0.5)
            index[n] = _largest(slot, terms, shares[n], first, max(first, index[low]) + 1, guess, 1)[0]


@kernel
def _bracket(slot: SlotTimes, terms: _Evaluator, shares: Ints, near: Ints, low: Ints, high: Ints) -> None:
    """Write bounds on the index of each share's budget, as ``_fill``; ``near`` holds upper bounds.

    Least shares of patterns are hardly larger than the smallest share at which the rule holds. Budgets are therefore
    searched at a few shares from there up; those at other shares follow because budgets fall with the share.
    """
    last = len(shares) - 1
    low[:] = NEVER
    high[:] = NEVER
    too_small = -1
    while too_small < last and near[too_small + 1] == NEVER:
        too_small += 1
    if too_small == last:
        return
    at = _least_place(slot, terms, shares, too_small, 1)
    if at > last:
        return
    filled, fails = at, _failing_index(slot, terms, shares[at])
    for _ in range(BRACKETS):
        if at > last:
            break
        first, fails = _first_index(slot, terms, shares[at]), min(fails, near[at] + 1)
        fails = max(fails, first + 1)  # the rule holds alone
        holds, fails = _largest(slot, terms, shares[at], first, fails, fails - NEAR, NEAR, BRACKET_STEPS)
        low[filled : at + 1], high[at] = holds, fails - 1
        filled = at + 1
        wanted = shares[at] * BRACKET_GROWTH
        at += 1
        while at < last and shares[at] < wanted:
            at += 1
    for n in range(1, last + 1):
        if high[n] == NEVER:
            high[n] = min(high[n - 1], near[n])


@compiled
def _evaluator(batch: int, missed: float, dropping: bool, sample: Floats) -> _Evaluator:
    chain = chain_for(batch if dropping else 1, MOST_NODES + 1)
    backlog = backlog_for(1 if dropping else batch)
    stride = GAMMA_STRIDE if len(sample) > 0 else 1
    return _Evaluator(missed, dropping, sample, stride, chain, backlog, np.empty(batch + 1), np.empty(batch + 1))


@compiled
def _row(slot: SlotTimes, missed: float, dropping: bool, sample: Floats, shares: Ints, index: Ints) -> None:
    terms = _evaluator(slot.batch, missed, dropping, sample)
    _fill(slot, terms, shares, index)
    for n in range(len(index)):
        if index[n] > NEVER:
            index[n] *= terms.stride


@compiled
def _bracket_row(
    slot: SlotTimes, missed: float, dropping: bool, shares: Ints, near: Ints, low: Ints, high: Ints
) -> None:
    _bracket(slot, _evaluator(slot.batch, missed, dropping, np.empty(0)), shares, near, low, high)


def attainment_budgets_ms(
    tables: Tables, model: int, slo_ms: float, rate_rps: float, batch: int, terms: AttainmentTerms, units: int = 0
) -> Floats:
    """Return the budget of a slot at every share, shape (share units + 1,).

    Parameters
    ----------
    tables
        Tables of the GPU type.
    model
        Row of the model.
    slo_ms, rate_rps, batch
        Figures of the slot.
    terms
        Terms of the rule; ``cv`` is that of the requests that the slot gets.
    units
        The only share to compute; 0 for all.

    Returns
    -------
    numpy.ndarray
        Milliseconds; -inf at shares that are not permitted or not computed, and where the rule does not hold even
        alone.
    """
    budgets_ms = np.full(tables.share_units + 1, -np.inf)
    if batch > tables.max_batch[model] or (units > 0 and units not in tables.permitted):
        return budgets_ms
    shares = np.array([units]) if units > 0 else tables.permitted
    sample = np.empty(0)
    if terms.cv != 1.0:
        sample = _gamma_arrivals(terms.cv)
        slo_ms, rate_rps = _rounded(slo_ms, -1), _rounded(max(rate_rps, LEAST_LOAD / slo_ms), 1)
    slot = slot_times(tables, model, slo_ms, rate_rps, batch)
    index = np.empty(len(shares), dtype=np.int64)
    _row(slot, terms.may_miss, terms.dropping, sample, shares, index)
    budgets_ms[shares] = budgets_of(index, slot.alone_ms[batch, shares])
    return budgets_ms


def _rounded(value: float, direction: int) -> float:
    """Round a number down (-1) or up (1) to a step of ``GAMMA_STEPS``."""
    steps = np.log2(value) * GAMMA_STEPS
    return float(2.0 ** ((np.floor(steps) if direction < 0 else np.ceil(steps)) / GAMMA_STEPS))


def bracketed_budgets_ms(
    tables: Tables,
    model: int,
    slo_ms: float,
    rate_rps: float,
    batch: int,
    terms: AttainmentTerms,
    lower_rate_ms: Floats | None,
) -> tuple[Floats, Floats]:
    """Return lower and upper bounds on ``attainment_budgets_ms`` under Poisson arrivals, in a fraction of the time.

    The bounds are tight at the smallest shares at which the rule holds. ``lower_rate_ms`` has upper bounds at a lower
    rate, if they are known.
    """
    shares = tables.permitted
    index = np.empty((2, len(shares)), dtype=np.int64)
    bounds_ms = np.full((2, tables.share_units + 1), -np.inf)
    if batch <= tables.max_batch[model]:
        slot = slot_times(tables, model, slo_ms, rate_rps, batch)
        near = grid_indices(np.full(len(shares), slo_ms) if lower_rate_ms is None else lower_rate_ms[shares])
        _bracket_row(slot, terms.may_miss, terms.dropping, shares, near, index[0], index[1])
        for bound_ms, of in zip(bounds_ms, index, strict=True):
            bound_ms[shares] = budgets_of(of, slot.alone_ms[batch, shares])
    return bounds_ms[0], bounds_ms[1]


@lru_cache(maxsize=32)
def _gamma_arrivals(cv: float) -> Floats:
    """Return one fixed sample of arrival times at rate 1; other rates scale it."""
    shape = cv**-2
    random = np.random.Generator(np.random.PCG64(GAMMA_SEED))
    return np.cumsum(random.standard_gamma(shape, GAMMA_REQUESTS) / shape)
