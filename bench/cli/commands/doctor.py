"""``bench doctor``: whether this environment can be trusted, and what to do where it cannot."""

from dataclasses import asdict

import typer

from bench.cli.options import Format, FormatOption
from bench.cli.terminal import print_json, show
from bench.cli.views.tables import table
from bench.doctor.examination import examine
from bench.doctor.finding import Level

EXAMPLES = (
    "bench doctor",
    "bench doctor --format json",
)


def doctor(form: FormatOption = Format.TABLE) -> None:
    """Check the solvers' versions and imports, and the machine: cores, limits, throttling, load, memory, disk, GPUs.

    Exit code 1 means that something would make runs fail or results wrong. `bench run` refuses to start while a
    solver is installed that is known to give wrong answers.
    """
    findings = examine()
    if form is Format.JSON:
        print_json([asdict(finding) for finding in findings])
    else:
        cells = [list(asdict(finding).values()) for finding in findings]
        show(table(["check", "level", "found", "what to do"], cells))
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(1)
