"""Registry of the schedulers: entry points of the group ``bench.schedulers``, and classes in files.

Only ``load`` imports the schedulers.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path
from types import ModuleType

from bench.api import Scheduler
from bench.extras import how_to_install
from bench.schedulers.file_version import file_version
from instances.errors import FieldName, InputError, unknown_name

GROUP = "bench.schedulers"
"""Group of the entry points that register schedulers."""

OWN = "gpushare-bench"
"""Distribution that registers the built-in schedulers."""

FILE_MARK = ".py:"
"""Part of a name that stands for a class in a file, such as ``./my_scheduler.py:WorstFit``."""

FILE = "file"
"""Distribution of a scheduler in a file; for its version, see ``file_version``."""

_SCHEDULERS = FieldName("schedulers")
"""Place of an error, unless the caller names another."""

RESERVED = ("@", ",", "=")
"""Characters with a meaning on the command line: ``b@a``, ``a,b`` and ``a.parameter=value``."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Registered scheduler.

    Attributes
    ----------
    target
        Location of the class as ``module:attribute``.
    distribution, version
        Distribution that registers the scheduler, and its version; for a scheduler in a file, see ``FILE``.
    problem
        Reason why the scheduler cannot be used, or an empty text.
    """

    name: str
    target: str
    distribution: str = ""
    version: str = ""
    problem: str = ""


def entries() -> dict[str, Entry]:
    """Return the registered schedulers by name, sorted.

    A name that two distributions register has a ``problem``, because neither takes precedence.
    """
    by_name: dict[str, Entry] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        name, version = (point.dist.name, point.dist.version) if point.dist else ("unknown", "")
        target = point.value.partition("[")[0].replace(" ", "")
        entry = Entry(point.name, target, name, version, _name_problem(point.name))
        registered = by_name.setdefault(entry.name, entry)
        if registered != entry:
            problem = (
                f"registered twice, by {_origin(registered)} and by {_origin(entry)}; uninstall or rename one of them"
            )
            by_name[entry.name] = replace(registered, problem=problem)
    return by_name


def _origin(entry: Entry) -> str:
    return f"{entry.distribution} {entry.version} ({entry.target})"


def _name_problem(name: str) -> str:
    """Return why ``name`` cannot be written on a command line, or an empty text."""
    if name != name.strip() or not name.isprintable() or any(sign in name for sign in RESERVED):
        return f"the name has spaces around it or one of {' '.join(RESERVED)}, which the command line reserves"
    return ""


def parse_spec(spec: str, registered: Mapping[str, Entry], where: str = _SCHEDULERS) -> tuple[Entry, ...]:
    """Return the schedulers that ``spec`` names, in the order in which they run.

    ``b@a`` runs ``a`` first and passes its plan to ``b`` as ``run.start``.

    Raises
    ------
    InputError
        If a name is missing, unknown, or has a ``problem``.
    """
    stages = []
    for name in (part.strip() for part in reversed(spec.split("@"))):
        if not name:
            raise InputError(where, f'"{spec}" lacks a name; write SCHEDULER or SCHEDULER@START')
        if FILE_MARK in name:
            stages.append(_entry_in_file(name, registered, where))
            continue
        if name not in registered:
            if name.endswith(".py"):
                raise InputError(where, f'"{name}" names no class; expected FILE.py:CLASS')
            raise unknown_name(where, "scheduler", name, list(registered))
        if problem := registered[name].problem:
            raise InputError(where, f'scheduler "{name}": {problem}')
        stages.append(registered[name])
    return tuple(stages)


def _entry_in_file(spec: str, registered: Mapping[str, Entry], where: str) -> Entry:
    """Return the entry of ``FILE.py:CLASS``; the entry has the name of the class."""
    text, _, name = spec.rpartition(":")
    path = Path(text)
    if not path.is_file():
        raise InputError(where, f'there is no file "{text}"; expected FILE.py:CLASS')
    if not name.isidentifier():
        raise InputError(where, f'"{spec}" names no class; expected FILE.py:CLASS')
    if name in registered and registered[name].distribution != FILE:
        raise InputError(where, f'"{spec}": a registered scheduler is called "{name}" already; rename the class')
    return Entry(name, f"{path.resolve()}:{name}", FILE, file_version(path))


def load(target: str, version: str | None = None) -> type[Scheduler]:
    """Import the class at ``module:attribute`` or ``file.py:attribute``. Exceptions of its module are not caught.

    ``version`` is the ``file_version`` that the file must still have; for a module, ``version`` is ignored.

    Raises
    ------
    InputError
        If there is no such class, the class is not a scheduler, or its file has changed.
    """
    module, _, attribute = target.rpartition(":")
    in_file = FILE_MARK in target
    if in_file and version is not None and file_version(Path(module)) != version:
        raise InputError(module, "it or a module that it imports has changed since this run was planned; run it again")
    names = attribute.split(".") if in_file else [*module.split("."), *attribute.split(".")]
    if not all(part.isidentifier() for part in names):
        raise InputError(target, "is not the location of a class; expected MODULE:CLASS")
    try:
        scheduler = attrgetter(attribute)(_file_module(Path(module)) if in_file else import_module(module))
    except ModuleNotFoundError as error:
        if (problem := how_to_install(error)) is None:
            raise
        raise InputError(target, problem) from None
    except AttributeError as error:
        if error.name not in attribute.split("."):  # the module itself failed
            raise
        raise InputError(target, f'module "{module}" has no "{attribute}"') from None
    missing = [name for name in ("name", "objectives", "schedule") if not hasattr(scheduler, name)]
    if not isinstance(scheduler, type) or missing:
        kind = type(scheduler).__name__ + (f" without {', '.join(missing)}" if missing else "")
        raise InputError(target, f"is a {kind}; expected a class that implements bench.api.Scheduler")
    return scheduler


def _file_module(path: Path) -> ModuleType:
    """Import a file under a name that no installed module has; it may import modules beside it.

    Its folder comes last in the path, so that its modules hide no other ones.
    """
    name = f"bench scheduler {path}"
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))
    if name not in sys.modules:
        spec = spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None  # noqa: PT018 - a file that ends with .py has both
        sys.modules[name] = module = module_from_spec(spec)  # dataclasses look up their module in sys.modules
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return sys.modules[name]
