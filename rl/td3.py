"""TD3 that divides one GPU and chooses the batches (InSS Sec. 5.2, Alg. 1 lines 20-25, Table 2).

One agent decides for all GPUs, each with a state of its own. An action has two numbers for every workload of the
instance: its fraction of the GPU, and its batch as a fraction of the way from 1 to the largest. Both are 0 for
workloads on other GPUs.

Deviations from the paper:

- The shares are a softmax over the workloads on the GPU and therefore sum to 1, as in the paper. The batch fractions
  are a sigmoid, which the paper does not specify.
- Noise is added to the action. Shares are then clipped at 0 and divided by their sum, so that the stored and the
  executed shares both sum to 1.
- Unless ``summed`` is set, the critics have one output per workload, for this workload's reward; the paper's ``r''`` is
  the sum of the rewards. A workload's later rewards then count only if it is on the same GPU in the next step. With
  ``summed``, later rewards count if the GPU is in use in the next step.
- The paper updates after every step of one cluster; here, an update follows every step of many clusters.
- Two additions: some of the actions are drawn uniformly, and the actor's loss penalises large inputs of its softmax
  and sigmoid. Without both additions and with uncompressed rewards, the batches reached the ends of the sigmoid within
  a few hundred updates and stayed there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instances.arrays import Singles
from instances.compiled import compiled
from rl.networks import CPU, DecidingNetworks, Networks, adam, descend, follow
from rl.replay import Replay

_ELSEWHERE = -1e9
"""Softmax input of a workload that is on another GPU: its share is 0."""


@dataclass(frozen=True, slots=True)
class Td3Settings:
    """Parameters of TD3; the defaults are those of Table 2 and Sec. 6.1.

    Attributes
    ----------
    hidden
        Neurons in each of the two hidden layers.
    buffer, minibatch
        Transitions stored, and transitions in an update; each step of a GPU in use is one transition.
    learning_rate
        Learning rate of critics and actor (l'').
    soft
        Fraction of the way that the targets move towards the networks after each update of the actor (kappa'').
    discount
        Discount factor (gamma).
    explore_noise, policy_noise, noise_clip
        Standard deviation of the noise on actions (sigma_1), and standard deviation and largest absolute value of the
        noise on target actions (sigma_2, c).
    policy_every
        Number of critic updates for each update of the actor and of the targets (nu).
    random_part
        Fraction of the exploring actions that are uniformly random (ours).
    logit_penalty, logit_margin
        The actor's loss has a penalty on each output of its last layer whose absolute value exceeds ``logit_margin``:
        the mean square of the excess times ``logit_penalty`` (ours).
    summed
        Whether the critics learn the sum of the rewards on a GPU, as in the paper, instead of each workload's reward.
    """

    hidden: int = 256
    buffer: int = 100_000
    minibatch: int = 256
    learning_rate: float = 3e-4
    soft: float = 0.005
    discount: float = 0.99
    explore_noise: float = 0.1
    policy_noise: float = 0.2
    noise_clip: float = 0.5
    policy_every: int = 2
    random_part: float = 0.0
    logit_penalty: float = 0.0
    logit_margin: float = 0.0
    summed: bool = True


@compiled
def actions(state: Singles, last_layer: Singles) -> Singles:
    """Return the actor's actions: shares by a softmax over the workloads on the GPU, batches by a sigmoid.

    Parameters
    ----------
    state
        Shape (states, state_size). A state begins with a flag per workload: whether it is on the GPU.
    last_layer
        Outputs of the actor's network, shape (states, 2 workloads).
    """
    action = np.zeros_like(last_layer)
    workloads = last_layer.shape[1] // 2
    for n in range(len(action)):
        top, total = -np.inf, 0.0
        for i in range(workloads):
            if state[n, i] > 0.5:
                top = max(top, last_layer[n, i])
        for i in range(workloads):
            if state[n, i] > 0.5:
                action[n, i] = np.exp(last_layer[n, i] - top)
                total += action[n, i]
        for i in range(workloads):
            if state[n, i] > 0.5:
                action[n, i] /= total
                action[n, workloads + i] = 1.0 / (1.0 + np.exp(-last_layer[n, workloads + i]))
    return action


def actions_in_torch(state: Tensor, last_layer: Tensor) -> Tensor:
    """Return ``actions`` in PyTorch, for learning."""
    workloads = last_layer.shape[1] // 2
    on_gpu = state[:, :workloads]
    share = last_layer[:, :workloads].masked_fill(on_gpu == 0.0, _ELSEWHERE).softmax(dim=1)
    batch = last_layer[:, workloads:].sigmoid()
    return torch.cat([share * on_gpu, batch * on_gpu], dim=1)


def with_noise(state: Tensor, action: Tensor, noise: Tensor) -> Tensor:
    """Add noise to actions and normalise them again; all of shape (states, 2 workloads)."""
    workloads = action.shape[1] // 2
    on_gpu = state[:, :workloads]
    noisy = (action + noise).clamp(min=0.0)
    share, batch = noisy[:, :workloads] * on_gpu, noisy[:, workloads:].clamp(max=1.0) * on_gpu
    total = share.sum(dim=1, keepdim=True)
    # If the noise leaves no share, the shares without noise are used.
    share = torch.where(total > 0.0, share / total, action[:, :workloads])
    return torch.cat([share, batch], dim=1)


class Td3:
    """Agent that divides a GPU among ``workloads``; a state begins with the flags of the workloads on the GPU.

    Parameters
    ----------
    random
        Source of all randomness, on the CPU.
    device
        Device of the networks and of the replay.

    Attributes
    ----------
    exploration
        Factor on the noise and on the fraction of random actions.
    """

    exploration = 1.0

    def __init__(
        self,
        workloads: int,
        state_size: int,
        settings: Td3Settings,
        random: torch.Generator,
        device: torch.device = CPU,
    ) -> None:
        self.settings, self._random, self._workloads, self._device = settings, random, workloads, device
        hidden, inputs = settings.hidden, state_size + 2 * workloads
        self.actor = Networks(1, state_size, hidden, 2 * workloads, random).to(device)
        self.target_actor = self.actor.target()
        self.critics = Networks(2, inputs, hidden, 1 if settings.summed else workloads, random).to(device)
        self.targets = self.critics.target()
        self.deciding = DecidingNetworks(self.actor)
        self._updates = 0
        fields = {
            "state": (state_size,),
            "action": (2 * workloads,),
            "reward": (workloads,),
            "next_state": (state_size,),
        }
        self.replay = Replay(settings.buffer, fields, device)

    @cached_property
    def _critic_optimiser(self) -> torch.optim.Optimizer:
        return adam(self.critics.parameters(), self.settings.learning_rate)

    @cached_property
    def _actor_optimiser(self) -> torch.optim.Optimizer:
        return adam(self.actor.parameters(), self.settings.learning_rate)

    def act(self, state: Singles, greedy: bool = False) -> Singles:
        """Choose an action in each state, shape (states, state_size), with exploration noise unless ``greedy``."""
        action = actions(state, self.deciding.output(0, state))
        if greedy:
            return action
        states = torch.from_numpy(state)
        noise = self.exploration * self.settings.explore_noise * torch.randn(action.shape, generator=self._random)
        drawn = torch.rand((len(state), 1), generator=self._random)
        at_random = drawn < self.exploration * self.settings.random_part
        explored = torch.where(at_random, self._uniform(states), with_noise(states, torch.from_numpy(action), noise))
        return explored.numpy()

    def _uniform(self, state: Tensor) -> Tensor:
        """Draw uniform actions: divisions of the GPU, and batches."""
        on_gpu = state[:, : self._workloads]
        share = torch.empty(on_gpu.shape).exponential_(generator=self._random) * on_gpu
        batch = torch.rand(on_gpu.shape, generator=self._random) * on_gpu
        return torch.cat([share / share.sum(dim=1, keepdim=True).clamp(min=1e-12), batch], dim=1)

    def update(self) -> dict[str, float]:
        """Learn from one mini-batch (Alg. 1, lines 20-25) and return the critics' loss.

        Losses are means over the mini-batch and sums over workloads and critics.
        """
        settings = self.settings
        state, action, reward, next_state = self.replay.sample(settings.minibatch, self._random).values()

        with torch.no_grad():
            noise = settings.policy_noise * torch.randn(action.shape, generator=self._random).to(self._device)
            noise = noise.clamp(-settings.noise_clip, settings.noise_clip)
            next_action = with_noise(
                next_state, actions_in_torch(next_state, self.target_actor(next_state[None])[0]), noise
            )
            smaller_value = self._critic_values(self.targets, next_state, next_action).amin(dim=0)
            reward = reward.sum(dim=1, keepdim=True) if settings.summed else reward
            target = reward + settings.discount * smaller_value * self._counting_outputs(next_state)
        counts = self._counting_outputs(state)
        error = (self._critic_values(self.critics, state, action) - target) * counts
        critic_loss = error.square().sum() / len(state)
        descend(self._critic_optimiser, critic_loss)

        self._updates += 1
        if self._updates % settings.policy_every == 0:
            last_layer = self.actor(state[None])[0]
            # Only the first critic counts (Alg. 1, line 23).
            value = self.critics.first(torch.cat([state, actions_in_torch(state, last_layer)], dim=1)[None])[0] * counts
            penalty = settings.logit_penalty * (last_layer.abs() - settings.logit_margin).relu().square().mean()
            descend(self._actor_optimiser, penalty - value.sum() / len(state))
            follow(self.targets, self.critics, settings.soft)
            follow(self.target_actor, self.actor, settings.soft)
            self.deciding.refresh()
        return {"critic_loss": critic_loss.item()}

    def _counting_outputs(self, state: Tensor) -> Tensor:
        """Return 1 for each output of a critic that counts in a state, else 0.

        The outputs of workloads on the GPU count. With ``summed``, the only output counts if the GPU is in use.
        """
        on_gpu = state[:, : self._workloads]
        return on_gpu.amax(dim=1, keepdim=True) if self.settings.summed else on_gpu

    def _critic_values(self, critics: Networks, state: Tensor, action: Tensor) -> Tensor:
        """Return the values by both critics, shape (2, states, workloads), or (2, states, 1) with ``summed``."""
        value: Tensor = critics(torch.cat([state, action], dim=1).expand(2, -1, -1))
        return value

    def state_dict(self) -> dict[str, Any]:
        """Return the state for resuming, without the random generator."""
        return {name: part.state_dict() for name, part in self._parts().items()} | {"updates": self._updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a ``state_dict``."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self._updates = state["updates"]
        self.deciding.refresh()

    def _parts(self) -> dict[str, Any]:
        return {
            "actor": self.actor,
            "target_actor": self.target_actor,
            "critics": self.critics,
            "targets": self.targets,
            "actor_optimiser": self._actor_optimiser,
            "critic_optimiser": self._critic_optimiser,
            "replay": self.replay,
        }
