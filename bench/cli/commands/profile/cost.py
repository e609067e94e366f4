"""``bench profile cost``: what the error of each performance model costs on measured co-locations."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from bench.cli.commands.profile import fitting
from bench.cli.completion import complete_gpu
from bench.cli.options import FormatOption
from bench.cli.terminal import print_json
from bench.cli.views.bar import progress_bar
from bench.cli.views.tables import show, table
from instances.arrays import Floats
from instances.errors import unknown_name
from instances.files.light_profile import light_profile_in
from instances.margin import MODEL
from instances.measurements import SOLO_FILE, read_solo
from instances.model_error.calibration import covered_by_fit
from instances.model_error.cells import MeasuredCell, alone_by_cell_ms, read_cells
from instances.model_error.choice import ROWS
from instances.model_error.experiment import Experiment, Fit, Mean, ModelCost, fit_beside, model_cost
from instances.model_error.few_pairs import LEVEL as FEW_PAIRS_LEVEL
from instances.model_error.few_pairs import few_pairs, in_words
from instances.model_error.margins import SPLITS, covered_fractions

EXAMPLES = (
    "bench profile cost measurements/ --gpu a100",
    "bench profile cost measured-here/ --models hybrid --at 0.05",
    "bench profile cost measurements/ --gpu a100 --models hybrid --controlled",
    "bench profile cost measurements/ --gpu v100 --format json > cost.json",
)

DEFAULT = Experiment()
"""Experiment with the default of every option."""

LEVELS = (0.95, 0.99)
"""Levels of the margins whose coverage is shown."""

FITTED_SPLITS = 5
"""Number of divisions of the cells into halves for the coverage of fitted models; each takes eleven fits."""

_UNUSED_FACTS = {"share_units": 100.0, "memory_mib": 1.0, "price_per_hour": 1.0}
"""Arbitrary values of the facts of a GPU type that have no effect on latencies."""


def cost(
    folder: Annotated[
        Path,
        typer.Argument(metavar="MEASUREMENTS", help="Folder with solo.csv and pairs.csv, as for bench profile fit."),
    ],
    gpu_name: Annotated[
        str | None,
        typer.Option("--gpu", metavar="NAME", autocompletion=complete_gpu, help="Name of the GPU type."),
    ] = None,
    models: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Performance models. Default: all with interference.")
    ] = None,
    level: Annotated[
        float,
        typer.Option("--at", metavar="LEVEL", help="Fraction of late workloads that a margin permits."),
    ] = DEFAULT.level,
    controlled: Annotated[
        bool,
        typer.Option(
            "--controlled", help="Calibrate margins by conformal risk control, so that LEVEL holds for other plans."
        ),
    ] = False,
    then: Annotated[
        str, typer.Option(metavar="none|slack", help="Choice among plans with equally many GPUs: any, or most slack.")
    ] = "none",
    most_slack: Annotated[
        float, typer.Option(metavar="S", help="Largest slack of latency and rate of a random workload.")
    ] = DEFAULT.most_slack,
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Number of random partitions.")] = len(DEFAULT.seeds),
    pcie_bytes_per_ms: Annotated[
        float | None, typer.Option(metavar="B", help="Bandwidth to the host. Default: gpu.json's or the catalogue's.")
    ] = None,
    form: FormatOption = "table",
) -> None:
    """Compare plans by each performance model with the optimum on measured co-locations.

    A GPU holds one workload, or two as they were measured. Models are fitted to a third of the measurements, margins
    are calibrated on plans for the second third, and plans for the last third are judged by their measured latencies.
    The figures are the GPUs that twelve random workloads need, the workloads that are late, and the GPUs beyond the
    optimum, with standard errors over the partitions. The last lines have the coverage of margins by model and batch,
    on latencies alone and on predictions of the hybrid model: they are calibrated on one half of the measurements and
    compared with the other half; and the margins that few pairs need, chosen as by bench profile run --pairs auto.
    """
    if then not in ("none", "slack"):
        raise unknown_name("--then", "choice", then, ["none", "slack"])
    experiment = Experiment(
        most_slack=most_slack, level=level, controlled=controlled, slack=then == "slack", seeds=tuple(range(seeds))
    )
    options = {**_UNUSED_FACTS, "pcie_bytes_per_ms": pcie_bytes_per_ms}
    facts = fitting.gpu_facts(gpu_name, options, fitting.facts_of_file(folder))
    solo, light = read_solo(folder / SOLO_FILE), light_profile_in(folder)
    cells = read_cells(folder, solo)
    fit = fit_beside(facts, folder.name, solo, light)
    with progress_bar("fits and plans", float(seeds)) as update:
        outcomes = model_cost(
            cells,
            solo,
            fit,
            experiment,
            None if models is None else models.split(","),
            lambda done, total: update(completed=done),
        )
    if form == "json":
        print_json([_json(outcome) for outcome in outcomes])
    else:
        show(
            _table(outcomes, experiment.workloads),
            "",
            _coverage(cells, alone_by_cell_ms(cells, solo)),
            _coverage_of_fit(cells, fit),
            *_few_pairs(cells, fit),
        )


def _json(outcome: ModelCost) -> dict[str, object]:
    """Return means as numbers, with standard errors beside them."""
    figures = asdict(outcome)
    means = {name: figure for name, figure in figures.items() if isinstance(figure, dict)}
    return (
        figures
        | {name: mean["value"] for name, mean in means.items()}
        | {f"{name}_error": mean["error"] for name, mean in means.items()}
    )


def _table(outcomes: Sequence[ModelCost], workloads: int) -> Table:
    """Return a line per performance model; the GPUs are those that ``workloads`` random workloads need."""
    columns = ["plans by", "unseen in fit", ">margin", f">GPUs of {workloads}", ">late %", ">beyond optimum %"]
    return table(columns, [_line(outcome) for outcome in outcomes])


def _line(outcome: ModelCost) -> list[str]:
    calibrated = "" if outcome.level is None else f" at {100.0 * outcome.level:g} %"
    return [
        outcome.model,
        outcome.left_out,
        f"{outcome.margin.value:.2f}{calibrated}",
        _with_error(outcome.gpus, 1.0, 2),
        _with_error(outcome.violations, 100.0, 1),
        _with_error(outcome.regret, 100.0, 1),
    ]


def _coverage(cells: Sequence[MeasuredCell], alone_ms: Floats) -> str:
    """Return the mean coverage of margins that are calibrated on one half of the cells, in words."""
    fractions = {level: covered_fractions(cells, alone_ms, level) for level in LEVELS}
    return f"margins of one half of the cells on latencies alone cover {_covered(fractions)} ({SPLITS} divisions)"


def _coverage_of_fit(cells: Sequence[MeasuredCell], fit: Fit) -> str:
    """Return the mean coverage of the margins of hybrid models that are fitted to one half of the cells, in words."""
    fractions = covered_by_fit(cells, fit, LEVELS, FITTED_SPLITS)
    if not fractions:
        return f"one half of the cells has too few latencies for margins of the model {MODEL}"
    return f"margins of the model {MODEL}, fitted to one half, cover {_covered(fractions)} ({FITTED_SPLITS} divisions)"


def _few_pairs(cells: Sequence[MeasuredCell], fit: Fit) -> list[str]:
    """Return a line on the margins of few chosen pairs and of all pairs, or no line if there are too few pairs."""
    results = few_pairs(cells, fit, FITTED_SPLITS)
    if not results:
        return []
    few, of_all = (
        _with_error(Mean.of([margin - 1.0 for margin in margins]), 100.0, 1)
        for margins in ([result.margin for result in results], [result.of_all for result in results])
    )
    return [
        f"margins that cover {100.0 * FEW_PAIRS_LEVEL:g} % of other latencies: {few} % with {ROWS} chosen pairs,"
        f" {of_all} % with all of the other half ({FITTED_SPLITS} divisions; predictor chosen on the other half:"
        f" {in_words(results)})"
    ]


def _covered(fractions: Mapping[float, Sequence[float]]) -> str:
    means = {level: Mean.of(values) for level, values in fractions.items()}
    return ", ".join(
        f"{_with_error(mean, 100.0, 1)} % at a level of {100.0 * level:g} %" for level, mean in means.items()
    )


def _with_error(mean: Mean, factor: float, digits: int) -> str:
    error = "" if mean.error is None else f" ± {factor * mean.error:.{digits}f}"
    return f"{factor * mean.value:.{digits}f}{error}"
