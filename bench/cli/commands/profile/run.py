"""``bench profile run``: measure the GPU at hand."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.terminal import say
from bench.replay.light_profile.machine import Setup
from bench.replay.light_profile.points import MEASURED_HERE, MODELS, Grid
from bench.replay.light_profile.run import ProfileOrder, carry_out
from bench.replay.light_profile.writing import CatalogueFacts

EXAMPLES = (
    "bench profile run --gpu 0 -o measured-here",
    "bench profile run --quick --models vgg19,resnet50 -o light    # the eleven configurations of iGniter's profile",
    "bench profile fit measured-here -o measured-here.toml         # then",
)


class DeviceKind(StrEnum):
    """What is measured."""

    CUDA = "cuda"
    CPU = "cpu"


class PartitionKind(StrEnum):
    """What divides a GPU."""

    AUTO = "auto"
    MPS = "mps"
    GREEN = "green"


def run(
    gpu: Annotated[int, typer.Option("--gpu", metavar="N", min=0, help="Which GPU of this host.")] = 0,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="For the files; what is measured there is kept.")
    ] = Path(MEASURED_HERE),
    models: Annotated[
        str, typer.Option("--models", metavar="A,B", help="The first also runs in up to five copies.")
    ] = ",".join(MODELS),
    quick: Annotated[
        bool, typer.Option("--quick", help="The eleven configurations per model of iGniter's profile alone.")
    ] = False,
    seconds: Annotated[float, typer.Option("--seconds", metavar="S", help="For each point, at least.")] = 1.0,
    device: Annotated[
        DeviceKind, typer.Option("--device", help="cpu tries the command out: its figures say nothing of a GPU.")
    ] = DeviceKind.CUDA,
    partition: Annotated[
        PartitionKind, typer.Option("--partition", help="What divides the GPU; auto: MPS, else green contexts.")
    ] = PartitionKind.AUTO,
    half: Annotated[bool, typer.Option("--half", help="Half precision.")] = False,
    graphs: Annotated[bool, typer.Option("--graphs", help="Batches as CUDA graphs.")] = False,
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Of the catalogue entry.")] = MEASURED_HERE,
    price_per_hour: Annotated[
        float, typer.Option("--price-per-hour", metavar="P", help="In dollars; 1 for a GPU that is owned.")
    ] = 1.0,
) -> int:
    """Measure models on the GPU at hand, alone and together, for `bench profile fit`.

    Writes solo.csv, pairs.csv, copies.csv, profile.json and gpu.json. Take --half and --graphs for plans that are to be
    replayed with them. Clocks, power limits and modes of the GPU stay as they are. Ctrl-C keeps what was measured; the
    same command continues from there. On a host with PyTorch alone, `python -m bench.replay.light_profile` takes the
    same options.
    """
    setup = Setup(device.value, gpu, partition.value, half, graphs)
    grid = Grid.quick() if quick else Grid.full()
    return carry_out(
        setup, ProfileOrder(output, models.split(","), grid, seconds, CatalogueFacts(name, price_per_hour)), say
    )
