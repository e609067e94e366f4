"""Light profiles from untrusted files: lookup of their GPU in the catalogue, and fit of a GPU type."""

import math
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from instances import GpuType, InputError
from instances.catalogue import gpu_type, gpu_type_names
from instances.files.problems import input_error
from instances.performance.igniter_fit import fit_profile

LARGEST = 1e12
"""Largest number that a profile may contain, above all plausible times, powers, rates and sizes."""


def catalogued(profile: Any, file: Path) -> GpuType | None:
    """Return the catalogue's entry of the profiled GPU, if there is one."""
    gpu = profile.get("gpu") if isinstance(profile, dict) else None
    if not isinstance(gpu, dict) or not isinstance(gpu.get("name"), str):
        raise InputError(f"{file}: gpu.name", "is missing; expected the name of the profiled GPU")
    name = gpu["name"].lower()
    return gpu_type(name) if name in gpu_type_names() else None


def fitted(profile: Any, file: Path, source: str, memory_mib: float, price_per_hour: float) -> GpuType:
    """Fit ``profile``; every error in it becomes an ``InputError`` about ``file``."""
    _check_numbers(profile, str(file))
    try:
        with warnings.catch_warnings():  # a fit to implausible samples warns; its coefficients are refused below
            warnings.simplefilter("ignore")
            gpu = fit_profile(profile, source, memory_mib, price_per_hour)
    except InputError as error:
        raise InputError(f"{file}: {error.where}", error.problem) from None
    except (ArithmeticError, AttributeError, IndexError, StopIteration, TypeError, ValueError) as error:
        raise InputError(str(file), f"is not a light profile: {type(error).__name__} {error}".rstrip()) from None
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
