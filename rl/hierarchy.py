"""Layer above the two stages of TS (InSS Sec. 5.1): it assigns workloads to groups of GPUs; TS decides inside them.

The top layer is SAC-Discrete like the first stage, but it chooses groups instead of GPUs. A place of a group stands for
one of the workloads that TS was trained for; every group has the same places, and every place has its own actor. The
workloads are first dealt evenly (``rl.grouping``). Then, for one place after another, the workloads of all groups at
this place are dealt again, one to each group; workloads whose rates are farthest from the middle of the training range
come first. An actor scores every group by this input:

=====  ===============  =============================================================================================
size   range            meaning
=====  ===============  =============================================================================================
1      [-1, 1]          rate of the workload, from the lowest to the highest that the place was trained for
P      [-1, 1]          the same for the workloads dealt so far to the group's P places; 0 for the other places
=====  ===============  =============================================================================================

The same network scores every group, so that experience with one group holds for all, and the number of groups may vary.

The paper only names the hierarchy. These points are decided here:

- The layer exchanges workloads of the same place between groups. The paper's layer may give any model to any group, but
  the stages below are trained for one set of models.
- The state has rates alone. It has neither queues nor demands on memory, L2 cache and DRAM.
- An actor's reward is a difference reward: the value of its workload's group, minus the value if the workload had the
  middle rate. The first stage learns from the reward of the whole cluster. With sixteen groups, that reward depends on
  160 choices, and a single choice hardly changes it.
- Values come from the performance model without a queue. If a workload's whole rate is not served in time, all its
  requests count as late.
- The discount is 0: each choice is rewarded by itself.
- A plan takes the likeliest group in every turn.

The layers below the top layer keep their training.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from instances import InputError, Workload
from instances.arrays import Flags, Floats, Ints, Singles
from rl.environment import DecisionProcess, admit, compressed, predicted
from rl.grouping import ROUNDING, Dealt, NoFitError, deal
from rl.networks import CPU
from rl.planning import several_decisions
from rl.policy import Policy
from rl.sac_discrete import SacDiscrete, SacSettings, perturbed
from rl.two_stage import TwoStage
from rl.weights import in_a_line

TOP = "top"
"""Key of the top layer's weights in a policy, beside those of the two stages."""

PENALTY = DecisionProcess().penalty
"""Weight of late workloads in the reward, omega of equation (2)."""


@dataclass(frozen=True, slots=True)
class DealingRecord:
    """Record of how the workloads of several clusters were assigned to their groups, with the observed states.

    Attributes
    ----------
    source
        Group from which the workload at each place of each group came, shape (clusters, groups, places).
    state, safe
        State and safe actions of each place and turn, shapes (clusters, places, groups, groups * (places + 1)) and
        (clusters, places, groups, groups). At each place there are as many turns as groups; a turn deals one workload.
    group
        Group chosen in each turn, shape (clusters, places, groups).
    """

    source: Ints
    state: Singles
    safe: Flags
    group: Ints


class TopLayer:
    """Agent that assigns workloads to groups of GPUs; ``below`` is the policy that decides inside the groups.

    Attributes
    ----------
    groups
        Number of groups of a cluster.
    middle
        Middle of the training range of a place's rate, as a multiple of its rate in ``Policy.rate_rps``.
    random
        Source of all randomness.
    """

    def __init__(
        self, below: Policy, groups: int, settings: SacSettings, seed: int, device: torch.device = CPU
    ) -> None:
        places = len(below.models)
        self.groups = groups
        self.middle = (below.lowest + below.highest) / 2.0
        self._half = (below.highest - below.lowest) / 2.0 or 1.0  # 1 if all training rates are equal
        self.random = torch.Generator().manual_seed(seed)
        shape = places, groups * (places + 1), groups
        self.sac = SacDiscrete(*shape, settings, self.random, by_action=True, device=device)

    def deal(self, load: Floats, spread: float = 0.0) -> DealingRecord:
        """Deal the workloads of every cluster to its groups anew, one place after another.

        Parameters
        ----------
        load
            Rates divided by the places' rates in ``Policy.rate_rps``, shape (clusters, groups, places).
        spread
            0 takes the likeliest groups, 1 draws them from the policy.
        """
        clusters, groups, places = load.shape
        relative = ((load - self.middle) / self._half).astype(np.float32)
        rows = np.arange(clusters)
        dealt_rates = np.zeros((clusters, 1, groups, places), dtype=np.float32)
        source = np.empty(load.shape, dtype=np.int64)
        chosen = np.empty((clusters, places, groups), dtype=np.int64)
        states, safe = [], np.empty((clusters, places, groups, groups), dtype=np.bool_)
        for p in range(places):
            order = np.argsort(-np.abs(relative[:, :, p]), axis=1, kind="stable")
            ordered = np.take_along_axis(relative[:, :, p], order, axis=1)
            shape = (clusters, groups, groups)
            parts = (
                np.broadcast_to(ordered[:, :, None], shape)[..., None],
                np.broadcast_to(dealt_rates, (*shape, places)),
            )
            states.append(np.concatenate(parts, axis=3).reshape(clusters, groups, -1))
            score = self.sac.deciding.output(p, states[p].reshape(clusters * groups, -1))
            preference = perturbed(score, spread, self.random).reshape(shape)
            free = np.ones((clusters, groups), dtype=np.bool_)
            for turn in range(groups):
                safe[:, p, turn] = free
                group = np.argmax(np.where(free, preference[:, turn], -np.inf), axis=1)
                free[rows, group] = False
                dealt_rates[rows, 0, group, p] = ordered[:, turn]
                source[rows, group, p] = order[:, turn]
                chosen[:, p, turn] = group
        return DealingRecord(source, np.stack(states, axis=1), safe, chosen)

    def remember(self, dealing: DealingRecord, reward: Floats) -> None:
        """Store an assignment and the reward for the workload at each place, shape (clusters, groups, places)."""
        by_turn = np.take_along_axis(np.swapaxes(reward, 1, 2), dealing.group, axis=2)
        state, safe = _transitions(dealing.state), _transitions(dealing.safe)
        action, rewards = _transitions(dealing.group), _transitions(by_turn)
        # With a discount of 0 the next state does not matter.
        self.sac.replay.add(state=state, safe=safe, action=action, reward=rewards, next_state=state, next_safe=safe)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resumption of learning."""
        return {"sac": self.sac.state_dict(), "random": self.random.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a ``state_dict``."""
        self.sac.load_state_dict(state["sac"])
        self.random.set_state(state["random"])


