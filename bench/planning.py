"""Tasks for the options of a command."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from bench.api import refusal
from bench.evaluation import SIMULATED, Trial
from bench.provenance import usable_cores
from bench.runner.inspection import SchedulerInfo, inspect_variants
from bench.schedulers.parameters import parse_overrides, variants
from bench.schedulers.registry import Entry, entries, parse_spec
from bench.simulation.arrivals import parse_arrivals
from bench.task import Task
from bench.then import Then
from instances import InputError, Instance, Objective, ScenarioSet
from instances.errors import FieldName
from instances.grouping import grouped

_MIB_PER_GB = 1024.0

_LARGEST_LIMIT = 1_000_000
"""Largest time limit in seconds (some eleven days) and largest memory limit in GB of one run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of every run; ``then`` is the second objective of runs of objective ``cost``."""

    time_limit_s: float = 10.0
    memory_limit_gb: float = 8.0
    threads: int = 1
    work_limit: int | None = None
    then: Then = Then.NONE
    then_limit_s: float = 10.0

    def __post_init__(self) -> None:
        require_limit(FieldName("time_limit_s"), self.time_limit_s)
        require_limit(FieldName("then_limit_s"), self.then_limit_s)
        require_limit(FieldName("memory_limit_gb"), self.memory_limit_gb, "GB")

    def task(self, problem: Instance | ScenarioSet, infos: Sequence[SchedulerInfo], seed: int, trial: Trial) -> Task:
        """Return the task of one run under these limits."""
        scenarios = problem if isinstance(problem, ScenarioSet) else None
        if scenarios is not None:  # the thousands of plans of a set are not simulated
            trial = replace(trial, arrivals=None, check_holds=False)
        instance = base_of(problem)
        has_second_objective = scenarios is None and instance.objective is Objective.COST
        return Task(
            instance=instance,
            stages=tuple(info.stage for info in infos),
            seed=seed,
            time_limit_s=self.time_limit_s,
            work_limit=self.work_limit,
            memory_limit_mb=self.memory_limit_gb * _MIB_PER_GB,
            threads=self.threads,
            scenarios=scenarios,
            trial=trial,
            then=self.then if has_second_objective else Then.NONE,
            then_limit_s=self.then_limit_s,
        )


def require_limit(field: FieldName, value: float, unit: str = "seconds") -> None:
    """Raise an ``InputError`` about ``field`` if ``value`` is not positive or is too large for a limit."""
    if not 0.0 < value <= _LARGEST_LIMIT:
        raise InputError(field, f"{value:g}; expected a number of {unit} greater than 0, at most {_LARGEST_LIMIT:,}")


def base_of(problem: Instance | ScenarioSet) -> Instance:
    """Return an instance itself, or the base instance of a scenario set."""
    return problem.base if isinstance(problem, ScenarioSet) else problem


def default_jobs(threads: int) -> int:
    """Return the number of runs, each of ``threads`` threads, that fit on the cores of this machine together."""
    return max(1, usable_cores() // threads)


def fitting_jobs(jobs: int | None, threads: int) -> tuple[int, str]:
    """Return the number of parallel runs that fit on the cores, and a message if it is smaller than ``jobs``.

    Runs that share a core would distort each other's times.
    """
    limit, cores = default_jobs(threads), usable_cores()
    if threads > cores:
        return 1, f"`threads` {threads}: this machine has only {cores} cores, so measured times are too long"
    if jobs is not None and jobs > limit:
        return (
            limit,
            f"`jobs` {jobs}: reduced to {limit}, since {cores} cores fit no more runs of `threads` {threads}",
        )
    return jobs or limit, ""


def parse_seeds(text: str) -> list[int]:
    """Return the seeds in ``0,1,2`` without duplicates.

    Raises
    ------
    InputError
        If a seed is not a whole number of at least 0.
    """
    seeds: dict[int, None] = {}
    for part in text.split(","):
        if not part.strip().isdecimal():
            raise InputError(
                FieldName("seeds"), f'"{part.strip()}" is not a seed; expected whole numbers such as 0,1,2'
            )
        seeds[int(part)] = None
    return list(seeds)


@dataclass(frozen=True, slots=True)
class RunOrder:
    """Request for runs: every problem with every scheduler, variant and seed.

    Attributes
    ----------
    problems
        Instances and scenario sets to solve; a scenario set is one run.
    schedulers
        ``name`` or ``name@start``; ``None`` for all schedulers that support an instance's objective.
    parameters
        ``name.parameter=value``; with ``value,value`` every combination is a separate variant.
    limits, trial
        Limits and trial of every run.
    own_arrivals
        Whether the simulation of a plan uses the arrivals of its instance instead of those of ``trial``.
    """

    problems: Sequence[Instance | ScenarioSet]
    schedulers: Sequence[str] | None
    parameters: Sequence[str]
    seeds: Sequence[int]
    limits: Limits
    trial: Trial = SIMULATED
    own_arrivals: bool = False


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Settings of runs that a user chooses, in Python as keyword arguments of ``bench.run``.

    Attributes
    ----------
    parameters
        ``name.parameter=value``; with ``value,value`` every combination is a separate variant.
    time_limit_s, work_limit, memory_limit_gb, threads
        Limits of every run.
    seeds
        Seeds, each for a run of its own.
    jobs
        Number of parallel runs; ``None`` for as many as the cores allow.
    arrivals
        Arrivals for the simulation of every plan: ``poisson``, ``constant``, ``gamma:CV``, a trace file, or ``own``
        for those of the instance (``poisson`` unless it names others). ``None`` turns the simulation off.
    check_holds
        Whether to test in 10 long simulations if every plan holds (columns ``holds`` and ``late_workloads``).
    headroom
        Factor on every predicted latency while planning.
    margin
        Level of the margins on times beside others while planning, a fraction; 0 for none.
    truth, error
        True performance model of the GPUs, or ``measured:FOLDER``, and the largest relative error of their figures.
    then
        Second objective among plans of equal cost: ``none``, or ``slack``, the most slack of the tightest workload.
    then_limit_s
        Time limit of the second objective, after the time limit of the first.
    """

    parameters: Sequence[str] = ()
    time_limit_s: float = 10.0
    work_limit: int | None = None
    memory_limit_gb: float = 8.0
    threads: int = 1
    seeds: Sequence[int] = (0,)
    jobs: int | None = None
    arrivals: str | None = "own"
    check_holds: bool = False
    headroom: float = 1.0
    margin: float = 0.0
    truth: str | None = None
    error: float = 0.0
    then: Then = Then.NONE
    then_limit_s: float = 10.0

    def order(self, problems: Sequence[Instance | ScenarioSet], schedulers: Sequence[str] | None) -> RunOrder:
        """Return the request for runs on ``problems``.

        Raises
        ------
        InputError
            If a setting is out of range.
        """
        own_arrivals = self.arrivals == "own"
        arrivals = None if self.arrivals is None else parse_arrivals("poisson" if own_arrivals else self.arrivals)
        trial = Trial(self.headroom, self.truth, self.error, arrivals, check_holds=self.check_holds, margin=self.margin)
        if self.then not in list(Then):
            raise InputError(FieldName("then"), f'is "{self.then}"; expected {" or ".join(Then)}')
        limits = Limits(
            self.time_limit_s,
            self.memory_limit_gb,
            self.threads,
            self.work_limit,
            Then(self.then),
            self.then_limit_s,
        )
        return RunOrder(problems, schedulers, self.parameters, self.seeds, limits, trial, own_arrivals)


