"""Schedulers by name: the entry points of group ``bench.schedulers``, listed without importing anything of theirs."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter

from bench.api import Scheduler
from instances.errors import InputError, unknown_name

GROUP = "bench.schedulers"


@dataclass(frozen=True, slots=True)
class Entry:
    """A registered scheduler.

    Attributes
    ----------
    name
        What people call it.
    target
        Where it is, as ``module:attribute``.
    distribution, version
        What it came with.
    """

    name: str
    target: str
    distribution: str = ""
    version: str = ""


def entries() -> dict[str, Entry]:
    """Return the registered schedulers by name, sorted.

    Raises
    ------
    InputError
        If two distributions register the same name: neither is more right than the other.
    """
    found: dict[str, Entry] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        name, version = (point.dist.name, point.dist.version) if point.dist else ("unknown", "")
        entry = Entry(point.name, f"{point.module}:{point.attr}", name, version)
        other = found.setdefault(entry.name, entry)
        if other != entry:
            raise InputError(
                f'scheduler "{entry.name}"',
                f"registered twice, by {_origin(other)} and by {_origin(entry)}; uninstall one of them or rename it",
            )
    return found


def _origin(entry: Entry) -> str:
    return f"{entry.distribution} {entry.version} ({entry.target})"


def parse_spec(spec: str, known: Mapping[str, Entry], where: str = "--schedulers") -> tuple[Entry, ...]:
    """Return the schedulers that ``spec`` names, in the order in which they run.

    ``b@a`` runs ``a`` first and hands its plan to ``b`` as ``run.start``.

    Raises
    ------
    InputError
        If a name is missing or unknown.
    """
    stages = []
    for name in (part.strip() for part in reversed(spec.split("@"))):
        if not name:
            raise InputError(where, f'"{spec}" lacks a name; write SCHEDULER or SCHEDULER@START')
        if name not in known:
            raise unknown_name(where, "scheduler", name, list(known))
        stages.append(known[name])
    return tuple(stages)


def load(target: str) -> type[Scheduler]:
    """Import the class at ``module:attribute``. Whatever its module raises comes through.

    Raises
    ------
    InputError
        If there is no such class, or it is no scheduler.
    """
    module, _, attribute = target.partition(":")
    try:
        found = attrgetter(attribute)(import_module(module))
    except AttributeError as error:
        if error.name not in attribute.split("."):  # the module itself failed
            raise
        raise InputError(target, f'module "{module}" has no "{attribute}"') from None
    missing = [name for name in ("name", "objectives", "schedule") if not hasattr(found, name)]
    if not isinstance(found, type) or missing:
        lack = f" without {', '.join(missing)}" if missing else ""
        raise InputError(target, f"is a {type(found).__name__}{lack}; a scheduler is a class as in bench.api.Scheduler")
    return found
