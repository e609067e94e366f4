"""Light profile of a GPU as a JSON file: eleven configurations per model, and copies of one model (iGniter, Sec. 3.1).

Some field names end with the measuring conditions, such as ``identical_vgg19_colocated_1_to_5``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from instances.files.problems import validated
from instances.files.text import read_json

LIGHT_FILE = "profile.json"
"""File of a light profile in a folder of measurements."""

_LARGEST = 1e12
"""Largest number in a light profile, above all plausible times, powers, rates and sizes."""

_Number = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST)]
_Positive = Annotated[float, Field(gt=0, le=_LARGEST)]
_Size = Annotated[float, Field(ge=0, le=_LARGEST)]
_Series = list[_Number]
_Clock = Annotated[list[_Positive], Field(description="GPU frequency, in MHz.")]


class _Measurements(BaseModel):
    """Base of the objects: unknown fields are ignored, and field names in ``prefixes`` may have any ending."""

    model_config = ConfigDict(strict=True, frozen=True)

    prefixes: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _without_endings(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        keys_of = {prefix: [key for key in data if str(key).startswith(prefix)] for prefix in cls.prefixes}
        return {**data, **{prefix: data[keys[0]] for prefix, keys in keys_of.items() if keys}}


class Crowd(_Measurements):
    """Measurements of one to n identical models on the whole GPU, by their number."""

    power_w: _Series = Field(description="Power of the GPU, in watts.")
    frequency_mhz: _Clock
    scheduling_delay_ms_per_kernel: _Series = Field(description="Scheduling delay of a kernel, in milliseconds.")


class ProfiledGpu(_Measurements):
    """Figures of the GPU."""

    prefixes = ("identical_",)

    name: str = Field(min_length=1, max_length=200, description="Name of the GPU type.")
    max_frequency_mhz: _Positive = Field(description="Highest frequency, in MHz.")
    max_power_w: _Positive = Field(description="Power limit, in watts.")
    idle_power_w: _Size = Field(description="Power without load, in watts.")
    pcie_bytes_per_ms: _Positive = Field(description="Bandwidth to the host, in bytes per millisecond.")
    share_unit_pct: Annotated[float, Field(gt=0, le=100)] = Field(description="Smallest step of a share, in percent.")
    crowd: Crowd = Field(alias="identical_", description="Identical models on the GPU; the name has a free end.")


class ProfiledPair(_Measurements):
    """Measurements of two copies of a model, each on half of the GPU."""

    active_time_ms_alone: _Positive = Field(description="Active time of a batch alone, in milliseconds.")
    active_time_ms_colocated: _Positive = Field(description="Active time beside the copy, in milliseconds.")
    frequency_mhz_colocated: _Positive = Field(description="GPU frequency with both copies, in MHz.")
    l2_util_pct_of_corunner: _Positive = Field(description="L2 utilisation of the copy, in percent.")


class ProfiledModel(_Measurements):
    """Measurements of one model, by batch and share."""

    prefixes = ("l2_util_pct_at", "two_identical")

    input_bytes: _Size = Field(description="Bytes that a request uploads.")
    output_bytes: _Size = Field(description="Bytes of a result.")
    kernels: _Size = Field(description="Number of kernels of a batch.")
    scheduling_delay_alone_ms: _Number = Field(description="Scheduling delay of a batch alone, in milliseconds.")
    memory_base_mib: _Number | None = Field(None, description="Memory without requests, in MiB.")
    memory_per_item_mib: _Number | None = Field(None, description="Memory of each request of a batch, in MiB.")
    gpu_latency_ms: list[list[_Positive]] = Field(
        alias="gpu_latency_ms[batch][share]", description="Time of a batch on the GPU, in milliseconds."
    )
    power_w: list[_Series] = Field(alias="power_w[batch][share]", description="Power of the GPU, in watts.")
    frequency_mhz: list[_Clock] = Field(alias="frequency_mhz[batch][share]", description="GPU frequency, in MHz.")
    l2_pct: _Series = Field(
        alias="l2_util_pct_at", description="L2 utilisation in percent, from the smallest batch and share on."
    )
    pair: ProfiledPair = Field(alias="two_identical", description="Two copies side by side; the name has a free end.")


class LightProfile(_Measurements):
    """Light profile of a GPU."""

    gpu: ProfiledGpu = Field(description="Figures of the GPU.")
    profiled_batches: list[Annotated[int, Field(ge=1, le=2**31 - 1)]] = Field(
        min_length=1, description="Batches of the models."
    )
    profiled_shares_pct: list[_Positive] = Field(min_length=1, description="Shares of the models, in percent.")
    models: dict[str, ProfiledModel] = Field(description="Measurements by model.")


def light_profile_from_json(data: object, where: str = "profile") -> LightProfile:
    """Return the light profile in ``data``, the content of a JSON file.

    Raises
    ------
    InputError
        If a field is missing or wrong; the error names it, after ``where``.
    """
    return validated(LightProfile, data, where)


def light_profile_in(folder: Path) -> LightProfile | None:
    """Return the light profile of a folder of measurements, or ``None`` if there is none."""
    file = folder / LIGHT_FILE
    return light_profile_from_json(read_json(file), str(file)) if file.exists() else None
