"""Hand-written gradients of both agents' losses, against automatic differentiation of the formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from rl.sac_discrete import _actor_loss, _critic_loss, _targets
from rl.td3 import _last_layer_gradient, actions

AGENTS, BATCH, ACTIONS = 2, 5, 3
seeds = st.integers(0, 10**6)


def drawn(seed):
    random = np.random.default_rng(seed)
    logits = 3.0 * random.standard_normal((AGENTS, BATCH, ACTIONS))
    judged = random.standard_normal((2, AGENTS, BATCH, ACTIONS))
    safe = random.random(logits.shape) < 0.6
    safe[..., 0] |= ~safe.any(axis=-1)
    temperature = random.uniform(0.1, 2.0, AGENTS)
    return random, *(part.astype(np.float32) for part in (logits, judged, safe, temperature))


def log_policy(logits, safe):
    return functional.log_softmax(logits.masked_fill(torch.tensor(safe) < 0.5, -1e9), dim=-1)


@given(seeds)
def test_actors(seed):
    _, logits, judged, safe, temperature = drawn(seed)
    x = torch.tensor(logits, dtype=torch.float64, requires_grad=True)
    log_p = log_policy(x, safe)
    p, tau = log_p.exp(), torch.tensor(temperature)[:, None]
    least = torch.tensor(judged).amin(dim=0)
    loss = (p * (tau[..., None] * log_p - least)).sum(dim=-1).mean(dim=1).sum()
    entropy = -(p * log_p).sum(dim=-1)
    beyond = (entropy - 0.9 * torch.tensor(safe).sum(dim=-1).log()).mean(dim=1)
    gradient, told, mean_entropy, ours = _actor_loss(logits, safe, judged, temperature, 0.9)
    assert gradient == pytest.approx(torch.autograd.grad(loss, x)[0].numpy(), abs=1e-5)
    assert told == pytest.approx(float(loss.detach()), abs=1e-5)
    assert mean_entropy == pytest.approx(float(entropy.detach().mean()), abs=1e-5)
    assert ours == pytest.approx(beyond.detach().numpy(), abs=1e-5)


@given(seeds)
def test_critics(seed):
    random, logits, judged, safe, temperature = drawn(seed)
    reward = random.standard_normal((AGENTS, BATCH)).astype(np.float32)
    action = random.integers(0, ACTIONS, (AGENTS, BATCH))
    log_p = log_policy(torch.tensor(logits, dtype=torch.float64), safe)
    least = torch.tensor(judged).amin(dim=0)
    value = (log_p.exp() * (least - torch.tensor(temperature)[:, None, None] * log_p)).sum(dim=-1)
    target = _targets(logits, safe, judged, reward, temperature, 0.9)
    assert target == pytest.approx(reward + 0.9 * value.numpy(), abs=1e-5)
    x = torch.tensor(judged, dtype=torch.float64, requires_grad=True)
    taken = x.gather(-1, torch.tensor(action)[None, ..., None].expand(2, -1, -1, 1)).squeeze(-1)
    loss = (taken - torch.tensor(target)).square().mean(dim=-1).sum()
    gradient, told = _critic_loss(judged, action.astype(np.float32), target)
    assert told == pytest.approx(float(loss.detach()), rel=1e-5)
    assert gradient == pytest.approx(torch.autograd.grad(loss, x)[0].numpy(), abs=1e-5)


@given(seeds, st.sampled_from([0.0, 1.0]))
def test_division_of_a_gpu(seed, margin):
    random = np.random.default_rng(seed)
    there = (random.random((BATCH, 4)) < 0.6).astype(np.float32)
    state = np.concatenate([there, random.random((BATCH, 2), dtype=np.float32)], axis=1)
    last, worth = (2.0 * random.standard_normal((2, BATCH, 8))).astype(np.float32)
    x, flags = torch.tensor(last, dtype=torch.float64, requires_grad=True), torch.tensor(there)
    share = torch.softmax(x[:, :4].masked_fill(flags < 0.5, -1e9), dim=1) * flags
    action = torch.cat([share, torch.sigmoid(x[:, 4:]) * flags], dim=1)
    assert actions(state, last) == pytest.approx(action.detach().numpy(), abs=1e-6)
    beyond = functional.relu(x.abs() - margin).square().mean()
    (expected,) = torch.autograd.grad((action * torch.tensor(worth)).sum() + 0.1 * beyond, x)
    ours = _last_layer_gradient(actions(state, last), worth, last, 0.1, margin)
    assert ours == pytest.approx(expected.numpy(), abs=1e-5)