def plan_tasks(order: RunOrder) -> tuple[list[Task], list[str]]:
    """Return the tasks of an order, and a message for each scheduler or instance that is left out.

    Raises
    ------
    InputError
        If a scheduler or parameter is unknown, or there is nothing to run.
    """
    ((tasks, notes),) = plan_orders([order])
    return tasks, notes


def plan_orders(orders: Sequence[RunOrder]) -> list[tuple[list[Task], list[str]]]:
    """Return the result of ``plan_tasks`` for several orders.

    The schedulers of all orders are inspected together, since inspection takes most of the time.
    """
    registered = entries()
    specs_of_orders = [_specs(order, registered) for order in orders]
    registered |= {entry.name: entry for specs in specs_of_orders for stages in specs.values() for entry in stages}
    variants_of_orders = [
        _variants(specs.values(), order.parameters, registered)
        for order, specs in zip(orders, specs_of_orders, strict=True)
    ]
    distinct_variants = {
        key: variant for variants_by_key in variants_of_orders for key, variant in variants_by_key.items()
    }
    infos = dict(zip(distinct_variants, inspect_variants(list(distinct_variants.values())), strict=True))
    return [
        _tasks(order, specs, [infos[key] for key in variants_by_key])
        for order, specs, variants_by_key in zip(orders, specs_of_orders, variants_of_orders, strict=True)
    ]


