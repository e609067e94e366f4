"""Policy: the weights of trained actors and the settings of their training, and its file; loading runs no code."""

from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from instances import InputError, Instance, Objective
from instances.errors import printable, unknown_name
from rl.cluster import OBJECTIVES, Cluster
from rl.environment import DecisionProcess
from rl.sac_discrete import SacSettings
from rl.states import placement_size
from rl.td3 import Td3Settings
from rl.two_stage import TwoStage, TwoStageSettings
from rl.weights import in_a_line, load_weights, save_weights

_LARGEST_SIZE = 10_000
"""Largest number of neurons in a layer, and of GPUs; it bounds the size of weights and tables."""


@dataclass(frozen=True, eq=False, slots=True)
class Policy:
    """Trained actors of both stages, and of a top layer if there is one; policies compare by identity.

    Attributes
    ----------
    weights
        Weights of the actors by stage.
    hidden
        Number of neurons in each hidden layer of the two stages.
    gpu, gpus
        Type and number of the GPUs.
    objective
        Objective of the reward: ``capacity`` or ``goodput``.
    performance_model
        Performance model that predicted latencies in training.
    interference
        Whether co-located workloads interfered in training.
    models, slo_ms, rate_rps
        Model, SLO and rate of each workload, in the order in which they are placed.
    lowest, highest
        Range of the training rates, as multiples of ``rate_rps``.
    headroom
        Factor on inference times at admission under ``goodput``, see ``rl.admission``.
    training
        Settings of the training; they do not affect decisions.
    """

    weights: dict[str, Any]
    hidden: int
    gpu: str
    gpus: int
    objective: str
    performance_model: str
    interference: bool
    models: tuple[str, ...]
    slo_ms: tuple[float, ...]
    rate_rps: tuple[float, ...]
    lowest: float
    highest: float
    headroom: float
    training: dict[str, Any]

    @classmethod
    def of(
        cls, agent: TwoStage, instance: Instance, hidden: int, process: DecisionProcess, training: dict[str, Any]
    ) -> "Policy":
        """Return the policy of an agent that was trained for ``instance``."""
        return cls(
            agent.policy(),
            hidden,
            instance.gpus[0].type.name,
            agent.cluster.gpus,
            str(instance.objective),
            instance.performance_model,
            agent.cluster.interference,
            tuple(w.model for w in instance.workloads),
            tuple(w.slo_ms for w in instance.workloads),
            tuple(w.rate_rps for w in instance.workloads),
            process.lowest,
            process.highest,
            process.headroom,
            training,
        )

    @property
    def comparison_headroom(self) -> float:
        """Factor on inference times when decisions are compared.

        Under ``capacity`` it is 1, because nothing is admitted: a decision that the judge accepts counts as feasible.
        """
        return self.headroom if self.objective == Objective.GOODPUT else 1.0

    def agent(self, cluster: Cluster) -> TwoStage:
        """Return an agent that decides by this policy in ``cluster``, which has the policy's GPUs and workloads.

        Raises
        ------
        InputError
            If the weights belong to other networks.
        """
        sac = SacSettings(hidden=self.hidden, buffer=1)
        td3 = Td3Settings(hidden=self.hidden, buffer=1)
        try:
            # The length of a placement state tells which inputs it has.
            inputs = self.weights["sac"]["weights.0"].shape[1]
            further_inputs = inputs != placement_size(cluster.workloads, cluster.gpus, further_inputs=False)
            stages = TwoStageSettings(further_inputs=further_inputs)
            agent = TwoStage(cluster, sac, td3, 0, stages)
            agent.load_policy(self.weights)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            raise InputError("policy: weights", f"do not fit its networks: {in_a_line(error)}") from None
        return agent


_TYPES = get_type_hints(Policy)


def save_policy(policy: Policy, path: Path) -> None:
    """Write ``policy`` to a file; see ``save_weights``."""
    save_weights(asdict(policy), path)


def load_policy(path: Path) -> Policy:
    """Read a file of ``save_policy``; a file that has not changed is not read again.

    Raises
    ------
    InputError
        If the file cannot be read or has other content.
    """
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError:
        changed_ns = 0  # the error is raised when the file is read
    try:
        return _read(path, changed_ns)
    except InputError as error:
        # The file's texts may have control characters.
        raise InputError(printable(error.where), printable(error.problem)) from None


@lru_cache(maxsize=32)
def _read(path: Path, changed_ns: int) -> Policy:
    """Return the policy in a file; the cache reads the file again if its time of change, ``changed_ns``, differs."""
    content = load_weights(path)
    for field in fields(Policy):
        if field.name not in content:
            raise InputError(f"{path}: {field.name}", "is missing; expected a policy that `bench train` wrote")
        kind = get_origin(_TYPES[field.name]) or _TYPES[field.name]
        value = content[field.name]
        if not isinstance(value, kind) and not (kind is float and isinstance(value, int)):
            raise InputError(f"{path}: {field.name}", f"is a {type(value).__name__}; expected a {kind.__name__}")
    extra = sorted(content.keys() - _TYPES.keys())
    if extra:
        raise unknown_name(str(path), "field of a policy", extra[0], list(_TYPES))
    policy = Policy(**content)
    for name in ("models", "slo_ms", "rate_rps"):
        (kind, _) = get_args(_TYPES[name])
        if not all(isinstance(value, kind) for value in content[name]):
            raise InputError(f"{path}: {name}", f"expected a tuple of {kind.__name__}")
    if not len(policy.models) == len(policy.slo_ms) == len(policy.rate_rps):
        raise InputError(f"{path}: models", "expected as many models as SLOs and rates")
    if policy.objective not in OBJECTIVES:
        raise InputError(f"{path}: objective", f'is "{policy.objective}"; expected {" or ".join(sorted(OBJECTIVES))}')
    if not 0.0 < policy.lowest <= policy.highest or not policy.headroom > 0.0:
        raise InputError(f"{path}: lowest, highest, headroom", "expected 0 < lowest <= highest, and a headroom above 0")
    for name, number in (("hidden", policy.hidden), ("gpus", policy.gpus)):
        if not 1 <= number <= _LARGEST_SIZE:
            raise InputError(f"{path}: {name}", f"is {number}; expected a whole number from 1 to {_LARGEST_SIZE}")
    return policy
