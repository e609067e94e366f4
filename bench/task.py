"""One run as asked for: an instance, a scheduler and its parameters, a seed and limits; and the key of its row."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from bench.code_version import OWN_PACKAGES, solver_versions, sources_hash
from bench.evaluation import Trial
from bench.schedulers.registry import FILE
from instances import InputError, Instance, ScenarioSet


@dataclass(frozen=True, slots=True)
class Stage:
    """One scheduler of a run.

    Attributes
    ----------
    name
        As registered.
    target
        Where its class is, as ``module:attribute``; only the worker imports it.
    overrides
        Parameters given by people, as text.
    parameters
        The values of all parameters as JSON, for the row and its key.
    distribution, version
        What the scheduler came with.
    """

    name: str
    target: str
    overrides: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, object] = field(default_factory=dict)
    distribution: str = ""
    version: str = ""


@dataclass(frozen=True)
class Task:
    """One run as asked for.

    Attributes
    ----------
    instance
        To be solved; of a scenario set its base.
    stages
        The schedulers in the order they run, each starting from the plan before it; usually one.
    seed
        For every random choice.
    time_limit_s
        For all stages together, from after their ``warm``.
    work_limit
        Units of work that each stage may do, in its own unit, or ``None``. See ``bench.api.Scheduler``.
    memory_limit_mb
        Address space of every process of the run, in MiB (``RLIMIT_AS``), or ``None``. Imports alone take up to 2 GiB.
    threads
        That schedulers and solvers may use.
    source
        Where the figures of the row come from: ``plan`` or ``replay``.
    scenarios
        The set whose scenarios are to be solved in the place of ``instance``. They run in chunks, to each of which the
        time limit applies.
    trial
        How the plan is tried.
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
        _ = self.reality  # refused now rather than after the run

    @cached_property
    def reality(self) -> Instance:
        """The instance as it really is: plans are judged and simulated by it."""
        return self.trial.real(self.instance, self.seed)

    @property
    def problem_hash(self) -> str:
        """Fingerprint of what is solved: the instance or the set."""
        return self.instance.fingerprint if self.scenarios is None else self.scenarios.fingerprint

    @property
    def scheduler(self) -> str:
        """The spec string: ``b@a`` runs ``a`` first."""
        return "@".join(stage.name for stage in reversed(self.stages))

    @property
    def parameters(self) -> dict[str, Mapping[str, object]]:
        """The values of all parameters, by scheduler name."""
        return {stage.name: stage.parameters for stage in self.stages}

    @property
    def packages(self) -> list[str]:
        """Those of the harness, and those the schedulers are in."""
        modules = [stage.target.partition(":")[0] for stage in self.stages if stage.distribution != FILE]
        return [*OWN_PACKAGES, *(module.partition(".")[0] for module in modules)]

    @cached_property
    def code_hash(self) -> str:
        """SHA-256 over the sources of ``packages``."""
        return sources_hash(self.packages)

    @cached_property
    def key(self) -> str:
        """SHA-256 over everything that can change the row."""
        identity = {
            "instance": self.problem_hash,
            "stages": [
                {
                    "name": stage.name,
                    "target": Path(stage.target).name,  # of a file without its folder, which changes nothing
                    # All values where the class could be loaded; saying a default aloud changes nothing.
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
        }
        return sha256(json.dumps(identity, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
