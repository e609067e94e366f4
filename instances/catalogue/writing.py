"""Writer of catalogue files: each row of a grid is a line, so that people can read and compare them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from instances.gpu import Company, DnnModel, GpuType, LanguageModel, SoloProfile
from instances.margin import LevelMargins
from instances.mig import MigProfile


def gpu_type_to_toml(gpu: GpuType) -> str:
    """Write a GPU type as the text of a catalogue file; ``gpu_type_from_toml`` reads it back unchanged."""
    entry = {
        "name": gpu.name,
        "share_units": gpu.share_units,
        "memory_mib": gpu.memory_mib,
        "price_per_hour": gpu.price_per_hour,
        "allowed_shares": gpu.allowed_shares,
    }
    lines = [*_fields(entry), *_section("provenance", asdict(gpu.provenance))]
    if gpu.mig is not None:
        return "\n".join([*lines, *_mig(gpu.mig)]) + "\n"
    lines += _section("hardware", asdict(gpu.hardware))
    if gpu.pair is not None:
        lines += _section("pair", asdict(gpu.pair))
    for name, model in gpu.models.items():
        lines += _model(f"models.{_key(name)}", model)
    if not gpu.models:
        lines += ["", "[models]"]
    for name, language_model in gpu.language_models.items():
        lines += _language_model(f"language_models.{_key(name)}", language_model)
    for margins in gpu.margins:
        lines += _margins(margins)
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    """Write a TOML key, in quotes if it needs them."""
    letters_and_digits = name.replace("_", "").replace("-", "")
    return name if letters_and_digits.isascii() and letters_and_digits.isalnum() else _value(name)


def _value(value: Any) -> str:
    """Write one TOML value on one line."""
    import tomli_w

    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(_value, value)) + "]"
    return tomli_w.dumps({"x": value}).removeprefix("x = ").rstrip("\n")


def _fields(entry: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {_value(value)}" for key, value in entry.items() if value is not None]


def _section(name: str, entry: Mapping[str, Any]) -> list[str]:
    """Write a table, followed by the tables inside it."""
    subtables = {key: value for key, value in entry.items() if isinstance(value, Mapping)}
    lines = ["", f"[{name}]", *_fields({key: value for key, value in entry.items() if key not in subtables})]
    for key, value in subtables.items():
        if value:
            lines += _section(f"{name}.{key}", value)
    return lines


def _grid(key: str, rows: Sequence[Sequence[float | str]]) -> list[str]:
    return [f"{key} = [", *(f"    {_value(row)}," for row in rows), "]"]


def _model(name: str, model: DnnModel) -> list[str]:
    entry = asdict(model)
    provenance = entry.pop("provenance")
    for key in ("name", "solo", "company"):
        del entry[key]
    lines = [*_section(name, entry), *_section(f"{name}.provenance", provenance)]
    if model.solo is not None:
        lines += _with_grid(f"{name}.solo", model.solo)
    if model.company is not None:
        lines += _with_grid(f"{name}.company", model.company)
    return lines


def _with_grid(name: str, times: SoloProfile | Company) -> list[str]:
    entry = asdict(times)
    del entry["gpu_ms"]
    if not entry.get("batching_ms", True):
        del entry["batching_ms"]
    return [*_section(name, entry), *_grid("gpu_ms", times.gpu_ms)]


def _language_model(name: str, model: LanguageModel) -> list[str]:
    entry = asdict(model)
    provenance = entry.pop("provenance")
    for key in ("name", "prefill_ms", "decode_ms"):
        del entry[key]
    rows = [row for context in model.decode_ms for row in context]
    lines = [*_section(name, entry), *_grid("prefill_ms", model.prefill_ms), *_grid("decode_ms", rows)]
    return [*lines, *_section(f"{name}.provenance", provenance)]


def _margins(margins: LevelMargins) -> list[str]:
    head = {"level": margins.level, "rows": margins.rows, "flat": margins.flat}
    lines = [
        "",
        "[[margins]]",
        *_fields(head),
        "",
        "[margins.by_batch] # rows: batch, factor, measured rows, their kind",
    ]
    for model, by_batch in margins.by_batch.items():
        rows: list[list[float | str]] = [
            [batch, margin.factor, margin.rows, str(margin.basis)] for batch, margin in by_batch.items()
        ]
        lines += _grid(_key(model), rows)
    return lines


def _mig(mig: MigProfile) -> list[str]:
    lines = ["", "[mig]", "slices = ["]
    lines += [
        f"    {{ units = {size.units}, span = {size.span}, starts = {list(size.starts)} }}," for size in mig.slices
    ]
    lines += ["]", "", "[mig.models] # rows: units, batch, processes, requests per second, milliseconds"]
    for model, rows in mig.models.items():
        lines.append(f"{model} = [")
        lines += [
            f"    [{row.units}, {row.batch}, {row.processes}, {row.throughput_rps!r}, {row.latency_ms!r}],"
            for row in rows
        ]
        lines.append("]")
    return lines
