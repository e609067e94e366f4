"""``bench library submit``: a plan or a certificate for an entry of the library."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import FormatOption, LibraryOption
from bench.cli.terminal import print_json
from bench.cli.views.bar import progress_bar
from bench.cli.views.library import open_library
from bench.cli.views.tables import show
from bench.library.submission import submit as submitted
from instances.files import read_json

EXAMPLES = (
    "bench library submit plan.json --by 'A. Author'",
    "bench library submit proof.json.gz --by 'A. Author'   # a certificate that bench prove wrote",
)


def submit(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Plan, or certificate that `bench prove` wrote.")],
    by: Annotated[str, typer.Option(metavar="NAME", help="Name that the entry credits.")],
    machine: Annotated[str | None, typer.Option(metavar="TEXT", help="Processor on which it was found.")] = None,
    work: Annotated[str | None, typer.Option(metavar="TEXT", help="Computing that it took, such as '600 s'.")] = None,
    folder: LibraryOption = None,
    form: FormatOption = "table",
) -> None:
    """Judge a plan or check a certificate, and write the entry if it is a new best or a new bound.

    Nothing is sent anywhere: open a pull request with the changed files.

    Exit codes: 0 the entry is improved, 1 it is not, 2 wrong input.
    """
    library = open_library(folder, written=True)
    with progress_bar("searching patterns") as update:
        submission = submitted(
            library, read_json(file), str(file), by, lambda part: update(advance=part), machine=machine, work=work
        )
    if form == "json":
        data = asdict(submission)
        print_json({"instance": data.pop("name"), **data})
    else:
        show(submission.sentence)
    if not (submission.new_best or submission.new_bound):
        raise typer.Exit(1)
