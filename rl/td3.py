"""TD3 that divides one GPU and chooses the batches (InSS Sec. 5.2, Alg. 1 lines 20-25, Table 2).

One agent serves all GPUs of a kind, each with its own state. An action has two numbers for every workload of the
instance: its fraction of the GPU, and its batch as a fraction between 1 and the largest. Both are 0 for workloads on
other GPUs.

Deviations from the paper:

- The shares are a softmax over the workloads on the GPU and therefore sum to 1, as in the paper. The batch fractions
  are a sigmoid, which the paper does not specify.
- Noise is added to the action. Shares are then clipped at 0 and divided by their sum, so that the stored and the
  executed shares both sum to 1.
- The critics have one output per workload for its reward; the paper's ``r''`` is their sum. A workload's later rewards
  count if it is on the same GPU in the next step.
- The paper's update after every step of one cluster is an update after every step of many clusters.
- Two additions: a part of the actions is drawn uniformly, and the actor's loss penalises large inputs to its softmax
  and sigmoid. Without either, and with uncompressed rewards, the batches reached the ends of the sigmoid within a few
  hundred updates and stayed there.
"""

import math
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from rl.networks import Stack, descend, follow, layers
from rl.replay import Replay


@dataclass(frozen=True, slots=True)
class Td3Settings:
    """Parameters of TD3; the defaults are those of Table 2 and Sec. 6.1.

    Attributes
    ----------
    hidden
        Neurons in each of the two hidden layers.
    buffer, minibatch
        Transitions stored, and transitions in an update; each GPU's step is one transition.
    learning_rate
        l'' of critics and actor.
    soft
        kappa''.
    discount
        gamma.
    explore_noise, policy_noise, noise_clip
        sigma_1, sigma_2 and c.
    policy_every
        nu: critic updates per update of the actor and of the targets.
    random_part
        Fraction of the exploring actions that are uniformly random (ours).
    logit_penalty, logit_margin
        Weight, in the actor's loss, of the mean square of the amount by which its last layer exceeds the margin in
        either direction (ours).
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


def four_layers(inputs: int, hidden: int, outputs: int, random: torch.Generator) -> nn.Sequential:
    """Return a network with two hidden layers, its weights drawn from ``random``."""
    sizes = (inputs, hidden, hidden, outputs)
    layers: list[nn.Module] = []
    for fan_in, fan_out in pairwise(sizes):
        linear = nn.Linear(fan_in, fan_out)
        with torch.no_grad():
            for part in (linear.weight, linear.bias):  # PyTorch's default, from our own random generator
                part.copy_((2.0 * torch.rand(part.shape, generator=random) - 1.0) / math.sqrt(fan_in))
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def through(network: nn.Module, x: Tensor) -> Tensor:
    """Map ``x`` through a network of ``four_layers`` with a faster backward pass than PyTorch's own."""
    linear = [layer for layer in network.children() if isinstance(layer, nn.Linear)]
    weights = [layer.weight.t().unsqueeze(0) for layer in linear]
    biases = [layer.bias.reshape(1, 1, -1) for layer in linear]
    return layers(x.unsqueeze(0), weights, biases).squeeze(0)


class Actor(nn.Module):
    """Actor: shares by a softmax over the workloads on the GPU, batches by a sigmoid.

    A state begins with a flag per workload: whether it is on the GPU.
    """

    def __init__(self, workloads: int, state_size: int, hidden: int, random: torch.Generator) -> None:
        super().__init__()
        self.workloads = workloads
        self.network = four_layers(state_size, hidden, 2 * workloads, random)

    def forward(self, state: Tensor) -> Tensor:
        """Map states, shape (states, state_size), to actions, shape (states, 2 workloads)."""
        return self.action(state, through(self.network, state))

    def action(self, state: Tensor, last_layer: Tensor) -> Tensor:
        """Return the actions for the outputs of the network."""
        there = state[:, : self.workloads]
        share, batch = torch.split(last_layer, self.workloads, dim=1)
        share = torch.softmax(share.masked_fill(there < 0.5, -1e9), dim=1) * there
        return torch.cat([share, torch.sigmoid(batch) * there], dim=1)


def blurred(state: Tensor, action: Tensor, noise: Tensor) -> Tensor:
    """Add noise to actions and normalise them again; all of shape (states, 2 workloads)."""
    workloads = action.shape[1] // 2
    there = state[:, :workloads]
    share, batch = torch.split(action + noise, workloads, dim=1)
    share = share.clamp_min(0.0) * there
    total = share.sum(dim=1, keepdim=True)
    # If the noise leaves no share, the shares without noise are used
    share = torch.where(total > 0.0, share / total.clamp_min(1e-12), action[:, :workloads])
    return torch.cat([share, batch.clamp(0.0, 1.0) * there], dim=1)


