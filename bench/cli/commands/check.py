"""``bench check``: check that a certificate proves its claim, without the code of any solver."""

from pathlib import Path
from typing import Annotated

import typer

from bench.certificate.checking import check
from bench.cli.options import GAVE_UP, FormatOption
from bench.cli.terminal import print_json
from bench.cli.views.bar import progress_bar
from bench.cli.views.tables import show
from instances.files import read_json

EXAMPLES = ("bench check proof.json", "bench check proof.json --format json")


def check_certificate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Certificate that `bench prove` wrote.")],
    form: FormatOption = "table",
) -> None:
    """Check a certificate: search for anything that contradicts it, with exact sums.

    By the kind of the proof, the search covers all patterns of a GPU, all layouts and covers of MIG instances, or all
    ways to divide the workloads among the GPUs.

    The checker uses the coefficients in the file and no code of any solver. It answers in one sentence.

    Exit codes: 0 proven, 1 not proven (the sentence names the first step that fails), 2 not a certificate, 3 given up
    (the sentence names the limit of search size, memory or numbers that ended the check).
    """
    data = read_json(file)
    with progress_bar("searching patterns") as update:
        verdict = check(data, str(file), lambda part: update(advance=part))
    if form == "json":
        value = None if verdict.value is None else float(verdict.value)
        claims = {"proven": verdict.proven, "given_up": verdict.given_up, "optimal": verdict.optimal}
        print_json({**claims, "value": value, "sentence": verdict.sentence})
    else:
        show(verdict.sentence)
    if not verdict.proven:
        raise typer.Exit(GAVE_UP if verdict.given_up else 1)
