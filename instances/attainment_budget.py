"""Latency budgets of the SLO rule ``attainment``: the largest GPU time of a full batch at which a slot meets the rule.

The budget is the largest number of a fixed grid (``instances.attainment_grid``) at which the slot meets the rule. If
the slot meets the rule alone on the GPU, the budget is at least the time of its full batch alone. The budget depends
on the share, because the times of partial batches do (``instances.slot_times``).

Budgets are monotone; the search uses this, and the tests check it. The missed fraction rises with the GPU time and the
rate, and falls with the SLO. So budgets rise with the SLO and fall with the rate and the attainment. Budgets also fall
with the share: a larger share shortens full batches more than partial ones. At equal time of the full batch, partial
batches therefore take longer at a larger share, and the missed fraction is larger.

The missed fraction under Poisson arrivals is that of a Markov chain: ``instances.attainment`` if servers drop requests,
otherwise ``instances.backlog``. Gamma arrivals are sampled once for all slots: the missed fraction of the sample plus
three standard errors must meet the target. A sample's fraction is not exactly monotone. Therefore SLOs are rounded down
and rates up to steps (``instances.gamma_sample``), and budgets down to ``GAMMA_STRIDE`` steps of the grid.
"""

from typing import NamedTuple

import numpy as np

from instances.arrays import Floats, Ints
from instances.attainment import MOST_NODES, largest_likely_batch, missed_fraction, node_distance_ms
from instances.attainment_chain import Chain, chain_for
from instances.attainment_grid import NEVER, budgets_of, grid_index, grid_indices, grid_ms
from instances.attainment_terms import AttainmentTerms
from instances.backlog import late_fraction
from instances.backlog_levels import Backlog, backlog_for
from instances.compiled import compiled, kernel
from instances.gamma_sample import slot_and_sample
from instances.queueing import missed_fraction_of_sample
from instances.slot_times import BatchTimes, SlotTimes, batch_times
from instances.tables import Tables

BRACKETS, BRACKET_GROWTH = 10, 1.12
"""Number of shares at which ``bracketed_budgets_ms`` searches bounds, and least ratio of a share to the one before."""

BRACKET_STEPS = 6
"""Largest distance between the two bounds of a budget at these shares, in steps of the grid."""

GAMMA_STRIDE = 8
"""Steps of the grid between budgets under gamma arrivals, whose missed fraction is not exactly monotone."""

NEAR = 20
"""Steps of the grid from the upper bound to the first guess in ``_bracket``, and first step of its search."""

FAR = 100
"""Steps of the grid from the upper bound to the first guess in ``_fill``, and first step of its search. The upper bound
of ``_fill`` is ``_breaking_index``, which may be far above the budget."""


class _Evaluator(NamedTuple):
    """Terms of the rule and working memory for the budgets of one slot; an empty sample stands for Poisson arrivals.

    Consecutive indices of budgets are ``stride`` steps of the grid apart.
    """

    may_miss: float
    dropping: bool
    sample: Floats
    stride: int
    chain: Chain
    backlog: Backlog
    result_ms: Floats
    busy_ms: Floats


@kernel
def _missed_at(slot: SlotTimes, evaluator: _Evaluator, units: int, time_ms: float) -> float:
    """Return the missed fraction of a slot whose full batch takes ``time_ms`` on the GPU."""
    delay_ms = time_ms - slot.alone_ms[slot.batch, units]
    for k in range(1, slot.batch + 1):
        evaluator.result_ms[k] = slot.alone_ms[k, units] + delay_ms + slot.transfer_ms[k]
        evaluator.busy_ms[k] = slot.alone_ms[k, units] + delay_ms + slot.exposed_ms[k]
    latest_ms = slot.slo_ms - evaluator.result_ms[slot.batch]
    if latest_ms < 0.0:
        return 1.0
    rate_per_ms = slot.rate_per_ms
    capacity = slot.batch / evaluator.busy_ms[slot.batch]
    if capacity < rate_per_ms * (1.0 - evaluator.may_miss):  # an overloaded server
        return 1.0 - capacity / rate_per_ms if evaluator.dropping else 1.0
    if len(evaluator.sample) > 0:
        if capacity <= rate_per_ms and not evaluator.dropping:
            return 1.0
        for k in range(1, slot.batch + 1):
            evaluator.result_ms[k] *= rate_per_ms  # in mean gaps between arrivals
            evaluator.busy_ms[k] *= rate_per_ms
        slo_gaps = slot.slo_ms * rate_per_ms
        return missed_fraction_of_sample(
            evaluator.sample,
            slo_gaps,
            slot.batch,
            evaluator.result_ms,
            evaluator.busy_ms,
            evaluator.dropping,
            evaluator.may_miss,
        )
    largest_batch = largest_likely_batch(rate_per_ms, slot.batch, evaluator.busy_ms)
    if not evaluator.dropping:
        return late_fraction(
            evaluator.backlog, rate_per_ms, slot.slo_ms, largest_batch, evaluator.result_ms, evaluator.busy_ms
        )
    # If the batch is limited to its largest likely size, full batches do not occur: one interval is enough.
    step_ms = slot.slo_ms - evaluator.result_ms[largest_batch]
    if largest_batch == slot.batch:
        step_ms = node_distance_ms(rate_per_ms, latest_ms, largest_batch, evaluator.busy_ms[largest_batch])
    fraction = missed_fraction(
        evaluator.chain, rate_per_ms, slot.slo_ms, largest_batch, evaluator.result_ms, evaluator.busy_ms, step_ms
    )
    return max(1.0 - capacity / rate_per_ms, fraction)


