"""Times of the batches of one slot, as the SLO rule ``attainment`` counts them.

By definition, neighbours delay every batch as much as they delay the full batch of b: a batch of k takes
``t(k) = t_alone(k) + t_gpu(b) - t_alone(b)``. ``t_alone(k)`` is at least k / j of the time of a larger batch of j.
With these times the missed fraction is monotone (``instances.attainment``).
"""

from typing import NamedTuple

import numpy as np

from instances.arrays import Floats
from instances.performance.table import NEVER_MS
from instances.tables import Tables

LEAST_RATE_PER_MS = 1e-300
"""Least rate of a slot; lower rates are raised to it, because their numbers of arrivals are too small for floats."""


class SlotTimes(NamedTuple):
    """A slot and the times of its batches: the input of the search for its budgets.

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


class BatchTimes(NamedTuple):
    """Times of the batches of a slot, whatever its rate and SLO are; see ``SlotTimes``."""

    alone_ms: Floats
    transfer_ms: Floats
    exposed_ms: Floats

    def under_load(self, slo_ms: float, rate_rps: float) -> SlotTimes:
        """Return the slot with these times, an SLO and a rate."""
        rate_per_ms = max(rate_rps / 1000.0, LEAST_RATE_PER_MS)
        return SlotTimes(rate_per_ms, slo_ms, len(self.transfer_ms) - 1, *self)


def batch_times(tables: Tables, model: int, batch: int) -> BatchTimes:
    """Return the times of batches up to ``batch`` by the performance model, raised until three rules are met.

    At each share, times rise with the batch, and times per request fall with the batch. The time that a smaller batch
    saves compared with the full batch does not rise with the share.
    """
    shares = tables.permitted
    model_ms = tables.scheduling_ms[model] + tables.active_ms[model, 1 : batch + 1, shares].T
    shares, model_ms = shares[model_ms[-1] < NEVER_MS], model_ms[:, model_ms[-1] < NEVER_MS]
    saved_ms = np.minimum.accumulate(np.maximum(model_ms[-1] - model_ms, 0.0), axis=1)
    alone_ms = np.full((batch + 1, tables.share_units + 1), np.inf)
    alone_ms[1:, shares] = _regular(np.minimum.accumulate(model_ms[-1]) - saved_ms)
    transfer_ms, exposed_ms = np.zeros(batch + 1), np.zeros(batch + 1)
    transfer_ms[1:] = _regular(tables.transfer_ms[model, 1 : batch + 1])
    exposed_ms[1:] = _regular(tables.exposed_ms[model, 1 : batch + 1])
    return BatchTimes(alone_ms, transfer_ms, exposed_ms)


def _regular(times_ms: Floats) -> Floats:
    """Raise the times of smaller batches so that times rise with the batch, and times per request fall with it.

    The batches are along the first axis, from 1 up.
    """
    rising_ms = np.maximum.accumulate(times_ms, axis=0)
    sizes = np.arange(1.0, len(times_ms) + 1.0).reshape(-1, *[1] * (times_ms.ndim - 1))
    per_request_ms = np.maximum.accumulate((rising_ms / sizes)[::-1], axis=0)[::-1]
    rising_ms[:-1] = np.maximum(rising_ms[:-1], (per_request_ms * sizes)[:-1])
    return rising_ms
