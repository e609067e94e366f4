"""Frozen instances and GPU types: a change of the catalogue does not change the known answers of the tests on them.

The types are those of the catalogue before ``a100-inss`` and ``rtx2080ti`` were calibrated again. The tests need their
numbers to stay the same, not to be right.
"""

from pathlib import Path

from instances import GpuType, Instance
from instances.files import read_gpu_type, read_instance

FROZEN = Path(__file__).parent / "fixtures" / "frozen"


def frozen(name: str) -> Instance:
    """Return the frozen instance called ``name``."""
    return read_instance(FROZEN / f"{name}.json")


def frozen_type(name: str) -> GpuType:
    """Return the frozen GPU type called ``name``."""
    return read_gpu_type(FROZEN / "types" / f"{name}.toml")