def _transitions(part: NDArray[Any]) -> NDArray[Any]:
    """Convert shape (clusters, places, turns, ...) to (clusters * turns, places, ...): a transition has all places."""
    swapped = np.swapaxes(part, 1, 2)
    return swapped.reshape(-1, *swapped.shape[2:])


@dataclass(frozen=True, slots=True)
class GroupResults:
    """Results of groups, each of shape (groups,).

    Attributes
    ----------
    worth
        Sum of the rewards of equation (2), each compressed as for the layers below.
    throughput_rps
        Sum over the workloads.
    late
        Number of workloads whose whole rate is not served in time.
    """

    worth: Floats
    throughput_rps: Floats
    late: Ints


def group_results(below: TwoStage, rates_rps: Floats, drawn: int) -> GroupResults:
    """Return the results of the layers below for the rates of each group, by the performance model.

    Parameters
    ----------
    rates_rps
        Rates, shape (groups, places).
    drawn
        Number of decisions drawn for each group besides the likeliest; the best of them counts.
    """
    cluster = below.cluster
    repeated_rps, decision = several_decisions(below, rates_rps, drawn)
    inference_ms, throughput_rps = predicted(cluster, decision.gpu, decision.units, decision.batch)
    in_time_rps = admit(repeated_rps, cluster.view.slo_ms, decision.batch, inference_ms, 1.0)
    late = in_time_rps < repeated_rps * (1.0 - ROUNDING)
    # Equation 2
    worth = compressed(throughput_rps / cluster.rms_rps - PENALTY * late).sum(axis=1)
    best = np.arange(len(rates_rps)) * (1 + drawn) + worth.reshape(-1, 1 + drawn).argmax(axis=1)
    return GroupResults(worth[best], throughput_rps[best].sum(axis=1), late[best].sum(axis=1))


def deal_in_layers(policy: Policy, workloads: Sequence[Workload], gpus: int) -> Dealt:
    """Divide workloads as ``rl.grouping.deal`` does, then let the top layer of ``policy`` deal them to groups anew.

    Raises
    ------
    NoFitError
        As ``deal``, and if ``policy`` has no top layer or a place of a group stays empty.
    InputError
        If the weights of the top layer belong to another network.
    """
    if TOP not in policy.weights:
        raise NoFitError("has no top layer")
    dealt = deal(policy, workloads, gpus)
    empty = int(np.sum(dealt.position < 0))
    if empty:
        raise NoFitError(f"trained for full groups; {empty} of {dealt.position.size} places are empty")
    load = dealt.rate_rps / np.array(policy.rate_rps)
    source = top_layer(policy, len(load)).deal(load[None]).source[0]
    return Dealt(np.take_along_axis(dealt.position, source, axis=0), np.take_along_axis(dealt.rate_rps, source, axis=0))


@lru_cache(maxsize=32)
def top_layer(policy: Policy, groups: int) -> TopLayer:
    """Return the trained top layer of ``policy`` for ``groups`` groups.

    Raises
    ------
    InputError
        If its weights belong to another network.
    """
    weights = policy.weights[TOP]
    try:
        layer = TopLayer(policy, groups, SacSettings(hidden=weights["weights.0"].shape[-1], buffer=1), 0)
        layer.sac.actor.load_state_dict(weights)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(f"policy: weights.{TOP}", f"do not fit: {in_a_line(error)}") from None
    return layer
