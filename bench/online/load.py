"""Rates of the workloads over time."""

from collections.abc import Mapping, Sequence
from math import ceil
from pathlib import Path

import numpy as np

from bench.simulation.arrivals import Arrivals, Process, Stream
from bench.simulation.trace import Trace, read_rate_trace
from instances import InputError, Instance
from instances.errors import FieldName, unknown_name

WAVES_S = 3200
"""Duration of ``waves``: the window of gpulet ATC'22, Fig. 15."""

_PEAKS = ((0.0, 1200.0, 4.0), (1400.0, 2900.0, 6.0))
"""Begin, end and height of each wave; the height is a multiple of the rate between the waves."""

_LAG_S = 150.0
"""Time over which the starts of the workloads' waves are spread evenly."""


def waves(instance: Instance) -> dict[str, Trace]:
    """Return two waves per workload, the second higher than the first, with a lag between workloads.

    The shape follows the load in gpulet ATC'22, Fig. 15: up and down within 1,200 s, and from 1,400 s up to a higher
    peak. The paper does not give numbers; heights and lags are choices of this bench.
    """
    traces = {}
    for position, workload in enumerate(instance.workloads):
        at_s = np.arange(WAVES_S) + 0.5 - _LAG_S * position / len(instance.workloads)
        height = np.ones(WAVES_S)
        for begin_s, end_s, peak in _PEAKS:
            inside = (begin_s < at_s) & (at_s < end_s)
            height += inside * (peak - 1.0) * np.sin(np.pi * (at_s - begin_s) / (end_s - begin_s)) ** 2
        traces[workload.id] = Trace("waves", height)
    return traces


def read_rate_traces(texts: Sequence[str], instance: Instance) -> dict[str, Trace]:
    """Read traces: ``FILE`` for all workloads, ``WORKLOAD=FILE`` for one; the last trace of a workload counts.

    Raises
    ------
    InputError
        If a file is not a trace, or if a workload is unknown or has no trace.
    """
    ids = [workload.id for workload in instance.workloads]
    files: dict[str, str] = {}
    for text in texts:
        name, equals, file = text.partition("=")
        if equals and name in ids:
            files[name] = file
        elif equals and not Path(text).exists():
            raise unknown_name(FieldName("traces", f" {text}"), "workload", name, ids)
        else:
            files |= dict.fromkeys(ids, text)
    if missing := [name for name in ids if name not in files]:
        raise InputError(
            FieldName("traces"), f"{missing[0]} has no trace; add {missing[0]}=FILE, or put one FILE for all first"
        )
    trace_of_file = {file: read_rate_trace(Path(file)) for file in dict.fromkeys(files.values())}
    return {name: trace_of_file[files[name]] for name in ids}


def streams(traces: Mapping[str, Trace], instance: Instance, seconds: float, seed: int) -> dict[str, Stream]:
    """Return the requests of every workload: independent Poisson processes whose rates follow the traces.

    A trace longer than the run is used from its start; a shorter trace repeats. Each trace is scaled so that its mean
    rate is the rate of the workload.

    Raises
    ------
    InputError
        If the used part of a trace has no requests.
    """
    return {
        workload.id: Stream(
            Arrivals(Process.TRACE, trace=_beginning(traces[workload.id], seconds)),
            workload.rate_rps,
            seed,
            workload.id,
        )
        for workload in instance.workloads
    }


def _beginning(trace: Trace, seconds: float) -> Trace:
    return trace.part(0, ceil(seconds)) if seconds < len(trace.rates_rps) else trace
