"""The GPU catalogue: one TOML file per GPU type."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from instances.errors import InputError, unknown_name
from instances.gpu import DnnModel, GpuType, Hardware, Provenance


def gpu_type_names() -> list[str]:
    """Names of the GPU types in the catalogue, sorted."""
    folder = files("instances.catalogue")
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def gpu_type(name: str, where: str = "gpu") -> GpuType:
    """Return the GPU type called ``name``; the same object every time.

    Raises
    ------
    InputError
        If the catalogue has none; ``where`` names the place that asked.
    """
    if name not in gpu_type_names():
        raise unknown_name(where, "GPU type", name, gpu_type_names())
    return _load(name)


@lru_cache
def _load(name: str) -> GpuType:
    text = files("instances.catalogue").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return gpu_type_from_toml(tomllib.loads(text), f"{name}.toml")


def gpu_type_from_toml(entry: Mapping[str, Any], where: str) -> GpuType:
    """Build a GPU type from the content of a catalogue file.

    Raises
    ------
    InputError
        If a field is missing or of the wrong type; ``where`` names the file.
    """
    try:
        return GpuType(
            name=entry["name"],
            share_units=int(entry["share_units"]),
            memory_mib=float(entry["memory_mib"]),
            price_per_hour=float(entry["price_per_hour"]),
            hardware=Hardware(**{key: float(value) for key, value in entry["hardware"].items()}),
            models={name: _model(name, model) for name, model in entry["models"].items()},
            provenance=_provenance(entry["provenance"]),
            allowed_shares=tuple(entry["allowed_shares"]) if "allowed_shares" in entry else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(where, f"not a catalogue file: {type(error).__name__} {error}") from None


def _model(name: str, entry: Mapping[str, Any]) -> DnnModel:
    k1, k2, k3, k4, k5 = map(float, entry["k"])
    power_slope, power_base = map(float, entry["power"])
    l2_slope, l2_base = map(float, entry["l2"])
    return DnnModel(
        name=name,
        max_batch=int(entry["max_batch"]),
        k=(k1, k2, k3, k4, k5),
        power=(power_slope, power_base),
        l2=(l2_slope, l2_base),
        alpha_cache=float(entry["alpha_cache"]),
        scheduling_alone_ms=float(entry["scheduling_alone_ms"]),
        kernels=int(entry["kernels"]),
        input_bytes=int(entry["input_bytes"]),
        output_bytes=int(entry["output_bytes"]),
        memory_base_mib=float(entry["memory_base_mib"]),
        memory_per_item_mib=float(entry["memory_per_item_mib"]),
        provenance=_provenance(entry["provenance"]),
    )


def _provenance(entry: Mapping[str, Any]) -> Provenance:
    return Provenance(entry["kind"], entry["source"], dict(entry.get("residual", {})))


def gpu_type_to_toml(gpu: GpuType) -> str:
    """Write a GPU type as the text of a catalogue file; ``gpu_type_from_toml`` reads it back unchanged."""
    from dataclasses import asdict

    import tomli_w

    entry = {key: value for key, value in asdict(gpu).items() if value is not None}
    for model in entry["models"].values():
        del model["name"]
    return tomli_w.dumps({key: list(value) if isinstance(value, tuple) else value for key, value in entry.items()})
