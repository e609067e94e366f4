"""``bench library renew``: the problems of entries under new names."""

from typing import Annotated

import typer

from bench.cli.options import LibraryOption
from bench.cli.terminal import say
from bench.cli.views.library import open_library
from bench.formatting import worth
from bench.library.renewal import renew as renewed
from instances import InputError

EXAMPLES = ("bench library renew 'cost-*-24'",)


def renew(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Entries, such as 'cost-*-24'.")],
    folder: LibraryOption = None,
) -> None:
    """Remove entries and make them again under new names; `renewed.json` lists old and new names.

    `bench library review` tells which entries no longer agree with this version; this command renews every entry that
    matches. A plan that is still feasible is kept. Bounds are dropped; `bench library solve` proves new ones.
    """
    library = open_library(folder, written=True)
    names = library.names(pattern)
    if not names:
        raise InputError("PATTERN", f'"{pattern}" matches no entry; `bench library` lists all')
    for name in names:
        entry = renewed(library, name)
        plan = "no plan" if entry.value is None else f"plan kept, {worth(entry.value, str(entry.instance.objective))}"
        say(f"{name} is now {entry.instance.name}: {plan}")
