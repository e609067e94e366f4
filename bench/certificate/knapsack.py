"""Knapsack bound of a box, in whole numbers.

A box is the set of patterns with N residents whose total demand C and power P lie between floors and ceilings. At the
floors every alternative (a candidate at a batch and share) has a least share, demand and power. The least shares of a
pattern in the box sum to at most one GPU, its demands to at most the ceiling of C, and its powers to at most the
ceiling of P. So for any multipliers ``l, m >= 0`` its worth is at most
``max sum (worth - l demand - m power) + l ceiling of C + m ceiling of P`` over N seats whose shares fit on the GPU.
This maximum is a knapsack problem, solved exactly by dynamic programming.
"""

from typing import NamedTuple

import numpy as np

from bench.certificate.boxes import BoxLimits
from bench.certificate.certificate import LARGEST_WHOLE
from bench.certificate.failures import GivenUpError
from instances.arrays import Flags, Ints
from instances.compiled import compiled

NOTHING = -(2**60)
"""Worth of an impossible choice."""

UNBOUNDED = 2**60
"""Bound of a box before the first step."""

MOST_CHARGE = 2.0**54
"""Largest product of a multiplier and its ceiling, so that sums fit 64 bits."""

MOST_CHARGES = 2.0**60
"""Largest product of a multiplier, its ceiling and the number of residents, so that sums over residents fit 64 bits."""

MOST_WORTH = 2**58
"""Largest worth of a pattern, so that every sum of worths and charges differs from ``NOTHING`` and ``UNBOUNDED``."""


def check_worth(largest: float, residents: int) -> None:
    """Check that the worths of patterns fit 64 bits, where no resident is worth more than ``largest``.

    Raises
    ------
    GivenUpError
        If they do not.
    """
    if not (largest <= LARGEST_WHOLE and largest * residents <= MOST_WORTH):
        raise GivenUpError("worths of slots are too large to be added in 64 bits")


class Alternatives(NamedTuple):
    """Alternatives at a box's floors, by ascending seat; each array has shape (alternatives,).

    A class of identical workloads has a seat for each workload, at most one for each resident.

    Attributes
    ----------
    seat, earlier
        Seat of the alternative, and the previous seat of the same class, or -1.
    candidate, option
        Candidate of the alternative, and its option, or -1 if the alternative stands for all options.
    units, worth, demand, power
        Share in units, worth, and demand and power in steps.
    """

    seat: Ints
    earlier: Ints
    candidate: Ints
    option: Ints
    units: Ints
    worth: Ints
    demand: Ints
    power: Ints


@compiled
def by_units(alternatives: Alternatives, limits: BoxLimits, capacity: int) -> Ints:
    """Return the alternatives that fit below the ceilings, by increasing share."""
    count = np.zeros(capacity + 2, dtype=np.int64)
    for row, share in enumerate(alternatives.units):
        if (
            share <= capacity
            and alternatives.demand[row] <= limits.demand_ceiling
            and alternatives.power[row] <= limits.power_ceiling
        ):
            count[share + 1] += 1
    next_position = np.cumsum(count)
    order = np.empty(next_position[-1], dtype=np.int64)
    for row, share in enumerate(alternatives.units):
        if (
            share <= capacity
            and alternatives.demand[row] <= limits.demand_ceiling
            and alternatives.power[row] <= limits.power_ceiling
        ):
            order[next_position[share]] = row
            next_position[share] += 1
    return order


@compiled
def undominated(order: Ints, seat: Ints, worth: Ints, residents: int, keep: Flags) -> None:
    """Mark alternatives that suffice for a best choice of at most ``residents`` seats.

    Alternatives are in the order of increasing share. An alternative is left out if an earlier alternative of the same
    seat, or ``residents`` earlier alternatives of different seats, are worth at least as much. A choice can then
    replace it by one of them.
    """
    # Largest worths so far, of at most ``residents`` different seats, in descending order.
    best_worth, best_seat, size = np.empty(residents, dtype=np.int64), np.empty(residents, dtype=np.int64), 0
    keep[:] = False
    for row in order:
        place = 0
        while place < size and best_seat[place] != seat[row]:
            place += 1
        if place < size:
            if best_worth[place] >= worth[row]:
                continue
        elif size == residents:
            place = size - 1
            if best_worth[place] >= worth[row]:
                continue
        else:
            size += 1
        while place > 0 and best_worth[place - 1] < worth[row]:
            best_worth[place], best_seat[place] = best_worth[place - 1], best_seat[place - 1]
            place -= 1
        best_worth[place], best_seat[place] = worth[row], seat[row]
        keep[row] = True


@compiled
def fill_table(rows: Ints, seat: Ints, units: Ints, worth: Ints, residents: int, table: Ints, first: Ints) -> int:
    """Fill ``table[g, n, s]``: the largest worth of exactly n of the seats g, g + 1, ... within s units.

    Alternatives ``rows[first[g]]`` to ``rows[first[g + 1] - 1]`` belong to seat number g. Return the number of seats.
    """
    seat_count = 0
    for j in range(len(rows)):
        if j == 0 or seat[rows[j]] != seat[rows[j - 1]]:
            first[seat_count] = j
            seat_count += 1
    first[seat_count] = len(rows)
    capacity = table.shape[2] - 1
    table[seat_count, 0, :] = 0
    table[seat_count, 1 : residents + 1, :] = NOTHING
    for seat_number in range(seat_count - 1, -1, -1):
        table[seat_number, : residents + 1] = table[seat_number + 1, : residents + 1]
        for j in range(first[seat_number], first[seat_number + 1]):
            share, worth_of_row = units[rows[j]], worth[rows[j]]
            for chosen_count in range(1, residents + 1):
                table_row = table[seat_number, chosen_count, share:]
                later_seats = table[seat_number + 1, chosen_count - 1]
                for free_units in range(capacity + 1 - share):
                    new_worth, old_worth = worth_of_row + later_seats[free_units], table_row[free_units]
                    table_row[free_units] = new_worth if new_worth > old_worth else old_worth
    return seat_count


