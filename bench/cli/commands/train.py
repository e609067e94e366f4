"""``bench train``: training of learning schedulers."""

import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, Self, cast

import typer

from bench.cli.options import INTERRUPTED

if TYPE_CHECKING:
    from instances import Instance

GROUP = "bench.trainers"
"""Entry points of classes that train: dataclasses whose fields are the parameters."""

EXAMPLES = (
    "bench train ts --suite 4gpu --seed 0 -o results/ts-4gpu",
    "bench train ts --suite 4gpu --seed 0 -o results/quick --param episodes=60 --param hidden=64 --param discount=0",
    "bench run --instances 4gpu --schedulers ts --param ts.policy=results/quick/policy.pt",
)


class Trainer(Protocol):
    """What trains a scheduler; it goes on from what an earlier call left in ``folder``."""

    def train(
        self, instance: "Instance", seed: int, folder: Path, tell: Callable[[int, dict[str, float]], None]
    ) -> None:
        """Train for ``instance`` and call ``tell`` with the number and the scalars of each episode."""
        ...


def train(
    name: Annotated[str, typer.Argument(metavar="SCHEDULER", help="What to train, such as ts.")],
    suite: Annotated[str, typer.Option("--suite", metavar="NAME|FILE", help="One instance to train for.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="DIR", help="Scalars, checkpoints, policy.")],
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of all randomness.")] = 0,
    parameters: Annotated[
        list[str] | None, typer.Option("--param", metavar="NAME=VALUE", help="Of the training; may be repeated.")
    ] = None,
) -> None:
    """Train a learning scheduler; a folder with a checkpoint is gone on from."""
    from bench.cli.selection import find_instance
    from bench.cli.terminal import say
    from bench.schedulers.parameters import instantiate
    from instances import InputError
    from instances.errors import unknown_name

    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    if name not in found:
        raise unknown_name("SCHEDULER", "trainer", name, list(found))
    overrides = {}
    for text in parameters or ():
        field, equals, value = text.partition("=")
        if not equals:
            raise InputError("--param", f'"{text}" is not of the form NAME=VALUE')
        overrides[field.strip()] = value.strip()
    instance = find_instance(suite, "--suite")
    kind: Any = found[name].load()
    trainer = cast(Trainer, instantiate(kind, overrides, name))
    interrupted = ""
    with _Told(getattr(trainer, "episodes", None)) as told:
        try:
            trainer.train(instance, seed, output, told.episode)
        except KeyboardInterrupt:
            interrupted = f"interrupted after episode {told.last}; the same command goes on from the last checkpoint"
        except OSError as error:
            raise InputError(f"-o {output}", f"cannot be written into: {error.strerror}") from None
    if interrupted:
        say(interrupted)
        raise typer.Exit(INTERRUPTED)
    say(f"wrote {output}")


class _Told:
    """How training goes: a bar with the latest scalars on a terminal, a line for each episode elsewhere."""

    def __init__(self, episodes: int | None) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        from bench.cli.terminal import console_on

        self.last = 0
        self._episodes = episodes
        self._bar: Progress | None = None
        if sys.stderr.isatty():
            scalars = TextColumn("{task.fields[scalars]}")
            columns = (BarColumn(30), MofNCompleteColumn(), TimeRemainingColumn(), scalars)
            self._bar = Progress(*columns, console=console_on(sys.stderr), transient=True)
            self._task = self._bar.add_task("", total=episodes, scalars="")

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def episode(self, number: int, scalars: dict[str, float]) -> None:
        """Tell of an episode that ended."""
        from bench.cli.terminal import say

        self.last = number
        reward, late_pct, rps = (scalars[name] for name in ("reward", "late_pct", "throughput_rps"))
        told = f"reward {reward:.4g}, {late_pct:.3g} % late, {rps:,.0f} req/s"
        if self._bar is not None:
            self._bar.update(self._task, completed=number, scalars=told)
        else:
            say(f"[{number}{'' if self._episodes is None else f'/{self._episodes}'}] {told}")
