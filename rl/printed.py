"""Settings of the shipped policy that was trained as printed, and layers of its networks (InSS, Table 2, Sec. 6.1)."""

import torch

from rl.environment import DecisionProcess
from rl.networks import Networks
from rl.policy import load_policy
from rl.sac_discrete import SacSettings
from rl.td3 import Td3Settings
from rl.ts import PUBLISHED, SHIPPED


def printed_settings() -> tuple[float, ...]:
    """Return E, T, buffer, mini-batch, l', l'', tau, kappa', kappa'', gamma, sigma_1, sigma_2, c, nu, neurons, omega.

    Settings of the training come from the policy's file; the others are constants of the agents.
    """
    training = load_policy(SHIPPED / f"{PUBLISHED}-s0.pt").training
    sac, td3 = SacSettings(), Td3Settings()
    names = ("episodes", "steps", "buffer", "minibatch", "sac_learning_rate", "td3_learning_rate", "temperature")
    return (
        *(training[name] for name in names),
        *(sac.soft, td3.soft, training["discount"], training["explore_noise"]),
        *(td3.policy_noise, td3.noise_clip, td3.policy_every),
        *(training["hidden"], DecisionProcess().penalty),
    )


def layers() -> tuple[int, int]:
    """Return the number of layers of the agents' networks, and how many of them are hidden."""
    weights = len(Networks(1, 1, 1, 1, torch.Generator()).weights)
    return weights + 1, weights - 1