@compiled
def demands_of_best(
    rows: Ints, alternatives: Alternatives, worth: Ints, residents: int, table: Ints, first: Ints
) -> tuple[int, int]:
    """Return the total demand and power of a choice that attains the table's best worth."""
    seat_number, free_seats, free_units, demand, power = 0, residents, table.shape[2] - 1, 0, 0
    while free_seats > 0:
        if table[seat_number, free_seats, free_units] != table[seat_number + 1, free_seats, free_units]:
            for j in range(first[seat_number], first[seat_number + 1]):
                row = rows[j]
                share = alternatives.units[row]
                if (
                    share <= free_units
                    and table[seat_number, free_seats, free_units]
                    == worth[row] + table[seat_number + 1, free_seats - 1, free_units - share]
                ):
                    demand, power = demand + alternatives.demand[row], power + alternatives.power[row]
                    free_seats, free_units = free_seats - 1, free_units - share
                    break
        seat_number += 1
    return demand, power


@compiled
def polyak_step(
    multipliers: Ints,
    excess: tuple[float, float],
    scale: tuple[float, float],
    largest_multipliers: tuple[float, float],
    gap: int,
) -> bool:
    """Move the multipliers by one Polyak step; return ``False`` if the excess is 0, so that no step improves them.

    Parameters
    ----------
    excess
        Demand and power of a best choice beyond the ceilings, in units of ``scale``.
    largest_multipliers
        Multipliers up to which products fit 64 bits; every multiplier gives a valid bound.
    gap
        Difference between the bound and the threshold.
    """
    demand_excess, power_excess = excess
    if multipliers[0] == 0:
        demand_excess = max(demand_excess, 0.0)
    if multipliers[1] == 0:
        power_excess = max(power_excess, 0.0)
    squared_norm = demand_excess * demand_excess + power_excess * power_excess
    if squared_norm < 1e-6:
        return False
    step_length = gap / squared_norm
    multipliers[0] = int(min(largest_multipliers[0], max(0.0, multipliers[0] + step_length * demand_excess / scale[0])))
    multipliers[1] = int(min(largest_multipliers[1], max(0.0, multipliers[1] + step_length * power_excess / scale[1])))
    return True


@compiled
def bound_box(
    alternatives: Alternatives,
    limits: BoxLimits,
    threshold: int,
    multipliers: Ints,
    rounds: int,
    charged_worth: Ints,
    table: Ints,
    first: Ints,
) -> int:
    """Return an upper bound on the worth of the patterns in a box, or ``NOTHING`` if the box has no pattern.

    The search for better multipliers stops once the bound is at most ``threshold``.

    Parameters
    ----------
    alternatives, limits
        Alternatives at the box's floors, and the limits of its demands.
    multipliers
        Multipliers to start from, at least 0, shape (2,); overwritten with those of the bound.
    rounds
        Largest number of steps.
    charged_worth, table, first
        Output: charged worth of the alternatives, and buffers of ``fill_table``.
    """
    residents, capacity = limits.residents, table.shape[2] - 1
    order, keep = by_units(alternatives, limits, capacity), np.empty(len(alternatives.units), dtype=np.bool_)
    if len(order) < residents:
        return NOTHING
    demand_scale = float(max(1, alternatives.demand[order].max()))
    power_scale = float(max(1, alternatives.power[order].max()))
    best, best_demand_multiplier, best_power_multiplier = UNBOUNDED, multipliers[0], multipliers[1]
    for step in range(rounds + 1):
        charged_worth[:] = (
            alternatives.worth - multipliers[0] * alternatives.demand - multipliers[1] * alternatives.power
        )
        undominated(order, alternatives.seat, charged_worth, residents, keep)
        rows = np.flatnonzero(keep)
        fill_table(rows, alternatives.seat, alternatives.units, charged_worth, residents, table, first)
        largest_charged_worth = table[0, residents, capacity]
        if largest_charged_worth < NOTHING // 2:
            return NOTHING
        bound = largest_charged_worth + multipliers[0] * limits.demand_ceiling + multipliers[1] * limits.power_ceiling
        if bound < best:
            best, best_demand_multiplier, best_power_multiplier = bound, multipliers[0], multipliers[1]
        if best <= threshold or step == rounds:
            break
        demand, power = demands_of_best(rows, alternatives, charged_worth, residents, table, first)
        excess = (demand - limits.demand_ceiling) / demand_scale, (power - limits.power_ceiling) / power_scale
        largest_charge = min(MOST_CHARGE, MOST_CHARGES / residents)
        largest_multipliers = (
            largest_charge / max(1, limits.demand_ceiling),
            largest_charge / max(1, limits.power_ceiling),
        )
        if not polyak_step(multipliers, excess, (demand_scale, power_scale), largest_multipliers, bound - threshold):
            break
    multipliers[0], multipliers[1] = best_demand_multiplier, best_power_multiplier
    return best
