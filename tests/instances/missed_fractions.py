"""Fractions of requests that miss their SLO, by the chains of the rule ``attainment``, from plain lists of times."""

import numpy as np

from instances.attainment import missed_fraction, node_distance_ms
from instances.attainment_chain import chain_for
from instances.backlog import late_fraction
from instances.backlog_levels import backlog_for


def missed(rate: float, slo: float, result: list[float], busy: list[float], nodes: int = 0) -> float:
    """Return the missed fraction of a slot whose batches of 1, 2, ... take the times ``result`` and ``busy``."""
    batch, latest = len(result), max(0.0, slo - result[-1])
    times = np.array([0.0, *result]), np.array([0.0, *busy])
    step = latest / nodes if nodes else node_distance_ms(rate, latest, batch, busy[-1])
    return float(missed_fraction(chain_for(batch, max(nodes, 240) + 1), rate, slo, batch, *times, step))


def late(rate: float, slo: float, result: list[float], busy: list[float]) -> float:
    """Return the late fraction of a slot like that of ``missed`` whose server drops no request."""
    times = np.array([0.0, *result]), np.array([0.0, *busy])
    return float(late_fraction(backlog_for(len(result)), rate, slo, len(result), *times))
