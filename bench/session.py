"""Functions for scripts and notebooks: run schedulers, judge and simulate plans, load instances.

``import bench`` offers all of them. They use the same code as the command line.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from functools import wraps
from inspect import Signature, signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from warnings import warn

from pandas import DataFrame

from bench.evaluation import for_simulation
from bench.judging.judge import check_belongs
from bench.judging.judge import judge as judge_plan
from bench.judging.verdict import Verdict
from bench.ledger.frames import all_columns, main_columns
from bench.ledger.store import Ledger
from bench.plan_simulation import Interference, Settings, Simulated
from bench.plan_simulation import simulate as simulate_requests
from bench.planning import RunSettings, fitting_jobs, plan_tasks
from bench.runner.listener import Listener
from bench.runner.runner import run_tasks
from bench.selection import find_instance, find_plan, find_problems
from bench.simulation.arrivals import parse_arrivals
from instances import InputError, Instance, Plan, ScenarioSet

Problem = str | Path | Instance | ScenarioSet
AnyPlan = str | Path | Plan


def _with_fields_of(kind: type[RunSettings]) -> Callable[[Callable[..., DataFrame]], Callable[..., DataFrame]]:
    """Return a decorator that shows the fields of a dataclass in place of a function's ``**settings``."""

    def decorate(function: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        *named, settings_parameter = signature(function).parameters.values()
        names = [parameter.name for parameter in named]
        field_parameters = [
            field.replace(kind=settings_parameter.KEYWORD_ONLY)
            for name, field in signature(kind).parameters.items()
            if name not in names
        ]
        full_signature = Signature([*named, *field_parameters], return_annotation=DataFrame)

        @wraps(function)
        def with_fields(*arguments: Any, **settings: Any) -> DataFrame:
            full_signature.bind(*arguments, **settings)  # its error names a keyword that does not exist
            return function(*arguments, **settings)

        vars(with_fields)["__signature__"] = full_signature
        return with_fields

    return decorate


@_with_fields_of(RunSettings)
def run(
    instances: Problem | Sequence[Problem],
    schedulers: str | Sequence[str] | None = None,
    *,
    parameters: Mapping[str, object] | None = None,
    seeds: int | Sequence[int] = (0,),
    ledger: Ledger | str | Path | None = None,
    retry: bool = False,
    listener: Listener | None = None,
    **settings: Any,
) -> DataFrame:
    """Run schedulers on instances and return a table with one row per run.

    Parameters
    ----------
    instances
        Instances, scenario sets, names of either or of suites, files, patterns and folders; one or several.
    schedulers
        Names, ``name@start``, or ``file.py:Class``; by default all schedulers that can solve an instance.
    parameters
        Values by ``"scheduler.parameter"``; a list makes a variant of each value, and several lists of each
        combination.
    seeds
        Seeds, each for a run of its own; one or several.
    ledger
        Ledger that stores the rows, and whose rows are reused; a missing file is created. Without a ledger, the rows
        are only returned.
    retry
        Whether failed runs of the ledger are run again.
    listener
        Receiver of progress messages.
    **settings
        Other fields of ``bench.planning.RunSettings``: ``time_limit_s``, ``headroom`` and so on.

    Returns
    -------
    pandas.DataFrame
        One row per run: the main columns of ``docs/columns.md``; ``claim``, the status with the class of plans of an
        optimum; and ``plan``, a ``Plan`` or ``None``. ``bench.table`` returns all columns of a ledger.

    Raises
    ------
    InputError
        If an argument is wrong: the message names it.
    KeyboardInterrupt
        On Ctrl-C, after all workers were stopped; rows of finished runs are in the ledger.

    Warns
    -----
    RuntimeWarning
        If the ledger was removed, replaced, damaged or locked during the runs; the message names the file with the
        rows.

    Examples
    --------
    >>> import bench
    >>> table = bench.run("igniter-3", ["igniter", "colgen"], time_limit_s=10)
    >>> table[["scheduler", "status", "gpus_used"]].values.tolist()
    [['igniter', 'feasible', 1], ['colgen', 'optimal', 1]]
    """
    parameter_texts = [f"{name}={_in_text(value)}" for name, value in (parameters or {}).items()]
    run_settings = RunSettings(parameter_texts, seeds=[seeds] if isinstance(seeds, int) else seeds, **settings)
    specs = [schedulers] if isinstance(schedulers, str) else schedulers
    tasks, _ = plan_tasks(run_settings.order(_problems(instances), specs))
    jobs, _ = fitting_jobs(run_settings.jobs, run_settings.threads)
    with ExitStack() as stack:
        if ledger is None:
            ledger = Path(stack.enter_context(TemporaryDirectory(prefix="bench-"))) / "ledger.sqlite"
        if not isinstance(ledger, Ledger):
            ledger = stack.enter_context(Ledger(Path(ledger), create=True))
        rows = run_tasks(tasks, ledger, jobs, listener, retry=retry)
        if ledger.notice is not None:
            warn(ledger.notice, RuntimeWarning, stacklevel=2)
        return main_columns(rows, ledger)


def _in_text(value: object) -> str:
    """Return the value of a parameter, or its values with commas between them, as on the command line."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def table(ledger: Ledger | str | Path) -> DataFrame:
    """Return all rows of a ledger with all columns of ``docs/columns.md``.

    Raises
    ------
    InputError
        If there is no such ledger.

    Examples
    --------
    >>> import bench
    >>> runs = bench.run("igniter-3", "igniter", ledger="example.sqlite")
    >>> bench.table("example.sqlite")[["scheduler", "gpus_used"]].values.tolist()
    [['igniter', 1]]
    """
    with nullcontext(ledger) if isinstance(ledger, Ledger) else Ledger(Path(ledger)) as open_ledger:
        return all_columns(open_ledger)


def judge(plan: AnyPlan, instance: str | Path | Instance | None = None) -> Verdict:
    """Judge a plan: whether it is feasible, its value, and the constraints that it breaks.

    Parameters
    ----------
    plan
        Plan, or file with one.
    instance
        Instance, its name or its file. Not needed for a plan file that embeds or names its instance.

    Raises
    ------
    InputError
        If a file cannot be read or the plan belongs to another instance.

    Examples
    --------
    >>> import bench
    >>> table = bench.run("igniter-3", "igniter")
    >>> bench.judge(table.plan[0], "igniter-3").feasible
    True
    """
    return judge_plan(*_plan_and_instance(plan, instance))


def simulate(
    plan: AnyPlan,
    instance: str | Path | Instance | None = None,
    *,
    arrivals: str = "poisson",
    seconds: float = 30.0,
    warmup_s: float | None = None,
    seed: int = 0,
    interference: str = "dynamic",
    drop: bool | None = None,
    truth: str | None = None,
    error: float = 0.0,
) -> Simulated:
    """Simulate every request of a plan: latencies, goodput, late and dropped requests of each workload.

    Parameters
    ----------
    plan, instance
        As for ``judge``.
    arrivals
        ``poisson``, ``constant``, ``gamma:CV`` or a trace file.
    seconds, warmup_s
        Simulated time that is measured, and simulated time before it. The default of ``warmup_s`` is 5 s, or longer if
        queues need more time to settle.
    seed
        Seed of the arrivals and of the error.
    interference
        ``dynamic``: only batches that overlap slow each other; ``static``: all gpulets of a GPU do, at all times.
    drop
        Whether servers drop requests that can no longer be in time; by default as the instance says.
    truth, error
        As for ``run``.

    Raises
    ------
    InputError
        If a file cannot be read, the plan belongs to another instance, or it cannot be simulated.

    Examples
    --------
    >>> import bench
    >>> table = bench.run("igniter-3", "igniter")
    >>> served = bench.simulate(table.plan[0], "igniter-3", arrivals="constant", seconds=5)
    >>> served.violating
    0
    """
    loaded_plan, loaded_instance = _plan_and_instance(plan, instance)
    if interference not in list(Interference):
        raise InputError("interference", f'is "{interference}"; expected dynamic or static')
    arrival_process = parse_arrivals(arrivals)
    settings = Settings(arrival_process, seconds, warmup_s, seed, Interference(interference), drop)
    loaded_plan, loaded_instance, true_instance = for_simulation(loaded_plan, loaded_instance, truth, error, seed)
    return simulate_requests(loaded_plan, loaded_instance, settings, true_instance)


def load(name: str | Path) -> Instance:
    """Return the instance of a name or file.

    Raises
    ------
    InputError
        If nothing has this name, or several instances do.

    Examples
    --------
    >>> import bench
    >>> [workload.model for workload in bench.load("igniter-3").workloads]
    ['alexnet', 'resnet50', 'vgg19']
    """
    return find_instance(str(name), "name")


def _problems(problems: Problem | Sequence[Problem]) -> list[Instance | ScenarioSet]:
    listed = [problems] if isinstance(problems, str | Path | Instance | ScenarioSet) else problems
    if not listed:
        raise InputError("instances", "is empty; expected at least one instance")
    return find_problems([str(problem) if isinstance(problem, Path) else problem for problem in listed], "instances")


def _plan_and_instance(plan: AnyPlan | None, instance: str | Path | Instance | None) -> tuple[Plan, Instance]:
    """Return a plan and its instance; raise an ``InputError`` if the plan belongs to another instance."""
    if plan is None:  # the column `plan` of `run` has a None for each run without a plan
        raise InputError("plan", "is None; expected a plan, but this run found none")
    chosen = instance if isinstance(instance, Instance) or instance is None else load(instance)
    if not isinstance(plan, Plan):
        return find_plan(Path(plan), chosen)
    chosen = chosen or load(plan.instance)
    check_belongs(plan, chosen)
    return plan, chosen
