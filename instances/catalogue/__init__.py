"""The GPU catalogue: one TOML file per GPU type."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from instances.errors import InputError, unknown_name
from instances.gpu import ISOLATED, DnnModel, GpuType, Hardware, Provenance
from instances.mig import MigConfiguration, MigProfile, MigSlice


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
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(where, f"not a catalogue file: {type(error).__name__} {error}") from None


def _hardware(entry: Mapping[str, Any]) -> Hardware:
    return Hardware(**{key: float(value) for key, value in entry.items()})


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
    if gpu.mig is None:
        return tomli_w.dumps({key: list(value) if isinstance(value, tuple) else value for key, value in entry.items()})
    for unused in ("hardware", "models", "mig"):
        del entry[unused]
    return tomli_w.dumps(entry) + _mig_to_toml(gpu.mig)


def _mig_to_toml(mig: MigProfile) -> str:
    """Write one line for each slice and configuration: hundreds of them are to be read as tables."""
    lines = ["", "[mig]", "slices = ["]
    lines += [f"    {{ units = {one.units}, span = {one.span}, starts = {list(one.starts)} }}," for one in mig.slices]
    lines += ["]", "", "[mig.models] # rows: units, batch, processes, requests per second, milliseconds"]
    for model, rows in mig.models.items():
        lines.append(f"{model} = [")
        lines += [
            f"    [{row.units}, {row.batch}, {row.processes}, {row.throughput_rps!r}, {row.latency_ms!r}],"
            for row in rows
        ]
        lines.append("]")
    return "\n".join(lines) + "\n"
