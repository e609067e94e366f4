"""Ranges of values in files, as the metadata of dataclass fields and the arguments of ``pydantic.Field``.

A field states its range and its meaning where it is declared; ``instances.files`` checks files against them.
"""

MOST_COUNT = 2**31 - 1
"""Largest whole number in a file: it fits the 32-bit arrays of the solvers."""

_PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*$"
"""Text without control characters and line breaks."""

NAME = {"strict": True, "min_length": 1, "max_length": 200, "pattern": _PRINTABLE}
POSITIVE = {"strict": True, "gt": 0, "allow_inf_nan": False}
WHOLE = {"strict": True, "ge": 1, "le": MOST_COUNT}
POSITION = {"strict": True, "ge": 0, "le": MOST_COUNT}
