"""The GPU catalogue: one TOML file per GPU type, in this package and on the paths in ``GPUSHARE_CATALOGUE``."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from instances.catalogue.table import FileTable
from instances.catalogue.writing import gpu_type_to_toml
from instances.errors import InputError, printable, unknown_name
from instances.gpu import (
    ISOLATED,
    Company,
    DnnModel,
    GpuType,
    Hardware,
    LanguageModel,
    PairFactor,
    Provenance,
    SoloProfile,
)
from instances.margin import Basis, LevelMargins, Margin
from instances.mig import MigConfiguration, MigProfile, MigSlice

__all__ = [
    "CATALOGUE_VARIABLE",
    "catalogue_of",
    "gpu_type",
    "gpu_type_from_toml",
    "gpu_type_names",
    "gpu_type_to_toml",
    "known_gpu_type",
    "packaged",
]

CATALOGUE_VARIABLE = "GPUSHARE_CATALOGUE"
"""Environment variable with the paths of further catalogue files and of folders of them, separated as in ``PATH``."""

_MOST_UNITS = 10_000
"""Largest number of share units, and largest batch: tables of times have an entry for each."""


def gpu_type_names() -> list[str]:
    """Return the names of the GPU types in the catalogue, ``GPUSHARE_CATALOGUE`` included, sorted."""
    return sorted([*_packaged_names(), *_user_types()])


@cache
def _packaged_names() -> tuple[str, ...]:
    folder = files("instances.catalogue")
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def gpu_type(name: str, where: str = "gpu") -> GpuType:
    """Return the GPU type called ``name``, the same object every time.

    Raises
    ------
    InputError
        If the catalogue has no such GPU type; ``where`` is the place that the error names.
    """
    if (user_type := _user_types().get(name)) is not None:
        return user_type
    if name not in _packaged_names():
        raise unknown_name(where, "GPU type", name, gpu_type_names())
    return _load(name)


def known_gpu_type(name: str) -> GpuType | None:
    """Return the GPU type called ``name``, or ``None`` if the catalogue has none."""
    return gpu_type(name) if name in gpu_type_names() else None


def packaged(gpu: GpuType) -> bool:
    """Return whether the package's own catalogue has exactly this GPU type."""
    return gpu.name in _packaged_names() and _load(gpu.name) == gpu


@cache
def _load(name: str) -> GpuType:
    text = files("instances.catalogue").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return gpu_type_from_toml(tomllib.loads(text), f"{name}.toml")


def _user_types() -> Mapping[str, GpuType]:
    """Return the GPU types on the paths in ``GPUSHARE_CATALOGUE``, by name."""
    return _read_user_types(os.environ.get(CATALOGUE_VARIABLE, ""))


@cache
def _read_user_types(paths: str) -> Mapping[str, GpuType]:
    gpu_types: dict[str, GpuType] = {}
    for path in filter(None, paths.split(os.pathsep)):
        for name, gpu in catalogue_of(Path(path)).items():
            if name in _packaged_names() or name in gpu_types:
                owner = "the package" if name in _packaged_names() else "another file"
                raise InputError(path, f'"{printable(name)}" is a GPU type of {owner} already; give it another name')
            gpu_types[name] = gpu
    return gpu_types


def catalogue_of(path: Path) -> dict[str, GpuType]:
    """Return the GPU types in a catalogue file or in the ``*.toml`` files of a folder, by name.

    Raises
    ------
    InputError
        If a file cannot be read or is no catalogue file, or a folder has no such file.
    """
    paths = sorted(path.glob("*.toml")) if path.is_dir() else [path]
    if not paths:
        raise InputError(printable(str(path)), "contains no *.toml files; expected one catalogue file per GPU type")
    gpu_types: dict[str, GpuType] = {}
    for file in paths:
        try:
            entry = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise InputError(printable(str(file)), f"cannot be read: {error.strerror}") from None
        except ValueError as error:  # neither UTF-8 nor TOML
            raise InputError(printable(str(file)), printable(f"is not valid TOML: {error}")) from None
        gpu = gpu_type_from_toml(entry, str(file))
        if gpu.name in gpu_types:
            raise InputError(printable(str(file)), f'"{printable(gpu.name)}" occurs twice in {printable(str(path))}')
        gpu_types[gpu.name] = gpu
    return gpu_types


def gpu_type_from_toml(entry: Mapping[str, Any], where: str) -> GpuType:
    """Build a GPU type from the content of a catalogue file.

    Raises
    ------
    InputError
        If a field is missing or of the wrong type; ``where`` names the file.
    """
    try:
        return _gpu_type(FileTable(entry, where))
    except InputError as error:
        raise InputError(printable(error.where), printable(error.problem)) from None  # keys may hold any character


