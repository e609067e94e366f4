"""``bench train``: training of learning schedulers."""

import shlex
import sys
import time
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Protocol, cast

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from bench.cli.options import INTERRUPTED, output_option
from bench.cli.terminal import say
from bench.cli.views.tables import console_on
from bench.runner.interruption import Interruption, signals_noted
from bench.schedulers.parameters import instantiate
from bench.selection import find_instance
from instances import InputError, Instance
from instances.errors import unknown_name
from reports.charts.learning_curve import draw_learning_curve

GROUP = "bench.trainers"
"""Entry point group of trainers: dataclasses whose fields are the parameters."""

EXAMPLES = (
    "bench train ts --suite 4gpu --seed 0 -o results/ts-4gpu",
    "bench train ts --suite 4gpu --seed 0 -o results/paper --preset paper",
    "bench train ts --suite 4gpu --seed 0 -o results/short --preset paper --param episodes=100",
    "bench run --instances 4gpu --schedulers ts --param ts.policy=results/ts-4gpu/policy.pt",
)


class Trainer(Protocol):
    """Trainer of a scheduler; it continues from the checkpoint of an earlier call in ``folder``."""

    def train(self, instance: Instance, seed: int, folder: Path, tell: Callable[[int, dict[str, float]], None]) -> None:
        """Train for ``instance`` and call ``tell`` with the number and the scalars of each episode."""


def train(
    name: Annotated[str, typer.Argument(metavar="SCHEDULER", help="Scheduler to train, such as ts.")],
    suite: Annotated[str, typer.Option(metavar="NAME|FILE", help="Instance to train on.")],
    output: Annotated[Path, output_option("Folder for policy, checkpoint, scalars and learning curve.", "DIR")],
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Named settings; for ts: paper (as InSS prints), steadied (with additions).",
        ),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--param", metavar="NAME=VALUE", help="Training setting; overrides the preset; repeatable."),
    ] = None,
) -> None:
    """Train a learning scheduler.

    Training continues from the checkpoint in the output folder, if there is one. Ctrl-C stops training after the
    current episode and writes a checkpoint. A second Ctrl-C stops it at once.
    """
    trainers = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in trainers:
        raise unknown_name("SCHEDULER", "trainer", name, list(trainers))
    overrides = {}
    for text in parameters or ():
        field, separator, value = text.partition("=")
        if not separator:
            raise InputError("--param", f'"{text}" is not of the form NAME=VALUE')
        overrides[field.strip()] = value.strip()
    instance = find_instance(suite, "--suite")
    trainer_class: Any = trainers[name].load()
    presets: Mapping[str, Mapping[str, str]] = getattr(trainer_class, "presets", {})
    if preset is not None:
        if preset not in presets:
            raise unknown_name("--preset", f"preset of {name}", preset, list(presets))
        overrides = {**presets[preset], **overrides}
    trainer = cast(Trainer, instantiate(trainer_class, overrides, name))
    interrupted = False
    progress = _TrainingProgress(getattr(trainer, "episodes", None))
    with progress.bar, signals_noted() as progress.interrupted:
        try:
            trainer.train(instance, seed, output, progress.episode)
        except KeyboardInterrupt:
            interrupted = True
        except OSError as error:
            raise InputError(f"-o {output}", f"cannot be written into: {error.strerror}") from None
    if interrupted:
        command = ["bench", "train", name, "--suite", suite, "--seed", str(seed), "-o", str(output)]
        command += [] if preset is None else ["--preset", preset]
        command += [part for text in parameters or () for part in ("--param", text)]
        checkpoint = "there" if progress.stopped else "the last checkpoint"
        advice = f"this command continues from {checkpoint}: {shlex.join(command)}"
        say(f"interrupted after episode {progress.last}; {advice}")
        raise typer.Exit(INTERRUPTED)

    say(f"wrote {output}, learning curve {draw_learning_curve(output)}")


class _TrainingProgress:
    """Progress of training: a bar with the latest scalars on a terminal, a line for each episode elsewhere."""

    def __init__(self, episodes: int | None) -> None:
        self.last = 0  # number of the last finished episode
        self.stopped = False  # whether training stopped after that episode, not within the next one
        self.interrupted: Interruption | bool = False
        self._began_s = time.monotonic()
        self._episodes_since_begin = 0
        self._episodes = episodes
        columns = (BarColumn(30), MofNCompleteColumn(), TextColumn("left"), TimeRemainingColumn())
        scalars = TextColumn("{task.fields[scalars]}")
        no_terminal = not sys.stderr.isatty()
        self.bar = Progress(*columns, scalars, console=console_on(sys.stderr), transient=True, disable=no_terminal)
        self._task = self.bar.add_task("", total=episodes, scalars="")

    def episode(self, number: int, scalars: dict[str, float]) -> None:
        """Report a finished episode, and raise ``KeyboardInterrupt`` if a Ctrl-C came during the episode."""
        self.last = number
        self._episodes_since_begin += 1
        reward, late_pct, rps = (scalars[name] for name in ("reward", "late_pct", "throughput_rps"))
        text = f"reward {reward:.4g}, {late_pct:.3g} % late, {rps:,.0f} req/s"
        self.bar.update(self._task, completed=number, scalars=text)
        if self.bar.disable:
            say(f"[{number}{'' if self._episodes is None else f'/{self._episodes}'}] {text}{self._left(number)}")
        if self.interrupted:
            self.stopped = True
            raise KeyboardInterrupt

    def _left(self, number: int) -> str:
        if self._episodes is None or number >= self._episodes:
            return ""
        left_s = (time.monotonic() - self._began_s) / self._episodes_since_begin * (self._episodes - number)
        return f", {left_s / 60.0:.0f} min left" if left_s >= 90.0 else f", {left_s:.0f} s left"
