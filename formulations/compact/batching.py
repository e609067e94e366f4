"""Batching times of the compact model: the time to assemble a batch on the host, a table over the batches.

Options without a batching time add no variables. The index o is that of ``formulations.compact.build``.
"""

import numpy as np
import pyomo.environ as pyo

from formulations.compact.model import CompactModel, sum_of
from instances.performance.model import batching_ms


def state_batching(model: CompactModel) -> None:
    """State the batching time of every option that has one; ``batch_is`` chooses its batch."""
    m = model.pyomo
    assembling = {o: option for o, option in enumerate(model.options) if option.has_batching_time}
    if not assembling:
        return
    batches = {o: np.unique(option.configurations.batch) for o, option in assembling.items()}
    times_ms = {o: batching_ms(option.dnn, batches[o].astype(float)) for o, option in assembling.items()}
    m.A = pyo.Set(initialize=list(assembling))
    m.B = pyo.Set(initialize=[(o, batch) for o in m.A for batch in batches[o].tolist()], dimen=2)
    m.batch_is = pyo.Var(m.B, domain=pyo.Binary, doc="1 if option o has batch b")
    m.batching_ms = pyo.Var(
        m.A,
        bounds=lambda _, o: (float(times_ms[o].min()), float(times_ms[o].max())),
        doc="time to assemble a batch of option o on the host, ms",
    )
    rows = m.batching = pyo.ConstraintList()
    for o in m.A:
        choices = [m.batch_is[o, batch] for batch in batches[o].tolist()]
        rows.add(sum_of(choices) == 1)
        for values, target in ((batches[o], m.b[o]), (times_ms[o], m.batching_ms[o])):
            rows.add(sum_of(float(value) * chosen for value, chosen in zip(values, choices, strict=True)) == target)
