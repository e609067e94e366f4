"""Instances: workloads or jobs, a GPU pool, a performance model, an SLO rule and an objective."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from json import dumps
from typing import Any

import numpy as np

from instances.arrays import Floats
from instances.attainment_terms import DEFAULT_ATTAINMENT, POISSON, terms_mismatch
from instances.budget import SloRule
from instances.errors import InputError
from instances.gpu import GpuType, Partition
from instances.mig import MIG_TABLE
from instances.performance import performance_model
from instances.performance.table import TABLE
from instances.plan import PlacedGpu
from instances.services import Service, gpu_for_services
from instances.workload import Application, Job, Workload, service_workloads


class Objective(StrEnum):
    """Objective of a plan. Files call ``capacity`` and ``goodput`` together ``throughput``.

    ``cost``: least sum of GPU prices with everything served (iGniter, equations 12-16). ``capacity``: everything served
    on the given GPUs, most throughput (InSS, equation 1). ``goodput``: workloads may be served in part, most requests
    served. ``scale``: largest multiple of all rates that the GPUs can serve. ``colocation``: best-effort jobs in
    groups, each on a whole GPU (MediatorDNN); most requests per second that all jobs complete under contention. This
    value is largest with one GPU per job, so compare it together with the number of GPUs and the time over capacity
    (``bench.judging.colocation``).
    """

    COST = "cost"
    CAPACITY = "capacity"
    GOODPUT = "goodput"
    SCALE = "scale"
    COLOCATION = "colocation"

    @property
    def minimised(self) -> bool:
        """Whether smaller values are better."""
        return self is Objective.COST


PART_STEPS = 20
"""Number of equal steps in a workload's rate; a workload that is served in part is served at whole steps."""

GOODPUT_STEP = 1.0 / PART_STEPS
"""Step of the served rates under ``goodput``, as a fraction of each workload's own rate."""

SCALE_STEP = 0.005
"""Distance between neighbouring scales that schedulers try under ``scale``."""


@dataclass(frozen=True, slots=True)
class GpuPool:
    """GPUs of one type that an instance offers: ``count`` of them, or any number if ``count`` is ``None``."""

    type: GpuType
    count: int | None = None

    @property
    def in_words(self) -> str:
        """Number and type, such as ``4 v100`` or ``any number of v100``."""
        return f"{'any number of' if self.count is None else self.count} {self.type.name}"


