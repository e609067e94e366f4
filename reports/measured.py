"""Measured co-locations for figures of performance models: read where ``GPUSHARE_MEASUREMENTS`` says, if anywhere."""

import os
from collections.abc import Mapping
from pathlib import Path

from instances.measurements import PairSample, read_pairs

VARIABLE = "GPUSHARE_MEASUREMENTS"

FOLDERS: Mapping[str, str] = {"v100": "v100-igniter", "a100": "a100-gpulet"}
"""Folder of the published pairs of each GPU type."""


def measured_pairs(gpu: str) -> list[PairSample]:
    """Return the measured pairs of a GPU type; none where they are not at hand.

    Raises
    ------
    InputError
        If the file is there but wrong.
    """
    root = os.environ.get(VARIABLE)
    file = Path(root) / FOLDERS[gpu] / "pairs.csv" if root else None
    return read_pairs(file) if file is not None and file.is_file() else []


def missing_note(*gpus: str) -> list[str]:
    """Return small print that names the GPU types whose measured pairs are not at hand."""
    absent = [gpu for gpu in gpus if not measured_pairs(gpu)]
    return [f"Measured pairs not drawn: {', '.join(absent)} ({VARIABLE} names no folder with them)."] if absent else []