@kernel
def _missed_at_index(slot: SlotTimes, evaluator: _Evaluator, units: int, index: int) -> float:
    """Return the missed fraction at the GPU time of an index: the number of the grid, or the longer time alone."""
    return _missed_at(slot, evaluator, units, max(grid_ms(index * evaluator.stride), slot.alone_ms[slot.batch, units]))


@kernel
def _narrowed(
    slot: SlotTimes, evaluator: _Evaluator, units: int, met: int, broken: int, guess: int, step: int, tolerance: int
) -> tuple[int, int]:
    """Return an index at which the slot meets the rule and an index at which it breaks it.

    They are at most ``tolerance`` apart. The search starts from two such indices, ``met`` and ``broken``. It goes in
    growing steps from ``guess`` until it has tried an index of each kind. Then it interpolates linearly, because the
    logarithm of the missed fraction is nearly linear in the index.
    """
    log_target = np.log(evaluator.may_miss)
    log_met = log_broken = np.nan
    index = guess
    while broken - met > tolerance:
        index = min(max(index, met + 1), broken - 1)
        log_missed = np.log(max(_missed_at_index(slot, evaluator, units, index), 1e-15))
        if log_missed <= log_target:
            met, log_met = index, log_missed
        else:
            broken, log_broken = index, log_missed
        if np.isnan(log_broken):
            index += step
        elif np.isnan(log_met):
            index -= step
        else:
            index = met + int((broken - met) * (log_target - log_met) / (log_broken - log_met) + 0.5)
        step *= 2
    return met, broken


@kernel
def _alone_index(slot: SlotTimes, evaluator: _Evaluator, units: int) -> int:
    """Return the largest index at or below the time of the full batch alone."""
    return grid_index(slot.alone_ms[slot.batch, units]) // evaluator.stride


@kernel
def _breaking_index(slot: SlotTimes, evaluator: _Evaluator, units: int) -> int:
    """Return an index at which the slot breaks the rule: its batch exceeds the SLO, or its server is overloaded."""
    slo_limit_ms = slot.slo_ms - slot.transfer_ms[slot.batch]
    may_drop = evaluator.may_miss if evaluator.dropping else 0.0
    load_limit_ms = slot.batch / (slot.rate_per_ms * (1.0 - may_drop)) - slot.exposed_ms[slot.batch]
    limit_ms = min(slo_limit_ms, load_limit_ms)
    limit_index = grid_index(limit_ms) // evaluator.stride if limit_ms > 0.0 else NEVER
    return max(limit_index, _alone_index(slot, evaluator, units)) + 1


@kernel
def _meets_rule_alone(slot: SlotTimes, evaluator: _Evaluator, units: int) -> bool:
    """Return whether the slot meets the rule if no other workload is on the GPU."""
    alone_ms = slot.alone_ms[slot.batch, units]
    return alone_ms < np.inf and _missed_at(slot, evaluator, units, alone_ms) <= evaluator.may_miss


@kernel
def _spread_ms(slot: SlotTimes, units: int) -> float:
    """Return the difference between the times of a full batch and of a single request, alone."""
    return slot.alone_ms[slot.batch, units] - slot.alone_ms[1, units]


@kernel
def _first_meeting(slot: SlotTimes, evaluator: _Evaluator, shares: Ints, too_small: int, stride: int) -> int:
    """Return the position in ``shares`` of the smallest share at which the slot alone meets the rule.

    Return the number of shares if there is none. The slot breaks the rule up to the position ``too_small``. The search
    starts with steps of ``stride`` positions, which grow.
    """
    last = len(shares) - 1
    while too_small + stride < last and not _meets_rule_alone(slot, evaluator, shares[too_small + stride]):
        too_small += stride
        stride *= 2
    meeting = min(too_small + stride, last)
    if meeting == last and not _meets_rule_alone(slot, evaluator, shares[last]):
        return last + 1
    while meeting - too_small > 1:
        middle = (meeting + too_small) // 2
        if _meets_rule_alone(slot, evaluator, shares[middle]):
            meeting = middle
        else:
            too_small = middle
    return meeting


