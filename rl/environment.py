"""Decision process of InSS (Sec. 3.3 and 5): many clusters, stepped together.

A step serves the requests that arrive in it under the decision, by equation (3), then draws the next arrival rates.
Queues and in-flight batches carry over from earlier steps. The reward is that of equation (2). Under the objective
``goodput``, which the paper does not have, requests may be rejected: each workload is admitted up to the rate that its
slot serves in time (``rl.admission``), and the admitted rate replaces the throughput.

The paper leaves several points open. Here they are decided as follows:

- A step lasts ``step_s``.
- The rates of a step are drawn uniformly between ``lowest`` and ``highest`` times those of the instance. They are
  independent of each other. Unless ``correlation`` is set, they are also independent of the rates of the step before.
- The agent knows the rates before it decides (the monitor's forecast). The number of requests is then Poisson.
- The late requests of equation (2), v, are a fraction of the step's requests.
- Throughput is normalised by one constant, ``Cluster.rms_rps``, unless ``by_model`` is set.
- A batch in flight at the end of a step ends as planned; the next decision does not change it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr

from instances import PART_STEPS
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_times_ms
from instances.tables import Tables
from rl.admission import admitted_rps
from rl.cluster import Cluster
from rl.queue_state import serve_step

_ARRAYS = ("queued", "running_ms", "used_mib", "rates_rps", "score")
"""Attributes of the state that are arrays."""


@dataclass(frozen=True, slots=True)
class DecisionProcess:
    """Settings of the decision process.

    Attributes
    ----------
    steps
        Number of decisions in an episode, T (Table 2).
    step_s
        Seconds between decisions.
    lowest, highest
        Multiples of the instance's rates between which arrival rates are drawn.
    correlation
        Correlation of a workload's rates in consecutive steps: the normal scores of the rates follow a first-order
        autoregressive process with this coefficient. The rates of any single step are still uniform.
    penalty
        Weight of the late requests in the reward, omega of equation (2) (Sec. 6.1).
    headroom
        Factor on the inference time at admission; see ``rl.admission``.
    by_model
        Whether the throughput of a workload is normalised by the root mean square of its own model's throughputs.
    """

    steps: int = 100
    step_s: float = 1.0
    lowest: float = 0.5
    highest: float = 1.0
    correlation: float = 0.0
    penalty: float = 40.0
    headroom: float = 1.02
    by_model: bool = False


@dataclass(frozen=True, slots=True)
class Feedback:
    """Results of a step, each of shape (clusters, workloads).

    Attributes
    ----------
    reward
        r_{t,i} of equation (2).
    throughput_rps
        h_i, the largest rate that the decision serves, or the admitted rate if requests may be rejected; 0 for a
        workload without a GPU.
    late
        v_i, the fraction of the step's admitted requests that miss their SLO, dropped ones included.
    arrivals
        Number of admitted requests in the step.
    """

    reward: Floats
    throughput_rps: Floats
    late: Floats
    arrivals: Ints


@compiled
def _predicted(tables: Tables, model: Ints, gpus: int, gpu: Ints, units: Ints, batch: Ints) -> tuple[Floats, Floats]:
    """Compute the results of ``predicted``, cluster by cluster and GPU by GPU."""
    clusters, workloads = gpu.shape
    inference_ms, throughput_rps = np.full(gpu.shape, np.inf), np.zeros(gpu.shape)
    residents = np.empty(workloads, dtype=np.int64)
    resident_model = np.empty(workloads, dtype=np.int64)
    resident_batch = np.empty(workloads, dtype=np.int64)
    resident_units = np.empty(workloads, dtype=np.int64)
    times_ms = np.empty(workloads)
    for n in range(clusters):
        for k in range(gpus):
            count = 0
            for i in range(workloads):
                if gpu[n, i] == k:
                    residents[count], resident_model[count] = i, model[i]
                    resident_batch[count], resident_units[count] = batch[n, i], units[n, i]
                    count += 1
            gpu_times_ms(tables, resident_model, resident_batch, resident_units, count, times_ms)
            for s in range(count):
                batch_size, model_row = resident_batch[s], resident_model[s]
                inference_ms[n, residents[s]] = times_ms[s] + tables.transfer_ms[model_row, batch_size]
                throughput_rps[n, residents[s]] = (
                    1000.0 * batch_size / (times_ms[s] + tables.exposed_ms[model_row, batch_size])
                )
    return inference_ms, throughput_rps


def predicted(cluster: Cluster, gpu: Ints, units: Ints, batch: Ints) -> tuple[Floats, Floats]:
    """Return the inference time of a batch in ms (infinite without a GPU) and the throughput in requests/s.

    Arguments and results have the shape (clusters, workloads); see ``Environments.step``.
    """
    return _predicted(cluster.tables, cluster.view.model, cluster.gpus, gpu, units, batch)


@compiled
def admit(
    rates_rps: Floats,
    slo_ms: Floats,
    batch: Ints,
    inference_ms: Floats,
    headroom: float,
    steps: Ints | None = None,
) -> Floats:
    """Return the part of the arriving rates that ``rl.admission`` admits; arrays have the shape (clusters, workloads).

    Each rate is ``steps`` of the ``PART_STEPS`` steps of its workload's rate; without ``steps``, it is the whole rate.
    """
    admitted = np.zeros(rates_rps.shape)
    for n in range(len(rates_rps)):
        for i in range(len(slo_ms)):
            if rates_rps[n, i] > 0.0 and inference_ms[n, i] < np.inf:
                admitted[n, i] = admitted_rps(
                    rates_rps[n, i],
                    slo_ms[i],
                    batch[n, i],
                    inference_ms[n, i],
                    headroom,
                    PART_STEPS if steps is None else steps[n, i],
                )
    return admitted


@compiled
def serve(
    slo_ms: Floats,
    batch: Ints,
    inference_ms: Floats,
    arrivals: Ints,
    step_ms: float,
    queued: Ints,
    running_ms: Floats,
) -> Ints:
    """Serve one step in every cluster, update ``queued`` and ``running_ms``, and return the late requests."""
    late = np.empty_like(arrivals)
    for n in range(len(arrivals)):
        for i in range(len(slo_ms)):
            late[n, i], queued[n, i], running_ms[n, i] = serve_step(
                queued[n, i],
                running_ms[n, i],
                arrivals[n, i],
                step_ms,
                batch[n, i] if inference_ms[n, i] < np.inf else 0,
                inference_ms[n, i],
                slo_ms[i],
            )
    return late


class Environments:
    """Independent clusters that are stepped together.

    Attributes
    ----------
    rates_rps
        lambda, the forecast rates of the next step, requests/s, shape (clusters, workloads).
    queued
        G, the waiting requests that are not older than their SLO; of the same shape.
    running_ms
        Remaining execution time of the in-flight batch; of the same shape.
    used_mib
        u_k of the last decision, shape (clusters, gpus).
    score
        Normal scores of the rates if ``DecisionProcess.correlation`` is set, shape (clusters, workloads).
    step_number
        t, the number of decisions in this episode so far.
    """

    def __init__(self, cluster: Cluster, count: int, process: DecisionProcess, random: np.random.Generator) -> None:
        self.cluster, self.count, self.process = cluster, count, process
        self._random = random
        self.reset()

    def reset(self) -> None:
        """Start an episode in every cluster: empty queues, new rates."""
        shape = (self.count, self.cluster.workloads)
        self.queued = np.zeros(shape, dtype=np.int64)
        self.running_ms = np.zeros(shape)
        self.used_mib = np.zeros((self.count, self.cluster.gpus))
        self.step_number = 0
        self.score = np.zeros(shape)
        self._draw(0.0)

    def _draw(self, correlation: float) -> None:
        """Draw the rates of the next step, with the given correlation to the present rates."""
        process = self.process
        if process.correlation > 0.0:
            noise = self._random.standard_normal(self.queued.shape)
            self.score = correlation * self.score + np.sqrt(1.0 - correlation**2) * noise
            factor = process.lowest + (process.highest - process.lowest) * ndtr(self.score)
        else:
            factor = self._random.uniform(process.lowest, process.highest, self.queued.shape)
        self.rates_rps = factor * self.cluster.view.rate_rps

    def step(self, gpu: Ints, units: Ints, batch: Ints) -> Feedback:
        """Serve one step under a decision and draw the rates of the next step.

        Parameters
        ----------
        gpu
            GPU of each workload, 0 to K - 1, or -1 for none; shape (clusters, workloads).
        units, batch
            Share and batch of each workload, at least 1; ignored without a GPU; of the same shape.

        Raises
        ------
        ValueError
            If a decision exceeds the shares or the memory of a GPU.
        """
        cluster, process = self.cluster, self.process
        self.used_mib = self._memory_mib(gpu, units, batch)
        inference_ms, throughput_rps = predicted(cluster, gpu, units, batch)
        slo_ms, accepted_rps = cluster.view.slo_ms, self.rates_rps
        if cluster.turns_away:
            accepted_rps = throughput_rps = admit(self.rates_rps, slo_ms, batch, inference_ms, process.headroom)
        arrivals = self._random.poisson(accepted_rps * process.step_s)
        step_ms = 1000.0 * process.step_s
        late = serve(slo_ms, batch, inference_ms, arrivals, step_ms, self.queued, self.running_ms)
        late_fraction = late / np.maximum(arrivals, 1)
        # Equation 2
        normaliser_rps = cluster.model_rms_rps if process.by_model else cluster.rms_rps
        reward = throughput_rps / normaliser_rps - process.penalty * late_fraction
        self.step_number += 1
        self._draw(process.correlation)
        return Feedback(reward, throughput_rps, late_fraction, arrivals)

    def _memory_mib(self, gpu: Ints, units: Ints, batch: Ints) -> Floats:
        """Return the memory used on each GPU, shape (clusters, gpus); raise an error if a decision does not fit."""
        cluster = self.cluster
        deployed = gpu >= 0
        if np.any(deployed & ((units < 1) | (batch < 1) | (batch > cluster.max_batch))):
            raise ValueError("a share or a batch is out of range; expected at least 1, and at most the largest batch")
        on_gpu = gpu[:, :, None] == np.arange(cluster.gpus)  # (clusters, workloads, gpus)
        if np.any(np.sum(np.where(on_gpu, units[:, :, None], 0), axis=1) > cluster.tables.share_units):
            raise ValueError("the shares on a GPU exceed the GPU")
        memory_mib = cluster.tables.memory_mib[cluster.view.model, np.where(deployed, batch, 1)]
        used_mib: Floats = np.sum(np.where(on_gpu, memory_mib[:, :, None], 0.0), axis=1)
        if np.any(used_mib > cluster.tables.memory_limit_mib):
            raise ValueError("the models on a GPU exceed its memory")
        return used_mib

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resumption."""
        arrays = {name: getattr(self, name).tolist() for name in _ARRAYS}
        return arrays | {"step_number": self.step_number, "random": self._random.bit_generator.state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a ``state_dict``."""
        for name in _ARRAYS:
            setattr(self, name, np.array(state[name]))
        self.step_number = state["step_number"]
        self._random.bit_generator.state = state["random"]


def compressed(reward: Floats) -> Floats:
    """Return rewards as the agents learn from them: negative ones become ``-ln(1 - r)``.

    This deviates from the paper. The rewards of decisions without late requests differ by tenths, but a penalty is up
    to 40, and critics that learn both do not resolve the tenths. A reward without late requests is not negative and
    stays as it is.
    """
    return np.where(reward < 0.0, -np.log1p(-np.minimum(reward, 0.0)), reward)


def whole_units(fractions: Floats, gpu: Ints, gpus: int, share_units: int) -> Ints:
    """Return one share unit for each workload with a GPU, plus its fraction of the other units, rounded down; else 0.

    Parameters
    ----------
    fractions
        Fraction of its GPU for each workload; fractions on one GPU sum to at most 1; shape (clusters, workloads).
    gpu
        GPU of each workload, or -1; of the same shape.
    gpus, share_units
        Number of GPUs, and share units of a GPU, at least the number of workloads on it.
    """
    on_gpu = gpu[:, :, None] == np.arange(gpus)
    residents = np.sum(on_gpu, axis=1)  # (clusters, gpus)
    residents_on_gpu = np.take_along_axis(residents, np.maximum(gpu, 0), axis=1)
    # Sums exceed 1 by rounding errors only, too little to reach the next integer.
    units = 1 + np.floor(fractions * (share_units - residents_on_gpu) + 1e-9).astype(np.int64)
    return np.where(gpu >= 0, units, 0)


def whole_batches(fractions: Floats, max_batch: Ints) -> Ints:
    """Map fractions from 0 to 1 to batches from 1 to ``max_batch``, rounded to the nearest."""
    return 1 + np.rint(fractions * (max_batch - 1)).astype(np.int64)
