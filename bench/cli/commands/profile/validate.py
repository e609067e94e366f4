"""``bench profile validate``: error of a performance model against measured co-locations."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bench.cli.commands.profile.error_tables import parts_of, rows_of, summary_table, worst_table
from bench.cli.completion import complete_gpu
from bench.cli.options import FormatOption
from bench.cli.terminal import print_json
from bench.cli.views.tables import show
from instances.catalogue import gpu_type
from instances.errors import unknown_name
from instances.files import read_gpu_type
from instances.measurements import read_pairs
from instances.performance import performance_model, validation
from instances.performance.profile_fit import HELD_OUT, validate_held_out
from instances.performance.validation import Errors, check_known
from reports.charts.predictions import draw_scatter

EXAMPLES = (
    "bench profile validate pairs.csv --gpu v100 --model igniter",
    "bench profile validate pairs.csv --gpu v100 --model hybrid --hold-out pair",
    "bench profile validate pairs.csv --gpu mine.toml --model inss --plot errors --format json",
)


def validate(
    pairs_file: Annotated[Path, typer.Argument(metavar="PAIRS", help="Measured pairs, as CSV.")],
    gpu_name: Annotated[
        str,
        typer.Option("--gpu", metavar="NAME|FILE", autocompletion=complete_gpu, help="GPU type, or a catalogue file."),
    ],
    model_name: Annotated[str, typer.Option("--model", metavar="NAME", help="Performance model.")],
    hold_out: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="Cross-validate: leave out one part at a time; parts are rows, pair, batch or neighbour-batch.",
        ),
    ] = None,
    worst: Annotated[int, typer.Option(metavar="N", min=0, help="Number of rows with the largest errors to list.")] = 5,
    plot: Annotated[
        Path | None, typer.Option(metavar="NAME", help="Draw predicted against observed: NAME.pdf, NAME.svg, NAME.png.")
    ] = None,
    form: FormatOption = "table",
) -> None:
    """Compare predicted with measured latencies of co-located models.

    Errors are relative to the measured latencies.
    """
    performance_model(model_name, "--model")
    if hold_out is not None and hold_out not in HELD_OUT:
        raise unknown_name("--hold-out", "part to hold out", hold_out, list(HELD_OUT))
    gpu = read_gpu_type(Path(gpu_name)) if gpu_name.endswith(".toml") else gpu_type(gpu_name, "--gpu")
    samples = read_pairs(pairs_file)
    check_known(gpu, [side for sample in samples for side in (sample.own, sample.other)], str(pairs_file))
    errors = (
        validation.validate(gpu, model_name, samples)
        if hold_out is None
        else validate_held_out(gpu, model_name, samples, hold_out)
    )
    if plot is not None:
        draw_scatter(plot, f"{model_name} on {gpu.name}", errors)
    if form == "json":
        head = {"gpu": gpu.name, "model": model_name, "hold_out": hold_out}
        print_json(head | errors.summary | {"worst": rows_of(errors.worst(worst))})
    else:
        show(*_tables(errors, worst))


def _tables(errors: Errors, worst: int) -> list[Any]:
    tables: list[Any] = []
    for name, summaries in {"all": {"": errors.summary}, **parts_of(errors)}.items():
        tables += [summary_table(name, summaries), ""]
    outliers = len(errors.outliers.samples)
    return [*tables, worst_table(f"largest errors ({outliers} outliers)", errors.worst(worst))]
