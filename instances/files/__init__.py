"""Reading and writing of instance, plan and catalogue files.

The readers check the data, so other code does not check it again. This package loads pydantic; import it only where
files are read or written.
"""

from pathlib import Path

from instances.catalogue import gpu_type_from_toml
from instances.files.instance import instance_from_json, instance_to_json, read_instance
from instances.files.models import VERSION, schemas
from instances.files.plan import plan_from_json, plan_from_text, plan_to_json, plan_to_text, read_plan
from instances.files.text import MAX_BYTES, read_json, read_text, read_toml, write_bytes, write_json
from instances.gpu import GpuType

__all__ = [
    "MAX_BYTES",
    "VERSION",
    "instance_from_json",
    "instance_to_json",
    "plan_from_json",
    "plan_from_text",
    "plan_to_json",
    "plan_to_text",
    "read_gpu_type",
    "read_instance",
    "read_json",
    "read_plan",
    "read_text",
    "read_toml",
    "schemas",
    "write_bytes",
    "write_json",
]


def read_gpu_type(path: Path) -> GpuType:
    """Return the GPU type in the catalogue file at ``path``.

    Raises
    ------
    InputError
        If the file cannot be read or is not a catalogue file; the error names the file, the field and the expected
        value.
    """
    return gpu_type_from_toml(read_toml(path), str(path))
