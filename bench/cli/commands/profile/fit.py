"""``bench profile fit``: from measurements to a catalogue entry."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from bench.cli.commands.profile.light_profile import catalogued, fitted
from bench.cli.files import refuse_input, write_text
from bench.cli.terminal import emit, show
from bench.cli.views.tables import table
from instances import GpuType, InputError
from instances.catalogue import gpu_type, gpu_type_names, gpu_type_to_toml
from instances.files import read_json
from instances.performance.profile_fit import GpuFacts

EXAMPLES = (
    "bench profile fit profile.json -o v100.toml",
    "bench profile fit measurements/ --gpu a100 -o a100.toml",
    "bench profile fit measured-here/ -o measured-here.toml    # of bench profile run, which states the rest",
    'bench profile fit t4.json -o t4.toml --price-per-hour 0.526 --memory-mib 15360 --source "our T4"',
)


def fit(
    profile_file: Annotated[
        Path,
        typer.Argument(
            metavar="PROFILE",
            help="Light profile, as JSON; or a folder with solo.csv and perhaps pairs.csv, profile.json, gpu.json.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="File to write; otherwise standard output.")
    ] = None,
    price_per_hour: Annotated[
        float | None,
        typer.Option("--price-per-hour", metavar="P", help="In dollars; otherwise that of the catalogue's entry."),
    ] = None,
    memory_mib: Annotated[
        float | None,
        typer.Option("--memory-mib", metavar="M", help="Device memory; otherwise that of the catalogue's entry."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="TEXT", help="Whose measurements these are; default: the file.")
    ] = None,
    gpu_name: Annotated[
        str | None, typer.Option("--gpu", metavar="NAME", help="Of a folder: what the GPU type is called.")
    ] = None,
    share_units: Annotated[
        int | None, typer.Option("--share-units", metavar="N", min=1, help="Of a folder: units in the whole GPU.")
    ] = None,
    pcie_bytes_per_ms: Annotated[
        float | None, typer.Option("--pcie-bytes-per-ms", metavar="B", help="Of a folder: bandwidth to the host.")
    ] = None,
) -> None:
    """Fit performance models to measurements and write a catalogue file, with its residuals.

    A light profile gives the iGniter model. A folder gives all of them: solo.csv says how models run alone, pairs.csv
    how two slow each other down.
    """
    if profile_file.is_dir():
        from bench.cli.commands.profile.folder import FILES, fit_folder, residuals, stated

        refuse_input(output, [profile_file / name for name in FILES], "--output")

        facts_file = stated(profile_file)
        facts = _facts(facts_file, gpu_name, share_units, memory_mib, price_per_hour, pcie_bytes_per_ms)
        found = fit_folder(profile_file, facts, source or facts_file.get("source") or profile_file.name)
        _write(_of_kind(found.gpu, facts_file.get("provenance")), output, residuals(found))
        return

    refuse_input(output, [profile_file], "--output")
    measured = read_json(profile_file)
    known = catalogued(measured, profile_file)
    price = _given(price_per_hour, "--price-per-hour", known.price_per_hour if known else None)
    memory = _given(memory_mib, "--memory-mib", known.memory_mib if known else None)
    gpu = fitted(measured, profile_file, source or profile_file.name, memory, price)
    _write(gpu, output, _residuals(gpu))


def _write(gpu: "GpuType", output: Path | None, residuals: list[Any]) -> None:
    """Write a catalogue file and show the residuals beside it."""
    text = gpu_type_to_toml(gpu)
    if output is None:
        emit(text, sys.stdout)
        show(*residuals, stream=sys.stderr)
    else:
        write_text(output, text)
        show(f"{gpu.name}: {len(gpu.models)} models, written to {output}", *residuals)


def _of_kind(gpu: "GpuType", kind: str | None) -> "GpuType":
    """Return the entry with the kind of provenance that its folder states, if any."""
    if kind is None:
        return gpu
    models = {name: replace(m, provenance=replace(m.provenance, kind=kind)) for name, m in gpu.models.items()}
    return replace(gpu, models=models, provenance=replace(gpu.provenance, kind=kind))


def _facts(
    stated: "Mapping[str, Any]",
    name: str | None,
    share_units: int | None,
    memory_mib: float | None,
    price_per_hour: float | None,
    pcie_bytes_per_ms: float | None,
) -> "GpuFacts":
    """Return what no measurement tells: given, stated in the folder, or what the catalogue says under that name."""
    name = name or stated.get("name")
    if name is None:
        raise InputError(
            "--gpu", "is missing; a folder of measurements does not name its GPU unless it holds a gpu.json"
        )
    known = gpu_type(name) if name in gpu_type_names() else None
    default = {
        "share_units": known.share_units if known else None,
        "memory_mib": known.memory_mib if known else None,
        "price_per_hour": known.price_per_hour if known else None,
        "pcie_bytes_per_ms": known.hardware.pcie_bytes_per_ms if known else None,
        **stated,
    }
    return GpuFacts(
        name,
        int(_given(share_units, "--share-units", default["share_units"])),
        _given(memory_mib, "--memory-mib", default["memory_mib"]),
        _given(price_per_hour, "--price-per-hour", default["price_per_hour"]),
        _given(pcie_bytes_per_ms, "--pcie-bytes-per-ms", default["pcie_bytes_per_ms"]),
    )


def _given(value: float | None, option: str, default: float | None) -> float:
    """Return an option's value, or what the catalogue says."""
    chosen = default if value is None else value
    if chosen is None:
        raise InputError(option, "is missing; a profile does not tell it, nor does the catalogue for this GPU")
    if not 0.0 < chosen < inf:
        raise InputError(option, f"{chosen:g}; expected a finite number greater than 0")
    return chosen


def _residuals(gpu: "GpuType") -> "list[Table | str]":

    hardware = [[quantity, f"{value:.3g}"] for quantity, value in gpu.provenance.residual.items()]
    quantities = list(next(iter(gpu.models.values())).provenance.residual) if gpu.models else []
    models = [
        [model.name, *(f"{100.0 * model.provenance.residual[quantity]:.2f} %" for quantity in quantities)]
        for model in gpu.models.values()
    ]
    return [
        table(["residual of the hardware fit", ">largest"], hardware),
        "",
        table(["relative error of the fit", *(f">{quantity}" for quantity in quantities)], models),
    ]