@kernel
def _fill(slot: SlotTimes, evaluator: _Evaluator, shares: Ints, indices: Ints) -> None:
    """Write the index of the budget at each of the ascending shares; ``NEVER`` where the slot alone breaks the rule."""
    last = len(shares) - 1
    indices[:] = NEVER
    smallest = _first_meeting(slot, evaluator, shares, -1, last + 1)
    if smallest > last:
        return
    met, broken = _alone_index(slot, evaluator, shares[last]), _breaking_index(slot, evaluator, shares[last])
    indices[last] = _narrowed(slot, evaluator, shares[last], met, broken, broken - FAR, FAR, 1)[0]
    if smallest == last:
        return
    met = max(indices[last], _alone_index(slot, evaluator, shares[smallest]))
    broken = _breaking_index(slot, evaluator, shares[smallest])
    indices[smallest] = _narrowed(slot, evaluator, shares[smallest], met, broken, met + 1, 1, 1)[0]
    # Budgets fall with the share: halve the distance between shares with known budgets.
    stride = 1
    while stride < last - smallest:
        stride *= 2
    while stride > 1:
        stride //= 2
        for position in range(last - stride, smallest, -2 * stride):
            below, above = max(smallest, position - stride), position + stride
            # The budget is nearly linear in the spread.
            fraction = (_spread_ms(slot, shares[position]) - _spread_ms(slot, shares[above])) / (
                _spread_ms(slot, shares[below]) - _spread_ms(slot, shares[above]) + 1e-12
            )
            met = max(indices[above], _alone_index(slot, evaluator, shares[position]))
            broken = max(met, indices[below]) + 1
            guess = indices[above] + int(fraction * (indices[below] - indices[above]) + 0.5)
            indices[position] = _narrowed(slot, evaluator, shares[position], met, broken, guess, 1, 1)[0]


@kernel
def _bracket(slot: SlotTimes, evaluator: _Evaluator, shares: Ints, known_upper: Ints, lower: Ints, upper: Ints) -> None:
    """Write lower and upper bounds on the index of each budget; see ``_fill``.

    ``known_upper`` has upper bounds that the caller already knows. Beside several neighbours, plans use shares up to
    two or three times the smallest one at which the slot meets the rule. Budgets are therefore searched at this
    smallest share and some larger ones. The bounds at other shares follow, because budgets fall with the share.
    """
    last = len(shares) - 1
    lower[:] = NEVER
    upper[:] = NEVER
    too_small = -1
    while too_small < last and known_upper[too_small + 1] == NEVER:
        too_small += 1
    if too_small == last:
        return
    position = _first_meeting(slot, evaluator, shares, too_small, 1)
    if position > last:
        return
    next_unfilled, broken = position, _breaking_index(slot, evaluator, shares[position])
    for _ in range(BRACKETS):
        if position > last:
            break
        alone, broken = _alone_index(slot, evaluator, shares[position]), min(broken, known_upper[position] + 1)
        broken = max(broken, alone + 1)  # alone, the slot meets the rule
        met, broken = _narrowed(slot, evaluator, shares[position], alone, broken, broken - NEAR, NEAR, BRACKET_STEPS)
        lower[next_unfilled : position + 1], upper[position] = met, broken - 1
        next_unfilled = position + 1
        next_share = shares[position] * BRACKET_GROWTH
        position += 1
        while position < last and shares[position] < next_share:
            position += 1
    for i in range(1, last + 1):
        if upper[i] == NEVER:
            upper[i] = min(upper[i - 1], known_upper[i])


@compiled
def _evaluator(batch: int, may_miss: float, dropping: bool, sample: Floats) -> _Evaluator:
    """Return the terms of the rule with new working memory for batches up to ``batch``."""
    chain = chain_for(batch if dropping else 1, MOST_NODES + 1)
    backlog = backlog_for(1 if dropping else batch)
    stride = GAMMA_STRIDE if len(sample) > 0 else 1
    return _Evaluator(may_miss, dropping, sample, stride, chain, backlog, np.empty(batch + 1), np.empty(batch + 1))


