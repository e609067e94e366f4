"""Selection of rows by the parameters of their schedulers and by their conditions."""

from collections.abc import Sequence

from bench.evaluation import Trial
from bench.labels import in_words
from bench.ledger.row import Row
from reports.figure import Need


def made_for(rows: Sequence[Row], need: Need) -> list[Row]:
    """Return the rows of ``need``: its schedulers with its parameters, under its conditions.

    Instances are ignored. Values are written as in a row: ``name.parameter=true``.
    """
    return [
        row
        for row in rows
        if row.scheduler in need.schedulers and tried_like(row, need.trial) and _has_stated(row, need)
    ]


def tried_like(row: Row, trial: Trial) -> bool:
    """Return whether a row's plan was made and evaluated under ``trial``, or evaluated that far if not simulated."""
    if row.headroom not in (None, trial.headroom) or row.truth != trial.reality:
        return False
    simulated = arrivals_of(row)
    return simulated is None or (trial.arrivals is not None and simulated == trial.arrivals.label)


def arrivals_of(row: Row) -> str | None:
    """Return the arrivals of the simulation of a row's plan; ``None`` without a simulation."""
    return None if row.simulation is None else str(row.simulation["arrivals"])


def _has_stated(row: Row, need: Need) -> bool:
    for parameter in need.parameters:
        name, _, stated = parameter.partition("=")
        scheduler, _, field = name.rpartition(".")
        value = row.parameters.get(scheduler, {}).get(field)
        if in_words(value) != stated:
            return False
    return True