class Td3:
    """Agent that divides a GPU among ``workloads``.

    Parameters
    ----------
    workloads, state_size
        Shape of the problem; a state begins with the flags of the workloads on the GPU.
    settings
        Parameters.
    random
        Source of all randomness, on the CPU.
    device
        Device of the computation.

    Attributes
    ----------
    exploration
        Fraction of the noise and of the random actions in use.
    """

    exploration = 1.0

    def __init__(
        self, workloads: int, state_size: int, settings: Td3Settings, random: torch.Generator, device: torch.device
    ) -> None:
        self.settings, self._random, self._device = settings, random, device
        hidden, inputs = settings.hidden, state_size + 2 * workloads
        self.actor = Actor(workloads, state_size, hidden, random).to(device)
        self.target_actor = deepcopy(self.actor).requires_grad_(False)
        self.critics = Stack(2, inputs, hidden, workloads, random).to(device)
        self.targets = deepcopy(self.critics).requires_grad_(False)
        self._actor_optimiser = torch.optim.Adam(self.actor.parameters(), lr=settings.learning_rate, fused=True)
        self._critic_optimiser = torch.optim.Adam(self.critics.parameters(), lr=settings.learning_rate, fused=True)
        self._updates = 0
        self.replay = Replay(
            settings.buffer,
            {"state": (state_size,), "action": (2 * workloads,), "reward": (workloads,), "next_state": (state_size,)},
        )

    @torch.no_grad()
    def act(self, state: Tensor, greedy: bool = False) -> Tensor:
        """Choose an action in each state, shape (states, state_size), with exploration noise unless ``greedy``."""
        action: Tensor = self.actor(state.to(self._device)).cpu()
        if greedy:
            return action
        noise = self.exploration * self.settings.explore_noise * torch.randn(action.shape, generator=self._random)
        at_random = torch.rand((len(state), 1), generator=self._random) < self.exploration * self.settings.random_part
        return torch.where(at_random, self._any(state), blurred(state, action, noise))

    def _any(self, state: Tensor) -> Tensor:
        """Draw uniform actions: divisions of the GPU, and batches."""
        there = state[:, : self.actor.workloads]
        share = torch.empty_like(there).exponential_(generator=self._random) * there
        batch = torch.rand(there.shape, generator=self._random) * there
        return torch.cat([share / share.sum(dim=1, keepdim=True).clamp_min(1e-12), batch], dim=1)

    def update(self) -> dict[str, float]:
        """Learn from one mini-batch (Alg. 1, lines 20-25) and return the critics' loss."""
        settings = self.settings
        batch = self.replay.sample(settings.minibatch, self._random, self._device)
        state, action, reward, next_state = (batch[name] for name in ("state", "action", "reward", "next_state"))
        with torch.no_grad():
            noise = settings.policy_noise * torch.randn(action.shape, generator=self._random).to(self._device)
            noise = noise.clamp(-settings.noise_clip, settings.noise_clip)
            seen = torch.cat([next_state, blurred(next_state, self.target_actor(next_state), noise)], dim=1)
            least = self.targets(torch.stack([seen, seen])).amin(dim=0)
            target = reward + settings.discount * least * next_state[:, : self.actor.workloads]
        seen, there = torch.cat([state, action], dim=1), state[:, : self.actor.workloads]
        error = (self.critics(torch.stack([seen, seen])) - target) * there
        critic_loss = error.square().sum(dim=2).mean(dim=1).sum()
        descend(self._critic_optimiser, critic_loss)
        self._updates += 1
        if self._updates % settings.policy_every == 0:
            # Gradient through the first critic alone, whose own weights do not change
            last_layer = through(self.actor.network, state)
            action = self.actor.action(state, last_layer)
            worth = self.critics.one(0, torch.cat([state, action], dim=1)) * there
            beyond = functional.relu(last_layer.abs() - settings.logit_margin).square().mean()
            descend(self._actor_optimiser, settings.logit_penalty * beyond - worth.sum(dim=1).mean())
            follow(self.targets, self.critics, settings.soft)
            follow(self.target_actor, self.actor, settings.soft)
        return {"critic_loss": float(critic_loss.detach())}

    def state_dict(self) -> dict[str, Any]:
        """Return the state for resuming, without the random generator."""
        return deepcopy({name: part.state_dict() for name, part in self._parts().items()} | {"updates": self._updates})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a ``state_dict``."""
        for name, part in self._parts().items():
            part.load_state_dict(deepcopy(state[name]))  # without a copy, optimisers would share their moments
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