@dataclass(frozen=True)
class Instance:
    """One scheduling problem: the whole input of a scheduler.

    Attributes
    ----------
    name
        Name of the instance; plans refer to it.
    slo_rule
        SLO rule that every plan must satisfy.
    performance_model
        Name of the performance model, such as ``igniter``.
    gpus
        The GPU pool, one entry per type.
    workloads
        The workloads, with unique ids.
    applications
        Applications, whose requests visit several workloads.
    jobs
        Best-effort jobs; under ``colocation`` only.
    latency_buffer
        Factor on every predicted latency before it is tested (gpulet: 1.1).
    attainment, arrivals
        Fraction of requests to serve within the SLO, and assumed arrivals (``poisson`` or ``gamma:CV``); for the rule
        ``attainment``.
    dropping
        Whether the servers drop requests that can no longer meet their SLO; otherwise they serve every request.
    random_routing
        Whether each request of a workload with several slots goes to a random slot; otherwise the slots take turns.
    seed
        Seed of the generator that made the instance, if any.
    provenance
        Origin of the instance, in words.
    """

    name: str
    objective: Objective
    slo_rule: SloRule
    performance_model: str
    gpus: tuple[GpuPool, ...]
    workloads: tuple[Workload, ...]
    applications: tuple[Application, ...] = ()
    jobs: tuple[Job, ...] = ()
    latency_buffer: float = 1.0
    attainment: float = DEFAULT_ATTAINMENT
    arrivals: str = POISSON
    dropping: bool = True
    random_routing: bool = False
    seed: int | None = None
    provenance: str = ""

    def __post_init__(self) -> None:
        for kind, names in (
            ("workloads", [workload.id for workload in self.workloads]),
            ("jobs", [job.id for job in self.jobs]),
            ("gpus", [pool.type.name for pool in self.gpus]),
        ):
            earlier_names: set[str] = set()
            for position, name in enumerate(names):
                if name in earlier_names:
                    raise InputError(f"{self.name}: {kind}[{position}]", f'"{name}" occurs twice; names are unique')
                earlier_names.add(name)
        for kind, models in (
            ("workloads", [workload.model for workload in self.workloads]),
            ("jobs", [job.model for job in self.jobs]),
        ):
            for model in dict.fromkeys(models):
                for pool in self.gpus:
                    pool.type.check_model(model, f"{self.name}: {kind}[{models.index(model)}].model")
        types = [pool.type for pool in self.gpus]
        mismatch = (
            terms_mismatch(self, bool(self.applications))
            or partition_mismatch(types, self.performance_model, self.slo_rule, self.objective)
            or (services_mismatch(self.performance_model, self.objective) if self.services else None)
        )
        if mismatch is not None:
            raise InputError(f"{self.name}: {mismatch[0]}", mismatch[1])
        if self.partition is Partition.SHARES:
            self._check_figures()

    def _check_figures(self) -> None:
        """Check that the catalogue has the performance model's figures for every GPU type."""
        performance = performance_model(self.performance_model, f"{self.name}: performance_model")
        for pool in self.gpus:
            for name, model in pool.type.models.items():
                if missing := performance.missing(pool.type, model):
                    problem = f'is "{performance.name}"; {pool.type.name} has no {missing} for {name}'
                    raise InputError(f"{self.name}: performance_model", problem)

    @property
    def partition(self) -> Partition:
        """Partition of the pool's GPUs, the same for all of them."""
        return self.gpus[0].type.partition if self.gpus else Partition.SHARES

    @cached_property
    def services(self) -> tuple[Service, ...]:
        """The language-model services, in the order of their first workloads."""
        return tuple(dict.fromkeys(workload.service for workload in self.workloads if workload.service is not None))

    @property
    def takes_turns(self) -> bool:
        """Whether plans may have gpulets with a duty cycle; decoding of services cannot pause for other slots."""
        return self.slo_rule.takes_turns and not self.services

    @cached_property
    def workload_index(self) -> Mapping[str, int]:
        """Position of each workload, by id."""
        return {workload.id: position for position, workload in enumerate(self.workloads)}

    @cached_property
    def model_of(self) -> Mapping[str, str]:
        """DNN model by id: of the jobs under ``colocation``, otherwise of the workloads."""
        jobs_or_workloads = self.jobs if self.objective is Objective.COLOCATION else self.workloads
        return {entry.id: entry.model for entry in jobs_or_workloads}

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over everything in the instance, catalogue coefficients included."""
        return sha256(dumps(self, sort_keys=True, default=_plain).encode()).hexdigest()

    @property
    def may_miss(self) -> float:
        """Largest fraction of a workload's requests that may miss their SLO; when decoding, that may wait to start."""
        return round(1.0 - self.attainment, 12)

    def cost_per_hour(self, gpus: Iterable[PlacedGpu]) -> float:
        """Return the price of the GPUs with gpulets, in dollars."""
        prices = {pool.type.name: pool.type.price_per_hour for pool in self.gpus}
        try:
            return math.fsum(prices[gpu.type] for gpu in gpus if gpu.gpulets)
        except OverflowError:  # the sum exceeds the largest float
            return math.inf

    def pool(self, gpu_type: str) -> GpuPool | None:
        """Return the pool of the GPU type called ``gpu_type``, or ``None``."""
        return next((pool for pool in self.gpus if pool.type.name == gpu_type), None)

    def scaled(self, factor: float) -> "Instance":
        """Return this instance with every rate multiplied by ``factor``."""
        workloads = tuple(replace(workload, rate_rps=workload.rate_rps * factor) for workload in self.workloads)
        return replace(self, name=f"{self.name}*{factor:g}", workloads=workloads)


def _plain(value: object) -> dict[str, Any] | str:
    """Convert a value for the fingerprint's JSON; ``asdict`` of the whole instance takes three times as long.

    Fields of the rule ``attainment`` are left out under other rules. ``dropping`` is left out if it is true,
    ``random_routing`` if it is false, and fields of language models and batching times if they are empty. So instances
    older than these fields keep their fingerprints. Margins of a catalogue entry are left out: a margin has no effect
    unless it is applied, and then the fingerprint covers the changed times.
    """
    if is_dataclass(value):
        values = {attribute.name: getattr(value, attribute.name) for attribute in fields(value)}
        if isinstance(value, Instance) and value.slo_rule is not SloRule.ATTAINMENT:
            for name in ("attainment", "arrivals"):
                del values[name]
        if isinstance(value, Instance) and value.dropping:
            del values["dropping"]
        if isinstance(value, Instance) and not value.random_routing:
            del values["random_routing"]
        for name in ("rule", "service", "language_models", "batching_ms"):
            if name in values and not values[name]:
                del values[name]
        if isinstance(value, GpuType):
            del values["margins"]
        return values
    return str(value)


