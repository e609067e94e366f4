"""Training of TS (InSS, Alg. 1): episodes over many clusters at once; ``rl.checkpoint`` says what they leave behind."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from instances import InputError, Instance
from rl.checkpoint import Means, Resumable, Scalars, faded, lasting, run_episodes
from rl.cluster import Cluster
from rl.environment import Environments, Process
from rl.policy import Policy, save_policy
from rl.sac_discrete import SacSettings
from rl.td3 import Td3Settings
from rl.two_stage import TwoStage

_SAC, _TD3 = SacSettings(), Td3Settings()


@dataclass(frozen=True, slots=True)
class Training:
    """How TS is trained; ``--param name=value`` on the command line.

    Attributes
    ----------
    episodes, steps
        E and T (Table 2).
    clusters
        Stepped together; each step of all of them is followed by one update. The paper steps one; with it every update
        would wait for Python.
    interference
        Whether co-located workloads disturb each other; without it the result is InSS-ni.
    hidden, minibatch, buffer, discount
        Of both stages (Table 2).
    sac_learning_rate, td3_learning_rate
        l' and l'' (Table 2).
    temperature, target_entropy
        Of the first stage, see ``SacSettings``.
    explore_noise, random_part, logit_penalty
        Of the second stage, see ``Td3Settings``.
    halve_every
        Episodes after which the exploration of both stages is half of what it was, and so on.
    lowest, highest
        Rates it is trained for, as multiples of the instance's.
    warm_up
        Steps before the first update.
    save_every
        Episodes between checkpoints.
    threads
        That torch computes with.
    device
        ``cpu`` or ``cuda``.
    """

    episodes: int = 1600
    steps: int = 100
    clusters: int = 16
    interference: bool = True
    hidden: int = _SAC.hidden
    minibatch: int = _SAC.minibatch
    buffer: int = _SAC.buffer
    discount: float = _SAC.discount
    sac_learning_rate: float = _SAC.learning_rate
    td3_learning_rate: float = _TD3.learning_rate
    temperature: float = _SAC.temperature
    target_entropy: float = _SAC.target_entropy
    explore_noise: float = _TD3.explore_noise
    random_part: float = _TD3.random_part
    logit_penalty: float = _TD3.logit_penalty
    halve_every: float = math.inf
    lowest: float = 0.5
    highest: float = 1.0
    warm_up: int = 20
    save_every: int = 50
    threads: int = 1
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("episodes", "steps", "clusters", "hidden", "minibatch", "buffer", "save_every", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        for name in ("sac_learning_rate", "td3_learning_rate", "temperature", "halve_every"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} is {getattr(self, name):g}; expected above 0")
        for name in ("explore_noise", "logit_penalty", "warm_up"):
            if not getattr(self, name) >= 0.0:
                raise ValueError(f"{name} is {getattr(self, name):g}; expected at least 0")
        for name in ("target_entropy", "random_part"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is {getattr(self, name):g}; expected 0 to 1")
        if not 0.0 <= self.discount < 1.0:
            raise ValueError(f"discount is {self.discount:g}; expected 0 to below 1")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f'device is "{self.device}"; expected cpu or cuda')
        if not 0.0 < self.lowest <= self.highest:
            raise ValueError(f"lowest is {self.lowest:g} and highest {self.highest:g}; expected 0 < lowest <= highest")

    def process(self) -> Process:
        """Return the decision process."""
        return Process(steps=self.steps, lowest=self.lowest, highest=self.highest)

    def agent(self, cluster: Cluster, seed: int) -> TwoStage:
        """Return an untrained agent."""
        shared = {"hidden": self.hidden, "minibatch": self.minibatch, "buffer": self.buffer}
        sac = SacSettings(
            **shared,
            discount=self.discount,
            learning_rate=self.sac_learning_rate,
            temperature=self.temperature,
            target_entropy=self.target_entropy,
        )
        td3 = Td3Settings(
            **shared,
            discount=self.discount,
            learning_rate=self.td3_learning_rate,
            explore_noise=self.explore_noise,
            random_part=self.random_part,
            logit_penalty=self.logit_penalty,
        )
        return TwoStage(cluster, sac, td3, seed, torch.device(self.device))

    def train(self, instance: Instance, seed: int, folder: Path, tell: Callable[[int, Scalars], None]) -> None:
        """Train an agent for ``instance``, from the checkpoint in ``folder`` if there is one.

        Parameters
        ----------
        instance
            What it will schedule; its rates are the measure of ``lowest`` and ``highest``.
        seed
            Of all randomness.
        folder
            Where everything goes; made if need be.
        tell
            Called after each episode with its number and its scalars.

        Raises
        ------
        InputError
            If TS does not schedule such instances, the device is missing, or the checkpoint is of other training.
        """
        if self.device != "cpu" and not torch.cuda.is_available():
            raise InputError("--param device", f'"{self.device}" is not there; expected "cpu"')
        torch.set_num_threads(self.threads)
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
