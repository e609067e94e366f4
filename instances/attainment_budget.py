"""Latency budgets of the SLO rule ``attainment``: the largest GPU time of a full batch at which the rule holds.

The budget of a slot depends on its share, because its partial batches do. By definition a batch of k beside neighbours
takes ``t(k) = t_alone(k) + t_gpu(b) - t_alone(b)``: the delay of the full batch is that of every batch.

The budget is the largest multiple of ``SLO / STEPS`` at which the rule holds. The missed fraction rises with the GPU
time and the rate, so the rule also holds at every smaller GPU time and rate. At equal time of the full batch it also
rises with the share: a larger share shortens full batches more than partial ones, so its partial batches are longer.
Budgets therefore fall with the share. The search uses all this. The tests check time and rate, with a tolerance of 1e-9
where at most 2 % is missed, and compare budgets with those of a scan over all multiples.

The missed fraction under Poisson arrivals is that of a Markov chain (``instances.attainment``). Gamma arrivals are
sampled, one sample for all slots: its missed fraction plus three standard errors must meet the target. Their budgets
are computed at ``GAMMA_SHARES`` shares only; a share in between has the smaller budget of the next larger one.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from instances.arrays import Floats, Ints
from instances.attainment import MOST_NODES, missed_fraction, most_waiting, nodes_for
from instances.attainment_chain import Chain, chain_for
from instances.attainment_terms import AttainmentTerms
from instances.compiled import compiled, kernel
from instances.queueing import dropped_fraction
from instances.tables import Tables

STEPS = 1000
"""Budgets are multiples of the SLO over this number."""

BRACKETS, BRACKET_GROWTH = 3, 1.12
"""Number of shares at which ``bracketed_budgets_ms`` bounds budgets, from the smallest up, and their least ratio."""

BRACKET_STEPS = 3
"""Largest distance of the two bounds at such a share, in steps."""

GAMMA_SHARES = 4
"""Number of shares at which budgets under gamma arrivals are computed: the whole GPU and halves of it."""

GAMMA_REQUESTS = 400_000
"""Requests of the sample of gamma arrivals."""

GAMMA_SEED = 20_220_711

NEAR = 8
"""Distance, in steps, of the first guess from the known upper bound of a budget; also the first step from there."""


class SlotTimes(NamedTuple):
    """A slot and its times, for the search of its budgets.

    Attributes
    ----------
    rate_per_ms, slo_ms, batch
        Rate, SLO and batch.
    alone_ms
        Time of a batch of k alone at a share, nondecreasing in k, shape (batch + 1, share units + 1).
    transfer_ms, exposed_ms
        See ``Tables``, shape (batch + 1,).
    """

    rate_per_ms: float
    slo_ms: float
    batch: int
    alone_ms: Floats
    transfer_ms: Floats
    exposed_ms: Floats


class _Evaluator(NamedTuple):
    """Terms and working memory of one budget row."""

    missed: float
    immediate: bool
    sample: Floats
    chain: Chain
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
    most = 0.0
    for k in range(1, slot.batch + 1):
        most = max(most, k / terms.busy_ms[k])
    if most < slot.rate_per_ms * (1.0 - terms.missed):
        return 1.0 - most / slot.rate_per_ms  # an overloaded server: at least this much is dropped
    timeout_ms = 0.0 if terms.immediate else min(slot.slo_ms / 2.0, latest_ms)
    if len(terms.sample) > 0:
        return dropped_fraction(
            terms.sample,
            1.0 / slot.rate_per_ms,
            slot.slo_ms,
            slot.batch,
            terms.result_ms,
            terms.busy_ms,
            timeout_ms,
            terms.missed,
        )
    batch = most_waiting(slot.rate_per_ms, slot.batch, terms.busy_ms, timeout_ms)
    nodes = nodes_for(slot.rate_per_ms, latest_ms, batch) if batch == slot.batch else 1
    fraction = missed_fraction(
        terms.chain, slot.rate_per_ms, slot.slo_ms, batch, terms.result_ms, terms.busy_ms, timeout_ms, nodes
    )
    return max(1.0 - most / slot.rate_per_ms, fraction)


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
        value = np.log(max(_missed_at(slot, terms, units, at * slot.slo_ms / STEPS), 1e-15))
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
def _first_index(slot: SlotTimes, units: int) -> int:
    """Return the least index at which the time of the full batch is at least its time alone."""
    return int(np.ceil(slot.alone_ms[slot.batch, units] * STEPS / slot.slo_ms))


@kernel
def _holds_alone(slot: SlotTimes, terms: _Evaluator, units: int) -> bool:
    return _missed_at(slot, terms, units, _first_index(slot, units) * slot.slo_ms / STEPS) <= terms.missed


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
    """Write the index of each share's budget, -1 where the rule does not hold even alone; shares are ascending."""
    last = len(shares) - 1
    index[:] = -1
    least = _least_place(slot, terms, shares, -1, last + 1)
    if least > last:
        return
    first = _first_index(slot, shares[last])
    index[last] = _largest(slot, terms, shares[last], first, STEPS + 1, (first + STEPS) // 2, STEPS // 8)[0]
    if least == last:
        return
    first = max(index[last], _first_index(slot, shares[least]))
    index[least] = _largest(slot, terms, shares[least], first, STEPS + 1, first + 1, 1)[0]
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
            guess = index[high] + int(part * (index[low] - index[high]) + 0.5)
            index[n] = _largest(slot, terms, shares[n], index[high], index[low] + 1, guess, 1)[0]


@kernel
def _bracket(slot: SlotTimes, terms: _Evaluator, shares: Ints, near: Ints, low: Ints, high: Ints) -> None:
    """Write bounds on the index of each share's budget, as ``_fill``; ``near`` holds upper bounds.

    Least shares of patterns are hardly larger than the smallest share at which the rule holds. Budgets are therefore
    searched at a few shares from there up; those at other shares follow because budgets fall with the share.
    """
    last = len(shares) - 1
    low[:] = -1
    high[:] = -1
    too_small = -1
    while too_small < last and near[too_small + 1] < 0:
        too_small += 1
    if too_small == last:
        return
    at = _least_place(slot, terms, shares, too_small, 1)
    filled, fails = at, STEPS + 1
    for _ in range(BRACKETS):
        if at > last:
            break
        first, fails = _first_index(slot, shares[at]), min(fails, near[at] + 1)
        fails = max(fails, first + 1)  # the rule holds alone
        holds, fails = _largest(slot, terms, shares[at], first, fails, fails - NEAR, NEAR, BRACKET_STEPS)
        low[filled : at + 1], high[at] = holds, fails - 1
        filled = at + 1
        wanted = shares[at] * BRACKET_GROWTH
        at += 1
        while at < last and shares[at] < wanted:
            at += 1
    for n in range(1, last + 1):
        if high[n] < 0:
            high[n] = min(high[n - 1], near[n])


@compiled
def _evaluator(batch: int, missed: float, immediate: bool, sample: Floats) -> _Evaluator:
    chain = chain_for(batch, MOST_NODES)
    return _Evaluator(missed, immediate, sample, chain, np.empty(batch + 1), np.empty(batch + 1))


@compiled
def _row(slot: SlotTimes, missed: float, immediate: bool, sample: Floats, shares: Ints, index: Ints) -> None:
    _fill(slot, _evaluator(slot.batch, missed, immediate, sample), shares, index)


@compiled
def _bracket_row(
    slot: SlotTimes, missed: float, immediate: bool, shares: Ints, near: Ints, low: Ints, high: Ints
) -> None:
    _bracket(slot, _evaluator(slot.batch, missed, immediate, np.empty(0)), shares, near, low, high)


def slot_times(tables: Tables, model: int, slo_ms: float, rate_rps: float, batch: int) -> SlotTimes:
    """Return the times of a slot by the performance model."""
    alone_ms = np.zeros((batch + 1, tables.share_units + 1))
    alone_ms[1:] = tables.scheduling_ms[model] + tables.active_ms[model, 1 : batch + 1]
    # missed_fraction needs times that do not fall with the batch.
    np.maximum.accumulate(alone_ms, axis=0, out=alone_ms)
    transfer_ms, exposed_ms = np.zeros(batch + 1), np.zeros(batch + 1)
    transfer_ms[1:] = np.maximum.accumulate(tables.transfer_ms[model, 1 : batch + 1])
    exposed_ms[1:] = np.maximum.accumulate(tables.exposed_ms[model, 1 : batch + 1])
    return SlotTimes(rate_rps / 1000.0, slo_ms, batch, alone_ms, transfer_ms, exposed_ms)


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
    shares, sample = tables.permitted, np.empty(0)
    if terms.cv != 1.0:
        sample = _gamma_gaps(terms.cv)
        halves = tables.share_units / 2.0 ** np.arange(GAMMA_SHARES)
        shares = np.unique(shares[np.maximum(np.searchsorted(shares, halves, side="right") - 1, 0)])
    asked = np.array([units]) if units > 0 else tables.permitted
    at = np.searchsorted(shares, asked)  # a share between two computed ones has the budget of the larger one
    needed, at = np.unique(at, return_inverse=True)
    slot = slot_times(tables, model, slo_ms, rate_rps, batch)
    index = np.empty(len(needed), dtype=np.int64)
    _row(slot, 1.0 - terms.attainment, terms.immediate, sample, shares[needed], index)
    budgets_ms[asked] = np.where(index < 0, -np.inf, index * slo_ms / STEPS)[at]
    return budgets_ms


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
        slot, near = slot_times(tables, model, slo_ms, rate_rps, batch), np.full(len(shares), STEPS)
        if lower_rate_ms is not None:
            near = np.rint(np.maximum(lower_rate_ms[shares] * (STEPS / slo_ms), -1.0)).astype(np.int64)
        _bracket_row(slot, 1.0 - terms.attainment, terms.immediate, shares, near, index[0], index[1])
        bounds_ms[:, shares] = np.where(index < 0, -np.inf, index * slo_ms / STEPS)
    return bounds_ms[0], bounds_ms[1]


@lru_cache(maxsize=32)
def _gamma_gaps(cv: float) -> Floats:
    """Return one fixed sample of arrival times at rate 1; other rates scale it."""
    shape = cv**-2
    random = np.random.Generator(np.random.PCG64(GAMMA_SEED))
    return np.cumsum(random.standard_gamma(shape, GAMMA_REQUESTS) / shape)
