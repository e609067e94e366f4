"""The top layer of the three (InSS Sec. 5.1): which group of GPUs takes which workload; TS decides inside the groups.

It is the first stage again, SAC-Discrete with an actor for each place of a group, with groups where that has GPUs.
Place by place, the workloads for a place are dealt to the groups, one to each, the most unusual rates first; an actor
gives every group a score by

=====  ===============  =============================================================================================
size   range            meaning
=====  ===============  =============================================================================================
1      [-1, 1]          rate of the workload, from the lowest to the highest that the place was trained for
P      [-1, 1]          the same of those that the group already has at its P places; 0 where nobody is yet
=====  ===============  =============================================================================================

The same network scores every group, so that what is learnt of one holds for all and for any number of them.

The paper only names the hierarchy. Decided here: an actor's reward is what its workload changes, the worth of its group
with it less that with a middling rate in its place (a difference reward). The two stages learn from the sum over the
whole cluster; with sixteen groups that is a sum over a hundred and sixty choices, of which one changes little. A choice
is rewarded by itself: the discount is 0. What lies below the top layer stays as it was trained.
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
from rl.environment import DecisionProcess, compressed, let_in, predicted
from rl.grouping import ROUNDING, Dealt, NoFitError, deal
from rl.networks import PerAction
from rl.planning import several
from rl.policy import Policy
from rl.sac_discrete import SacDiscrete, SacSettings, perturbed
from rl.two_stage import TwoStage
from rl.weights import in_a_line

TOP = "top"
"""Where a policy has the weights of the top layer, beside those of the two stages."""

PENALTY = DecisionProcess().penalty
"""omega of equation (2)."""


@dataclass(frozen=True, slots=True)
class Dealing:
    """How the workloads of several clusters are dealt to their groups, place by place, and what was seen.

    Attributes
    ----------
    source
        Row of the workload that each place of each group gets, shape (clusters, groups, places).
    state, safe
        Of each place and turn, shape (clusters, places, groups, groups (P + 1)) and (clusters, places, groups, groups).
    group
        That is chosen then, shape (clusters, places, groups).
    """

    source: Ints
    state: Singles
    safe: Flags
    group: Ints


class TopLayer:
    """Deals workloads to groups of GPUs.

    Parameters
    ----------
    below
        Decides inside the groups.
    groups
        Of a cluster.
    settings
        Parameters of the agent.
    seed
        Of all its randomness.

    Attributes
    ----------
    groups
        As above.
    middle
        The middling load of a place.
    random
        Source of all its randomness.
    """

    def __init__(self, below: Policy, groups: int, settings: SacSettings, seed: int) -> None:
        places = len(below.models)
        self.groups = groups
        self.middle = (below.lowest + below.highest) / 2.0
        self._half = (below.highest - below.lowest) / 2.0 or 1.0
        self.random = torch.Generator().manual_seed(seed)
        shape = places, groups * (places + 1), groups
        self.sac = SacDiscrete(*shape, settings, self.random, torch.device("cpu"), network=PerAction)

    @torch.no_grad()
    def deal(self, load: Floats, spread: float = 0.0) -> Dealing:
        """Deal every row of ``load`` to the groups anew, each place by itself.

        Parameters
        ----------
        load
            Rates over those of the places, shape (clusters, groups, places).
        spread
            0 takes the likeliest groups, 1 draws them from the policy.
        """
        clusters, groups, places = load.shape
        relative = ((load - self.middle) / self._half).astype(np.float32)
        rows = np.arange(clusters)
        given = np.zeros((clusters, 1, groups, places), dtype=np.float32)
        source = np.empty(load.shape, dtype=np.int64)
        chosen = np.empty((clusters, places, groups), dtype=np.int64)
        states, safe = [], np.empty((clusters, places, groups, groups), dtype=np.bool_)
        for p in range(places):
            order = np.argsort(-np.abs(relative[:, :, p]), axis=1, kind="stable")
            own = np.take_along_axis(relative[:, :, p], order, axis=1)
            shape = (clusters, groups, groups)
            parts = np.broadcast_to(own[:, :, None], shape)[..., None], np.broadcast_to(given, (*shape, places))
            states.append(np.concatenate(parts, axis=3).reshape(clusters, groups, -1))
            score = self.sac.actor.one(p, torch.from_numpy(states[p].reshape(clusters * groups, -1)))
            preference = perturbed(score, spread, self.random).numpy().reshape(shape)
            free = np.ones((clusters, groups), dtype=np.bool_)
            for turn in range(groups):
                safe[:, p, turn] = free
                group = np.argmax(np.where(free, preference[:, turn], -np.inf), axis=1)
                free[rows, group] = False
                given[rows, 0, group, p] = own[:, turn]
                source[rows, group, p] = order[:, turn]
                chosen[:, p, turn] = group
        return Dealing(source, np.stack(states, axis=1), safe, chosen)

    def remember(self, dealing: Dealing, reward: Floats) -> None:
        """Store what was done and what it brought.

        Parameters
        ----------
        dealing
            What was done.
        reward
            For the workload at each place of each group, shape (clusters, groups, places).
        """
        by_turn = np.take_along_axis(np.swapaxes(reward, 1, 2), dealing.group, axis=2)
        state, safe = _transitions(dealing.state), _transitions(dealing.safe)
        action, rewards = _transitions(dealing.group), _transitions(by_turn)
        # With a discount of 0 it does not matter what comes next.
        self.sac.replay.add(state=state, safe=safe, action=action, reward=rewards, next_state=state, next_safe=safe)

    def state_dict(self) -> dict[str, Any]:
        """Return what it takes to go on learning bit for bit."""
        return {"sac": self.sac.state_dict(), "random": self.random.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a ``state_dict``."""
        self.sac.load_state_dict(state["sac"])
        self.random.set_state(state["random"])


