"""``bench salvage``: what is whole in a damaged ledger."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import Format, FormatOption
from bench.cli.terminal import listed, print_json, show
from bench.ledger.salvage import salvage

EXAMPLES = ("bench salvage results/ledger.sqlite -o results/saved.sqlite",)

_KEY_START = 12


def salvage_ledger(
    ledger_file: Annotated[Path, typer.Argument(metavar="LEDGER", help="The damaged file; it is not touched.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="NEW", help="The ledger to write.")],
    form: FormatOption = Format.TABLE,
) -> None:
    """Write what is whole in a ledger that was truncated or damaged into a new one.

    Every run carries a digest of its values; runs that are not as they were written are left behind.
    """
    found = salvage(ledger_file, output)
    if form is Format.JSON:
        print_json(asdict(found))
        return
    lines = [f"{found.runs} runs and {found.instances} instances are whole, written to {output}"]
    if found.chunks:
        lines.append(f"{found.chunks} chunks of scenario sets under way are whole")
    if found.damaged:
        lines.append(f"{len(found.damaged)} runs are damaged: {listed([key[:_KEY_START] for key in found.damaged])}")
    if found.lost_instances:
        lost = listed([fingerprint[:_KEY_START] for fingerprint in found.lost_instances])
        lines.append(f"{len(found.lost_instances)} instances of whole runs are lost: {lost}")
    show(*lines)
