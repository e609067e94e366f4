"""``bench library review``: whether this version still computes what the entries state."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from bench.cli.options import FormatOption, LibraryOption
from bench.cli.terminal import print_json, say
from bench.cli.views.library import open_library, show_reviews
from bench.library.review import budgets_digest, read_record, write_record
from bench.library.review import review as reviewed
from instances.library import Library

EXAMPLES = (
    "bench library review 'cost-*' --no-certificates",
    "bench library review --record",
)


def review(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Entries, such as 'cost-*'.")] = "*",
    certificates: Annotated[bool, typer.Option(help="Check the certificates, too.")] = True,
    record: Annotated[
        bool, typer.Option("--record", help="Record the budgets of entries that are not on record.")
    ] = False,
    folder: LibraryOption = None,
    form: FormatOption = "table",
) -> None:
    """Tell which entries stay: plan judged equal, budgets equal to those on record, certificate proven.

    Exit codes: 0 all stay, 1 some do not, 2 wrong input.
    """
    library = open_library(folder, written=record)
    names, recorded = library.names(pattern), read_record(library)
    if record:
        _record(library, [name for name in names if name not in recorded])
        return
    reviews = []
    for position, name in enumerate(names, start=1):
        certificate = library.certificate(name) if certificates else None
        reviews.append(reviewed(library.entry(name), certificate, recorded.get(name)))
        say(f"{position} of {len(names)}: {name}")
    if form == "json":
        print_json([{**asdict(entry_review), "stays": entry_review.stays} for entry_review in reviews])
    else:
        show_reviews(reviews)
    if not all(entry_review.stays for entry_review in reviews):
        raise typer.Exit(1)


def _record(library: Library, names: Sequence[str]) -> None:
    """Record the budgets of entries, each as soon as they are known."""
    for position, name in enumerate(names, start=1):
        write_record(library, {name: budgets_digest(library.entry(name))})
        say(f"{position} of {len(names)}: {name}")
    if not names:
        say("all entries are on record")
