"""Figures: what one shows, which runs it needs and how it is drawn; and why others are not drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.evaluation import SIMULATED, Trial
from bench.ledger.row import Row


@dataclass(frozen=True, slots=True)
class Need:
    """Runs that a figure draws: every instance with every scheduler and seed, all tried alike.

    Attributes
    ----------
    instances
        Suites and instances by name, separated by commas.
    schedulers
        By name, in the order in which the figure shows them.
    seeds
        Of the runs.
    quick
        Fewer or smaller instances for a first look, named likewise; ``None`` where the figure is quick as it is.
    parameters
        Of the schedulers, as on the command line: ``name.parameter=value``.
    trial
        How the plans are tried: headroom, arrivals and so on.
    climb
        Whether the rates grow until they are too high, each of the runs at its own: see ``bench.max_rate``. The trial
        is then at most one of headroom and arrivals.
    time_limit_s
        Of each run, where it matters; ``None`` for whatever limit the runs are made with.
    work_limit
        Of each run, in the unit of its scheduler, where a time limit would decide what comes out.
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
        """The command that makes these runs."""
        command, seeds = ("max-rate", "--seed") if self.climb else ("run", "--seeds")
        limit = "" if self.time_limit_s is None else f" --time-limit {self.time_limit_s:g}"
        limit += "" if self.work_limit is None else f" --work-limit {self.work_limit}"
        return (
            f"bench {command} --instances {self.instances} --schedulers {','.join(self.schedulers)}"
            f" {seeds} {','.join(map(str, self.seeds))}"
            f"{''.join(f' --param {parameter}' for parameter in self.parameters)}{limit}{self.trial.options}"
        )


class NothingToDrawError(Exception):
    """A figure cannot be drawn, for want of runs, of measurements or altogether; says why in one line.

    It is no ``InputError``: the command line is right, but what it names fails (exit code 1, not 2).

    Parameters
    ----------
    figure
        Its name.
    problem
        Why, and what would help where anything does.
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
        Why not, in one sentence.
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
        As in ``bench figures NAME``; also of its files.
    title
        One line.
    paper
        The figure that it reproduces.
    shows
        What the paper's figure shows.
    look_for
        What to look for in ours.
    cost
        What making its runs takes.
    needs
        Its runs.
    draw
        Draws the rows of its runs into a folder and returns the files. Runs that failed are named on the figure. Raises
        ``NothingToDrawError`` when the rows and the measurements at hand give it nothing to draw.
    """

    name: str
    title: str
    paper: str
    shows: str
    look_for: str
    cost: str
    needs: tuple[Need, ...]
    draw: "Callable[[Sequence[Row], Path], list[Path]]"
