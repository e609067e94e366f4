"""Task of a run: an instance, a scheduler and its parameters, a seed and limits; and the key of its row."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from bench.evaluation import Trial
from bench.provenance import OWN_PACKAGES, solver_versions, sources_hash
from bench.schedulers.registry import FILE
from bench.then import Then
from instances import InputError, Instance, Objective, ScenarioSet
from instances.errors import FieldName

if TYPE_CHECKING:
    from bench.judging.measured import MeasuredTruth


@dataclass(frozen=True, slots=True)
class Stage:
    """Scheduler of a run; a run may have several, one after another.

    Attributes
    ----------
    target
        Location of the scheduler's class as ``module:attribute``; only the worker imports the class.
    overrides, parameters
        Parameters from the user, as text; and the values of all parameters as JSON, for the row and its key.
    distribution, version
        Distribution that contains the scheduler.
    """

    name: str
    target: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, object] = field(default_factory=dict)
    distribution: str = ""
    version: str = ""


@dataclass(frozen=True)
class Task:
    """Definition of one run.

    Attributes
    ----------
    instance
        Instance to solve; for a scenario set, its base instance.
    stages
        Schedulers in the order of execution, usually one. Each scheduler starts from the plan of the one before it.
    time_limit_s
        Time limit of all stages together, from the end of their ``warm``.
    work_limit
        Units of work of each stage, in its own unit, or ``None``. See ``bench.api.Scheduler``.
    memory_limit_mb
        Address space of every process of the run, in MiB (``RLIMIT_AS``), or ``None``. Imports alone take up to 2 GiB.
    source
        Origin of the numbers in the row: ``plan`` or ``replay``.
    scenarios
        Set whose scenarios are solved instead of ``instance``, in chunks. The time limit applies to each chunk.
    then, then_limit_s
        Second objective, and the time limit of its phase, which follows the decision. Only the objective ``cost`` has
        one.
    """

    instance: Instance
    stages: tuple[Stage, ...]
    seed: int = 0
    time_limit_s: float = 10.0
    memory_limit_mb: float | None = None
    threads: int = 1
    source: str = "plan"
    scenarios: ScenarioSet | None = None
    trial: Trial = field(default_factory=Trial)
    work_limit: int | None = None
    then: Then = Then.NONE
    then_limit_s: float = 10.0

    def __post_init__(self) -> None:
        if not self.stages:
            raise InputError("task", "names no scheduler")
        if not 0.0 < self.time_limit_s < math.inf:
            raise InputError("time limit", f"{self.time_limit_s} s; expected a finite time greater than 0")
        if self.memory_limit_mb is not None and not 0.0 < self.memory_limit_mb < math.inf:
            raise InputError("memory limit", f"{self.memory_limit_mb} MiB; expected a finite size greater than 0")
        if self.work_limit is not None and not 0 <= self.work_limit < 2**63:
            raise InputError("work limit", f"{self.work_limit}; expected a whole number from 0 to 2^63 - 1")
        if self.threads < 1:
            raise InputError("threads", f"{self.threads}; expected at least 1")
        if not 0 <= self.seed < 2**63:
            raise InputError("seed", f"{self.seed}; expected a whole number from 0 to 2^63 - 1")
        if self.then is not Then.NONE and (self.instance.objective is not Objective.COST or self.scenarios is not None):
            raise InputError("then", f"is {self.then}; expected none, since the objective is not cost")
        _, measured = self.true_performance  # raises for a wrong trial before the run, not after it
        if self.scenarios is not None and measured is not None:
            raise InputError(FieldName("truth"), "is measured; expected an instance, not a set of scenarios")

    @cached_property
    def true_performance(self) -> "tuple[Instance, MeasuredTruth | None]":
        """Instance with the true performance, by which plans are judged, and measured times if these judge them."""
        return self.trial.true_performance(self.instance, self.seed)

    @property
    def problem_hash(self) -> str:
        """Fingerprint of the instance or of the scenario set."""
        return self.instance.fingerprint if self.scenarios is None else self.scenarios.fingerprint

    @property
    def scheduler(self) -> str:
        """Spec of the schedulers; ``b@a`` runs ``a`` first."""
        return "@".join(stage.name for stage in reversed(self.stages))

    @property
    def parameters(self) -> dict[str, Mapping[str, object]]:
        """Values of all parameters, by scheduler name."""
        return {stage.name: stage.parameters for stage in self.stages}

    @property
    def packages(self) -> list[str]:
        """Top-level packages of the bench and of the schedulers."""
        modules = [stage.target.partition(":")[0] for stage in self.stages if stage.distribution != FILE]
        return [*OWN_PACKAGES, *(module.partition(".")[0] for module in modules)]

    @cached_property
    def code_hash(self) -> str:
        """SHA-256 over the sources of ``packages``."""
        return sources_hash(self.packages)

    @cached_property
    def key(self) -> str:
        """SHA-256 over everything that can affect the row."""
        identity = {
            "instance": self.problem_hash,
            "stages": [
                {
                    "name": stage.name,
                    "target": Path(stage.target).name,  # the folder of a file has no effect
                    # ``parameters`` has all values if the class can be loaded, so a stated default keeps the key.
                    "parameters": {**stage.overrides, **stage.parameters},
                    "distribution": [stage.distribution, stage.version],
                }
                for stage in self.stages
            ],
            "seed": self.seed,
            "time_limit_s": float(self.time_limit_s),
            "work_limit": self.work_limit,
            "memory_limit_mb": None if self.memory_limit_mb is None else float(self.memory_limit_mb),
            "threads": self.threads,
            "source": self.source,
            "trial": self.trial.identity,
            "code": self.code_hash,
            "solvers": dict(solver_versions()),
            # Absent without a second objective: the keys of older rows stay valid.
            **({} if self.then is Then.NONE else {"then": [self.then.value, float(self.then_limit_s)]}),
        }
        return sha256(json.dumps(identity, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
