"""``bench profile fit DIR``: all performance models fitted to a folder of measurements."""

from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from bench.cli.commands.profile.error_tables import size, summary_table, worst_table
from instances import InputError
from instances.files import read_json
from instances.measurements import read_pairs, read_solo
from instances.performance.profile_fit import GpuFacts, ProfileFit, fit_measurements

SOLO_FILE, PAIRS_FILE, LIGHT_FILE, FACTS_FILE = FILES = "solo.csv", "pairs.csv", "profile.json", "gpu.json"

TEXTS, NUMBERS = ("name", "provenance", "source"), ("share_units", "memory_mib", "price_per_hour", "pcie_bytes_per_ms")
"""Fields of ``gpu.json``; other fields are ignored."""


def stated(folder: Path) -> dict[str, Any]:
    """Return the known fields of ``gpu.json``; an empty dictionary if there is no such file.

    Raises
    ------
    InputError
        If a text is empty, or a number is not finite and above 0.
    """
    file = folder / FACTS_FILE
    if not file.exists():
        return {}
    found = read_json(file)
    if not isinstance(found, dict):
        raise InputError(str(file), "expected an object")
    for field in (*TEXTS, *NUMBERS):
        value = found.get(field)
        if field in TEXTS and field in found and not (isinstance(value, str) and value):
            raise InputError(f"{file}: {field}", "expected a text")
        if field in NUMBERS and field in found and not (isinstance(value, int | float) and 0.0 < value < inf):
            raise InputError(f"{file}: {field}", "expected a finite number greater than 0")
    return {field: value for field, value in found.items() if field in (*TEXTS, *NUMBERS)}


def fit_folder(folder: Path, facts: GpuFacts, source: str) -> ProfileFit:
    """Fit the measurements in ``folder``; ``pairs.csv`` and ``profile.json`` are optional.

    Raises
    ------
    InputError
        If ``solo.csv`` is missing, or a file is wrong.
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


def residuals(fit: ProfileFit) -> list[Any]:
    """Return tables of residuals: solo latencies by model, batch and share; pairs by performance model; outliers."""
    found: list[Any] = []
    for name, key in (("model", "model"), ("batch", "batch"), ("share", "share_pct")):
        found += [summary_table(f"alone, by {name}", _alone_by(fit, key)), ""]
    if fit.pairs:
        found += [summary_table("pairs, by performance model", {n: e.summary for n, e in fit.pairs.items()}), ""]
    for name, errors in fit.pairs.items():
        outliers = errors.outliers
        found += [
            summary_table(f"{name}: pairs, by model", errors.by(lambda sample: sample.own.model)),
            "",
            summary_table(f"{name}: pairs, by batch", dict(sorted(errors.by(lambda s: s.own.batch).items(), key=size))),
            "",
            summary_table(
                f"{name}: pairs, by share", dict(sorted(errors.by(lambda s: s.own.share_pct).items(), key=size))
            ),
            "",
        ]
        if outliers.samples:
            found += [worst_table(f"{name}: {len(outliers.samples)} outliers, kept in the fit", outliers), ""]
    return found[:-1]


def _alone_by(fit: ProfileFit, key: str) -> dict[Any, dict[str, float]]:
    groups: dict[Any, list[float]] = {}
    for name, samples in fit.samples.items():
        for sample, error in zip(samples, fit.solo[name], strict=True):
            groups.setdefault(getattr(sample.configuration, key), []).append(abs(float(error)))
    order = groups if key == "model" else sorted(groups)
    found = {}
    for value in order:
        p50, p90, p95 = np.quantile(groups[value], (0.5, 0.9, 0.95))
        found[value] = {
            "rows": len(groups[value]),
            "mean": float(np.mean(groups[value])),
            "p50": float(p50),
            "p90": float(p90),
            "p95": float(p95),
            "max": max(groups[value]),
        }
    return found
