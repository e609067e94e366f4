"""GSLICE's tuning rule: batch and share of a workload by its observed latency and throughput.

GSLICE is by Dhakal et al. (SoCC 2020). iGniter's authors patched it for their evaluation; the rule is that of their
code (``Profile/tools/gslice.py`` of icloud-ecnu/igniter, functions ``slab`` and ``compute_new_gpu_util``).
``heuristics.igniter.gslice_plus`` and the online policy ``reactive`` use it.
"""

import math
from enum import StrEnum

from instances.arrays import Ints

START_BATCH, START_PCT = 1, 30.0
"""Batch and share with which every workload starts (``gslice`` in the authors' code)."""

BATCH_ROUNDS = 5
"""Largest number of batch changes before the share is adjusted."""

BAND = 0.1
"""Fraction of a target by which latency and throughput may be better without a change (iGniter, Sec. 5.3)."""


class CutRule(StrEnum):
    """Conditions under which the share of a workload that meets both targets falls."""

    ANY = "any"
    """Latency or throughput is better than its target by at least the band (the authors' code)."""
    LATENCY = "latency"
    """The latency is better by at least the band; only the latency sets the change (iGniter, Sec. 5.3, Fig. 15)."""
    BOTH = "both"
    """Both are better by at least the band (another possible meaning of iGniter, Sec. 5.3)."""


def tuned_batch(batch: int, latency_ms: float, target_ms: float, largest_batch: int, band: float = BAND) -> int:
    """Return the batch whose latency would be the target if latency were proportional to the batch.

    If the latency is better than the target by less than ``band``, the batch does not change.
    """
    if 0.0 < (target_ms - latency_ms) / target_ms < band:
        return batch
    return math.ceil(min(max(batch * target_ms / latency_ms, 1.0), largest_batch))


def tuned_share_pct(
    share_pct: float,
    latency_ms: float,
    throughput_rps: float,
    target_ms: float,
    rate_rps: float,
    band: float = BAND,
    cut: CutRule = CutRule.ANY,
) -> float:
    """Return the share changed by the larger relative difference of latency and throughput from their targets.

    The share grows if either target is missed, otherwise it falls if ``cut`` permits it. Without any throughput, the
    share is 100 %. The shares of other workloads are ignored, so the shares of a GPU may sum to more than 100 %.
    """
    slack, spare = (target_ms - latency_ms) / target_ms, (throughput_rps - rate_rps) / rate_rps
    if slack > 0.0 and spare > 0.0 and not _permits_cut(cut, slack >= band, spare >= band):
        return share_pct
    if throughput_rps == 0.0:
        return 100.0
    change, by_rate = abs(target_ms / latency_ms - 1.0), abs(rate_rps / throughput_rps - 1.0)
    if cut is not CutRule.LATENCY or spare < 0.0:
        change = max(change, by_rate)
    tuned_pct = share_pct * (1.0 + change if slack < 0.0 or spare < 0.0 else 1.0 - change)
    return min(max(tuned_pct, 1.0), 100.0)


def _permits_cut(cut: CutRule, latency_better: bool, throughput_better: bool) -> bool:
    """Return whether a share falls, given whether latency and throughput are better by at least the band."""
    match cut:
        case CutRule.ANY:
            return latency_better or throughput_better
        case CutRule.LATENCY:
            return latency_better
        case CutRule.BOTH:
            return latency_better and throughput_better


def granted_units(share_pct: float, share_units: int, permitted: Ints) -> int:
    """Return the share, in units, of a process whose MPS percentage is ``share_pct``.

    MPS rounds a percentage down to what the GPU can separate (NVIDIA, "Multi-Process Service", on active thread
    percentages; InSS, Sec. 2.4, says the same). A process has at least the least permitted share.
    """
    units = round(share_pct * share_units / 100.0, 9)  # 100 * 35 / 54 % of 54 units are 35 units
    within = permitted[permitted <= units]
    return int(within[-1] if len(within) else permitted[0])
