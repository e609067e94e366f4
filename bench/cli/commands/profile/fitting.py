"""Fits of ``bench profile fit``: all performance models to a folder of measurements, iGniter's to a light profile."""

import math
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from bench.cli.commands.profile.error_tables import parts_of, summary_table, worst_table
from bench.cli.views.tables import table
from instances import GpuType, InputError
from instances.catalogue import known_gpu_type
from instances.files import read_json
from instances.files.problems import input_error
from instances.measurements import read_pairs, read_solo
from instances.performance.igniter_fit import fit_profile
from instances.performance.profile_fit import GpuFacts, ProfileFit, fit_measurements
from instances.performance.validation import summary

SOLO_FILE, PAIRS_FILE, LIGHT_FILE, FACTS_FILE = FILES = "solo.csv", "pairs.csv", "profile.json", "gpu.json"

TEXTS, NUMBERS = ("name", "provenance", "source"), ("share_units", "memory_mib", "price_per_hour", "pcie_bytes_per_ms")
"""Fields of ``gpu.json``; other fields are ignored."""

LARGEST = 1e12
"""Largest number that a light profile may contain, above all plausible times, powers, rates and sizes."""


def stated_facts(folder: Path) -> dict[str, Any]:
    """Return the known fields of ``gpu.json``; an empty dictionary if there is no such file.

    Raises
    ------
    InputError
        If the file does not contain an object, a text is empty, a number is not both finite and above 0, or
        ``share_units`` is not whole.
    """
    file = folder / FACTS_FILE
    if not file.exists():
        return {}
    found = read_json(file)
    if not isinstance(found, dict):
        raise InputError(str(file), "expected an object")
    for field, value in found.items():
        if field in TEXTS and not (isinstance(value, str) and value):
            raise InputError(f"{file}: {field}", "expected a non-empty string")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if field in NUMBERS and not (is_number and 0.0 < value < math.inf):
            raise InputError(f"{file}: {field}", "expected a finite number greater than 0")
    if "share_units" in found and found["share_units"] != int(found["share_units"]):
        raise InputError(f"{file}: share_units", f"is {found['share_units']:g}; expected a whole number")
    return {field: value for field, value in found.items() if field in (*TEXTS, *NUMBERS)}


def fit_folder(folder: Path, facts: GpuFacts, source: str) -> ProfileFit:
    """Fit the measurements in ``folder``; ``pairs.csv`` and ``profile.json`` are optional.

    Raises
    ------
    InputError
        If ``solo.csv`` is missing, or a file has invalid content.
    """
    pairs, light = folder / PAIRS_FILE, folder / LIGHT_FILE
    try:
        return fit_measurements(
            facts,
            source,
            read_solo(folder / SOLO_FILE),
            read_pairs(pairs) if pairs.exists() else [],
            read_json(light) if light.exists() else None,
        )
    except InputError as error:
        where = error.where if error.where.startswith(str(folder)) else f"{folder}: {error.where}"
        raise InputError(where, error.problem) from None


def folder_residuals(fit: ProfileFit) -> list[Table | str]:
    """Return tables of residuals: solo latencies by model, batch and share; pairs by performance model; outliers."""
    found: list[Table | str] = []
    for name, key in (("model", "model"), ("batch", "batch"), ("share", "share_pct")):
        found += [summary_table(f"alone, by {name}", _alone_by(fit, key)), ""]
    if fit.pairs:
        found += [summary_table("pairs, by performance model", {n: e.summary for n, e in fit.pairs.items()}), ""]
    for name, errors in fit.pairs.items():
        for part, summaries in parts_of(errors).items():
            found += [summary_table(f"{name}: pairs, by {part}", summaries), ""]
        if (outliers := errors.outliers).samples:
            found += [worst_table(f"{name}: {len(outliers.samples)} outliers, kept in the fit", outliers), ""]
    return found[:-1]


def _alone_by(fit: ProfileFit, key: str) -> dict[Any, dict[str, float]]:
    groups: dict[Any, list[float]] = {}
    for name, samples in fit.samples.items():
        for sample, error in zip(samples, fit.solo[name], strict=True):
            groups.setdefault(getattr(sample.configuration, key), []).append(float(error))
    return {value: summary(np.array(groups[value])) for value in (groups if key == "model" else sorted(groups))}


def catalogued(profile: Any, file: Path) -> GpuType | None:
    """Return the catalogue's entry of the profiled GPU, or ``None`` if there is none.

    Raises
    ------
    InputError
        If the profile does not name its GPU.
    """
    gpu = profile.get("gpu") if isinstance(profile, dict) else None
    if not isinstance(gpu, dict) or not isinstance(gpu.get("name"), str):
        raise InputError(f"{file}: gpu.name", "is missing; expected the name of the profiled GPU")
    return known_gpu_type(gpu["name"].lower())


def fit_light_profile(profile: Any, file: Path, source: str, memory_mib: float, price_per_hour: float) -> GpuType:
    """Fit ``profile``; every error in it becomes an ``InputError`` about ``file``."""
    _check_numbers(profile, str(file))
    try:
        with warnings.catch_warnings():  # a fit to implausible samples warns; its coefficients are refused below
            warnings.simplefilter("ignore")
            gpu = fit_profile(profile, source, memory_mib, price_per_hour)
    except InputError as error:
        raise InputError(f"{file}: {error.where}", error.problem) from None
    except (ArithmeticError, AttributeError, IndexError, StopIteration, TypeError, ValueError) as error:
        cause = f"{type(error).__name__} {error}".rstrip()
        raise InputError(str(file), f"is not a valid light profile; see docs/measurements.md ({cause})") from None
    for model in gpu.models.values():
        numbers = (*model.k, *model.power, *model.l2, model.alpha_cache, *model.provenance.residual.values())
        if not all(map(math.isfinite, numbers)):
            raise InputError(f"{file}: models.{model.name}", "no finite coefficients fit these samples")
    if not all(map(math.isfinite, asdict(gpu.hardware).values())):
        raise InputError(f"{file}: gpu", "no finite coefficients fit these samples")
    return gpu


def _check_numbers(profile: Any, where: str) -> None:
    """Refuse implausibly large numbers before any computation."""
    waiting: list[tuple[tuple[int | str, ...], Any]] = [((), profile)]
    while waiting:
        location, value = waiting.pop()
        if isinstance(value, int | float) and not abs(value) <= LARGEST:
            raise input_error(where, [(location, f"expected a number of at most {LARGEST:g}")])
        if isinstance(value, dict | list):
            children = value.items() if isinstance(value, dict) else enumerate(value)
            waiting += [((*location, key), child) for key, child in children]


def light_residuals(gpu: GpuType) -> list[Table | str]:
    """Return two tables: residuals of the hardware fit, and relative errors of each model's fit."""
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
