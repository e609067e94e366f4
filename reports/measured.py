"""Measurements for figures and tables: published ones in ``GPUSHARE_MEASUREMENTS``, and those of this project."""

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import instances
from instances.errors import InputError
from instances.measurements import PAIRS_FILE, SOLO_FILE, PairSample, SoloSample, read_pairs, read_solo
from reports.figure import Figure
from reports.need import NothingToDrawError

VARIABLE = "GPUSHARE_MEASUREMENTS"
"""Environment variable with the folder of the published measurements."""

FOLDERS: Mapping[str, str] = {"v100": "v100-igniter", "a100": "a100-gpulet", "h100-sxm": "h100-graphs"}
"""Folder of the measurements of each GPU type."""

PROJECT_FOLDER = Path(instances.__file__).with_name("measured")
"""Folder of this project's measurements, a part of the package."""


def measured_pairs(gpu: str) -> list[PairSample]:
    """Return the measured pairs of a GPU type; an empty list if they are not available.

    Raises
    ------
    InputError
        If the file exists but has an error.
    """
    file = _file(FOLDERS[gpu], PAIRS_FILE)
    return read_pairs(file) if file is not None else []


def measured_solo(gpu: str) -> list[SoloSample]:
    """Return the solo measurements of a GPU type; an empty list if they are not available."""
    file = _file(FOLDERS[gpu], SOLO_FILE)
    return read_solo(file) if file is not None else []


def measurement_folder(gpu: str) -> Path | None:
    """Return the folder of the measured pairs of a GPU type; ``None`` if they are not available."""
    file = _file(FOLDERS[gpu], PAIRS_FILE)
    return None if file is None else file.parent


def light_profile() -> dict[str, Any]:
    """Return iGniter's published light profile of the V100; empty if it is not available.

    Raises
    ------
    InputError
        If the file exists but is not valid JSON.
    """
    file = _file(FOLDERS["v100"], "profile.json")
    if file is None:
        return {}
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(str(file), f"is not valid JSON: {error}") from None


def twitter_trace_file() -> Path | None:
    """Return the file of Twitter's requests per second; ``None`` if it is not available."""
    return _file("traces", "twitter_rps_per_second_7days.csv.gz")


def _file(folder: str, name: str) -> Path | None:
    """Return a file of measurements, or ``None`` if it is not available."""
    published_folder = os.environ.get(VARIABLE)
    roots = (PROJECT_FOLDER, Path(published_folder)) if published_folder else (PROJECT_FOLDER,)
    return next((file for root in roots if (file := root / folder / name).is_file()), None)


def project_replays(folder: str) -> list[dict[str, Any]]:
    """Return the replays in a folder of this project's measurements, oldest first."""
    text = (PROJECT_FOLDER / folder / "replays.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def project_copies(folder: str) -> list[dict[str, str]]:
    """Return the rows of ``copies.csv`` in a folder of this project's measurements."""
    with (PROJECT_FOLDER / folder / "copies.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def missing_note(*gpus: str) -> list[str]:
    """Return a note that names the GPU types without available measurements; an empty list if there are none."""
    missing_types = [gpu for gpu in gpus if _file(FOLDERS[gpu], PAIRS_FILE) is None]
    return (
        [f"Measurements not drawn: {', '.join(missing_types)} ({VARIABLE} names no folder with them)."]
        if missing_types
        else []
    )


def nothing_measured(figure: Figure, gpus: Sequence[str]) -> NothingToDrawError:
    """Return the error of a figure that draws only measurements, if none is available."""
    folders = " or ".join(f"{FOLDERS[gpu]}/pairs.csv" for gpu in gpus)
    return NothingToDrawError(figure.name, f"no measurements to draw; set {VARIABLE} to a folder with {folders}")