@compiled
def _fill_budgets(
    slot: SlotTimes, may_miss: float, dropping: bool, sample: Floats, shares: Ints, indices: Ints
) -> None:
    """Write the index in the grid of the budget at each share; see ``_fill``."""
    evaluator = _evaluator(slot.batch, may_miss, dropping, sample)
    _fill(slot, evaluator, shares, indices)
    for i in range(len(indices)):
        if indices[i] > NEVER:
            indices[i] *= evaluator.stride


@compiled
def _meeting_position(
    slot: SlotTimes, may_miss: float, dropping: bool, sample: Floats, shares: Ints, too_small: int, stride: int
) -> int:
    """Return the position of the smallest share at which the slot alone meets the rule; see ``_first_meeting``."""
    evaluator = _evaluator(slot.batch, may_miss, dropping, sample)
    return int(_first_meeting(slot, evaluator, shares, too_small, stride))


@compiled
def _bracket_budgets(
    slot: SlotTimes, may_miss: float, dropping: bool, shares: Ints, known_upper: Ints, lower: Ints, upper: Ints
) -> None:
    """Write bounds on the index of each budget under Poisson arrivals; see ``_bracket``."""
    _bracket(slot, _evaluator(slot.batch, may_miss, dropping, np.empty(0)), shares, known_upper, lower, upper)


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
        SLO, rate and batch of the slot.
    terms
        Terms of the rule; ``cv`` is that of the requests which reach the slot.
    units
        The only share to compute; 0 for all.

    Returns
    -------
    numpy.ndarray
        Milliseconds; -inf at shares that are not permitted or not computed, and where the slot alone breaks the rule.
    """
    budgets_ms = np.full(tables.share_units + 1, -np.inf)
    if batch > tables.max_batch[model] or (units > 0 and units not in tables.permitted):
        return budgets_ms
    shares = np.array([units]) if units > 0 else tables.permitted
    slot, sample = slot_and_sample(batch_times(tables, model, batch), slo_ms, rate_rps, terms.cv)
    indices = np.empty(len(shares), dtype=np.int64)
    _fill_budgets(slot, terms.may_miss, terms.dropping, sample, shares, indices)
    budgets_ms[shares] = budgets_of(indices, slot.alone_ms[batch, shares])
    return budgets_ms


def least_meeting_share(
    shares: Ints,
    times: BatchTimes,
    slo_ms: float,
    rate_rps: float,
    terms: AttainmentTerms,
    known_range: tuple[int, int] | None = None,
) -> int:
    """Return the position in ``shares`` of the least one at which a slot alone on a GPU meets the rule.

    If none is enough, it is the number of shares. This takes far less time than computing the budgets.

    Parameters
    ----------
    shares
        Ascending shares that are permitted.
    times
        Times of the slot's batches.
    slo_ms, rate_rps, terms
        See ``attainment_budgets_ms``.
    known_range
        Two positions: the slot breaks the rule below the first one, and beyond the second one shares do not matter. If
        the slot breaks the rule up to the second one, the result is the position after it.
    """
    low, high = known_range or (0, len(shares) - 1)
    if low > high:
        return low
    slot, sample = slot_and_sample(times, slo_ms, rate_rps, terms.cv)
    return _meeting_position(slot, terms.may_miss, terms.dropping, sample, shares[: high + 1], low - 1, high - low + 1)


def bracketed_budgets_ms(
    tables: Tables,
    model: int,
    slo_ms: float,
    rate_rps: float,
    batch: int,
    terms: AttainmentTerms,
    budgets_at_lower_rate_ms: Floats | None,
) -> tuple[Floats, Floats]:
    """Return lower and upper bounds on ``attainment_budgets_ms`` under Poisson arrivals; they take far less time.

    The bounds are tight at the smallest shares at which the slot meets the rule. ``budgets_at_lower_rate_ms`` has upper
    bounds on the budgets at a lower rate, which are also upper bounds at this rate; it may be ``None``.
    """
    shares = tables.permitted
    indices = np.empty((2, len(shares)), dtype=np.int64)
    bounds_ms = np.full((2, tables.share_units + 1), -np.inf)
    if batch <= tables.max_batch[model]:
        slot = batch_times(tables, model, batch).under_load(slo_ms, rate_rps)
        known_upper = grid_indices(
            np.full(len(shares), slo_ms) if budgets_at_lower_rate_ms is None else budgets_at_lower_rate_ms[shares]
        )
        _bracket_budgets(slot, terms.may_miss, terms.dropping, shares, known_upper, indices[0], indices[1])
        for bound_ms, bound_indices in zip(bounds_ms, indices, strict=True):
            bound_ms[shares] = budgets_of(bound_indices, slot.alone_ms[batch, shares])
    return bounds_ms[0], bounds_ms[1]
