"""Multipliers that charge for the ceilings of a box: the loop of every relaxation, step by step."""

from instances.arrays import Floats
from instances.compiled import compiled

L2_SCALE, POWER_SCALE = 10.0, 50.0
"""Percent and watts that have equal weight in a multiplier step."""


@compiled
def climb(
    multipliers: Floats,
    best: Floats,
    top: float,
    l2_pct: float,
    power_w: float,
    l2_cap: float,
    power_cap: float,
    threshold: float,
    step: int,
    rounds: int,
) -> bool:
    """Bound the worth of a box by a relaxed solution, and change the multipliers; return whether to solve it again.

    The loop ends once the bound is at most the threshold, no multipliers are better, or after ``rounds`` steps and a
    last solution at the best multipliers.

    Parameters
    ----------
    multipliers
        Multipliers of L2 and power of this solution, shape (2,); overwritten with those of the next one.
    best
        Best bound so far and its multipliers, shape (3,); at first infinity and any multipliers.
    top, l2_pct, power_w
        Worth of the relaxed solution after the charges, and its demands.
    l2_cap, power_cap
        Ceilings of the box.
    step
        Number of earlier solutions.
    """
    bound = top + multipliers[0] * l2_cap + multipliers[1] * power_cap
    if bound < best[0]:
        best[0], best[1], best[2] = bound, multipliers[0], multipliers[1]
    if best[0] <= threshold or step == rounds:
        return False
    if not _polyak_step(multipliers, l2_pct - l2_cap, power_w - power_cap, bound - threshold):
        return False
    if step + 1 == rounds:
        multipliers[0], multipliers[1] = best[1], best[2]
    return True


@compiled
def _polyak_step(multipliers: Floats, over_l2_pct: float, over_power_w: float, distance: float) -> bool:
    """Take a Polyak step towards a threshold at this distance; return ``False`` if no multipliers are better.

    That is so if the solution satisfies the ceilings and the multipliers of slack ceilings are zero.
    """
    over_l2, over_power = over_l2_pct / L2_SCALE, over_power_w / POWER_SCALE
    if multipliers[0] == 0.0:
        over_l2 = max(over_l2, 0.0)
    if multipliers[1] == 0.0:
        over_power = max(over_power, 0.0)
    norm = over_l2 * over_l2 + over_power * over_power
    if norm < 1e-18:
        return False
    length = distance / norm
    multipliers[0] = max(0.0, multipliers[0] + length * over_l2 / L2_SCALE)
    multipliers[1] = max(0.0, multipliers[1] + length * over_power / POWER_SCALE)
    return True
