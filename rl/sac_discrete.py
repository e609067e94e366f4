"""SAC for discrete actions, with one agent per workload (InSS Sec. 5.1, Alg. 1 lines 17-19, Table 2).

Deviations from the paper:

- The target entropy is a fraction, by default 0.98, of the logarithm of the number of safe actions. The paper prints
  ``-log(1 + iota)`` and does not define iota.
- The temperature is optimised through its logarithm, which keeps it positive.
- Unless ``shared`` is set, every workload's agent has its own critics and temperature, and its critics learn from its
  own transitions only. In the paper, only the actor is its own.
- The paper updates after every step of one cluster; here, an update follows every step of many clusters.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from instances.arrays import Flags, Ints, Singles
from instances.compiled import compiled
from rl.networks import CPU, DecidingNetworks, Networks, adam, descend, follow
from rl.replay import Replay

_UNSAFE = -1e9
"""Logit of an unsafe action: its probability is 0. The logit is finite, so that p log p is 0 and not NaN."""


@dataclass(frozen=True, slots=True)
class SacSettings:
    """Parameters of SAC-Discrete; the defaults are those of Table 2 and Sec. 6.1.

    Attributes
    ----------
    hidden
        Neurons in each of the two hidden layers.
    buffer
        Transitions stored for each agent.
    minibatch
        Transitions of each agent in an update.
    learning_rate
        Learning rate (l') of critics, actors and temperatures.
    temperature
        Initial temperature (tau).
    target_entropy
        Target entropy as a fraction of the largest possible.
    soft
        Fraction of the way that the target critics move towards the critics after each update (kappa').
    discount
        Discount factor (gamma).
    """

    hidden: int = 256
    buffer: int = 100_000
    minibatch: int = 256
    learning_rate: float = 1e-4
    temperature: float = 1.0
    target_entropy: float = 0.98
    soft: float = 0.01
    discount: float = 0.99


def perturbed(score: Singles, spread: float | Singles, random: torch.Generator) -> Singles:
    """Return scores with Gumbel noise: the index of the largest follows the softmax of ``score / spread``."""
    exponential = torch.empty(score.shape).exponential_(generator=random).numpy()
    return score - np.float32(spread) * np.log(np.maximum(exponential, np.float32(1e-30)))


class SacDiscrete:
    """Agents that each choose one of ``actions``; each has an actor, two critics and a temperature.

    Parameters
    ----------
    agents, state_size, actions
        Number of agents, length of a state, and number of actions.
    random
        Source of all randomness, on the CPU.
    by_action
        Whether the actions are interchangeable: a state consists of one part per action, and a network scores each
        action from its part.
    shared
        Whether all agents share the two critics and the temperature.
    device
        Device of the networks and of the replay.

    Attributes
    ----------
    exploration
        Factor on the target entropy.
    """

    exploration = 1.0

    def __init__(
        self,
        agents: int,
        state_size: int,
        actions: int,
        settings: SacSettings,
        random: torch.Generator,
        by_action: bool = False,
        shared: bool = False,
        device: torch.device = CPU,
    ) -> None:
        self.settings, self._random, self._agents, self._shared = settings, random, agents, shared
        shape = (state_size, settings.hidden, actions)
        parts = actions if by_action else 1
        self.actor = Networks(agents, *shape, random, parts).to(device)
        self.critics = Networks(2 if shared else 2 * agents, *shape, random, parts).to(device)
        self.targets = self.critics.target()
        self.log_temperature = nn.Parameter(
            torch.full((1 if shared else agents,), math.log(settings.temperature), device=device)
        )
        self.deciding = DecidingNetworks(self.actor)
        fields = {
            "state": (agents, state_size),
            "safe": (agents, actions),
            "action": (agents,),
            "reward": (agents,),
            "next_state": (agents, state_size),
            "next_safe": (agents, actions),
        }
        self.replay = Replay(settings.buffer, fields, device)

    @cached_property
    def _critic_optimiser(self) -> torch.optim.Optimizer:
        return adam(self.critics.parameters(), self.settings.learning_rate)

    @cached_property
    def _actor_optimiser(self) -> torch.optim.Optimizer:
        return adam([*self.actor.parameters(), self.log_temperature], self.settings.learning_rate)

    def act(self, agent: int, state: Singles, safe: Flags, spread: Singles | float = 1.0) -> Ints:
        """Choose an action of one agent in each state, shape (states, state_size).

        Parameters
        ----------
        safe
            Permitted actions, shape (states, actions), at least one in each state.
        spread
            Divisor of the logits: 1 draws from the policy, 0 takes the likeliest; one number for all or of shape
            (states, 1).
        """
        return _best_safe(perturbed(self.deciding.output(agent, state), spread, self._random), safe)

    def update(self) -> dict[str, float]:
        """Learn from one mini-batch (Alg. 1, lines 17-19); return losses per agent, mean entropy and mean temperature.

        The losses that are minimised are sums over agents and critics, which have separate weights.
        """
        settings = self.settings
        batch = self.replay.sample(settings.minibatch, self._random)
        state, safe, action, reward, next_state, next_safe = (field.transpose(0, 1) for field in batch.values())
        temperature = self.log_temperature.detach().exp()[:, None, None]

        target = reward
        if settings.discount > 0.0:  # Otherwise later values do not count; computing them takes a fifth of the time.
            with torch.no_grad():
                log_p = log_policy(self.actor(next_state), next_safe)
                smaller_value = self._critic_values(self.targets, next_state).amin(dim=0)
                target = reward + settings.discount * soft_value(log_p, smaller_value, temperature)
        action_index = action.long().expand(2, -1, -1)[..., None]
        value_of_action = self._critic_values(self.critics, state).gather(-1, action_index)[..., 0]
        critic_loss = (value_of_action - target).square().mean(dim=-1).sum()
        descend(self._critic_optimiser, critic_loss)

        with torch.no_grad():
            smaller_value = self._critic_values(self.critics, state).amin(dim=0)
        log_p = log_policy(self.actor(state), safe)
        actor_loss = -soft_value(log_p, smaller_value, temperature).mean(dim=-1).sum()
        with torch.no_grad():
            entropy = -(log_p.exp() * log_p).sum(dim=-1)
            target_entropy = self.exploration * settings.target_entropy * safe.sum(dim=-1).log()
            excess = (entropy - target_entropy).mean(dim=-1)
        temperature_loss = (self.log_temperature * excess).sum()
        descend(self._actor_optimiser, actor_loss + temperature_loss)

        follow(self.targets, self.critics, settings.soft)
        self.deciding.refresh()
        return {
            "critic_loss": critic_loss.item() / self._agents,
            "actor_loss": actor_loss.item() / self._agents,
            "entropy": entropy.mean().item(),
            "temperature": temperature.mean().item(),
        }

    def _critic_values(self, critics: Networks, state: Tensor) -> Tensor:
        """Return the values by both critics of states (agents, batch, size), shape (2, agents, batch, actions)."""
        states = state.reshape(1, -1, state.shape[-1]) if self._shared else state
        value: Tensor = critics(torch.cat([states, states]))
        return value.view(2, *state.shape[:2], -1)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for resuming, without the random generator."""
        state = {name: part.state_dict() for name, part in self._parts().items()}
        return state | {"log_temperature": self.log_temperature.detach()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a ``state_dict``."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])
        self.deciding.refresh()

    def _parts(self) -> dict[str, Any]:
        return {
            "actor": self.actor,
            "critics": self.critics,
            "targets": self.targets,
            "actor_optimiser": self._actor_optimiser,
            "critic_optimiser": self._critic_optimiser,
            "replay": self.replay,
        }


@compiled
def _best_safe(score: Singles, safe: Flags) -> Ints:
    """Return the safe action with the highest score in each state."""
    best = np.empty(len(score), dtype=np.int64)
    for n in range(len(score)):
        top = -np.inf
        for j in range(score.shape[1]):
            if safe[n, j] and score[n, j] > top:
                top, best[n] = score[n, j], j
    return best


def log_policy(logits: Tensor, safe: Tensor) -> Tensor:
    """Return the logarithms of the actions' probabilities; unsafe actions, where ``safe`` is 0, have probability 0."""
    return logits.masked_fill(safe == 0.0, _UNSAFE).log_softmax(dim=-1)


def soft_value(log_p: Tensor, value: Tensor, temperature: Tensor) -> Tensor:
    """Return the policy's mean of ``value - temperature log p``, shape (agents, batch)."""
    return (log_p.exp() * (value - temperature * log_p)).sum(dim=-1)
