"""Training of the top layer of ``rl.hierarchy`` on a policy of TS; its files are those of ``rl.checkpoint``."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from instances import InputError, Instance, Objective
from rl.checkpoint import Means, Scalars, faded, lasting, run_episodes
from rl.grouping import NoFitError, deal
from rl.hierarchy import TOP, TopLayer, outcomes
from rl.planning import agent_for, fitting_pool
from rl.policy import Policy, load_policy, save_policy
from rl.sac_discrete import SacSettings
from rl.ts import SHIPPED
from rl.two_stage import TwoStage


@dataclass(frozen=True, slots=True)
class HierarchyTraining:
    """Settings for training the top layer; ``--param name=value`` on the command line.

    Attributes
    ----------
    below
        File of the policy that decides inside the groups and stays unchanged; ``None`` for the shipped one.
    episodes, steps
        Number of episodes, and of steps in each; one update follows each step.
    clusters
        Number of clusters, dealt anew in each step at rates drawn from the training range of ``below``.
    drawn
        Decisions of a group drawn from ``below`` besides its likeliest; the best of them counts. The scheduler also
        takes the best of many.
    hidden, minibatch, buffer, learning_rate, temperature, target_entropy
        See ``SacSettings``.
    halve_every
        Number of episodes in which the exploration halves.
    warm_up
        Steps before the first update.
    save_every
        Episodes between checkpoints.
    threads
        Threads of the products of matrices.
    """

    below: str | None = None
    episodes: int = 100
    steps: int = 20
    clusters: int = 2
    drawn: int = 3
    hidden: int = 64
    minibatch: int = 64
    buffer: int = 4096
    learning_rate: float = 4e-3
    temperature: float = 0.02
    target_entropy: float = 0.3
    halve_every: float = 25.0
    warm_up: int = 5
    save_every: int = 5
    threads: int = 1

    def __post_init__(self) -> None:
        for name in ("episodes", "steps", "clusters", "hidden", "minibatch", "buffer", "save_every", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 1")
        for name in ("learning_rate", "temperature", "halve_every"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} is {getattr(self, name):g}; expected above 0")
        for name in ("drawn", "warm_up"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; expected at least 0")
        if not 0.0 <= self.target_entropy <= 1.0:
            raise ValueError(f"target_entropy is {self.target_entropy:g}; expected 0 to 1")

    def train(self, instance: Instance, seed: int, folder: Path, tell: Callable[[int, Scalars], None]) -> None:
        """Train a top layer for clusters such as ``instance``, from the checkpoint in ``folder`` if there is one.

        Parameters
        ----------
        instance
            Instance that ``below`` can schedule in groups.
        seed
            Seed of all randomness.
        folder
            Folder of all files; created if necessary.
        tell
            Called after each episode with its number and its scalars.

        Raises
        ------
        InputError
            If ``below`` does not fit, or the checkpoint belongs to another training.
        """
        path = SHIPPED / "ts-4gpu-s0.pt" if self.below is None else Path(self.below)
        below = load_policy(path)
        try:
            pool = fitting_pool(instance, below)
            groups = len(deal(below, instance.workloads, pool.count or 0).position)
        except NoFitError as why:
            raise InputError(instance.name, f"{path.stem}: {why}") from None
        if below.objective != Objective.CAPACITY:
            raise InputError("--param below", f"decides for {below.objective}; expected {Objective.CAPACITY}")
        settings = SacSettings(
            hidden=self.hidden,
            buffer=self.buffer,
            minibatch=self.minibatch,
            learning_rate=self.learning_rate,
            temperature=self.temperature,
            target_entropy=self.target_entropy,
            discount=0.0,
        )
        agent = agent_for(below, pool.type)
        layer = TopLayer(below, groups, settings, seed)
        terms = {**lasting(asdict(self)), "instance": instance.fingerprint, "seed": seed}

        def episode(number: int) -> Scalars:
            agent.reseed(number)
            layer.sac.exploration = faded(number, self.halve_every)
            return self._episode(layer, below, agent, self.warm_up if number == 1 else 0)

        def save(number: int, path: Path) -> None:
            made_by = {**asdict(self), "seed": seed, "episodes": number}
            weights = {**below.weights, TOP: layer.sac.actor.state_dict()}
            save_policy(replace(below, weights=weights, training=made_by), path)

        with threadpool_limits(self.threads, "blas"):
            run_episodes(folder, terms, {"agent": layer}, self.episodes, self.save_every, episode, save, tell)

    def _episode(self, layer: TopLayer, below: Policy, agent: TwoStage, warm_up: int) -> Scalars:
        """Run and learn from one episode; return means over its steps, clusters and updates."""
        rates_rps = np.array(below.rate_rps)
        shape = self.clusters, layer.groups, len(rates_rps)
        own = np.arange(len(rates_rps))
        means = Means()
        for step in range(self.steps):
            uniform = torch.rand(shape, generator=layer.random, dtype=torch.float64).numpy()
            drawn = below.lowest + (below.highest - below.lowest) * uniform
            dealing = layer.deal(drawn, spread=1.0)
            load = np.take_along_axis(drawn, dealing.source, axis=1)
            # Every group unchanged and, for each place, with a middling rate there
            tried = np.repeat(load[:, :, None], 1 + len(own), axis=2)
            tried[:, :, 1 + own, own] = layer.middle
            found = outcomes(agent, tried.reshape(-1, len(own)) * rates_rps, below.headroom, self.drawn)
            worth = found.worth.reshape(tried.shape[:3])
            layer.remember(dealing, worth[:, :, :1] - worth[:, :, 1:])
            as_it_is = slice(None, None, 1 + len(own))
            scalars = {
                "reward": float(worth[:, :, 0].sum(axis=1).mean()),
                "late_pct": 100.0 * float(found.late[as_it_is].mean()) / len(own),
                "throughput_rps": float(found.throughput_rps[as_it_is].sum()) / self.clusters,
            }
            if step >= warm_up:
                scalars |= layer.sac.update()
            means.add(scalars)
        return means.scalars()
