"""``bench doctor``: check of the environment, with a remedy for every problem."""

from dataclasses import asdict

import typer

from bench.cli.options import FormatOption
from bench.cli.terminal import print_json
from bench.cli.views.tables import show, table
from bench.doctor import Level
from bench.doctor.examination import examine

EXAMPLES = ("bench doctor", "bench doctor --format json")


def doctor(form: FormatOption = "table") -> None:
    """Check the solvers and the machine.

    The solvers are checked for their versions and imports, the machine for cores, limits, throttling, load, memory,
    disk and GPUs.

    Exit code 1 means that a problem would make runs fail or results wrong. `bench run` does not start if an installed
    solver is known to give wrong answers.
    """
    findings = examine()
    if form == "json":
        print_json([asdict(finding) for finding in findings])
    else:
        cells = [list(asdict(finding).values()) for finding in findings]
        show(table(["check", "level", "found", "what to do"], cells))
    if any(finding.level is Level.ERROR for finding in findings):
        raise typer.Exit(1)
