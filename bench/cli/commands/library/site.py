"""``bench library site``: the library as a static web site."""

import sys
from pathlib import Path
from typing import Annotated

from bench.cli.options import LibraryOption, output_option
from bench.cli.terminal import emit
from bench.cli.views.bar import progress_bar
from bench.cli.views.library import open_library
from reports.page.entries.site import write_library_site

EXAMPLES = ("bench library site -o library-site",)


def site(
    output: Annotated[Path, output_option("New folder, or folder of an earlier site.", "DIR")],
    folder: LibraryOption = None,
) -> None:
    """Write the library as a static web site: an index that sorts and filters, and a page for each entry.

    A page has the best plan, value and bound over time, the history, and the files to download: instance, plan,
    certificate and, for small entries under cost and goodput, the linear model. The site opens from disk and needs no
    server. The folder is replaced as a whole; after Ctrl-C, an earlier site is as before.

    The command prints the path of the first page.
    """
    library = open_library(folder)
    with progress_bar("writing files") as update:
        page = write_library_site(library, output, lambda part: update(completed=part))
    emit(f"{page}\n", sys.stdout)
