"""Figures and their needs: contents, required runs and drawing; and the reasons of figures that are not drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.evaluation import SIMULATED, Trial
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
    seeds
        Seeds of the runs.
    quick
        Fewer or smaller instances for a first look; ``None`` if the figure is quick anyway.
    parameters
        Parameters of the schedulers, as on the command line: ``name.parameter=value``.
    trial
        Conditions of the evaluation: headroom, arrivals and so on.
    climb
        Whether each run is repeated at growing rates until they are too high: see ``bench.max_rate``. ``trial`` then
        has headroom or arrivals at most.
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
        command, seeds = ("max-rate", "--seed") if self.climb else ("run", "--seeds")
        limit = "" if self.time_limit_s is None else f" --time-limit {self.time_limit_s:g}"
        limit += "" if self.work_limit is None else f" --work-limit {self.work_limit}"
        return (
            f"bench {command} --instances {self.instances} --schedulers {','.join(self.schedulers)}"
            f" {seeds} {','.join(map(str, self.seeds))}"
            f"{''.join(f' --param {parameter}' for parameter in self.parameters)}{limit}{self.trial.options}"
        )


class NothingToDrawError(Exception):
    """Error for a figure that cannot be drawn: missing runs, missing measurements, or no support at all.

    It is not an ``InputError``: the command line is right, but the named figure fails (exit code 1, not 2).

    Parameters
    ----------
    figure
        Name of the figure.
    problem
        The reason in one line, and the remedy if there is one.
    """

    def __init__(self, figure: str, problem: str) -> None:
        super().__init__(f"{figure}: {problem}")


@dataclass(frozen=True, slots=True)
class NotDrawn:
    """A figure, table or algorithm of a paper that is not drawn.

    Attributes
    ----------
    name, title, paper
        As of a ``Figure``.
    reason
        The reason, in one sentence.
    """

    name: str
    title: str
    paper: str
    reason: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a paper, redrawn from the ledger.

    Attributes
    ----------
    name
        Name in ``bench figures NAME``, and of its files.
    title
        Title of one line.
    paper
        The figure that it reproduces.
    shows
        The paper's result.
    look_for
        How to read this figure.
    cost
        Number and duration of its runs.
    needs
        Its runs.
    draw
        Draws the rows of its runs into a folder and returns the files. Failed runs are named on the figure. Raises
        ``NothingToDrawError`` if neither the rows nor the available measurements give it anything to draw.
    """

    name: str
    title: str
    paper: str
    shows: str
    look_for: str
    cost: str
    needs: tuple[Need, ...]
    draw: "Callable[[Sequence[Row], Path], list[Path]]"
