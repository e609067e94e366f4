"""TS with both stages: first the GPUs, then shares and batches (InSS Sec. 5, Alg. 1).

The defaults of the two agents are the paper's parameters. Each agent's module lists its deviations from the paper.
``rl.environment`` lists the points that the paper leaves open, and ``rl.states`` the additions to its states. Further
deviations:

- Under the objective ``goodput``, which the paper does not have, one more action means that a workload has no GPU.
- With ``compressed_rewards``, both agents learn from compressed rewards (``rl.environment.compressed``).
- Without ``own_reward``, an actor of the first stage learns from the reward of the whole cluster; the paper's ``r'`` is
  the reward of its workload alone.
- The exploration of both stages (entropy, noise and random actions) can decay during training.
- Decisions for many clusters are made at once.
"""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch

from instances.arrays import Flags, Floats, Ints, Singles
from rl.cluster import Cluster
from rl.environment import Feedback, compressed, whole_batches, whole_units
from rl.networks import CPU
from rl.sac_discrete import SacDiscrete, SacSettings
from rl.states import Placing, allocation_size, placement_size
from rl.td3 import Td3, Td3Settings


@dataclass(frozen=True, slots=True)
class TwoStageSettings:
    """Settings of both stages together; the defaults are the paper's.

    Attributes
    ----------
    pooled
        Whether the actors of the first stage share critics and temperature. Shared critics learn from the transitions
        of all actors.
    further_inputs
        Whether the states of the first stage have inputs that the paper does not have, see ``rl.states``.
    own_reward
        Whether an actor of the first stage learns from its workload's reward instead of the whole cluster's.
    compressed_rewards
        Whether negative rewards are compressed.
    """

    pooled: bool = True
    further_inputs: bool = False
    own_reward: bool = True
    compressed_rewards: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Decisions of TS in several clusters, with the observed states.

    Attributes
    ----------
    gpu, units, batch
        GPU, share and batch of each workload, shape (clusters, workloads). A workload without a GPU has GPU -1.
    placement, safe
        State and safe actions of each workload's turn, shape (clusters, workloads, length of a state) and (clusters,
        workloads, choices).
    allocation, action
        State and action of each GPU, shape (clusters, GPUs, 3 workloads + 1) and (clusters, GPUs, 2 workloads).
    """

    gpu: Ints
    units: Ints
    batch: Ints
    placement: Singles
    safe: Flags
    allocation: Singles
    action: Singles

    def rows(self, clusters: Ints) -> "Decision":
        """Return the decisions of the given clusters."""
        return Decision(*(getattr(self, field.name)[clusters] for field in fields(self)))


class TwoStage:
    """Both stages of TS.

    Parameters
    ----------
    cluster
        Description of every cluster for which decisions are made.
    sac, td3
        Parameters of the first and of the second stage.
    settings
        Settings of both stages together.
    device
        Device that learns; decisions are made on the CPU.
    """

    def __init__(
        self,
        cluster: Cluster,
        sac: SacSettings,
        td3: Td3Settings,
        seed: int,
        settings: TwoStageSettings,
        device: torch.device = CPU,
    ) -> None:
        self.cluster, self.settings = cluster, settings
        self._random = torch.Generator().manual_seed(seed)
        workloads, gpus = cluster.workloads, cluster.gpus
        shape = workloads, placement_size(workloads, gpus, settings.further_inputs), cluster.choices
        self.sac = SacDiscrete(*shape, sac, self._random, shared=settings.pooled, device=device)
        self.td3 = Td3(workloads, allocation_size(workloads), td3, self._random, device)

    def decide(self, rates_rps: Floats, queued: Ints, spread: Floats | float = 1.0, exploring: bool = True) -> Decision:
        """Decide in every cluster (Alg. 1, lines 6 to 14).

        Parameters
        ----------
        rates_rps, queued
            Rates and queues, shape (clusters, workloads). A workload with a rate of 0 gets no GPU.
        spread
            Divisor of the logits when GPUs are drawn, see ``SacDiscrete.act``; one number for all or of shape
            (clusters,).
        exploring
            Whether the second stage explores.
        """
        cluster = self.cluster
        clusters, workloads = rates_rps.shape
        placing = Placing(cluster, rates_rps, queued, self.settings.further_inputs)
        spreads = np.broadcast_to(np.float32(spread), (clusters,))[:, None]
        for i in range(workloads):  # lines 7-10
            state, safe = placing.turn(i)
            placing.place(i, self.sac.act(i, state, safe, spreads))
        allocation = placing.allocation()  # line 11
        action = self.td3.act(allocation.reshape(clusters * cluster.gpus, -1), greedy=not exploring)  # lines 12-14
        action = action.reshape(clusters, cluster.gpus, 2 * workloads)
        gpu_or_first = np.maximum(placing.gpu, 0)  # workloads without a GPU read GPU 0, and get no units
        columns = np.arange(workloads)
        rows = np.arange(clusters)[:, None]
        share = action[rows, gpu_or_first, columns].astype(np.float64)
        batch = whole_batches(action[rows, gpu_or_first, workloads + columns].astype(np.float64), cluster.max_batch)
        units = whole_units(share, placing.gpu, cluster.gpus, cluster.tables.share_units)
        return Decision(placing.gpu, units, batch, placing.states, placing.safe, allocation, action)

    def explore(self, fraction: float) -> None:
        """Set the exploration of both stages to ``fraction`` of their settings."""
        self.sac.exploration = self.td3.exploration = fraction

    def remember(self, decision: Decision, feedback: Feedback, following: Decision) -> None:
        """Store the decision, its results and the next observation (Alg. 1, line 16)."""
        reward = compressed(feedback.reward) if self.settings.compressed_rewards else feedback.reward
        first_stage_reward = reward
        if not self.settings.own_reward:
            # The reward of the cluster, because a workload that is placed early may block those that follow.
            first_stage_reward = np.repeat(reward.sum(axis=1, keepdims=True), reward.shape[1], axis=1)
        # A workload without a GPU has the last action; under ``goodput``, this action means no GPU.
        first_stage_action = np.where(decision.gpu < 0, self.cluster.choices - 1, decision.gpu)
        self.sac.replay.add(
            state=decision.placement,
            safe=decision.safe,
            action=first_stage_action,
            reward=first_stage_reward,
            next_state=following.placement,
            next_safe=following.safe,
        )
        on_gpu = np.swapaxes(decision.gpu[:, :, None] == np.arange(self.cluster.gpus), 1, 2)
        reward_on_gpu = on_gpu * reward[:, None, :]  # (clusters, GPUs, workloads)
        used = np.any(on_gpu, axis=2)  # an empty GPU has nothing to learn from
        self.td3.replay.add(
            state=decision.allocation[used],
            action=decision.action[used],
            reward=reward_on_gpu[used],
            next_state=following.allocation[used],
        )

    def update(self) -> dict[str, float]:
        """Update both stages with one mini-batch each (Alg. 1, lines 17 to 25); return their losses by name."""
        sac, td3 = self.sac.update(), self.td3.update()
        return {f"sac_{name}": loss for name, loss in sac.items()} | {f"td3_{name}": loss for name, loss in td3.items()}

    def reseed(self, seed: int) -> None:
        """Restart the random generator from ``seed``."""
        self._random.manual_seed(seed)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resumption of learning."""
        return {"sac": self.sac.state_dict(), "td3": self.td3.state_dict(), "random": self._random.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a ``state_dict``."""
        self.sac.load_state_dict(state["sac"])
        self.td3.load_state_dict(state["td3"])
        self._random.set_state(state["random"])

    def policy(self) -> dict[str, Any]:
        """Return the weights of both actors, all that decisions need."""
        return {"sac": self.sac.actor.state_dict(), "td3": self.td3.actor.state_dict()}

    def load_policy(self, policy: dict[str, Any]) -> None:
        """Load the actors of another agent from its ``policy``."""
        self.sac.actor.load_state_dict(policy["sac"])
        self.td3.actor.load_state_dict(policy["td3"])