def _left_out(infos: Sequence[SchedulerInfo]) -> list[str]:
    """Return a sentence for each reason why schedulers cannot be used."""
    names_by_reason = grouped(
        (info.error.removeprefix(f"{InputError.__name__}: {info.entry.target}: "), info.entry.name) for info in infos
    )
    return [
        f"{', '.join(names)} {'are' if len(names) > 1 else 'is'} left out because "
        f"{'they' if len(names) > 1 else 'it'} cannot be used: {reason}"
        for reason, names in names_by_reason.items()
    ]


def _tasks(
    order: RunOrder, specs: Mapping[str, Sequence[Entry]], variant_infos: Sequence[SchedulerInfo]
) -> tuple[list[Task], list[str]]:
    """Return the tasks of one order, and its messages; ``variant_infos`` describes each variant of its schedulers."""
    infos = grouped((info.entry.name, info) for info in variant_infos)
    notes = []
    if order.schedulers is None:
        broken = [name for name in specs if infos[name][0].error]
        notes = _left_out([infos[name][0] for name in broken])
        specs = {name: specs[name] for name in specs if name not in broken}
    combinations = [stages for spec in specs.values() for stages in product(*(infos[entry.name] for entry in spec))]
    tasks = []
    for problem in order.problems:
        instance = base_of(problem)
        usable, trial = combinations, order.trial
        if order.own_arrivals:
            trial = replace(trial, arrivals=parse_arrivals(instance.arrivals))
        if order.schedulers is None:
            usable = [(info,) for (info,) in combinations if refusal(info, instance) is None]
            if not usable:
                on_partition = f" on GPUs partitioned by {instance.partition}"
                notes.append(f"{instance.name} is left out: no scheduler supports {instance.objective}{on_partition}")
        trial.planner_instance(instance)  # refuses margins that the instance does not have
        tasks += [order.limits.task(problem, stages, seed, trial) for stages in usable for seed in order.seeds]
    if not order.seeds:
        raise InputError(FieldName("seeds"), "is empty; expected at least one seed")
    if not tasks:
        raise InputError(FieldName("schedulers"), "; ".join(notes) or "names no scheduler; see `bench list schedulers`")
    return tasks, notes


def _specs(order: RunOrder, registered: Mapping[str, Entry]) -> dict[str, tuple[Entry, ...]]:
    """Return the stages of every scheduler that an order names, by spec; without names, those of all schedulers."""
    if order.schedulers is None:
        return {name: (entry,) for name, entry in registered.items()}
    return {spec: parse_spec(spec, registered) for spec in order.schedulers}


def _variants(
    specs: Iterable[Sequence[Entry]], parameters: Sequence[str], registered: Mapping[str, Entry]
) -> dict[tuple[str, tuple[tuple[str, str], ...]], tuple[Entry, Mapping[str, str]]]:
    """Return every scheduler of ``specs`` with every combination of its ``parameters``, by name and values."""
    stages = {entry.name: entry for spec in specs for entry in spec}
    overrides = parse_overrides(parameters, list(registered))
    if (name := next((name for name in overrides if name not in stages), None)) is not None:
        raise InputError(
            FieldName("parameters", f" {name}"),
            f'"{name}" is not among the schedulers of this run: {", ".join(stages)}',
        )
    return {
        (name, tuple(variant.items())): (entry, variant)
        for name, entry in stages.items()
        for variant in variants(overrides.get(name, {}), name)
    }
