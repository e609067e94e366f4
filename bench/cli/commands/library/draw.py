"""``bench library draw``: the held-out instances of the challenge that belong to a seed."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.files import make_folder
from bench.cli.options import output_option
from bench.cli.terminal import say
from bench.cli.views.tables import show
from instances.files import instance_to_json, write_json
from instances.library.held_out import commitment, held_out

EXAMPLES = (
    "bench library draw --seed example -o held-out",
    "bench library draw --seed example --verify HASH",
)


def draw(
    seed: Annotated[str, typer.Option(metavar="SEED", help="Seed of the set, any text.")],
    verify: Annotated[
        str | None, typer.Option(metavar="HASH", help="Compare the hash of the set with this commitment.")
    ] = None,
    output: Annotated[Path | None, output_option("Write each instance into this folder.", "DIR")] = None,
) -> None:
    """Draw the held-out instances that belong to a seed, and print the hash that commits to both.

    docs/challenge.md has the rules of the challenge, and the hash of its seed. Write the instances into a folder and
    name them to other commands: `bench run --instances 'held-out/*.json'`.

    Exit codes: 0 success, 1 the hash differs from that of --verify, 2 wrong input.
    """
    if output is not None:
        make_folder(output, "-o")
    instances = held_out(seed)
    found = commitment(seed, instances)
    show(found)
    if verify is not None and verify.lower() != found:
        say(f"the hash differs from {verify}: the seed is another one, or this version draws other instances")
        raise typer.Exit(1)
    if output is not None:
        for instance in instances:
            write_json(output / f"{instance.name}.json", instance_to_json(instance, frozen=True))
        say(f"wrote {len(instances)} instances into {output}")
