"""Which instances are meant: names of suites, names of instances, files, and folders of files."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from instances import InputError, Instance
from instances.errors import unknown_name
from instances.files import read_instance
from instances.suites import SUITES


def find_instances(texts: Sequence[str], where: str) -> list[Instance]:
    """Return the instances that ``texts`` name, each once, in that order; a text may hold several separated by commas.

    A name goes before a file or folder called the same: ``./smoke`` is the folder.

    Raises
    ------
    InputError
        For a name nobody knows, a file that is no instance, a folder without any, and two different instances of the
        same name.
    """
    found: dict[str, Instance] = {}
    origin: dict[str, str] = {}
    for text in texts:
        for part in _parts(text):
            for source, instance in _found(part, where):
                known = found.setdefault(instance.name, instance)
                first = origin.setdefault(instance.name, source)
                if known.fingerprint != instance.fingerprint:
                    problem = f'{first} and {source} are different instances called "{instance.name}"; rename one'
                    raise InputError(where, problem)
    if not found:
        raise InputError(where, "names no instance")
    return list(found.values())


def find_instance(text: str, where: str) -> Instance:
    """Return the one instance that ``text`` names.

    Raises
    ------
    InputError
        As ``find_instances``, and for a suite or folder of several.
    """
    found = find_instances([text], where)
    if len(found) > 1:
        raise InputError(where, f'"{text}" is {len(found)} instances; name one, such as "{found[0].name}"')
    return found[0]


def named_instances(name: str) -> list[Instance]:
    """Return the instance called ``name`` in some suite, or those of the suite called so; an instance goes first."""
    for suite in SUITES.values():
        for instance in suite.build():
            if instance.name == name:
                return [instance]
    return list(SUITES[name].build()) if name in SUITES else []


def known_names() -> list[str]:
    """Return the names of all suites and of all instances in them, each once."""
    instances = (instance.name for suite in SUITES.values() for instance in suite.build())
    return list(dict.fromkeys([*SUITES, *instances]))


def pool_in_words(instance: Instance) -> str:
    """Return the GPUs on offer, such as ``64 v100``."""
    return ", ".join(f"{'any' if pool.count is None else pool.count} {pool.type.name}" for pool in instance.gpus)


def looks_like_file(text: str) -> bool:
    """Whether ``text`` must be a path: no name looks so."""
    return os.sep in text or text.endswith(".json") or os.path.exists(text)  # noqa: PTH110 - see _parts


def _parts(text: str) -> list[str]:
    # The name of an existing file may hold commas.
    if os.path.exists(text):  # noqa: PTH110 - where Path.exists raises because no file can be called so, this is False
        return [text]
    return [part.strip() for part in text.split(",") if part.strip()]


def _found(text: str, where: str) -> Iterator[tuple[str, Instance]]:
    """Yield the instances that ``text`` names, each with where it comes from."""
    named = named_instances(text)
    if named:
        yield from ((f'"{text}"', instance) for instance in named)
        return
    path = Path(text)
    if not looks_like_file(text):
        raise unknown_name(where, "suite, instance or file", text, known_names())
    if not os.path.isdir(text):  # noqa: PTH112 - see _parts
        yield text, read_instance(path)
        return
    files = sorted(path.glob("*.json"))
    if not files:
        raise InputError(where, f'folder "{text}" holds no *.json files')
    yield from ((str(file), read_instance(file)) for file in files)
