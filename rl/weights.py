"""Files that torch writes: written whole or not at all, read without running what is in them."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from instances import InputError
from instances.files import write_bytes

MAX_BYTES = 2**28
"""Larger files are refused unread; the policies that are shipped have less than a hundredth of that."""


def save_weights(content: Mapping[str, Any], path: Path) -> None:
    """Write what ``load_weights`` reads, whole or not at all.

    Raises
    ------
    InputError
        If it cannot be written.
    """
    buffer = io.BytesIO()
    torch.save(dict(content), buffer)
    write_bytes(path, buffer.getvalue())


def in_a_line(error: Exception) -> str:
    """Return what torch says of content that does not fit: its kind, and the beginning of what may be many lines."""
    return f"{type(error).__name__} {' '.join(str(error).split())[:100]}".rstrip()


def load_weights(path: Path) -> dict[str, Any]:
    """Return what ``torch.save`` wrote: a dictionary of tensors, numbers, text and lists of them.

    Raises
    ------
    InputError
        If it cannot be read, is too large, or holds anything else.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(str(path), f"is larger than {MAX_BYTES // 2**20} MiB, the most that is read")
        loaded = torch.load(path, weights_only=True, map_location="cpu")
    except InputError:
        raise
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except Exception as error:  # noqa: BLE001 - torch fails in as many ways as there are damaged files
        raise InputError(str(path), f"is no file of weights: {in_a_line(error)}") from None
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise InputError(str(path), "is no file of weights: expected a dictionary by name")
    return loaded
