"""Plans on measured cells: the fewest GPUs by pairing workloads, and the judgement by measured latencies.

A cell is a pair of configurations whose latencies beside each other are measured; see ``cells``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.measurements import Configuration
from instances.model_error.cells import MeasuredCell

MOST_WORKLOADS = 16
"""Largest number of workloads of an instance; the pairing visits all subsets."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of two workloads that share a GPU, sorted by their models; arrays of shape (options,) unless stated.

    A cell has two sides, its configurations. A cell gives two options, because either side may serve the first
    workload.

    Attributes
    ----------
    start
        Position of the first option of workloads of the models ``m`` and ``n`` at ``[m, n]``, shape (models, models).
    stop
        Position after the last option of the models, in the same way.
    batch
        Batches of the first and the second workload, shape (options, 2).
    cell, first_side
        Position of the cell, and the side of the cell (0 or 1) that serves the first workload.
    """

    start: Ints
    stop: Ints
    batch: Ints
    cell: Ints
    first_side: Ints

    @classmethod
    def of(cls, cells: Sequence[MeasuredCell], positions: Ints, models: Sequence[str]) -> "Options":
        """Return the options of the cells at ``positions``; options of the same two models keep this order."""
        number = {name: i for i, name in enumerate(models)}
        rows = []
        for order, position in enumerate(positions.tolist()):
            sides = cells[position].sides
            for first in (0, 1):
                own, other = sides[first], sides[1 - first]
                rows.append((number[own.model], number[other.model], order, position, first, own.batch, other.batch))
        table = np.array(sorted(rows), dtype=np.int64).reshape(-1, 7)
        first_model, second_model, _, cell, first_side = table[:, :5].T
        key = first_model * len(models) + second_model
        pairs = np.arange(len(models) ** 2)
        start, stop = np.searchsorted(key, pairs, "left"), np.searchsorted(key, pairs, "right")
        shape = (len(models), len(models))
        return cls(start.reshape(shape), stop.reshape(shape), table[:, 5:], cell, first_side)

    def latencies_ms(self, by_cell: Floats) -> Floats:
        """Return latencies of shape (cells, 2) in the order of the options, shape (options, 2)."""
        sides = np.stack([self.first_side, 1 - self.first_side], axis=1)
        return by_cell[self.cell[:, None], sides]


@dataclass(frozen=True, slots=True)
class Demands:
    """Workloads of several instances; arrays of shape (instances, workloads).

    A workload needs a latency of at most ``budget_ms``, and of at most ``ms_per_item`` times the batch so that the
    throughput covers its rate.
    """

    model: Ints
    budget_ms: Floats
    ms_per_item: Floats


@dataclass(frozen=True, slots=True)
class Score:
    """GPUs and violations over all instances.

    Attributes
    ----------
    gpus
        Mean number of GPUs of an instance.
    violations
        Fraction of the workloads whose measured latency exceeds what they need.
    """

    gpus: float
    violations: float


def draw_demands(
    seed: int,
    instances: int,
    workloads: int,
    configurations: Sequence[Configuration],
    alone: Mapping[Configuration, float],
    models: Sequence[str],
    most_slack: float,
) -> Demands:
    """Return random workloads; each fits alone on a GPU at one of ``configurations``, with slack in latency and rate.

    The latency budget is ``t u`` and the rate ``b / (t v)``, with batch ``b`` and time alone ``t`` (in ``alone``) of
    the configuration, and ``u`` and ``v`` uniform from 1.02 to ``most_slack``. A model is drawn first, then its
    configuration.
    """
    random = np.random.default_rng(seed)
    by_model = [[side for side in configurations if side.model == name] for name in models]
    model = random.integers(len(models), size=(instances, workloads))
    u, v = random.uniform(1.02, most_slack, size=(2, instances, workloads))
    budget_ms, ms_per_item = np.empty_like(u), np.empty_like(u)
    for place, number in np.ndenumerate(model):
        side = by_model[number][random.integers(len(by_model[number]))]
        budget_ms[place], ms_per_item[place] = alone[side] * u[place], alone[side] * v[place] / side.batch
    return Demands(model, budget_ms, ms_per_item)


def score(options: Options, demands: Demands, planned_ms: Floats, measured_ms: Floats, slack: bool) -> Score:
    """Return GPUs and violations of the plans with the fewest GPUs by ``planned_ms``, judged by ``measured_ms``.

    Parameters
    ----------
    planned_ms, measured_ms
        Latencies of shape (options, 2).
    slack
        Whether, among plans with the same number of GPUs, pairs and cells with the most slack are chosen; otherwise
        each pair of workloads takes the first of its cells that fits.
    """
    pairs, late = _planned(
        options.start, options.stop, options.batch, demands.model, demands.budget_ms, demands.ms_per_item,
        planned_ms, measured_ms, slack,
    )  # fmt: skip
    instances, workloads = demands.model.shape
    return Score(workloads - pairs / instances, late / (instances * workloads))


@compiled
def _planned(
    start: Ints,
    stop: Ints,
    batch: Ints,
    model: Ints,
    budget_ms: Floats,
    ms_per_item: Floats,
    planned_ms: Floats,
    measured_ms: Floats,
    slack: bool,
) -> tuple[int, int]:
    """Return the number of pairs and of late workloads over all instances."""
    pairs = late = 0
    instances, n = model.shape
    # By subset of the workloads: the largest sum of gains, and the mate of the first workload (-1: it is alone)
    value, mate = np.zeros(1 << n), np.zeros(1 << n, np.int64)
    # By pair of workloads: the gain from a shared GPU (0: impossible), and the chosen option
    gain, chosen = np.zeros((n, n)), np.zeros((n, n), np.int64)
    for k in range(instances):
        for i in range(n):
            for j in range(i + 1, n):
                gain[i, j] = 0.0
                for option in range(start[model[k, i], model[k, j]], stop[model[k, i], model[k, j]]):
                    first_ms = min(budget_ms[k, i], ms_per_item[k, i] * batch[option, 0])
                    second_ms = min(budget_ms[k, j], ms_per_item[k, j] * batch[option, 1])
                    if planned_ms[option, 0] > first_ms or planned_ms[option, 1] > second_ms:
                        continue
                    load = max(planned_ms[option, 0] / first_ms, planned_ms[option, 1] / second_ms)
                    # A pair counts 1. Its slack decides between plans with equally many pairs: the slacks of the eight
                    # pairs that are possible at most add less than 1.
                    if gain[i, j] == 0.0 or 1.0 + (1.0 - load) / 64.0 > gain[i, j]:
                        gain[i, j] = 1.0 + ((1.0 - load) / 64.0 if slack else 0.0)
                        chosen[i, j] = option
                        if not slack:
                            break
        # A subset of the workloads is a number with a bit for each. The first workload is alone or has a mate.
        for subset in range(1, 1 << n):
            i = 0
            while not subset >> i & 1:
                i += 1
            rest = subset & ~(1 << i)
            value[subset], mate[subset] = value[rest], -1
            for j in range(i + 1, n):
                if subset >> j & 1 and gain[i, j] > 0.0:
                    paired = gain[i, j] + value[rest & ~(1 << j)]
                    if paired > value[subset]:
                        value[subset], mate[subset] = paired, j
        subset = (1 << n) - 1
        while subset:
            i = 0
            while not subset >> i & 1:
                i += 1
            j = mate[subset]
            subset &= ~(1 << i)
            if j >= 0:
                subset &= ~(1 << j)
                option = chosen[i, j]
                pairs += 1
                late += measured_ms[option, 0] > min(budget_ms[k, i], ms_per_item[k, i] * batch[option, 0])
                late += measured_ms[option, 1] > min(budget_ms[k, j], ms_per_item[k, j] * batch[option, 1])
    return pairs, late