def partition_mismatch(
    types: Sequence[GpuType], performance_model: str, slo_rule: SloRule, objective: str
) -> tuple[str, str] | None:
    """Return a field that contradicts the GPUs' partition, and its problem; ``None`` if all fields agree.

    Under MIG, latencies come from a table of whole inferences, so the latency budget must not depend on transfers or on
    the rate.
    """
    partitions = {gpu.partition for gpu in types}
    if len(partitions) > 1:
        names = ", ".join(gpu.name for gpu in types if gpu.mig is not None)
        return "gpus", f"mixes GPUs cut into MIG instances ({names}) with others; expected one or the other"
    if Partition.MIG in partitions and objective == Objective.COLOCATION:
        return "objective", f'is "{objective}": jobs share whole GPUs; {types[0].name} is cut into MIG instances'
    if Partition.MIG in partitions and performance_model != MIG_TABLE:
        return "performance_model", f'is "{performance_model}"; GPUs cut into MIG instances need "{MIG_TABLE}"'
    if Partition.MIG in partitions and slo_rule != SloRule.HALF_SLO:
        return "slo_rule", f'is "{slo_rule}"; GPUs cut into MIG instances need "{SloRule.HALF_SLO}"'
    if Partition.SHARES in partitions and performance_model == MIG_TABLE:
        return "performance_model", f'is "{MIG_TABLE}"; {types[0].name} is not cut into MIG instances'
    return None


def services_mismatch(performance_model: str, objective: str) -> tuple[str, str] | None:
    """Return a field that contradicts language-model services, and its problem; ``None`` if all fields agree."""
    if performance_model != TABLE:
        return "performance_model", f'is "{performance_model}"; language-model services need "{TABLE}"'
    if objective not in (Objective.COST, Objective.SCALE):
        problem = "language-model services have one rate for prefill and decode; expected cost or scale"
        return "objective", f'is "{objective}"; {problem}'
    return None


def instance_of_services(
    name: str, services: Sequence[tuple[Service, float]], pools: Sequence[GpuPool], **fields_: Any
) -> Instance:
    """Return an instance of services, each with its rate; ``fields_`` are further fields of the instance.

    Raises
    ------
    InputError
        If a GPU type has no figures for a service.
    """
    without_rates = [service for service, _ in services]
    gpus = tuple(replace(pool, type=gpu_for_services(pool.type, without_rates)) for pool in pools)
    workloads = tuple(workload for service, rate in services for workload in service_workloads(service, rate))
    defaults: dict[str, Any] = {"objective": Objective.COST, "slo_rule": SloRule.HALF_SLO, "performance_model": TABLE}
    return Instance(name=name, gpus=gpus, workloads=workloads, **(defaults | fields_))


@dataclass(frozen=True)
class ScenarioSet:
    """Many rate vectors over one instance (gpulet's 1,023 and 19,682 scenarios).

    Attributes
    ----------
    base
        The instance whose rates are replaced.
    rates_rps
        Shape (scenarios, workloads); a rate of 0 leaves the workload out.
    """

    base: Instance
    rates_rps: Floats = field(repr=False)

    def __len__(self) -> int:
        return len(self.rates_rps)

    @property
    def name(self) -> str:
        """The base instance's name; scenario 7 of ``x`` is the instance ``x#7``."""
        return self.base.name

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the base instance and all rates."""
        rates = np.ascontiguousarray(self.rates_rps, dtype="<f8")
        return sha256(f"{self.base.fingerprint}{rates.shape}".encode() + rates.tobytes()).hexdigest()

    def scenario(self, index: int) -> Instance:
        """Return scenario ``index`` as an instance of its own."""
        workloads = tuple(
            replace(workload, rate_rps=float(rate))
            for workload, rate in zip(self.base.workloads, self.rates_rps[index], strict=True)
            if rate > 0
        )
        return replace(self.base, name=f"{self.base.name}#{index}", workloads=workloads)
