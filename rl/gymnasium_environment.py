"""Gymnasium environment of one cluster of ``rl.environment``, for other agents."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from instances import Instance
from rl.cluster import Cluster
from rl.environment import DecisionProcess, Environments, whole_batches, whole_units


class SchedulingEnv(gymnasium.Env[NDArray[np.float32], dict[str, Any]]):
    """Decision process of InSS, Sec. 3.3.

    The observation is a ``Box`` of shape (2 I + K,), float32, for I workloads and K GPUs:

    - for each workload, the rate of the next step divided by the rate of the instance, from 0 to ``process.highest``;
    - for each workload, the queue divided by the rate of the instance, in seconds, from 0 to twice ``process.highest``
      times the SLO; a longer queue, which a burst may leave, is clipped;
    - for each GPU, the fraction of its memory that the last decision used, from 0 to 1.

    The action is a ``Dict``:

    - ``gpu``, ``MultiDiscrete`` of I numbers: the GPU of each workload, 0 to K - 1, and K for none if requests may be
      rejected;
    - ``share``, ``Box`` from 0 to 1 of shape (I,): each workload gets one unit of its GPU, and these weights divide the
      other units, equally if all are 0;
    - ``batch``, ``Box`` from 0 to 1 of shape (I,): 0 is a batch of 1, and 1 is the largest batch.

    Workloads are deployed in order. A workload is not deployed if its GPU has too little memory left for its batch, or
    no share unit.

    The reward is the sum of equation (2) over the workloads. An episode is truncated after ``process.steps``.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # Gymnasium's own attribute

    def __init__(self, instance: Instance, process: DecisionProcess | None = None, interference: bool = True) -> None:
        self._cluster = Cluster.of(instance, interference)
        self._process = process or DecisionProcess()
        workloads, gpus = self._cluster.workloads, self._cluster.gpus
        highest = self._process.highest
        queue_s = 2.0 * highest * self._cluster.view.slo_ms / 1000.0
        high = np.concatenate([np.full(workloads, highest), queue_s, np.ones(gpus)]).astype(np.float32)
        self.observation_space = spaces.Box(np.zeros_like(high), high)
        self._high = high
        self.action_space = spaces.Dict(
            {
                "gpu": spaces.MultiDiscrete([self._cluster.choices] * workloads),
                "share": spaces.Box(0.0, 1.0, (workloads,)),
                "batch": spaces.Box(0.0, 1.0, (workloads,)),
            }
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self._environments = Environments(self._cluster, 1, self._process, self.np_random)
        return self._observation(), {}

    def step(self, action: dict[str, Any]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Serve one step; ``info`` has each workload's ``throughput_rps`` and ``late`` fraction."""
        cluster = self._cluster
        batch = whole_batches(np.asarray(action["batch"], dtype=np.float64)[None], cluster.max_batch)
        gpu = self._deployed(np.asarray(action["gpu"], dtype=np.int64), batch[0])[None]
        weight = np.asarray(action["share"], dtype=np.float64)[None]
        on_gpu = gpu[:, :, None] == np.arange(cluster.gpus)
        gpu_or_first = np.maximum(gpu, 0)  # workloads without a GPU read GPU 0, and get no units
        total_weight = np.take_along_axis(np.sum(weight[:, :, None] * on_gpu, axis=1), gpu_or_first, axis=1)
        residents = np.take_along_axis(np.sum(on_gpu, axis=1), gpu_or_first, axis=1)
        equal_fraction = 1.0 / np.maximum(residents, 1)
        fraction = np.where(
            total_weight > 0.0, weight / np.where(total_weight > 0.0, total_weight, 1.0), equal_fraction
        )
        units = whole_units(fraction, gpu, cluster.gpus, cluster.tables.share_units)
        feedback = self._environments.step(gpu, units, batch)
        info = {"throughput_rps": feedback.throughput_rps[0], "late": feedback.late[0]}
        truncated = self._environments.step_number >= self._process.steps
        return self._observation(), float(feedback.reward.sum()), False, truncated, info

    def _deployed(self, gpu: NDArray[np.int64], batch: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return ``gpu`` with -1 for each workload that is not deployed: it has no GPU, or its GPU is full."""
        tables, model = self._cluster.tables, self._cluster.view.model
        used_mib = np.zeros(self._cluster.gpus)
        residents = np.zeros(self._cluster.gpus, dtype=np.int64)
        deployed = gpu.copy()
        for i, k in enumerate(gpu):
            memory_mib = tables.memory_mib[model[i], batch[i]]
            if (
                k == self._cluster.gpus
                or used_mib[k] + memory_mib > tables.memory_limit_mib
                or residents[k] == tables.share_units
            ):
                deployed[i] = -1
            else:
                used_mib[k] += memory_mib
                residents[k] += 1
        return deployed

    def _observation(self) -> NDArray[np.float32]:
        environments, rate_rps = self._environments, self._cluster.view.rate_rps
        features = (
            environments.rates_rps[0] / rate_rps,
            environments.queued[0] / rate_rps,
            environments.used_mib[0] / self._cluster.tables.memory_limit_mib,
        )
        return np.minimum(np.concatenate(features).astype(np.float32), self._high)
