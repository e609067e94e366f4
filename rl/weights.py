"""Files of weights in torch's format: written completely or not at all, and read without running code from them."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from instances import InputError
from instances.files import write_bytes
from instances.special_files import refuse_special

MAX_BYTES = 2**28
"""Largest size in bytes of a file that is read; the shipped policies have less than 4 MB."""


def save_weights(content: Mapping[str, Any], path: Path) -> None:
    """Write a file for ``load_weights``, completely or not at all.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    buffer = io.BytesIO()
    torch.save(dict(content), buffer)
    write_bytes(path, buffer.getvalue())


def in_a_line(error: Exception) -> str:
    """Return one line on an error of torch: its type and the beginning of its message."""
    return f"{type(error).__name__} {' '.join(str(error).split())[:100]}".rstrip()


def load_weights(path: Path) -> dict[str, Any]:
    """Read a file from ``torch.save``: a dictionary of tensors, numbers, text and lists of them.

    Raises
    ------
    InputError
        If the file cannot be read, is larger than ``MAX_BYTES``, or has other content.
    """
    refuse_special(path)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(str(path), f"has {size:,} bytes; expected a file of at most {MAX_BYTES // 2**20} MiB")
        loaded = torch.load(path, weights_only=True, map_location="cpu")
    except InputError:
        raise
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except Exception as error:  # noqa: BLE001 - a damaged file can cause any exception in torch
        raise InputError(str(path), f"is not a file of weights: {in_a_line(error)}") from None
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise InputError(str(path), "is not a file of weights; expected a dictionary whose keys are names")
    return loaded
