"""TD3 that divides one GPU and chooses the batches (InSS Sec. 5.2, Alg. 1 lines 20-25, Table 2).

One agent decides for all GPUs, each with a state of its own. An action has two numbers for every workload of the
instance: its fraction of the GPU, and its batch as a fraction of the way from 1 to the largest. Both are 0 for
workloads on other GPUs.

Deviations from the paper:

- The shares are a softmax over the workloads on the GPU and therefore sum to 1, as in the paper. The batch fractions
  are a sigmoid, which the paper does not specify.
- Noise is added to the action. Shares are then clipped at 0 and divided by their sum, so that the stored and the
  executed shares both sum to 1.
- The critics have one output per workload for its reward; the paper's ``r''`` is their sum. A workload's later rewards
  count only if it is on the same GPU in the next step.
- The paper updates after every step of one cluster; here, an update follows every step of many clusters.
- Two additions: some of the actions are drawn uniformly, and the actor's loss penalises large inputs of its softmax
  and sigmoid. Without both additions and with uncompressed rewards, the batches reached the ends of the sigmoid within
  a few hundred updates and stayed there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from instances.arrays import Singles
from instances.compiled import compiled
from rl.networks import Adam, Stack, follow
from rl.replay import Replay


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
        Standard deviations of the noise on the actions and on the target actions, and the limit of the latter (sigma_1,
        sigma_2, c).
    policy_every
        Number of critic updates for each update of the actor and of the targets (nu).
    random_part
        Fraction of the exploring actions that are uniformly random (ours).
    logit_penalty, logit_margin
        The actor's loss has a penalty on each output of its last layer whose absolute value exceeds ``logit_margin``:
        the mean square of the excess times ``logit_penalty`` (ours).
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
    random_part: float = 0.1
    logit_penalty: float = 0.001
    logit_margin: float = 0.0


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


@compiled
def blurred(state: Singles, action: Singles, noise: Singles) -> Singles:
    """Add noise to actions and normalise them again; all of shape (states, 2 workloads)."""
    noisy = np.zeros_like(action)
    workloads = action.shape[1] // 2
    for n in range(len(action)):
        total = 0.0
        for i in range(workloads):
            if state[n, i] > 0.5:
                noisy[n, i] = max(action[n, i] + noise[n, i], 0.0)
                total += noisy[n, i]
                noisy[n, workloads + i] = min(max(action[n, workloads + i] + noise[n, workloads + i], 0.0), 1.0)
        for i in range(workloads):
            # If the noise leaves no share, the shares without noise are used.
            noisy[n, i] = noisy[n, i] / total if total > 0.0 else action[n, i]
    return noisy


class Td3:
    """Agent that divides a GPU among ``workloads``; a state begins with the flags of the workloads on the GPU.

    Attributes
    ----------
    exploration
        Factor on the noise and on the fraction of random actions.
    """

    exploration = 1.0

    def __init__(self, workloads: int, state_size: int, settings: Td3Settings, random: torch.Generator) -> None:
        self.settings, self._random, self._workloads = settings, random, workloads
        hidden, inputs = settings.hidden, state_size + 2 * workloads
        self.actor = Stack(1, state_size, hidden, 2 * workloads, random)
        self.target_actor = self.actor.copy()
        self.critics = Stack(2, inputs, hidden, workloads, random)
        self.targets = self.critics.copy()
        self._first = self.critics.only(0)
        self._actor_gradient, self._critic_gradient = self.actor.like(), self.critics.like()
        self._actor_optimiser = Adam(self.actor.flat, settings.learning_rate)
        self._critic_optimiser = Adam(self.critics.flat, settings.learning_rate)
        self._updates = 0
        self.replay = Replay(
            settings.buffer,
            {"state": (state_size,), "action": (2 * workloads,), "reward": (workloads,), "next_state": (state_size,)},
        )

    def act(self, state: Singles, greedy: bool = False) -> Singles:
        """Choose an action in each state, shape (states, state_size), with exploration noise unless ``greedy``."""
        action = actions(state, self.actor.one(0, state))
        if greedy:
            return action
        noise = torch.randn(action.shape, generator=self._random).numpy()
        noise *= self.exploration * self.settings.explore_noise
        drawn = torch.rand((len(state), 1), generator=self._random).numpy()
        at_random = drawn < self.exploration * self.settings.random_part
        return np.where(at_random, self._uniform(state), blurred(state, action, noise))

    def _uniform(self, state: Singles) -> Singles:
        """Draw uniform actions: divisions of the GPU, and batches."""
        there = state[:, : self._workloads]
        share = torch.empty(there.shape).exponential_(generator=self._random).numpy() * there
        batch = torch.rand(there.shape, generator=self._random).numpy() * there
        return np.concatenate([share / np.maximum(share.sum(axis=1, keepdims=True), np.float32(1e-12)), batch], axis=1)

    def update(self) -> dict[str, float]:
        """Learn from one mini-batch (Alg. 1, lines 20-25) and return the critics' loss."""
        settings, workloads = self.settings, self._workloads
        batch = self.replay.sample(settings.minibatch, self._random)
        state, action, reward, next_state = batch.values()
        noise = torch.randn(action.shape, generator=self._random).numpy() * np.float32(settings.policy_noise)
        noise = np.clip(noise, -settings.noise_clip, settings.noise_clip)
        next_action = actions(next_state, self.target_actor.one(0, next_state))
        inputs = np.concatenate([next_state, blurred(next_state, next_action, noise)], axis=1)
        least = self.targets.forward(np.stack([inputs, inputs]))[-1].min(axis=0)
        target = reward + np.float32(settings.discount) * least * next_state[:, :workloads]

        inputs, there = np.concatenate([state, action], axis=1), state[:, :workloads]
        layers = self.critics.forward(np.stack([inputs, inputs]))
        error = (layers[-1] - target) * there
        critic_loss = float(np.square(error).sum()) / len(state)
        self.critics.backward(layers, error * np.float32(2.0 / len(state)), self._critic_gradient)
        self._critic_optimiser.step(self._critic_gradient.flat)

        self._updates += 1
        if self._updates % settings.policy_every == 0:
            self._improve(state)
            follow(self.targets.flat, self.critics.flat, settings.soft)
            follow(self.target_actor.flat, self.actor.flat, settings.soft)
        return {"critic_loss": critic_loss}

    def _improve(self, state: Singles) -> None:
        """Update the actor by the first critic (Alg. 1, line 24)."""
        layers = self.actor.forward(state[None])
        action = actions(state, layers[-1][0])
        critic_layers = self._first.forward(np.concatenate([state, action], axis=1)[None])
        by_value = -state[None, :, : self._workloads] / np.float32(len(state))
        by_input = self._first.backward(critic_layers, by_value, None)
        assert by_input is not None
        by_action = by_input[0, :, state.shape[1] :]
        gradient = _last_layer_gradient(
            action, by_action, layers[-1][0], self.settings.logit_penalty, self.settings.logit_margin
        )
        self.actor.backward(layers, gradient[None], self._actor_gradient)
        self._actor_optimiser.step(self._actor_gradient.flat)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for resuming, without the random generator."""
        return {name: part.state_dict() for name, part in self._parts().items()} | {"updates": self._updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a ``state_dict``."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self._updates = state["updates"]

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


@compiled
def _last_layer_gradient(
    action: Singles, by_action: Singles, last_layer: Singles, penalty: float, margin: float
) -> Singles:
    """Return the gradient of the actor's loss with respect to its last layer, shape (states, 2 workloads).

    ``by_action`` is the gradient of the loss with respect to the actions.
    """
    states, both = action.shape
    workloads = both // 2
    gradient = np.empty_like(action)
    for n in range(states):
        mean = 0.0
        for i in range(workloads):
            mean += action[n, i] * by_action[n, i]
        for i in range(both):
            a = action[n, i]
            # Derivatives of the softmax and of the sigmoid; both are 0 for workloads on other GPUs.
            gradient[n, i] = a * (by_action[n, i] - mean) if i < workloads else a * (1.0 - a) * by_action[n, i]
            beyond = max(abs(last_layer[n, i]) - margin, 0.0)
            gradient[n, i] += penalty * 2.0 * beyond * np.sign(last_layer[n, i]) / (states * both)
    return gradient