def _transitions(part: NDArray[Any]) -> torch.Tensor:
    """Turn shape (clusters, places, turns, ...) to (transitions, agents, ...)."""
    swapped = np.swapaxes(part, 1, 2)
    return torch.from_numpy(swapped.reshape(-1, *swapped.shape[2:]))


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What becomes of groups, each of shape (groups,).

    Attributes
    ----------
    worth
        The reward of equation (2) as the layers below learn from it, with every request of a workload late that is not
        served in time.
    throughput_rps
        Sum over the workloads.
    late
        Workloads that are not served in time.
    """

    worth: Floats
    throughput_rps: Floats
    late: Ints


def outcomes(below: TwoStage, rates_rps: Floats, headroom: float, drawn: int) -> Outcomes:
    """Return what the layers below make of the rates of each group, by the latency model.

    Parameters
    ----------
    below
        Decides inside the groups.
    rates_rps
        Shape (groups, places).
    headroom
        See ``rl.admission``.
    drawn
        Decisions of each group that are drawn besides the likeliest; the best of them counts.
    """
    cluster = below.cluster
    tried_rps, decision = several(below, rates_rps, drawn)
    inference_ms, throughput_rps = predicted(cluster, decision.gpu, decision.units, decision.batch)
    in_time_rps = let_in(tried_rps, cluster.view.slo_ms, decision.batch, inference_ms, headroom)
    late = in_time_rps < tried_rps * (1.0 - ROUNDING)
    # Equation 2
    worth = compressed(throughput_rps / cluster.rms_rps - PENALTY * late).sum(axis=1)
    best = np.arange(len(rates_rps)) * (1 + drawn) + worth.reshape(-1, 1 + drawn).argmax(axis=1)
    return Outcomes(worth[best], throughput_rps[best].sum(axis=1), late[best].sum(axis=1))


def deal_in_layers(policy: Policy, workloads: Sequence[Workload], gpus: int) -> Dealt:
    """Divide workloads as ``rl.grouping.deal`` does, but let the top layer of ``policy`` say which group takes which.

    Raises
    ------
    NoFitError
        As ``deal``, and if ``policy`` has no top layer or a place of a group stays empty.
    InputError
        If the weights of the top layer are of another network.
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
    """Return the trained top layer of ``policy`` for so many groups.

    Raises
    ------
    InputError
        If its weights are of another network.
    """
    weights = policy.weights[TOP]
    try:
        layer = TopLayer(policy, groups, SacSettings(hidden=weights["weights.0"].shape[-1], buffer=1), 0)
        layer.sac.actor.load_state_dict(weights)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError) as error:
        raise InputError(f"policy: weights.{TOP}", f"do not fit: {in_a_line(error)}") from None
    return layer
