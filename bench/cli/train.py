"""``bench train``: training of learning schedulers."""

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol, cast

import typer

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
    from bench.parameters import instantiate
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
    of = getattr(trainer, "episodes", None)

    def tell(episode: int, scalars: dict[str, float]) -> None:
        told = ", ".join(f"{key} {scalars[key]:.4g}" for key in ("reward", "late_pct", "throughput_rps"))
        say(f"[{episode}{'' if of is None else f'/{of}'}] {told}")

    trainer.train(instance, seed, output, tell)
    say(f"wrote {output}")
