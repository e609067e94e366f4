"""Registry of the schedulers: the entry points of group ``bench.schedulers``, listed without importing them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter

from bench.api import Scheduler
from instances.errors import InputError, unknown_name

GROUP = "bench.schedulers"

RESERVED = ("@", ",", "=")
"""Characters with a meaning on the command line: ``b@a``, ``a,b`` and ``a.parameter=value``."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A registered scheduler.

    Attributes
    ----------
    name
        Registered name.
    target
        Location of the class as ``module:attribute``.
    distribution, version
        Distribution that registers it.
    problem
        Reason why it cannot be used, or an empty text.
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
    found: dict[str, Entry] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        name, version = (point.dist.name, point.dist.version) if point.dist else ("unknown", "")
        target = point.value.partition("[")[0].replace(" ", "")
        entry = Entry(point.name, target, name, version, _name_problem(point.name))
        other = found.setdefault(entry.name, entry)
        if other != entry:
            problem = f"registered twice, by {_origin(other)} and by {_origin(entry)}; uninstall or rename one of them"
            found[entry.name] = replace(other, problem=problem)
    return found


def _origin(entry: Entry) -> str:
    return f"{entry.distribution} {entry.version} ({entry.target})"


def _name_problem(name: str) -> str:
    """Return why ``name`` cannot be written on a command line, or an empty text."""
    if name != name.strip() or not name.isprintable() or any(sign in name for sign in RESERVED):
        return f"the name has spaces around it or one of {' '.join(RESERVED)}, which the command line reserves"
    return ""


def parse_spec(spec: str, known: Mapping[str, Entry], where: str = "--schedulers") -> tuple[Entry, ...]:
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
        if name not in known:
            raise unknown_name(where, "scheduler", name, list(known))
        if problem := known[name].problem:
            raise InputError(where, f'scheduler "{name}": {problem}')
        stages.append(known[name])
    return tuple(stages)


def load(target: str) -> type[Scheduler]:
    """Import the class at ``module:attribute``; errors of its module propagate.

    Raises
    ------
    InputError
        If there is no such class, or it is not a scheduler.
    """
    module, _, attribute = target.partition(":")
    if not all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        raise InputError(target, "is not the location of a class; expected MODULE:CLASS")
    try:
        found = attrgetter(attribute)(import_module(module))
    except AttributeError as error:
        if error.name not in attribute.split("."):  # the module itself failed
            raise
        raise InputError(target, f'module "{module}" has no "{attribute}"') from None
    missing = [name for name in ("name", "objectives", "schedule") if not hasattr(found, name)]
    if not isinstance(found, type) or missing:
        lack = f" without {', '.join(missing)}" if missing else ""
        raise InputError(
            target, f"is a {type(found).__name__}{lack}; expected a class that implements bench.api.Scheduler"
        )
    return found
