import copy

import numpy as np
import pytest
import torch
from scipy.special import softmax

from rl.sac_discrete import SacDiscrete, SacSettings

STATES, ACTIONS, AGENTS, DISCOUNT = 4, 3, 2, 0.9
TINY = SacSettings(
    hidden=32,
    buffer=4000,
    minibatch=64,
    learning_rate=3e-3,
    target_entropy=0.2,
    soft=0.02,
    discount=DISCOUNT,
)


class Chain:
    """A chain of states: going back to the start has a small reward, going on has none, and its end has a prize.

    Action 2 is safe only at the end, where it returns to the start without the prize.
    """

    def __init__(self, count):
        self.at = np.zeros((count, AGENTS), dtype=np.int64)

    @staticmethod
    def outcome(at, action, agent):
        last = at == STATES - 1
        on = np.where(last, 0, at + 1)
        prize = np.where(agent == 0, 1.0, 0.1)  # for agent 1, going on does not pay
        reward = np.where(action == 0, 0.1, np.where(action == 1, np.where(last, prize, 0.0), 0.0))
        return np.where(action == 1, on, 0), reward

    @staticmethod
    def safe(at):
        return np.stack([np.ones_like(at), np.ones_like(at), at == STATES - 1], axis=-1).astype(bool)

    @staticmethod
    def state(at):
        return np.eye(STATES, dtype=np.float32)[at]


def optimum():
    """Return a function of each agent's value at the start, for the best policy or a given one (agents, states)."""

    def values(policy=None):
        value = np.zeros((AGENTS, STATES))
        at, agent = np.arange(STATES)[None, :], np.arange(AGENTS)[:, None]
        for _ in range(400):
            q = np.full((AGENTS, STATES, ACTIONS), -np.inf)
            for action in range(ACTIONS):
                next_at, reward = Chain.outcome(at, action, agent)
                allowed = Chain.safe(at)[..., action]
                next_at = np.broadcast_to(next_at, value.shape)
                q[..., action] = np.where(
                    allowed, reward + DISCOUNT * np.take_along_axis(value, next_at, axis=1), -np.inf
                )
            value = q.max(axis=2) if policy is None else np.take_along_axis(q, policy[..., None], axis=2)[..., 0]
        return value[:, 0]

    return values


def trained(seed, steps, count=16):
    agent = SacDiscrete(AGENTS, STATES, ACTIONS, TINY, torch.Generator().manual_seed(seed))
    chain = Chain(count)
    for step in range(steps):
        state, safe = Chain.state(chain.at), Chain.safe(chain.at)
        action = np.stack([agent.act(i, state[:, i], safe[:, i]) for i in range(AGENTS)], axis=1)
        chain.at, reward = Chain.outcome(chain.at, action, np.arange(AGENTS))
        agent.replay.add(
            state=state,
            safe=safe,
            action=action,
            reward=reward,
            next_state=Chain.state(chain.at),
            next_safe=Chain.safe(chain.at),
        )
        if step >= 20:
            agent.update()
    return agent


def weights(agent):
    return torch.nn.utils.parameters_to_vector(agent.actor.parameters())


def greedy(agent):
    at = np.arange(STATES)
    safe = Chain.safe(at)
    return np.stack([agent.act(i, Chain.state(at), safe, spread=0.0) for i in range(AGENTS)])


def test_training_reaches_the_optimum():
    values = optimum()
    best = values()
    # Agent 0 can win 1 every four steps, and agent 1 gets 0.1 in every step.
    assert best == pytest.approx([DISCOUNT**3 / (1.0 - DISCOUNT**4), 0.1 / (1.0 - DISCOUNT)])
    assert values(greedy(trained(0, 700))) == pytest.approx(best, rel=0.02)


def test_training_repeats_for_a_seed():
    first, second, other = trained(1, 60), trained(1, 60), trained(2, 60)
    assert torch.equal(weights(first), weights(second))
    assert not torch.equal(weights(first), weights(other))


def test_updates_continue_from_a_saved_state():
    first = trained(1, 60)
    second = trained(2, 60)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for agent in (first, second):
        agent._random.manual_seed(5)
    assert first.update() == second.update()


def test_unsafe_actions_are_never_chosen():
    random = torch.Generator().manual_seed(0)
    agent = SacDiscrete(1, STATES, ACTIONS, TINY, random)
    safe = np.tile([True, False, True], (5000, 1))
    chosen = agent.act(0, torch.rand((5000, STATES), generator=random).numpy(), safe)
    assert set(chosen.tolist()) == {0, 2}


def test_actions_are_drawn_from_the_policy():
    random = torch.Generator().manual_seed(0)
    agent = SacDiscrete(1, STATES, ACTIONS, TINY, random)
    state, safe = np.ones((20_000, STATES), dtype=np.float32), np.ones((20_000, ACTIONS), dtype=np.bool_)
    share = np.bincount(agent.act(0, state, safe), minlength=ACTIONS) / 20_000
    assert share == pytest.approx(softmax(agent.deciding.output(0, state[:1])[0]), abs=0.015)
