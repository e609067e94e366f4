"""Margins of gpulet's schedulers: the reserves of the published code, which no paper prints.

The published scheduler (github.com/casys-kaist/glet) does not plan for the rates and times that its papers print:

- It plans for a rate that the arrivals of a second exceed in less than 1 % of the seconds, if they are Poisson.
- It adds the time in which the server assembles a batch.
- It multiplies every predicted latency by 1.1.
- It limits the inputs that a GPU receives to 3 Gbit per second.
"""

from dataclasses import replace
from enum import StrEnum

import numpy as np

from instances.gpu import GpuType
from instances.instance import Instance
from instances.performance.model import batching_ms
from instances.suites.gpulet import ASSEMBLED_MS, IMAGE_FACTOR, LARGE_IMAGE_FACTOR
from instances.view import View

LATENCY_BUFFER = 1.1
"""Factor on every predicted latency (``Latency Ratio`` in the code's settings)."""

NETWORK_BYTES_PER_S = 3.0 * 2.0**30 / 8.0
"""Largest input of a GPU: 3 Gbit per second, with 2**30 bits in a Gbit (``network_limit``)."""

EXACT_UP_TO_RPS = 550.0
"""Rate above which the code adds 10 % instead of computing the quantile."""

_IMAGE_MS = ((1.0, 0.242), (9.0, 2.10), (10.0, 3.24), (24.0, 7.72), (32.0, 10.99))
_LARGE_IMAGE_MS = ((1.0, 0.416), (5.0, 2.07), (6.0, 3.12), (9.0, 4.74), (11.0, 6.03), (16.0, 9.57), (32.0, 21.70))
"""Published times to assemble a batch of 3 x 224 x 224 and of 3 x 300 x 300 inputs, as (batch, milliseconds).

Interpolation between these batches gives the other published times within 3 %.
"""

_LARGE_IMAGE_BYTES = 4 * 3 * 300 * 300
"""Bytes of an input of 3 x 300 x 300 four-byte numbers."""


class Margins(StrEnum):
    """Reserves of a plan: those that the papers print, or those of the published code."""

    PRINTED = "printed"
    GLET_CODE = "glet-code"


def view_with(margins: Margins, instance: Instance, gpu: GpuType) -> View:
    """Return the view for which a plan is made; with ``glet-code``, its rates exceed those of the instance."""
    if margins is Margins.PRINTED:
        return View.of(instance, gpu)
    workloads = tuple(replace(w, rate_rps=poisson_p99_rps(w.rate_rps)) for w in instance.workloads)
    buffer = instance.latency_buffer * LATENCY_BUFFER
    view = View.of(replace(instance, workloads=workloads, latency_buffer=buffer), gpu)
    assembly_ms = np.zeros_like(view.tables.transfer_ms)
    for row, model in enumerate(gpu.models.values()):
        batches = np.arange(1, int(view.tables.max_batch[row]) + 1)
        code_ms = np.array([batch_assembly_ms(model.name, model.input_bytes, int(batch)) for batch in batches])
        # The code's time replaces the batching time that the model's own transfers include.
        assembly_ms[row, batches] = np.maximum(0.0, code_ms - batching_ms(model, batches.astype(np.float64)))
    input_bytes = np.array([max(1, gpu.models[workload.model].input_bytes) for workload in workloads], dtype=np.float64)
    tables = view.tables._replace(transfer_ms=view.tables.transfer_ms + assembly_ms)
    return replace(view, tables=tables, network_rps=NETWORK_BYTES_PER_S / input_bytes)


def batch_assembly_ms(model: str, input_bytes: int, batch: int) -> float:
    """Return the time that the code adds to a batch.

    LeNet and BERT have constants in the code. Other models are treated by the size of their input.
    """
    if model in ASSEMBLED_MS:
        return ASSEMBLED_MS[model]
    large = input_bytes >= _LARGE_IMAGE_BYTES
    batches, times_ms = zip(*(_LARGE_IMAGE_MS if large else _IMAGE_MS), strict=True)
    return (LARGE_IMAGE_FACTOR if large else IMAGE_FACTOR) * float(np.interp(batch, batches, times_ms))


def poisson_p99_rps(rate_rps: float) -> float:
    """Return the rate for which the code plans: one more than the 99th percentile of a Poisson variable.

    The code sums probabilities from one arrival on, and never ends for rates below five; here the sum begins at zero
    arrivals. Above 550 req/s the code takes 1.1 times the rate.
    """
    if rate_rps > EXACT_UP_TO_RPS:
        return 1.1 * rate_rps
    if rate_rps == 0.0:
        return 0.0
    from scipy.special import pdtr  # takes a while to load, and most plans need no quantile

    counts = np.arange(int(rate_rps + 4.0 * np.sqrt(rate_rps)) + 8)
    return float(np.argmax(pdtr(counts, rate_rps) >= 0.99)) + 1.0
