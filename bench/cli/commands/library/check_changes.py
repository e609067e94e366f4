"""``bench library check-changes``: whether the changed entries may be accepted."""

from typing import Annotated

import typer

from bench.cli.options import LibraryOption
from bench.cli.terminal import say
from bench.cli.views.bar import progress_bar
from bench.cli.views.library import open_library
from bench.cli.views.tables import show
from bench.library.changes import changed_entries, disagreements, problem_of_entry, problems_of_files
from bench.library.revision import Revision, revision
from instances.library import Library

EXAMPLES = (
    "bench library check-changes",
    "bench library check-changes --since v0.1.0",
)


def check_changes(
    since: Annotated[
        str | None,
        typer.Option(
            metavar="REV",
            help="Commit to compare with. Default: the last one in common with the main branch of origin; on that "
            "branch, the commit before.",
        ),
    ] = None,
    folder: LibraryOption = None,
) -> None:
    """Check the entries that changed since a commit, as a pull request must pass it.

    An instance must be as before. A new plan must be feasible and better, a new bound proven by its certificate and
    tighter. The index and the history must agree with all entries, and findings are only added.

    In a clone without an earlier commit, only the index and the history are compared; the command says so.

    Exit codes: 0 accepted, 1 refused, 2 wrong input.
    """
    library = open_library(folder)
    base = revision(library.folder, since)
    problems, names = list(disagreements(library)), library.names()
    changed = [] if base is None else changed_entries(library, base)
    if base is not None:
        problems += problems_of_files(library, base)
        for position, name in enumerate(changed, start=1):
            problem = _problem(library, name, base)
            problems += [problem] if problem else []
            say(f"{position} of {len(changed)}: {name}{' refused' if problem else ''}")
    for problem in problems:
        show(problem)
    compared = f"index and history of {len(names)} entries compared"
    if base is None:
        show(f"{compared}; there is no earlier commit, so no entry was judged or checked")
    else:
        show(f"{compared}; since {base.commit[:12]}, entries changed: {len(changed)}; problems: {len(problems)}")
    if problems:
        raise typer.Exit(1)


def _problem(library: Library, name: str, base: Revision) -> str:
    """Return why a changed entry is refused, or an empty text; show the progress of the check of its certificate."""
    with progress_bar(name) as update:
        return problem_of_entry(library, name, base, lambda part: update(advance=part))
