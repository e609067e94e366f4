"""``bench profile fit``: catalogue entry fitted to measurements."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from bench.cli.commands.profile import fitting
from bench.cli.files import refuse_input
from bench.cli.options import output_option
from bench.cli.terminal import emit
from bench.cli.views.tables import show
from instances import GpuType
from instances.catalogue import gpu_type_to_toml, known_gpu_type
from instances.files import read_json, write_bytes
from instances.files.light_profile import LIGHT_FILE, light_profile_from_json
from instances.margin import MODEL
from instances.model_error.calibration import calibrated_margins
from instances.performance.buffer import P95_SLOWDOWN, with_buffer
from instances.performance.igniter_fit import fit_profile

EXAMPLES = (
    "bench profile fit profile.json -o v100.toml",
    "bench profile fit measurements/ --gpu a100 -o a100.toml",
    "bench profile fit measured-here/ -o measured-here.toml    # output folder of bench profile run",
    'bench profile fit t4.json -o t4.toml --price-per-hour 0.526 --memory-mib 15360 --source "our T4"',
)


def fit(
    profile_file: Annotated[
        Path,
        typer.Argument(
            metavar="PROFILE",
            help="Light profile (JSON), or folder with solo.csv and optional pairs.csv, profile.json, gpu.json.",
        ),
    ],
    output: Annotated[Path | None, output_option("Output file. Default: standard output.")] = None,
    price_per_hour: Annotated[
        float | None, typer.Option(metavar="P", help="Price in dollars. Default: the catalogue's.")
    ] = None,
    memory_mib: Annotated[
        float | None, typer.Option(metavar="M", help="Device memory. Default: the catalogue's.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Source of the measurements. Default: the file name.")
    ] = None,
    gpu_name: Annotated[
        str | None, typer.Option("--gpu", metavar="NAME", help="For a folder: name of the GPU type.")
    ] = None,
    share_units: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="For a folder: share units of a whole GPU.")
    ] = None,
    pcie_bytes_per_ms: Annotated[
        float | None, typer.Option(metavar="B", help="For a folder: bandwidth to the host.")
    ] = None,
) -> None:
    """Fit performance models to measurements and write a catalogue file with the residuals of the fit.

    A light profile is enough for the iGniter model. A folder allows all performance models: solo.csv has latencies of
    models that run alone, pairs.csv latencies of two models that share a GPU. With pairs, the entry has margins, which
    bench plan adds to times beside others.
    """
    if profile_file.is_dir():
        refuse_input(output, [profile_file / name for name in fitting.FILES], "--output")
        file_facts = fitting.facts_of_file(profile_file)
        options: dict[str, float | None] = {
            "share_units": share_units,
            "memory_mib": memory_mib,
            "price_per_hour": price_per_hour,
            "pcie_bytes_per_ms": pcie_bytes_per_ms,
        }
        facts = fitting.gpu_facts(gpu_name, options, file_facts)
        profile_fit = fitting.fit_folder(profile_file, facts, source or file_facts.get("source") or profile_file.name)
        gpu, notes = (
            _with_provenance_kind(profile_fit.gpu, file_facts.get("provenance")),
            fitting.folder_residuals(profile_fit),
        )
        if profile_fit.pairs:
            gpu = replace(gpu, margins=calibrated_margins(gpu, profile_fit.pairs[MODEL].samples))
            notes.append(_margins_in_words(gpu))
        if not profile_fit.pairs and not (profile_file / LIGHT_FILE).exists():
            gpu = with_buffer(gpu, P95_SLOWDOWN)
            growth = f"{100.0 * (P95_SLOWDOWN - 1.0):.0f} %"
            notes.append(f"no pairs.csv: every neighbour adds {growth}, the P95 of the catalogue's measured pairs")
        _write(gpu, output, notes)
        return

    refuse_input(output, [profile_file], "--output")
    profile = light_profile_from_json(read_json(profile_file), str(profile_file))
    options = {"price_per_hour": price_per_hour, "memory_mib": memory_mib}
    values = fitting.option_values(options, {}, known_gpu_type(profile.gpu.name.lower()))
    memory, price = values["memory_mib"], values["price_per_hour"]
    gpu = fit_profile(profile, source or profile_file.name, memory, price, str(profile_file))
    _write(gpu, output, fitting.light_residuals(gpu))


def _write(gpu: GpuType, output: Path | None, residuals: list[Table | str]) -> None:
    text = gpu_type_to_toml(gpu)
    if output is None:
        emit(text, sys.stdout)
        show(*residuals, stream=sys.stderr)
    else:
        write_bytes(output, text.encode())
        show(f"{gpu.name}: {len(gpu.models)} models, written to {output}", *residuals)


def _margins_in_words(gpu: GpuType) -> str:
    """Return the levels of the entry's margins in words."""
    levels = ", ".join(f"{100.0 * margins.level:g} %" for margins in gpu.margins)
    return f"margins of the model {MODEL} on times beside others: {levels or 'too few measured latencies'}"


def _with_provenance_kind(gpu: GpuType, kind: str | None) -> GpuType:
    """Return the entry with the kind of provenance that ``gpu.json`` states; unchanged if it states none."""
    if kind is None:
        return gpu
    models = {
        name: replace(model, provenance=replace(model.provenance, kind=kind)) for name, model in gpu.models.items()
    }
    return replace(gpu, models=models, provenance=replace(gpu.provenance, kind=kind))
