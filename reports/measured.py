"""Published measurements for figures of performance models: read where ``GPUSHARE_MEASUREMENTS`` says, if anywhere."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from instances.errors import InputError
from instances.measurements import PairSample, SoloSample, read_pairs, read_solo
from reports.figure import NothingToDrawError

VARIABLE = "GPUSHARE_MEASUREMENTS"

FOLDERS: Mapping[str, str] = {"v100": "v100-igniter", "a100": "a100-gpulet"}
"""Folder of the published measurements of each GPU type."""


def measured_pairs(gpu: str) -> list[PairSample]:
    """Return the measured pairs of a GPU type; none where they are not at hand.

    Raises
    ------
    InputError
        If the file is there but wrong.
    """
    file = _file(gpu, "pairs.csv")
    return read_pairs(file) if file is not None else []


def measured_solo(gpu: str) -> list[SoloSample]:
    """Return the measurements of models alone on a GPU type likewise."""
    file = _file(gpu, "solo.csv")
    return read_solo(file) if file is not None else []


def light_profile() -> dict[str, Any]:
    """Return iGniter's light profile of the V100 as it is published; empty where it is not at hand.

    Raises
    ------
    InputError
        If the file is there but is no JSON.
    """
    file = _file("v100", "profile.json")
    if file is None:
        return {}
    try:
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(str(file), f"is no JSON: {error}") from None
    return found


def _file(gpu: str, name: str) -> Path | None:
    """Return a file of published measurements, or ``None`` where it is not at hand."""
    root = os.environ.get(VARIABLE)
    file = Path(root) / FOLDERS[gpu] / name if root else None
    return file if file is not None and file.is_file() else None


def missing_note(*gpus: str) -> list[str]:
    """Return small print that names the GPU types whose measurements are not at hand."""
    absent = [gpu for gpu in gpus if _file(gpu, "pairs.csv") is None]
    return [f"Measurements not drawn: {', '.join(absent)} ({VARIABLE} names no folder with them)."] if absent else []


def nothing_measured(figure: str, gpus: Sequence[str]) -> NothingToDrawError:
    """Return the error of a figure that draws nothing but measurements, none of which is at hand."""
    folders = " or ".join(f"{FOLDERS[gpu]}/pairs.csv" for gpu in gpus)
    return NothingToDrawError(figure, f"no measurements to draw; {VARIABLE} names no folder with {folders}")
