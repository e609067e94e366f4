"""Training of the top layer of ``rl.hierarchy`` above a policy of TS; ``rl.checkpoint`` describes its files."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from instances import InputError, Instance, Objective
from instances.errors import FieldName
from rl.checkpoint import Scalars, check_settings, faded, means, run_episodes
from rl.grouping import NoFitError, deal
from rl.hierarchy import TOP, TopLayer, group_results
from rl.networks import limited_threads, usable_device
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
        Number of clusters. In each step, their rates are drawn from the training range of ``below``, and their
        workloads are assigned to groups.
    drawn
        Number of decisions that ``below`` draws for a group besides its likeliest decision. The best of all these
        counts, because the scheduler also takes the best of many.
    hidden, minibatch, buffer, learning_rate, temperature, target_entropy
        See ``SacSettings``.
    halve_every
        Half-life of the exploration, in episodes.
    warm_up
        Steps before the first update.
    save_every
        Episodes between checkpoints.
    threads
        Threads for matrix products.
    device
        Device that learns: ``cpu``, ``cuda`` or ``cuda:N``. Decisions stay on the CPU.
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
    device: str = "cpu"

    def __post_init__(self) -> None:
        counts = ("episodes", "steps", "clusters", "hidden", "minibatch", "buffer", "save_every", "threads")
        check_settings(self, counts, lambda value: value >= 1, "at least 1")
        check_settings(self, ("learning_rate", "temperature", "halve_every"), lambda value: value > 0.0, "above 0")
        check_settings(self, ("drawn", "warm_up"), lambda value: value >= 0, "at least 0")
        check_settings(self, ("target_entropy",), lambda value: 0.0 <= value <= 1.0, "0 to 1")
        usable_device(self.device)

    def train(self, instance: Instance, seed: int, folder: Path, tell: Callable[[int, Scalars], None]) -> None:
        """Train a top layer for clusters such as ``instance``, from the checkpoint in ``folder`` if there is one.

        Parameters
        ----------
        instance
            Instance that ``below`` can schedule in groups.
        folder, tell
            See ``run_episodes``.

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
        except NoFitError as error:
            raise InputError(instance.name, f"{path.stem}: {error}") from None
        if below.objective != Objective.CAPACITY:
            raise InputError(
                FieldName("parameters", " below"), f"decides for {below.objective}; expected {Objective.CAPACITY}"
            )
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
        layer = TopLayer(below, groups, settings, seed, usable_device(self.device))

        def episode(number: int) -> Scalars:
            agent.reseed(number)
            layer.sac.exploration = faded(number, self.halve_every)
            return self._episode(layer, below, agent, self.warm_up if number == 1 else 0)

        def save(path: Path, made_by: dict[str, Any]) -> None:
            weights = {**below.weights, TOP: layer.sac.actor.state_dict()}
            save_policy(replace(below, weights=weights, training=made_by), path)

        with limited_threads(self.threads):
            run_episodes(folder, asdict(self), instance, seed, {"agent": layer}, episode, save, tell)

    def _episode(self, layer: TopLayer, below: Policy, agent: TwoStage, warm_up: int) -> Scalars:
        """Run and learn from one episode; return means over its steps, clusters and updates."""
        rates_rps = np.array(below.rate_rps)
        shape = self.clusters, layer.groups, len(rates_rps)
        places = np.arange(len(rates_rps))
        steps: list[Scalars] = []
        for step in range(self.steps):
            uniform = torch.rand(shape, generator=layer.random, dtype=torch.float64).numpy()
            drawn_load = below.lowest + (below.highest - below.lowest) * uniform
            dealing = layer.deal(drawn_load, spread=1.0)
            load = np.take_along_axis(drawn_load, dealing.source, axis=1)
            # Variants of every group: unchanged, and for each place with the middle rate at this place
            variants = np.repeat(load[:, :, None], 1 + len(places), axis=2)
            variants[:, :, 1 + places, places] = layer.middle
            results = group_results(agent, variants.reshape(-1, len(places)) * rates_rps, self.drawn)
            worth = results.worth.reshape(variants.shape[:3])
            layer.remember(dealing, worth[:, :, :1] - worth[:, :, 1:])
            unchanged = slice(None, None, 1 + len(places))
            scalars = {
                "reward": float(worth[:, :, 0].sum(axis=1).mean()),
                "late_pct": 100.0 * float(results.late[unchanged].mean()) / len(places),
                "throughput_rps": float(results.throughput_rps[unchanged].sum()) / self.clusters,
            }
            if step >= warm_up:
                scalars |= layer.sac.update()
            steps.append(scalars)
        return means(steps)
