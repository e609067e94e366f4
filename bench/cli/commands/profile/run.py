"""``bench profile run``: measurement of a GPU of this host."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from bench.cli.options import output_option
from bench.cli.terminal import say
from bench.replay.light_profile.machine import RigSettings
from bench.replay.light_profile.points import MEASURED_HERE, MODELS, Grid
from bench.replay.light_profile.run import ProfileRequest, carry_out
from bench.replay.light_profile.writing import CatalogueFacts
from instances.model_error.choice import ROWS

EXAMPLES = (
    "bench profile run --gpu 0 -o measured-here",
    "bench profile run --quick --models vgg19,resnet50 -o light    # iGniter's light profile and one strong neighbour",
    "bench profile run --pairs auto --rows 25 -o measured-here    # few pairs, those that tell most",
    "bench profile fit measured-here -o measured-here.toml         # the next step",
)


def run(
    gpu: Annotated[int, typer.Option(metavar="N", min=0, help="Index of the GPU on this host.")] = 0,
    folder: Annotated[Path, output_option("Output folder; measurements in it are kept.", "DIR")] = Path(MEASURED_HERE),
    models: Annotated[
        str,
        typer.Option(metavar="A,B", help="Models to measure; the first is the strong neighbour and runs in copies."),
    ] = ",".join(MODELS),
    quick: Annotated[
        bool, typer.Option("--quick", help="Measure iGniter's light profile and one strong neighbour only.")
    ] = False,
    pairs: Annotated[
        Literal["grid", "auto"],
        typer.Option(help="Pairs of models to measure: a grid, or those that tell most about all slowdowns."),
    ] = "grid",
    rows: Annotated[
        int, typer.Option(metavar="N", min=1, max=2_000, help="Pairs with --pairs auto; more rows continue the list.")
    ] = ROWS,
    seconds: Annotated[float, typer.Option(metavar="S", help="Minimum measured seconds per point.")] = 1.0,
    device: Annotated[
        Literal["cuda", "cpu"], typer.Option(help="cpu only tests the command; its figures do not describe a GPU.")
    ] = "cuda",
    partition: Annotated[
        Literal["auto", "mps", "green"],
        typer.Option(help="Mechanism that partitions the GPU; auto: MPS, else green contexts."),
    ] = "auto",
    half: Annotated[bool, typer.Option("--half", help="Run models in half precision.")] = False,
    graphs: Annotated[bool, typer.Option("--graphs", help="Run batches as CUDA graphs.")] = False,
    name: Annotated[str, typer.Option(metavar="NAME", help="Name of the catalogue entry.")] = MEASURED_HERE,
    price_per_hour: Annotated[
        float, typer.Option(metavar="P", help="Price in dollars; keep 1 for an owned GPU.")
    ] = 1.0,
) -> int:
    """Measure models on a GPU of this host, alone and co-located, for `bench profile fit`.

    The command writes solo.csv, pairs.csv, copies.csv, profile.json and gpu.json. Use --half and --graphs if you
    replay plans with these options. A model of your own is MODULE:CALLABLE. Clocks, power limits and modes of the GPU
    are not changed. After Ctrl-C, the same command continues from the measurements so far.
    """
    settings = RigSettings(device, gpu, partition, half, graphs)
    grid = Grid.quick() if quick else Grid.full()
    if pairs == "auto":
        grid = replace(grid, chosen_pairs=rows)
    return carry_out(
        settings, ProfileRequest(folder, models.split(","), grid, seconds, CatalogueFacts(name, price_per_hour)), say
    )
