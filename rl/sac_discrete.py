"""SAC for discrete actions: one agent per workload, trained side by side (InSS Sec. 5.1, Alg. 1 lines 17-19, Table 2).

Deviations from the paper:

- The target entropy, printed as ``-log(1 + iota)`` with an undefined iota, is 0.98 log of the number of safe actions
  of a state.
- The temperature is optimised through its logarithm, which keeps it positive.
- Every workload's agent has its own temperature and, unless ``Training.pooled``, its own critics and mini-batch. In the
  paper this holds for the actor only.
- The paper's update after every step of one cluster is an update after every step of many clusters.
"""

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from rl.networks import Critics, Stack, descend, follow
from rl.replay import Replay


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
        l' of critics, actors and temperatures.
    temperature
        Initial tau.
    target_entropy
        Target entropy as a fraction of the largest.
    soft
        kappa'.
    discount
        gamma.
    """

    hidden: int = 256
    buffer: int = 100_000
    minibatch: int = 256
    learning_rate: float = 1e-4
    temperature: float = 1.0
    target_entropy: float = 0.98
    soft: float = 0.01
    discount: float = 0.99


def perturbed(score: Tensor, spread: float | Tensor, random: torch.Generator) -> Tensor:
    """Return scores with Gumbel noise: the index of the largest follows the softmax of ``score / spread``."""
    return score - spread * torch.empty_like(score).exponential_(generator=random).clamp_min(1e-30).log()


def masked_log_probabilities(logits: Tensor, safe: Tensor) -> Tensor:
    """Return log probabilities over the safe actions; those of other actions are finite and have no weight."""
    return functional.log_softmax(logits.masked_fill(~safe, -1e9), dim=-1)


class SacDiscrete:
    """Agents that each choose one of ``actions``; each has an actor, two critics and a temperature.

    Parameters
    ----------
    agents, state_size, actions
        Shape of the problem.
    settings
        Parameters.
    random
        Source of all randomness, on the CPU.
    device
        Device of the computation.
    network
        Kind of all networks.
    shared
        Whether all agents share the two critics.

    Attributes
    ----------
    exploration
        Fraction of the target entropy in use.
    """

    exploration = 1.0

    def __init__(
        self,
        agents: int,
        state_size: int,
        actions: int,
        settings: SacSettings,
        random: torch.Generator,
        device: torch.device,
        network: type[Stack] = Stack,
        shared: bool = False,
    ) -> None:
        self.settings, self._random, self._device = settings, random, device
        shape = (agents, state_size, settings.hidden, actions)
        self.actor = network(*shape, random).to(device)
        self.critics = Critics(network, *shape, shared, random).to(device)
        self.targets = deepcopy(self.critics).requires_grad_(False)
        self.log_temperature = torch.full((agents, 1), math.log(settings.temperature), device=device)
        self.log_temperature.requires_grad_()
        rate = settings.learning_rate
        self._actor_optimiser = torch.optim.Adam([*self.actor.parameters(), self.log_temperature], lr=rate, fused=True)
        self._critic_optimiser = torch.optim.Adam(self.critics.parameters(), lr=rate, fused=True)
        self.replay = Replay(
            settings.buffer,
            {
                "state": (agents, state_size),
                "safe": (agents, actions),
                "action": (agents,),
                "reward": (agents,),
                "next_state": (agents, state_size),
                "next_safe": (agents, actions),
            },
        )

    @torch.no_grad()
    def act(self, agent: int, state: Tensor, safe: Tensor, spread: Tensor | float = 1.0) -> Tensor:
        """Choose an action in each state.

        Parameters
        ----------
        agent
            Index of the agent that chooses.
        state
            Shape (states, state_size).
        safe
            Permitted actions, shape (states, actions), at least one in each state.
        spread
            Divisor of the logits: 1 draws from the policy, 0 takes the likeliest; one number for all or of shape
            (states, 1).
        """
        log_p = masked_log_probabilities(self.actor.one(agent, state.to(self._device)), safe.to(self._device)).cpu()
        return perturbed(log_p, spread, self._random).argmax(dim=-1)

    def update(self) -> dict[str, float]:
        """Learn from one mini-batch (Alg. 1, lines 17-19) and return the losses."""
        settings = self.settings
        batch = self.replay.sample(settings.minibatch, self._random, self._device)
        state, next_state, reward = (_by_agent(batch[name]) for name in ("state", "next_state", "reward"))
        safe, next_safe = (_by_agent(batch[name]) > 0.5 for name in ("safe", "next_safe"))
        action = _by_agent(batch["action"]).long().unsqueeze(-1)
        temperature = self.log_temperature.exp().detach()

        with torch.no_grad():
            log_p = masked_log_probabilities(self.actor(next_state), next_safe)
            least = self.targets(next_state).amin(dim=0)
            value = (log_p.exp() * (least - temperature.unsqueeze(-1) * log_p)).sum(dim=-1)
            target = reward + settings.discount * value
        error = self.critics(state).gather(-1, action.expand(2, *action.shape)).squeeze(-1) - target
        # The losses are summed over critics and agents, since these have separate weights.
        critic_loss = error.square().mean(dim=-1).sum()
        descend(self._critic_optimiser, critic_loss)

        log_p = masked_log_probabilities(self.actor(state), safe)
        p = log_p.exp()
        with torch.no_grad():
            least = self.critics(state).amin(dim=0)
        actor_loss = (p * (temperature.unsqueeze(-1) * log_p - least)).sum(dim=-1).mean(dim=1).sum()
        entropy = -(p * log_p).sum(dim=-1).detach()
        wanted = self.exploration * settings.target_entropy * safe.sum(dim=-1).log()
        temperature_loss = (self.log_temperature * (entropy - wanted)).mean(dim=1).sum()
        descend(self._actor_optimiser, actor_loss + temperature_loss)

        follow(self.targets, self.critics, settings.soft)
        agents = state.shape[0]
        return {
            "critic_loss": float(critic_loss.detach()) / agents,
            "actor_loss": float(actor_loss.detach()) / agents,
            "entropy": float(entropy.mean()),
            "temperature": float(temperature.mean()),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the state for resuming, without the random generator."""
        parts = {name: part.state_dict() for name, part in self._parts().items()}
        return deepcopy(parts | {"log_temperature": self.log_temperature.detach()})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a ``state_dict``."""
        for name, part in self._parts().items():
            part.load_state_dict(deepcopy(state[name]))  # without a copy, optimisers would share their moments
        with torch.no_grad():
            self.log_temperature.copy_(state["log_temperature"])

    def _parts(self) -> dict[str, Any]:
        return {
            "actor": self.actor,
            "critics": self.critics,
            "targets": self.targets,
            "actor_optimiser": self._actor_optimiser,
            "critic_optimiser": self._critic_optimiser,
            "replay": self.replay,
        }


def _by_agent(part: Tensor) -> Tensor:
    """Swap shape (batch, agents, ...) to (agents, batch, ...)."""
    return part.transpose(0, 1)
