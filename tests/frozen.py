"""Instances and GPU types that are frozen: no change of the catalogue moves a known answer that rests on them.

The types are those of the catalogue before ``a100-inss`` and ``rtx2080ti`` were calibrated again. Their numbers have no
claim to be right; the tests only need them to stay.
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
