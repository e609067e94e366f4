"""Policy and soft value of SAC and actions of TD3, against the same formulas in plain Python."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rl.sac_discrete import log_policy, soft_value
from rl.td3 import actions, actions_in_torch, with_noise

AGENTS, BATCH, ACTIONS, WORKLOADS = 2, 5, 3, 4
seeds = st.integers(0, 10**6)


def drawn_policy(seed):
    random = np.random.default_rng(seed)
    logits = 3.0 * random.standard_normal((AGENTS, BATCH, ACTIONS))
    safe = random.random(logits.shape) < 0.6
    safe[..., 0] |= ~safe.any(axis=-1)
    return torch.tensor(logits, dtype=torch.float32), torch.tensor(safe, dtype=torch.float32)


@given(seeds)
def test_probabilities_are_a_softmax_over_the_safe_actions(seed):
    logits, safe = drawn_policy(seed)
    p = log_policy(logits, safe).exp().numpy()
    for i, n in np.ndindex(AGENTS, BATCH):
        weights = [math.exp(logits[i, n, j]) * float(safe[i, n, j]) for j in range(ACTIONS)]
        assert p[i, n] == pytest.approx([weight / sum(weights) for weight in weights], abs=1e-6)


@given(seeds)
def test_the_soft_value_includes_the_entropy(seed):
    logits, safe = drawn_policy(seed)
    random = np.random.default_rng(seed + 1)
    value, temperature = random.standard_normal(logits.shape), random.uniform(0.1, 2.0, AGENTS)
    log_p = log_policy(logits, safe)
    soft = soft_value(log_p, torch.tensor(value), torch.tensor(temperature)[:, None, None])
    for i, n in np.ndindex(AGENTS, BATCH):
        p = [math.exp(x) for x in log_p[i, n]]
        entropy = -sum(x * math.log(x) for x in p if x > 0.0)
        expected = sum(x * v for x, v in zip(p, value[i, n], strict=True)) + temperature[i] * entropy
        assert soft[i, n].item() == pytest.approx(expected, abs=1e-5)


@given(seeds)
def test_unsafe_actions_have_no_gradient(seed):
    logits, safe = drawn_policy(seed)
    value = torch.tensor(np.random.default_rng(seed).standard_normal(logits.shape))
    soft_value(log_policy(logits.requires_grad_(), safe), value, torch.tensor(0.5)).sum().backward()
    assert torch.all(logits.grad[safe == 0.0] == 0.0)
    assert torch.all(torch.isfinite(logits.grad))


def drawn_division(seed):
    random = np.random.default_rng(seed)
    on_gpu = (random.random((BATCH, WORKLOADS)) < 0.6).astype(np.float32)
    state = np.concatenate([on_gpu, random.random((BATCH, 2), dtype=np.float32)], axis=1)
    return random, state, (2.0 * random.standard_normal((BATCH, 2 * WORKLOADS))).astype(np.float32)


@given(seeds)
def test_shares_are_a_softmax_and_batches_a_sigmoid(seed):
    _, state, last_layer = drawn_division(seed)
    action = actions(state, last_layer)
    assert actions_in_torch(torch.tensor(state), torch.tensor(last_layer)).numpy() == pytest.approx(action, abs=1e-6)
    for n in range(BATCH):
        weights = [math.exp(last_layer[n, i]) * state[n, i] for i in range(WORKLOADS)]
        assert action[n, :WORKLOADS] == pytest.approx([w / (sum(weights) or 1.0) for w in weights], abs=1e-6)
        batches = [state[n, i] / (1.0 + math.exp(-last_layer[n, WORKLOADS + i])) for i in range(WORKLOADS)]
        assert action[n, WORKLOADS:] == pytest.approx(batches, abs=1e-6)


@given(seeds)
def test_workloads_on_other_gpus_have_no_gradient(seed):
    random, state, last_layer = drawn_division(seed)
    x = torch.tensor(last_layer, requires_grad=True)
    weights = torch.tensor(random.standard_normal(last_layer.shape))
    (actions_in_torch(torch.tensor(state), x) * weights).sum().backward()
    elsewhere = np.tile(state[:, :WORKLOADS] == 0.0, 2)
    assert torch.all(x.grad[torch.tensor(elsewhere)] == 0.0)
    assert torch.all(torch.isfinite(x.grad))


@given(seeds, st.sampled_from([0.1, 10.0]))
def test_a_division_with_noise_is_normalised(seed, sigma):
    random, state, last_layer = drawn_division(seed)
    action, noise = actions(state, last_layer), sigma * random.standard_normal(last_layer.shape)
    noisy = with_noise(torch.tensor(state), torch.tensor(action), torch.tensor(noise)).numpy()
    for n in range(BATCH):
        share = [state[n, i] * max(action[n, i] + noise[n, i], 0.0) for i in range(WORKLOADS)]
        expected = [x / sum(share) for x in share] if sum(share) > 0.0 else action[n, :WORKLOADS]
        assert noisy[n, :WORKLOADS] == pytest.approx(expected, abs=1e-6)
        batch = state[n, :WORKLOADS] * np.clip(action[n, WORKLOADS:] + noise[n, WORKLOADS:], 0.0, 1.0)
        assert noisy[n, WORKLOADS:] == pytest.approx(batch, abs=1e-6)
