"""Rows that a figure tells apart by the parameters of their schedulers, and by how their plans were tried."""

from collections.abc import Sequence

from bench.evaluation import Trial
from bench.labels import in_words
from bench.ledger.row import Row
from reports.figure import Need


def made_for(rows: "Sequence[Row]", need: Need) -> "list[Row]":
    """Return the rows of ``need``: its schedulers with the parameters that it states, tried like it.

    Instances are not looked at. Values are written as a row has them: ``name.parameter=true``.
    """
    return [
        row
        for row in rows
        if row.scheduler in need.schedulers and tried_like(row, need.trial) and _has_stated(row, need)
    ]


def tried_like(row: "Row", trial: Trial) -> bool:
    """Return whether the plan of a row was made and tried that way, or tried so far as it was simulated at all."""
    if row.headroom not in (None, trial.headroom) or row.truth != trial.reality:
        return False
    simulated = arrivals_of(row)
    return simulated is None or (trial.arrivals is not None and simulated == trial.arrivals.label)


def arrivals_of(row: "Row") -> str | None:
    """Return under which arrivals the plan of a row was simulated; ``None`` if it was not."""
    return None if row.simulation is None else str(row.simulation["arrivals"])


def _has_stated(row: "Row", need: Need) -> bool:
    for parameter in need.parameters:
        name, _, stated = parameter.partition("=")
        scheduler, _, field = name.rpartition(".")
        value = row.parameters.get(scheduler, {}).get(field)
        if in_words(value) != stated:
            return False
    return True
