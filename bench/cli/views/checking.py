"""Check of a certificate with a progress bar on a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from bench.certificate.checking import ProofVerdict, check
from bench.certificate.search import Progress


def check_with_progress(data: object, where: str) -> ProofVerdict:
    """Return the verdict on a certificate, as parsed from JSON; ``where`` names it in errors."""
    with checking_progress() as progress:
        return check(data, where, progress)


@contextmanager
def checking_progress() -> Iterator[Progress]:
    """Show a progress bar on a terminal; yield the function that a check tells its progress."""
    columns = (
        TextColumn("searching contents"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(file=sys.stderr), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda part: bar.advance(task, part)
