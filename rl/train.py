"""Training of TS (InSS, Alg. 1) in many clusters at once; ``rl.checkpoint`` describes the files that it writes."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from instances import Instance
from rl.checkpoint import Resumable, Scalars, check_settings, faded, means, run_episodes
from rl.cluster import Cluster
from rl.environment import DecisionProcess, Environments
from rl.networks import limited_threads, usable_device
from rl.policy import Policy, save_policy
from rl.sac_discrete import SacSettings
from rl.td3 import Td3Settings
from rl.two_stage import TwoStage, TwoStageSettings

_SAC, _TD3 = SacSettings(), Td3Settings()

PAPER = {
    "episodes": "1600",
    "steps": "100",
    "clusters": "1",
    "correlation": "0.9",
    "pooled": "yes",
    "further_inputs": "no",
    "own_reward": "yes",
    "compressed_rewards": "no",
    "summed": "yes",
    "random_part": "0",
    "logit_penalty": "0",
    "warm_up": "0",
    "sac_learning_rate": str(_SAC.learning_rate),
    "td3_learning_rate": str(_TD3.learning_rate),
    "halve_every": "inf",
    **{
        name: str(getattr(_SAC, name))
        for name in ("hidden", "minibatch", "buffer", "discount", "temperature", "target_entropy")
    },
}
"""Settings of Table 2 and Sec. 5 of InSS without additions, and our values for two settings that InSS does not state:
``correlation`` and ``target_entropy``. The correlation makes the next rates depend on the present ones: with a discount
and independent rates, the critics would have to predict rates that cannot be predicted."""

STEADIED = PAPER | {
    "further_inputs": "yes",
    "own_reward": "no",
    "compressed_rewards": "yes",
    "summed": "no",
    "random_part": "0.1",
    "logit_penalty": "0.001",
    "logit_margin": "0",
    "warm_up": "20",
}
"""``PAPER`` with additions from the default settings that leave the values of Table 2 unchanged."""


@dataclass(frozen=True, slots=True)
class Training:
    """Settings for training TS; ``--param name=value`` on the command line.

    The defaults train the shipped policies within minutes. ``--preset paper`` is ``PAPER``, ``--preset steadied`` is
    ``STEADIED``.

    Attributes
    ----------
    episodes, steps
        Number of episodes, E, and of decisions in each, T (Table 2).
    clusters
        Number of clusters that are stepped together; one update follows each step.
    correlation
        Correlation of the arrival rates of consecutive steps, see ``DecisionProcess``.
    interference
        Whether co-located workloads interfere; without interference the result is InSS-ni.
    hidden, minibatch, buffer, discount
        Settings of both stages (Table 2).
    pooled
        Whether the agents of the first stage, one for each workload, share critics, temperature, buffer and mini-batch,
        as in Alg. 1. If they do, a mini-batch has equally many transitions of each agent.
    further_inputs, own_reward, compressed_rewards
        Settings of both stages together, see ``TwoStageSettings``.
    by_model
        Normaliser of the throughput, see ``DecisionProcess``.
    sac_learning_rate, td3_learning_rate
        Learning rates of the first and the second stage, l' and l'' (Table 2).
    temperature, target_entropy
        Settings of the first stage, see ``SacSettings``.
    explore_noise, random_part, logit_penalty, logit_margin, summed
        Settings of the second stage, see ``Td3Settings``.
    halve_every
        Half-life of the exploration of both stages, in episodes.
    lowest, highest
        Range of the training rates, as multiples of the instance's rates.
    warm_up
        Steps before the first update.
    save_every
        Episodes between checkpoints.
    threads
        Threads for matrix products.
    device
        Device that learns: ``cpu``, ``cuda`` or ``cuda:N``. The environment and the decisions stay on the CPU.
    """

    presets: ClassVar[Mapping[str, Mapping[str, str]]] = {"paper": PAPER, "steadied": STEADIED}

    episodes: int = 250
    steps: int = 50
    clusters: int = 64
    correlation: float = 0.0
    interference: bool = True
    hidden: int = 64
    minibatch: int = 128
    buffer: int = 50_000
    pooled: bool = False
    further_inputs: bool = True
    own_reward: bool = False
    compressed_rewards: bool = True
    by_model: bool = False
    discount: float = 0.0
    sac_learning_rate: float = 0.001
    td3_learning_rate: float = 0.001
    temperature: float = 0.3
    target_entropy: float = 0.35
    explore_noise: float = _TD3.explore_noise
    random_part: float = 0.2
    logit_penalty: float = 0.05
    logit_margin: float = 3.0
    summed: bool = False
    halve_every: float = 120.0
    lowest: float = 0.5
    highest: float = 1.0
    warm_up: int = 20
    save_every: int = 25
    threads: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        counts = ("episodes", "steps", "clusters", "hidden", "minibatch", "buffer", "save_every", "threads")
        check_settings(self, counts, lambda value: value >= 1, "at least 1")
        positive = ("sac_learning_rate", "td3_learning_rate", "temperature", "halve_every")
        check_settings(self, positive, lambda value: value > 0.0, "above 0")
        at_least_0 = ("explore_noise", "logit_penalty", "logit_margin", "warm_up")
        check_settings(self, at_least_0, lambda value: value >= 0.0, "at least 0")
        check_settings(self, ("target_entropy", "random_part"), lambda value: 0.0 <= value <= 1.0, "0 to 1")
        check_settings(self, ("discount", "correlation"), lambda value: 0.0 <= value < 1.0, "0 to below 1")
        if not 0.0 < self.lowest <= self.highest:
            raise ValueError(f"lowest is {self.lowest:g} and highest {self.highest:g}; expected 0 < lowest <= highest")
        usable_device(self.device)

    def process(self) -> DecisionProcess:
        """Return the decision process."""
        return DecisionProcess(
            steps=self.steps,
            lowest=self.lowest,
            highest=self.highest,
            correlation=self.correlation,
            by_model=self.by_model,
        )

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
            summed=self.summed,
        )
        stages = TwoStageSettings(self.pooled, self.further_inputs, self.own_reward, self.compressed_rewards)
        return TwoStage(cluster, sac, td3, seed, stages, usable_device(self.device))

    def train(self, instance: Instance, seed: int, folder: Path, tell: Callable[[int, Scalars], None]) -> None:
        """Train an agent for ``instance``, from the checkpoint in ``folder`` if there is one.

        Parameters
        ----------
        instance
            Instance to train for; ``lowest`` and ``highest`` are relative to its rates.
        folder, tell
            See ``run_episodes``.

        Raises
        ------
        InputError
            If TS does not support the instance, or the checkpoint belongs to another training.
        """
        cluster = Cluster.of(instance, self.interference)
        agent = self.agent(cluster, seed)
        environments = Environments(cluster, self.clusters, self.process(), np.random.default_rng(seed))

        def episode(number: int) -> Scalars:
            agent.explore(faded(number, self.halve_every))
            return _episode(agent, environments, self.warm_up if number == 1 else 0)

        def save(path: Path, training: dict[str, Any]) -> None:
            save_policy(Policy.of(agent, instance, self.hidden, self.process(), training), path)

        parts: dict[str, Resumable] = {"agent": agent, "environments": environments}
        with limited_threads(self.threads):
            run_episodes(folder, asdict(self), instance, seed, parts, episode, save, tell)


def _episode(agent: TwoStage, environments: Environments, warm_up: int) -> Scalars:
    """Run and learn from one episode; return means over its steps, clusters and updates."""
    environments.reset()
    steps: list[Scalars] = []
    decision = agent.decide(environments.rates_rps, environments.queued)
    for step in range(environments.process.steps):
        feedback = environments.step(decision.gpu, decision.units, decision.batch)
        following = agent.decide(environments.rates_rps, environments.queued)
        agent.remember(decision, feedback, following)
        decision = following
        scalars = {
            "reward": float(feedback.reward.sum(axis=1).mean()),
            "late_pct": 100.0 * float((feedback.late * feedback.arrivals).sum() / max(1, feedback.arrivals.sum())),
            "throughput_rps": float(feedback.throughput_rps.sum(axis=1).mean()),
        }
        if step >= warm_up:
            scalars |= agent.update()
        steps.append(scalars)
    return means(steps)
