"""Experiment files: the options of ``bench run`` as TOML, so that a comparison can be stored and repeated.

The keys are the names of the options; lists replace commas. Parameters may be a table:

.. code-block:: toml

    instances = ["64gpu", "mine/*.json"]
    schedulers = ["igniter", "colgen"]
    time-limit = 60

    [param.colgen]
    plan_class = ["spatial", "split"]
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from instances import InputError
from instances.errors import printable, unknown_name
from instances.files import read_toml

SUFFIX = ".toml"

PARAMETERS = "param"
"""Key that may be a table of schedulers with their parameters."""

WRITTEN = ("ledger", "plans")
"""Keys of output paths, which must lie in the folder of the experiment file, as such files may come from others."""


def read_experiment(path: Path, options: Collection[str], repeatable: Collection[str]) -> dict[str, str | list[str]]:
    """Return the values of an experiment file by option, in the form of the command line.

    The command checks whether a value is valid for its option.

    Parameters
    ----------
    path
        Path of the file; output paths are relative to its folder.
    options
        Known keys.
    repeatable
        Options that may occur several times; their values are lists.

    Raises
    ------
    InputError
        If the file cannot be read, has an unknown key or a value of a wrong kind, or has an output path outside its
        folder.
    """
    where = printable(str(path))
    found: dict[str, str | list[str]] = {}
    for key, value in read_toml(path).items():
        if key not in options:
            raise unknown_name(where, "key", printable(key[:60]), list(options))
        at = f"{where}: {key}"
        texts = _parameters(value, at) if key == PARAMETERS and isinstance(value, Mapping) else _texts(value, at)
        if key in WRITTEN:
            texts = [_contained(text, path.parent, at) for text in texts]
        found[key] = texts if key in repeatable else ",".join(texts)
    return found


def _parameters(table: Mapping[str, object], where: str) -> list[str]:
    """Return a table of schedulers as ``name.parameter=value,value``."""
    found = []
    for scheduler, values in table.items():
        at = printable(f"{where}.{scheduler[:60]}")
        if not isinstance(values, Mapping):
            raise InputError(at, "is not a table; expected parameters, such as [param.colgen] and plan_class = ...")
        for name, value in values.items():
            texts = _texts(value, printable(f"{at}.{name[:60]}"), on="true", off="false")
            found.append(f"{scheduler}.{name}={','.join(texts)}")
    return found


def _texts(value: object, where: str, on: str = "on", off: str = "off") -> list[str]:
    entries = value if isinstance(value, list) else [value]
    if not entries or not all(isinstance(entry, str | bool | int | float) for entry in entries):
        raise InputError(where, "expected text, a number, true or false, or a list of at least one of these")
    try:
        return [(on if entry else off) if isinstance(entry, bool) else str(entry) for entry in entries]
    except ValueError:  # Python does not convert whole numbers of thousands of digits
        raise InputError(where, "is a number of thousands of digits; expected a shorter one") from None


def _contained(text: str, folder: Path, where: str) -> str:
    """Return an output path; check that it lies in ``folder``."""
    path = folder / text
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        raise InputError(where, "is not a valid name of a file") from None
    if not inside:
        option = where.rpartition(": ")[2]
        problem = (
            f'"{printable(text[:60])}" lies outside the folder of the experiment file; use --{option} for such a path'
        )
        raise InputError(where, problem)
    return str(path)
