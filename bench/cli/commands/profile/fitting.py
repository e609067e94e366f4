"""Steps of ``bench profile fit``: facts about a GPU, the fit to a folder of measurements, and tables of residuals.

There are two fits. To a folder, all performance models are fitted. To a light profile (a file with few measurements of
each model), ``instances.performance.igniter_fit`` fits only iGniter's model.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from bench.cli.commands.profile.error_tables import parts_of, summary_table, worst_table
from bench.cli.views.tables import table
from instances import GpuType, InputError
from instances.catalogue import known_gpu_type
from instances.files import read_json
from instances.files.light_profile import LIGHT_FILE, light_profile_in
from instances.grouping import grouped
from instances.measurements import PAIRS_FILE, SOLO_FILE, read_pairs, read_solo
from instances.performance.profile_fit import GpuFacts, ProfileFit, fit_measurements
from instances.performance.validation import summary

FACTS_FILE = "gpu.json"
FILES = (SOLO_FILE, PAIRS_FILE, LIGHT_FILE, FACTS_FILE)

TEXTS = ("name", "provenance", "source")
"""Fields of ``gpu.json`` that are texts."""

NUMBERS = ("share_units", "memory_mib", "price_per_hour", "pcie_bytes_per_ms")
"""Fields of ``gpu.json`` that are numbers; fields that are in neither list are ignored."""


def facts_of_file(folder: Path) -> dict[str, Any]:
    """Return the known fields of ``gpu.json``; an empty dictionary if there is no such file.

    Raises
    ------
    InputError
        If the file does not contain an object, a text is empty, a number is not finite or not above 0, or
        ``share_units`` is not whole.
    """
    file = folder / FACTS_FILE
    if not file.exists():
        return {}
    facts = read_json(file)
    if not isinstance(facts, dict):
        raise InputError(str(file), "expected an object")
    for field, value in facts.items():
        if field in TEXTS and not (isinstance(value, str) and value):
            raise InputError(f"{file}: {field}", "expected a non-empty string")
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if field in NUMBERS and not (is_number and 0.0 < value < math.inf):
            raise InputError(f"{file}: {field}", "expected a finite number greater than 0")
    if "share_units" in facts and facts["share_units"] != int(facts["share_units"]):
        raise InputError(f"{file}: share_units", f"is {facts['share_units']:g}; expected a whole number")
    return {field: value for field, value in facts.items() if field in (*TEXTS, *NUMBERS)}


def gpu_facts(name: str | None, options: Mapping[str, float | None], file_facts: Mapping[str, Any]) -> GpuFacts:
    """Return the facts that are not measured; ``file_facts`` are those of ``gpu.json``."""
    name = name or file_facts.get("name")
    if name is None:
        raise InputError("--gpu", "is missing; expected the name of the GPU type, here or in a gpu.json in the folder")
    values = option_values(options, file_facts, known_gpu_type(name))
    share_units = int(values.pop("share_units"))
    return GpuFacts(name, share_units, **values)


def option_values(
    options: Mapping[str, float | None], file_facts: Mapping[str, Any], catalogue_entry: GpuType | None
) -> dict[str, float]:
    """Return the values of options; missing values come from ``gpu.json``, otherwise from the catalogue."""
    defaults = dict(file_facts)
    if catalogue_entry is not None:
        defaults = {
            "share_units": catalogue_entry.share_units,
            "memory_mib": catalogue_entry.memory_mib,
            "price_per_hour": catalogue_entry.price_per_hour,
            "pcie_bytes_per_ms": catalogue_entry.hardware.pcie_bytes_per_ms,
            **file_facts,
        }
    names = {key: f"--{key.replace('_', '-')}" for key in options}
    values = {key: defaults.get(key) if value is None else value for key, value in options.items()}
    if missing := [names[key] for key, value in values.items() if value is None]:
        others = missing[1:]
        further = f", and so {'are' if len(others) > 1 else 'is'} {', '.join(others)}" if others else ""
        raise InputError(missing[0], f"is missing{further}; neither the profile nor the catalogue has it for this GPU")
    complete = {key: value for key, value in values.items() if value is not None}
    for key, value in complete.items():
        if not 0.0 < value < math.inf:
            raise InputError(names[key], f"{value:g}; expected a finite number greater than 0")
    return complete


def fit_folder(folder: Path, facts: GpuFacts, source: str) -> ProfileFit:
    """Fit the measurements in ``folder``; ``pairs.csv`` and ``profile.json`` are optional.

    Raises
    ------
    InputError
        If ``solo.csv`` is missing, or a file is invalid.
    """
    pairs = folder / PAIRS_FILE
    try:
        return fit_measurements(
            facts,
            source,
            read_solo(folder / SOLO_FILE),
            read_pairs(pairs) if pairs.exists() else [],
            light_profile_in(folder),
        )
    except InputError as error:
        where = error.where if error.where.startswith(str(folder)) else f"{folder}: {error.where}"
        raise InputError(where, error.problem) from None


def folder_residuals(fit: ProfileFit) -> list[Table | str]:
    """Return tables of residuals: solo latencies by model, batch and share; pairs by performance model; outliers."""
    tables: list[Table | str] = []
    for name, key in (("model", "model"), ("batch", "batch"), ("share", "share_pct")):
        tables += [summary_table(f"alone, by {name}", _alone_by(fit, key)), ""]
    if fit.pairs:
        tables += [
            summary_table(
                "pairs, by performance model",
                {model: model_errors.summary for model, model_errors in fit.pairs.items()},
            ),
            "",
        ]
    for name, errors in fit.pairs.items():
        for grouping, summaries in parts_of(errors).items():
            tables += [summary_table(f"{name}: pairs, by {grouping}", summaries), ""]
        if (outliers := errors.outliers).samples:
            tables += [worst_table(f"{name}: {len(outliers.samples)} outliers, kept in the fit", outliers), ""]
    return tables[:-1]


def _alone_by(fit: ProfileFit, key: str) -> dict[Any, dict[str, float]]:
    """Return summaries of the errors of models that run alone, by the value of a field of their configurations."""
    groups = grouped(
        (getattr(sample.configuration, key), float(error))
        for name, samples in fit.samples.items()
        for sample, error in zip(samples, fit.solo[name], strict=True)
    )
    return {value: summary(np.array(groups[value])) for value in (groups if key == "model" else sorted(groups))}


def light_residuals(gpu: GpuType) -> list[Table | str]:
    """Return two tables for a light profile: residuals of the hardware fit, and relative errors of each model's fit."""
    hardware = [[quantity, f"{value:.3g}"] for quantity, value in gpu.provenance.residual.items()]
    quantities = list(next(iter(gpu.models.values())).provenance.residual) if gpu.models else []
    models = [
        [model.name, *(f"{100.0 * model.provenance.residual[quantity]:.2f} %" for quantity in quantities)]
        for model in gpu.models.values()
    ]
    return [
        # Columns of numbers, marked with ">", are right-aligned.
        table(["residual of the hardware fit", ">largest"], hardware),
        "",
        table(["relative error of the fit", *(f">{quantity}" for quantity in quantities)], models),
    ]
