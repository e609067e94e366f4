"""Command line of ``bench profile run`` on hosts that have only PyTorch: ``python -m bench.replay.light_profile``."""

import sys
from argparse import ArgumentDefaultsHelpFormatter
from pathlib import Path

from bench.replay.light_profile.machine import Setup
from bench.replay.light_profile.points import MEASURED_HERE, MODELS, Grid
from bench.replay.light_profile.run import ProfileOrder, carry_out
from bench.replay.light_profile.writing import CatalogueFacts
from bench.replay.parser import Parser
from instances.errors import InputError


def main() -> int:
    """Read the command line, measure, and return the exit code."""
    try:
        given = _parser().parse_args()
        setup = Setup(given.device, given.gpu, given.partition, given.half, given.graphs)
        grid = Grid.quick() if given.quick else Grid.full()
        entry = CatalogueFacts(given.name, given.price_per_hour)
        return carry_out(setup, ProfileOrder(given.output, given.models.split(","), grid, given.seconds, entry), _tell)
    except InputError as error:
        _tell(f"error: {error}")
        return 2


def _parser() -> Parser:
    parser = Parser("python -m bench.replay.light_profile", formatter_class=ArgumentDefaultsHelpFormatter)
    parser.add_argument("--gpu", type=int, default=0, metavar="N", help="index of the GPU on this host")
    parser.add_argument("-o", "--output", type=Path, default=Path(MEASURED_HERE), metavar="DIR", help="output folder")
    parser.add_argument(
        "--models", default=",".join(MODELS), metavar="A,B", help="models; the first also runs in copies"
    )
    parser.add_argument("--quick", action="store_true", help="only the eleven configurations of iGniter's profile")
    parser.add_argument("--seconds", type=float, default=1.0, metavar="S", help="least time per point")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: only for tests")
    parser.add_argument(
        "--partition", choices=("auto", "mps", "green"), default="auto", help="mechanism that divides the GPU"
    )
    parser.add_argument("--half", action="store_true", help="run models in half precision")
    parser.add_argument("--graphs", action="store_true", help="run batches as CUDA graphs, as replays with --graphs do")
    parser.add_argument("--name", default=MEASURED_HERE, help="name of the catalogue entry")
    parser.add_argument(
        "--price-per-hour", type=float, default=1.0, metavar="P", help="dollars; 1 for a GPU that you own"
    )
    return parser


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