def _gpu_type(file: FileTable) -> GpuType:
    if "like" in file:  # another GPU type with other permitted shares
        base = gpu_type(file.text("like"), f"{file.file}: like")
        return replace(base, name=file.text("name"), allowed_shares=file.wholes("allowed_shares"))
    mig = _mig(file.table("mig")) if "mig" in file else None
    models = file.table("models") if mig is None else None
    language = file.table("language_models") if "language_models" in file else FileTable({}, file.file)
    return GpuType(
        name=file.text("name"),
        share_units=file.whole("share_units", _MOST_UNITS),
        memory_mib=file.number("memory_mib"),
        price_per_hour=file.number("price_per_hour"),
        hardware=ISOLATED if models is None else file.table("hardware").as_numbers(Hardware),
        models={} if models is None else {name: _model(name, models.table(name)) for name in models.content},
        provenance=_provenance(file.table("provenance")),
        allowed_shares=file.wholes("allowed_shares") if "allowed_shares" in file else None,
        mig=mig,
        pair=file.table("pair").as_numbers(PairFactor) if "pair" in file else None,
        language_models={name: _language_model(name, language.table(name)) for name in language.content},
        margins=tuple(map(_level_margins, file.tables("margins"))) if "margins" in file else (),
    )


def _level_margins(table: FileTable) -> LevelMargins:
    models = table.table("by_batch")
    by_batch = {
        name: {
            batch: Margin(factor, rows, basis)
            for batch, factor, rows, basis in models.rows(name, int, float, int, Basis)
        }
        for name in models.content
    }
    for name, margins in by_batch.items():
        if not margins:
            raise InputError(f"{models.file}: {models.path}.{name}", "is empty; expected a row for each batch")
    return LevelMargins(table.number("level"), table.whole("rows"), by_batch, table.number("flat"))


def _language_model(name: str, table: FileTable) -> LanguageModel:
    share_pct = table.numbers("share_pct")
    prompt_tokens, context_tokens, batch = (table.wholes(key) for key in ("prompt_tokens", "context_tokens", "batch"))
    rows = table.grid("decode_ms", len(context_tokens) * len(batch), len(share_pct))
    return LanguageModel(
        name,
        table.whole("parameters", 10**13),
        table.whole("layers"),
        table.whole("width"),
        share_pct,
        prompt_tokens,
        table.grid("prefill_ms", len(prompt_tokens), len(share_pct)),
        context_tokens,
        batch,
        tuple(rows[first : first + len(batch)] for first in range(0, len(rows), len(batch))),
        _provenance(table.table("provenance")),
    )


def _solo(table: FileTable) -> SoloProfile:
    batch, share_pct = table.wholes("batch"), table.numbers("share_pct")
    return SoloProfile(
        batch=batch,
        share_pct=share_pct,
        gpu_ms=table.grid("gpu_ms", len(batch), len(share_pct)),
        l2_pct=table.numbers("l2_pct", len(batch)),
        dram_pct=table.numbers("dram_pct", len(batch)),
        l2=table.line("l2"),
        dram=table.line("dram"),
        span=table.number("span"),
        batching_ms=table.numbers("batching_ms", len(batch)) if "batching_ms" in table else (),
    )


def _company(table: FileTable, solo: SoloProfile | None) -> Company:
    if solo is None:
        raise InputError(f"{table.file}: {table.path}", "needs a table solo; expected the grid of its solo times")
    grid = table.grid("gpu_ms", len(solo.batch), len(solo.share_pct))
    return Company(grid, table.number("alpha_l2"), table.number("alpha_dram"))


def _mig(table: FileTable) -> MigProfile:
    models = table.table("models")
    row = (int, int, int, float, float)
    return MigProfile(
        tuple(
            MigSlice(size.whole("units"), size.whole("span"), size.wholes("starts")) for size in table.tables("slices")
        ),
        {model: tuple(MigConfiguration(*values) for values in models.rows(model, *row)) for model in models.content},
    )


def _model(name: str, table: FileTable) -> DnnModel:
    k1, k2, k3, k4, k5 = table.numbers("k", 5)
    solo = _solo(table.table("solo")) if "solo" in table else None
    return DnnModel(
        name=name,
        max_batch=table.whole("max_batch", _MOST_UNITS),
        k=(k1, k2, k3, k4, k5),
        power=table.line("power"),
        l2=table.line("l2"),
        alpha_cache=table.number("alpha_cache"),
        scheduling_alone_ms=table.number("scheduling_alone_ms"),
        kernels=table.whole("kernels"),
        input_bytes=table.whole("input_bytes"),
        output_bytes=table.whole("output_bytes"),
        memory_base_mib=table.number("memory_base_mib"),
        memory_per_item_mib=table.number("memory_per_item_mib"),
        provenance=_provenance(table.table("provenance")),
        solo=solo,
        inss=table.line("inss") if "inss" in table else None,
        company=_company(table.table("company"), solo) if "company" in table else None,
    )


def _provenance(table: FileTable) -> Provenance:
    residual = table.table("residual") if "residual" in table else None
    figures = {} if residual is None else {name: residual.number(name) for name in residual.content}
    return Provenance(table.text("kind"), table.text("source"), figures)
