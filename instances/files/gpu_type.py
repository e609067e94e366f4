"""Reading of catalogue files."""

from pathlib import Path

from instances.catalogue import gpu_type_from_toml
from instances.files.text import read_toml
from instances.gpu import GpuType


def read_gpu_type(path: Path) -> GpuType:
    """Return the GPU type in the catalogue file at ``path``.

    Raises
    ------
    InputError
        If the file cannot be read or is not a catalogue file; names the file, the field and what would be right.
    """
    return gpu_type_from_toml(read_toml(path), str(path))
