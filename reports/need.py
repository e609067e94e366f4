"""Runs that a figure or a document needs, and the rows that match them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from bench.command_text import command_line
from bench.evaluation import SIMULATED, UNCHECKED, Trial
from bench.ledger.labels import in_words
from bench.ledger.row import Row
from bench.schedulers.parameters import describe_parameters
from bench.schedulers.registry import entries, load


@dataclass(frozen=True, slots=True)
class Need:
    """Runs that a figure draws: every instance with every scheduler and seed, under equal conditions.

    Attributes
    ----------
    instances
        Suites and instances by name, separated by commas.
    schedulers
        Names of the schedulers, in the order of the figure.
    quick
        Fewer or smaller instances, for a quick draft; ``None`` if the figure is always quick.
    parameters
        Parameters of the schedulers, as on the command line: ``name.parameter=value``. Others have their defaults.
    trial
        Conditions of the evaluation, such as headroom and arrivals.
    climb
        Whether each run is repeated at growing rates until the rates are too high: see ``bench.max_rate``. If so, only
        headroom and arrivals of ``trial`` may differ from their defaults.
    from_above
        Whether the climb's last phase lowers the rates from above.
    time_limit_s
        Time limit of each run in seconds; ``None`` accepts any limit.
    work_limit
        Work limit of each run, in the unit of its scheduler. It replaces a time limit that would affect the result.
    """

    instances: str
    schedulers: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    quick: str | None = None
    parameters: tuple[str, ...] = ()
    trial: Trial = SIMULATED
    climb: bool = False
    from_above: bool = False
    time_limit_s: float | None = None
    work_limit: int | None = None

    @property
    def command(self) -> str:
        """Command that makes these runs."""
        command, seeds = ("max-rate", "seed") if self.climb else ("run", "seeds")
        options: dict[str, object] = {
            "instances": self.instances,
            "schedulers": ",".join(self.schedulers),
            seeds: ",".join(map(str, self.seeds)),
            "param": self.parameters,
            "from_above": self.from_above,
            "time_limit": self.time_limit_s,
            "work_limit": self.work_limit,
        }
        return command_line(command, **options, **self.trial.options)


def rows_matching(rows: Sequence[Row], need: Need) -> list[Row]:
    """Return the rows that have the scheduler, parameters and conditions of ``need``.

    Parameters that the need does not name have their defaults. Instance, seed and limits are not compared. Values are
    compared in the form of ``bench.ledger.labels.in_words``.
    """
    return [
        row
        for row in rows
        if row.scheduler in need.schedulers and has_conditions(row, need.trial) and _has_parameters(row, need)
    ]


def has_conditions(row: Row, trial: Trial) -> bool:
    """Return whether a row's plan was made and evaluated under ``trial``.

    If the row has no simulation, its arrivals are not compared.
    """
    if row.second_objective:  # the plan is no longer the scheduler's, but another one of the same cost
        return False
    if row.headroom not in (None, trial.headroom) or (row.margin or 0.0) != trial.margin or row.truth != trial.reality:
        return False
    # A plan that cannot be tested states the reason, and counts as tested.
    if trial.check_holds and not is_tested(row) and UNCHECKED not in (row.reason or ""):
        return False
    arrivals = arrivals_of(row)
    return arrivals is None or (trial.arrivals is not None and arrivals == trial.arrivals.label)


def is_tested(row: Row) -> bool:
    """Return whether the test of a row's plan has an answer, or the row has no plan to test."""
    return row.holds is not None or row.value is None


def arrivals_of(row: Row) -> str | None:
    """Return the arrivals of the simulation of a row's plan; ``None`` without a simulation."""
    return None if row.simulation is None else str(row.simulation["arrivals"])


def _has_parameters(row: Row, need: Need) -> bool:
    """Return whether a run has the parameters that the need names, and its other parameters have their defaults."""
    for parameter in need.parameters:
        qualified_name, _, needed_value = parameter.partition("=")
        scheduler, _, field = qualified_name.rpartition(".")
        if in_words(row.parameters.get(scheduler, {}).get(field)) != needed_value:
            return False
    named = {parameter.partition("=")[0] for parameter in need.parameters}
    # A run from before a parameter existed has no value for it and counts as one with its default.
    return all(
        f"{scheduler}.{field}" in named or value == _defaults(scheduler).get(field, value)
        for scheduler, values in row.parameters.items()
        for field, value in values.items()
    )


@cache
def _defaults(scheduler: str) -> Mapping[str, object]:
    """Return the default of every parameter of a scheduler as JSON.

    The result is empty for a scheduler that is not registered or that has a parameter without a default.
    """
    if (entry := entries().get(scheduler)) is None:
        return {}
    scheduler_class = load(entry.target)
    if any(parameter.required for parameter in describe_parameters(scheduler_class, None)):
        return {}
    return {parameter.name: parameter.value for parameter in describe_parameters(scheduler_class, scheduler_class())}


class NothingToDrawError(Exception):
    """Error for a figure that cannot be drawn: its runs or measurements are missing, or the bench does not draw it.

    The error is no ``InputError``: the command line is correct, but the figure fails (exit code 1, not 2). ``problem``
    states the reason in one line, with the remedy if there is one.
    """

    def __init__(self, figure: str, problem: str) -> None:
        super().__init__(f"{figure}: {problem}")
