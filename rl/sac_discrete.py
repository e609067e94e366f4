"""SAC for discrete actions, with one agent per workload (InSS Sec. 5.1, Alg. 1 lines 17-19, Table 2).

Deviations from the paper:

- The target entropy is a fraction, by default 0.98, of the logarithm of the number of safe actions. The paper prints
  ``-log(1 + iota)`` and does not define iota.
- The temperature is optimised through its logarithm, which keeps it positive.
- Every workload's agent has its own temperature and, unless ``Training.pooled`` is set, its own critics and mini-batch.
  In the paper it only has its own actor.
- The paper updates after every step of one cluster; here, an update follows every step of many clusters.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from instances.arrays import Flags, Floats, Ints, Singles
from instances.compiled import compiled
from rl.networks import Adam, Stack, follow
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
    waits = torch.empty(score.shape).exponential_(generator=random).numpy()
    return score - np.float32(spread) * np.log(np.maximum(waits, np.float32(1e-30)))


class SacDiscrete:
    """Agents that each choose one of ``actions``; each has an actor, two critics and a temperature.

    Parameters
    ----------
    agents, state_size, actions
        Number of agents, length of a state, and number of actions.
    network
        Class of the actor and critic networks.
    shared
        Whether all agents share the two critics.

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
        network: type[Stack] = Stack,
        shared: bool = False,
    ) -> None:
        self.settings, self._random, self._shared = settings, random, shared
        shape = (state_size, settings.hidden, actions)
        self.actor = network(agents, *shape, random)
        self.critics = network(2 if shared else 2 * agents, *shape, random)
        self.targets = self.critics.copy()
        self.log_temperature = np.full(agents, math.log(settings.temperature), dtype=np.float32)
        self._actor_gradient, self._critic_gradient = self.actor.like(), self.critics.like()
        self._optimisers = {
            "actor": Adam(self.actor.flat, settings.learning_rate),
            "critics": Adam(self.critics.flat, settings.learning_rate),
            "temperature": Adam(self.log_temperature, settings.learning_rate),
        }
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
        return _best_safe(perturbed(self.actor.one(agent, state), spread, self._random), safe)

    def update(self) -> dict[str, float]:
        """Learn from one mini-batch (Alg. 1, lines 17-19) and return the losses."""
        settings = self.settings
        batch = self.replay.sample(settings.minibatch, self._random)
        by_agent = (np.ascontiguousarray(np.swapaxes(part, 0, 1)) for part in batch.values())
        state, safe, action, reward, next_state, next_safe = by_agent
        agents, count = state.shape[:2]
        temperature = np.exp(self.log_temperature)

        # The losses are summed over critics and agents, since these have separate weights.
        both = self.actor.forward(np.concatenate([state, next_state], axis=1))
        target = _targets(
            both[-1][:, count:],
            next_safe,
            self._by_critic(self.targets.forward(self._twice(next_state))[-1], agents),
            reward,
            temperature,
            settings.discount,
        )
        inputs = self._twice(state)
        layers = self.critics.forward(inputs)
        gradient, critic_loss = _critic_loss(self._by_critic(layers[-1], agents), action, target)
        self.critics.backward(layers, gradient.reshape(layers[-1].shape), self._critic_gradient)
        self._optimisers["critics"].step(self._critic_gradient.flat)

        values = self._by_critic(self.critics.forward(inputs)[-1], agents)
        # The actors have not changed since ``both`` was computed; the first half of its rows are the present states.
        layers = [np.ascontiguousarray(part[:, : part.shape[1] // 2]) for part in both]
        gradient, actor_loss, entropy, beyond = _actor_loss(
            layers[-1], safe, values, temperature, self.exploration * settings.target_entropy
        )
        self.actor.backward(layers, gradient, self._actor_gradient)
        self._optimisers["actor"].step(self._actor_gradient.flat)
        # The loss is the log temperature times the excess of the entropy over its target; ``beyond`` is its gradient.
        self._optimisers["temperature"].step(beyond)

        follow(self.targets.flat, self.critics.flat, settings.soft)
        return {
            "critic_loss": critic_loss / agents,
            "actor_loss": actor_loss / agents,
            "entropy": entropy,
            "temperature": float(temperature.mean()),
        }

    def _twice(self, state: Singles) -> Singles:
        """Return the input of both critics of every agent for states of shape (agents, batch, state_size)."""
        once = state.reshape(1, -1, state.shape[-1]) if self._shared else state
        return np.concatenate([once, once])

    def _by_critic(self, value: Singles, agents: int) -> Singles:
        """Return the critics' outputs in the shape (2, agents, batch, actions)."""
        return value.reshape(2, agents, -1, value.shape[-1])

    def state_dict(self) -> dict[str, Any]:
        """Return the state for resuming, without the random generator."""
        state = {name: part.state_dict() for name, part in self._parts().items()}
        return state | {"log_temperature": torch.from_numpy(self.log_temperature.copy())}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a ``state_dict``."""
        for name, part in self._parts().items():
            part.load_state_dict(state[name])
        self.log_temperature[:] = state["log_temperature"].numpy()

    def _parts(self) -> dict[str, Any]:
        optimisers = {f"{name}_optimiser": optimiser for name, optimiser in self._optimisers.items()}
        networks = {"actor": self.actor, "critics": self.critics, "targets": self.targets}
        return networks | {"replay": self.replay} | optimisers


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


@compiled
def _policy(logits: Singles, safe: Singles, log_p: Floats, p: Floats) -> None:
    """Write the probabilities of the safe actions of one state; those of other actions are 0."""
    top, total = -np.inf, 0.0
    for j in range(len(logits)):
        if safe[j] > 0.5:
            top = max(top, logits[j])
    for j in range(len(logits)):
        p[j] = np.exp(logits[j] - top) if safe[j] > 0.5 else 0.0
        total += p[j]
    for j in range(len(logits)):
        log_p[j] = logits[j] - top - np.log(total) if safe[j] > 0.5 else 0.0
        p[j] /= total


@compiled
def _targets(
    logits: Singles, safe: Singles, values: Singles, reward: Singles, temperature: Singles, discount: float
) -> Floats:
    """Return the critics' targets, shape (agents, batch); ``values`` are those of the target critics."""
    agents, batch, actions = logits.shape
    log_p, p = np.empty(actions), np.empty(actions)
    target = np.empty((agents, batch))
    for i in range(agents):
        for n in range(batch):
            _policy(logits[i, n], safe[i, n], log_p, p)
            value = 0.0
            for j in range(actions):
                least = min(values[0, i, n, j], values[1, i, n, j])
                value += p[j] * (least - temperature[i] * log_p[j])
            target[i, n] = reward[i, n] + discount * value
    return target


@compiled
def _critic_loss(values: Singles, action: Singles, target: Floats) -> tuple[Singles, float]:
    """Return the gradient of the critics' loss with respect to ``values``, and the loss.

    The loss is the mean squared error over the batch, summed over critics and agents.
    """
    _, agents, batch, _ = values.shape
    gradient, loss = np.zeros_like(values), 0.0
    for critic in range(2):
        for i in range(agents):
            for n in range(batch):
                j = int(action[i, n])
                error = values[critic, i, n, j] - target[i, n]
                gradient[critic, i, n, j] = 2.0 * error / batch
                loss += error * error / batch
    return gradient, loss


@compiled
def _actor_loss(
    logits: Singles, safe: Singles, values: Singles, temperature: Singles, target_entropy: float
) -> tuple[Singles, float, float, Singles]:
    """Return the gradient of the actors' loss, the loss, the mean entropy, and its excess over the target by agent.

    The loss of a state is the mean of ``temperature log p - least value`` under the policy. Its gradient by a logit is
    the probability times the amount by which the action's own term exceeds that mean.
    """
    agents, batch, actions = logits.shape
    log_p, p, term = np.empty(actions), np.empty(actions), np.empty(actions)
    gradient, beyond = np.empty_like(logits), np.zeros(agents, dtype=np.float32)
    loss, entropies = 0.0, 0.0
    for i in range(agents):
        for n in range(batch):
            _policy(logits[i, n], safe[i, n], log_p, p)
            mean, entropy, count = 0.0, 0.0, 0.0
            for j in range(actions):
                term[j] = temperature[i] * log_p[j] - min(values[0, i, n, j], values[1, i, n, j])
                mean += p[j] * term[j]
                entropy -= p[j] * log_p[j]
                count += safe[i, n, j]
            for j in range(actions):
                gradient[i, n, j] = p[j] * (term[j] - mean) / batch
            loss += mean / batch
            entropies += entropy
            beyond[i] += (entropy - target_entropy * np.log(count)) / batch
    return gradient, loss, entropies / (agents * batch), beyond
