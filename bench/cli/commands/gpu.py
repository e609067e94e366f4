"""``bench gpu``: profile, plans and replays in one go, on a host with one GPU."""

from pathlib import Path
from typing import Annotated

import typer

from bench.cli.options import output_option
from bench.cli.terminal import say
from bench.cli.views.tables import show, table
from bench.replay.loop import BUDGET_MIN, NETWORKS, missing_driver, missing_mps, run_loop, steps

EXAMPLES = ("bench gpu --dry-run     # every command and its minutes", "bench gpu -o results/gpu")


def gpu(
    output: Annotated[Path, output_option("Folder of the loop.", "DIR")] = Path("results/gpu"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print every command and its minutes, and stop.")] = False,
    budget: Annotated[float, typer.Option(metavar="MIN", min=1.0, help="Minutes for all steps.")] = BUDGET_MIN,
) -> None:
    """Profile the GPU of this host, plan for it, replay the plans, and report predicted beside measured latencies.

    After Ctrl-C or a failure, the same command continues. On a host without a GPU it prints its steps and runs nothing.
    """
    missing_driver_text, missing_mps_text = missing_driver(), missing_mps()
    through_mps = missing_driver_text is not None or missing_mps_text is None  # without a GPU, the list shows all steps
    purpose = (
        f"this profiles {len(NETWORKS)} networks alone and in pairs, fits a catalogue entry, plans, and replays the"
        f" plans by {'MPS, ' if through_mps else ''}green contexts and time slices, in at most {budget:g} minutes"
    )
    if missing_driver_text or dry_run:
        say(f"no GPU to use here; on a host with one, {purpose}" if missing_driver_text else f"on this host, {purpose}")
        loop_steps = steps(through_mps)
        rows = [[f"{step.minutes:g}", step.name, f"bench {' '.join(step.command)}"] for step in loop_steps]
        total = sum(step.minutes for step in loop_steps)
        show(table([">minutes", "step", f"command, in {output}"], rows), f"{total:g} minutes in all")
        for text in filter(None, (missing_driver_text, missing_mps_text)):
            say(f"missing: {text}")
        return
    say(purpose)
    if missing_mps_text:
        say(f"without MPS: green contexts divide the GPU; missing: {missing_mps_text}")
    if not run_loop(output, say, budget_min=budget):
        raise typer.Exit(1)
