"""Training of TS (InSS, Alg. 1): episodes over many clusters at once; its files are those of ``rl.checkpoint``."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from threadpoolctl import threadpool_limits

from instances import Instance
from rl.checkpoint import Means, Resumable, Scalars, faded, lasting, run_episodes
from rl.cluster import Cluster
from rl.environment import DecisionProcess, Environments
from rl.policy import Policy, save_policy
from rl.sac_discrete import SacSettings
from rl.td3 import Td3Settings
from rl.two_stage import TwoStage

_SAC, _TD3 = SacSettings(), Td3Settings()

PAPER = {
    "episodes": "1600",
    "steps": "100",
    "clusters": "1",
    "correlation": "0.9",
    "hidden": str(_SAC.hidden),
    "minibatch": str(_SAC.minibatch),
    "buffer": str(_SAC.buffer),
    "pooled": "yes",
    "discount": str(_SAC.discount),
    "sac_learning_rate": str(_SAC.learning_rate),
    "td3_learning_rate": str(_TD3.learning_rate),
    "temperature": str(_SAC.temperature),
    "target_entropy": str(_SAC.target_entropy),
    "random_part": str(_TD3.random_part),
    "logit_penalty": str(_TD3.logit_penalty),
    "logit_margin": str(_TD3.logit_margin),
    "halve_every": "inf",
}
"""Table 2 of InSS, and our values for what it does not print: ``correlation``, ``target_entropy`` (its iota is
undefined), ``random_part``, ``logit_penalty`` and ``logit_margin``. The correlation makes the next rates depend on the
present ones. With a discount and independent rates, an agent would learn to predict rates that cannot be predicted."""


@dataclass(frozen=True, slots=True)
class Training:
    """Settings for training TS; ``--param name=value`` on the command line.

    The defaults train the shipped policies within minutes. ``--preset paper`` is ``PAPER``.

    Attributes
    ----------
    episodes, steps
        E and T (Table 2).
    clusters
        Number of clusters stepped together; one update follows each common step.
    correlation
        Correlation of the arrival rates of consecutive steps, see ``DecisionProcess``.
    interference
        Whether co-located workloads interfere; without interference the result is InSS-ni.
    hidden, minibatch, buffer, discount
        Settings of both stages (Table 2).
    pooled
        Whether the workloads' agents of the first stage share critics, buffer and mini-batch, as in Alg. 1. If they do,
        a mini-batch has equally many transitions of each agent.
    sac_learning_rate, td3_learning_rate
        l' and l'' (Table 2).
    temperature, target_entropy
        Settings of the first stage, see ``SacSettings``.
    explore_noise, random_part, logit_penalty, logit_margin
        Settings of the second stage, see ``Td3Settings``.
    halve_every
        Number of episodes in which the exploration of both stages halves.
    lowest, highest
        Range of the training rates, as multiples of the instance's.
    warm_up
        Steps before the first update.
    save_every
        Episodes between checkpoints.
    threads
        Threads of the products of matrices.
    """

    presets: ClassVar[Mapping[str, Mapping[str, str]]] = {"paper": PAPER}

    episodes: int = 250
    steps: int = 50
    clusters: int = 64
    correlation: float = 0.0
    interference: bool = True
    hidden: int = 64
    minibatch: int = 128
    buffer: int = 50_000
    pooled: bool = False
    discount: float = 0.0
    sac_learning_rate: float = 0.001
    td3_learning_rate: float = 0.001
    temperature: float = 0.3
    target_entropy: float = 0.35
    explore_noise: float = _TD3.explore_noise
    random_part: float = 0.2
    logit_penalty: float = 0.05
    logit_margin: float = 3.0
    halve_every: float = 120.0
    lowest: float = 0.5
    highest: float = 1.0
    warm_up: int = 20
    save_every: int = 25
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("episodes", "steps", "clusters", "hidden", "minibatch", "buffer", "save_every", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        for name in ("sac_learning_rate", "td3_learning_rate", "temperature", "halve_every"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} is {getattr(self, name):g}; expected above 0")
        for name in ("explore_noise", "logit_penalty", "logit_margin", "warm_up"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} is {getattr(self, name):g}; expected at least 0")
        for name in ("target_entropy", "random_part"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name):g}; expected 0 to 1")
        for name in ("discount", "correlation"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise ValueError(f"{name} is {getattr(self, name):g}; expected 0 to below 1")
        if not 0.0 < self.lowest <= self.highest:
            raise ValueError(f"lowest is {self.lowest:g} and highest {self.highest:g}; expected 0 < lowest <= highest")

    def process(self) -> DecisionProcess:
        """Return the decision process."""
        return DecisionProcess(steps=self.steps, lowest=self.lowest, highest=self.highest, correlation=self.correlation)

    def agent(self, cluster: Cluster, seed: int) -> TwoStage:
        """Return an untrained agent."""
        parts = cluster.workloads if self.pooled else 1
        sac = SacSettings(
            hidden=self.hidden,
            minibatch=math.ceil(self.minibatch / parts),
            buffer=math.ceil(self.buffer / parts),
            discount=self.discount,
            learning_rate=self.sac_learning_rate,
            temperature=self.temperature,
            target_entropy=self.target_entropy,
        )
        td3 = Td3Settings(
            hidden=self.hidden,
            minibatch=self.minibatch,
            buffer=self.buffer,
            discount=self.discount,
            learning_rate=self.td3_learning_rate,
            explore_noise=self.explore_noise,
            random_part=self.random_part,
            logit_penalty=self.logit_penalty,
            logit_margin=self.logit_margin,
        )
        return TwoStage(cluster, sac, td3, seed, self.pooled)

    def train(self, instance: Instance, seed: int, folder: Path, tell: Callable[[int, Scalars], None]) -> None:
        """Train an agent for ``instance``, from the checkpoint in ``folder`` if there is one.

        Parameters
        ----------
        instance
            Instance to train for; ``lowest`` and ``highest`` are relative to its rates.
        seed
            Seed of all randomness.
        folder
            Folder of all files; created if necessary.
        tell
            Called after each episode with its number and its scalars.

        Raises
        ------
        InputError
            If TS does not support the instance, or the checkpoint belongs to another training.
        """
        cluster = Cluster.of(instance, self.interference)
        agent = self.agent(cluster, seed)
        there = Environments(cluster, self.clusters, self.process(), np.random.default_rng(seed))
        terms = {**lasting(asdict(self)), "instance": instance.fingerprint, "seed": seed}

        def episode(number: int) -> Scalars:
            agent.explore(faded(number, self.halve_every))
            return _episode(agent, there, self.warm_up if number == 1 else 0)

        def save(number: int, path: Path) -> None:
            made_by = {**asdict(self), "seed": seed, "episodes": number}
            save_policy(Policy.of(agent, instance, self.hidden, self.process(), made_by), path)

        parts: dict[str, Resumable] = {"agent": agent, "environments": there}
        with threadpool_limits(self.threads, "blas"):
            run_episodes(folder, terms, parts, self.episodes, self.save_every, episode, save, tell)


def _episode(agent: TwoStage, there: Environments, warm_up: int) -> Scalars:
    """Run and learn from one episode; return means over its steps, clusters and updates."""
    there.reset()
    means = Means()
    decision = agent.decide(there.rates_rps, there.queued)
    for step in range(there.process.steps):
        feedback = there.step(decision.gpu, decision.units, decision.batch)
        following = agent.decide(there.rates_rps, there.queued)
        agent.remember(decision, feedback, following)
        decision = following
        scalars = {
            "reward": float(feedback.reward.sum(axis=1).mean()),
            "late_pct": 100.0 * float((feedback.late * feedback.arrivals).sum() / max(1, feedback.arrivals.sum())),
            "throughput_rps": float(feedback.throughput_rps.sum(axis=1).mean()),
        }
        if step >= warm_up:
            scalars |= agent.update()
        means.add(scalars)
    return means.scalars()
