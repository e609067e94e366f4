"""The GPU catalogue: one TOML file per GPU type."""

import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from instances.catalogue.writing import gpu_type_to_toml
from instances.errors import InputError, unknown_name
from instances.gpu import ISOLATED, DnnModel, GpuType, Hardware, Provenance
from instances.mig import MigConfiguration, MigProfile, MigSlice
from instances.profile import Company, PairFactor, SoloProfile

__all__ = ["gpu_type", "gpu_type_from_toml", "gpu_type_names", "gpu_type_to_toml"]


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
        mig = _mig(entry["mig"]) if "mig" in entry else None
        return GpuType(
            name=entry["name"],
            share_units=int(entry["share_units"]),
            memory_mib=float(entry["memory_mib"]),
            price_per_hour=float(entry["price_per_hour"]),
            hardware=_hardware(entry["hardware"]) if mig is None else ISOLATED,
            models={name: _model(name, model) for name, model in entry["models"].items()} if mig is None else {},
            provenance=_provenance(entry["provenance"]),
            allowed_shares=tuple(entry["allowed_shares"]) if "allowed_shares" in entry else None,
            mig=mig,
            pair=PairFactor(**_numbers(entry["pair"])) if "pair" in entry else None,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(where, f"not a catalogue file: {type(error).__name__} {error}") from None


def _hardware(entry: Mapping[str, Any]) -> Hardware:
    return Hardware(**_numbers(entry))


def _numbers(entry: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in entry.items()}


def _grid(rows: list[list[Any]]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for row in rows)


def _line(entry: Sequence[Any]) -> tuple[float, float]:
    slope, intercept = map(float, entry)
    return slope, intercept


def _solo(entry: Mapping[str, Any]) -> SoloProfile:
    return SoloProfile(
        batch=tuple(map(int, entry["batch"])),
        share_pct=tuple(map(float, entry["share_pct"])),
        gpu_ms=_grid(entry["gpu_ms"]),
        l2_pct=tuple(map(float, entry["l2_pct"])),
        dram_pct=tuple(map(float, entry["dram_pct"])),
        l2=_line(entry["l2"]),
        dram=_line(entry["dram"]),
        span=float(entry["span"]),
    )


def _company(entry: Mapping[str, Any]) -> Company:
    return Company(_grid(entry["gpu_ms"]), float(entry["alpha_l2"]), float(entry["alpha_dram"]))


def _mig(entry: Mapping[str, Any]) -> MigProfile:
    return MigProfile(
        tuple(MigSlice(int(one["units"]), int(one["span"]), tuple(map(int, one["starts"]))) for one in entry["slices"]),
        {
            model: tuple(
                MigConfiguration(int(units), int(batch), int(processes), float(throughput_rps), float(latency_ms))
                for units, batch, processes, throughput_rps, latency_ms in rows
            )
            for model, rows in entry["models"].items()
        },
    )


def _model(name: str, entry: Mapping[str, Any]) -> DnnModel:
    k1, k2, k3, k4, k5 = map(float, entry["k"])
    return DnnModel(
        name=name,
        max_batch=int(entry["max_batch"]),
        k=(k1, k2, k3, k4, k5),
        power=_line(entry["power"]),
        l2=_line(entry["l2"]),
        alpha_cache=float(entry["alpha_cache"]),
        scheduling_alone_ms=float(entry["scheduling_alone_ms"]),
        kernels=int(entry["kernels"]),
        input_bytes=int(entry["input_bytes"]),
        output_bytes=int(entry["output_bytes"]),
        memory_base_mib=float(entry["memory_base_mib"]),
        memory_per_item_mib=float(entry["memory_per_item_mib"]),
        provenance=_provenance(entry["provenance"]),
        solo=_solo(entry["solo"]) if "solo" in entry else None,
        inss=_line(entry["inss"]) if "inss" in entry else None,
        company=_company(entry["company"]) if "company" in entry else None,
    )


def _provenance(entry: Mapping[str, Any]) -> Provenance:
    return Provenance(entry["kind"], entry["source"], dict(entry.get("residual", {})))
