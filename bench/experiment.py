"""Experiment files: what ``bench run`` is asked for, as TOML, so that a comparison can be kept and made again.

The keys are the names of the options; lists stand for commas. Parameters may be a table:

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
"""The key that may be a table of schedulers with their parameters."""

WRITTEN = ("ledger", "plans")
"""Keys whose values are written: within the folder of the experiment, whoever the file comes from."""


def read_experiment(path: Path, options: Collection[str], repeatable: Collection[str]) -> dict[str, str | list[str]]:
    """Return the values of an experiment file by option, as one would write them on the command line.

    Parameters
    ----------
    path
        Of the file; what it has written is relative to its folder.
    options
        The keys there are.
    repeatable
        Those of them that may be given several times: their values are lists.

    Raises
    ------
    InputError
        If the file cannot be read, has an unknown key or a value that no option could have, or writes outside its
        folder. Whether a value suits its option is the command's to say.
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
            raise InputError(at, "is no table; expected parameters, such as [param.colgen] and plan_class = ...")
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
    except ValueError:  # Python refuses to write whole numbers of thousands of digits
        raise InputError(where, "is a number of thousands of digits; expected one of ordinary size") from None


def _contained(text: str, folder: Path, where: str) -> str:
    """Return a path of ``folder`` that something is written to."""
    path = folder / text
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        raise InputError(where, "no file can have this name") from None
    if not inside:
        option = where.rpartition(": ")[2]
        problem = f'"{printable(text[:60])}" leads out of the folder of the experiment; say so with --{option} instead'
        raise InputError(where, problem)
    return str(path)
