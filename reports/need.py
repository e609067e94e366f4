"""Runs that a figure or a document needs, and the rows that were made for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.command_text import command_line
from bench.evaluation import SIMULATED, Trial
from bench.formatting import in_words
from bench.ledger.row import Row


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
        Fewer or smaller instances for a first look; ``None`` if the figure is quick anyway.
    parameters
        Parameters of the schedulers, as on the command line: ``name.parameter=value``.
    trial
        Conditions of the evaluation: headroom, arrivals and so on.
    climb
        Whether each run is repeated at growing rates until they are too high: see ``bench.max_rate``. Only headroom and
        arrivals of ``trial`` may then differ from the defaults.
    time_limit_s
        Time limit of each run, if it matters; ``None`` for any limit.
    work_limit
        Work limit of each run, in the unit of its scheduler, where a time limit would affect the result.
    """

    instances: str
    schedulers: tuple[str, ...]
    seeds: tuple[int, ...] = (0,)
    quick: str | None = None
    parameters: tuple[str, ...] = ()
    trial: Trial = SIMULATED
    climb: bool = False
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
            "time_limit": self.time_limit_s,
            "work_limit": self.work_limit,
        }
        return command_line(command, **options, **self.trial.options)


def made_for(rows: Sequence[Row], need: Need) -> list[Row]:
    """Return the rows that agree with ``need`` in scheduler, parameters and conditions.

    Instance, seed and limits are not compared. Values are compared in the form of ``bench.formatting.in_words``.
    """
    return [
        row
        for row in rows
        if row.scheduler in need.schedulers and tried_like(row, need.trial) and _has_stated(row, need)
    ]


def tried_like(row: Row, trial: Trial) -> bool:
    """Return whether a row's plan was made and evaluated under ``trial``; without a simulation, under any arrivals."""
    if row.headroom not in (None, trial.headroom) or row.truth != trial.reality:
        return False
    if trial.check_holds and row.holds is None and row.value is not None:
        return False
    simulated = arrivals_of(row)
    return simulated is None or (trial.arrivals is not None and simulated == trial.arrivals.label)


def arrivals_of(row: Row) -> str | None:
    """Return the arrivals of the simulation of a row's plan; ``None`` without a simulation."""
    return None if row.simulation is None else str(row.simulation["arrivals"])


def _has_stated(row: Row, need: Need) -> bool:
    for parameter in need.parameters:
        name, _, stated = parameter.partition("=")
        scheduler, _, field = name.rpartition(".")
        if in_words(row.parameters.get(scheduler, {}).get(field)) != stated:
            return False
    return True


class NothingToDrawError(Exception):
    """Error for a figure that cannot be drawn: its runs or measurements are missing, or the bench does not draw it.

    It is not an ``InputError``: the command line is right, but the named figure fails (exit code 1, not 2). ``problem``
    is the reason in one line, and the remedy if there is one.
    """

    def __init__(self, figure: str, problem: str) -> None:
        super().__init__(f"{figure}: {problem}")
