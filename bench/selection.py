"""Selection of instances by name: suites, scenario sets, instances, the library, files, patterns and folders."""

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from glob import escape, glob, has_magic
from pathlib import Path

from instances import InputError, Instance, Plan, ScenarioSet
from instances.errors import unknown_name
from instances.files import read_instance, read_plan
from instances.library import LIBRARY, MARK
from instances.suites import SCENARIO_SUITES, SUITES

SCENARIO_MARK = "#"
"""Separator of a scenario set's name and the position of a scenario: ``gpulet-1023#7`` is an instance."""


def find_problems(given: Sequence[str | Instance | ScenarioSet], where: str) -> list[Instance | ScenarioSet]:
    """Return the problems in ``given`` and those that its texts name, in that order and without duplicates.

    A text may hold several names separated by commas. A built-in name takes precedence over a file or folder of the
    same name: ``./smoke`` is the folder.

    Raises
    ------
    InputError
        If a name is unknown, a file is no instance, a folder or pattern matches no file, or two different instances
        have the same name.
    """
    found: dict[str, Instance | ScenarioSet] = {}
    origin: dict[str, str] = {}
    for source, problem in _listed(given, where):
        known = found.setdefault(problem.name, problem)
        first = origin.setdefault(problem.name, source)
        if known.fingerprint != problem.fingerprint:
            if first and source:
                clash = f'{first} and {source} are different instances called "{problem.name}"'
            else:
                clash = f'two different instances are called "{problem.name}"'
            raise InputError(where, f"{clash}; rename one")
    if not found:
        raise InputError(where, "names no instance" if given else "is missing; see `bench list instances`")
    return list(found.values())


def find_plain_instances(given: Sequence[str], where: str) -> list[Instance]:
    """Return the instances that texts name as in ``find_problems``; refuse scenario sets."""
    found = find_problems(given, where)
    if sets := [one.name for one in found if isinstance(one, ScenarioSet)]:
        raise InputError(where + f" {sets[0]}", "is a scenario set; expected instances")
    return [one for one in found if isinstance(one, Instance)]


def _listed(given: Sequence[str | Instance | ScenarioSet], where: str) -> Iterator[tuple[str, Instance | ScenarioSet]]:
    """Yield every problem with the text that names it, which is empty for an object."""
    seen: set[str] = set()
    for one in given:
        if not isinstance(one, str):
            yield "", one
            continue
        for part in names_in(one):
            if part not in seen:
                seen.add(part)
                yield from _found(part, where)


def find_plan(file: Path, given: Instance | str | None) -> tuple[Plan, Instance]:
    """Read a plan and its instance: the one given or named, or the one that the plan embeds or names.

    Raises
    ------
    InputError
        If a file cannot be read, the instance is unknown, or the plan does not belong to it.
    """
    from bench.judging.judge import check_belongs  # loads compiled code, which `bench list` does not need

    plan, instance = read_plan(file)
    if given is not None:
        instance = given if isinstance(given, Instance) else find_instance(given, "INSTANCE")
    elif instance is None:
        instance = find_instance(plan.instance, f"{file}: instance")
    check_belongs(plan, instance, str(file))
    return plan, instance


def find_instance(text: str, where: str) -> Instance:
    """Return the one instance that ``text`` names.

    Raises
    ------
    InputError
        As ``find_problems``, and if ``text`` names several instances or a scenario set.
    """
    found = find_problems([text], where)
    if len(found) > 1:
        raise InputError(where, f'"{text}" names {len(found)} instances; name one, such as "{found[0].name}"')
    (one,) = found
    if isinstance(one, ScenarioSet):
        raise InputError(where, f'"{text}" has {len(one):,} scenarios; name one, such as "{text}{SCENARIO_MARK}0"')
    return one


def named_instances(name: str) -> list[Instance]:
    """Return the built-in instance called ``name``, or all instances of the suite called ``name``.

    An instance takes precedence over a suite. A scenario of a set is an instance; the set itself is not.
    ``library/NAME`` is an instance of the library, which plans call ``NAME``; ``library/PATTERN`` stands for all that
    match.
    """
    if name.startswith(MARK):
        return [LIBRARY.instance(each) for each in LIBRARY.names(name.removeprefix(MARK))]
    if (instance := _by_name().get(name)) is not None:
        return [instance]
    if LIBRARY.has(name):
        return [LIBRARY.instance(name)]
    of, mark, position = name.rpartition(SCENARIO_MARK)
    if mark and of in SCENARIO_SUITES and position.isdecimal():
        scenarios = SCENARIO_SUITES[of].build()
        return [scenarios.scenario(int(position))] if int(position) < len(scenarios) else []
    return list(SUITES[name].build()) if name in SUITES else []


def known_names() -> list[str]:
    """Return the names of all suites, instances and scenario sets without duplicates."""
    return list(dict.fromkeys([*SUITES, *_by_name(), *SCENARIO_SUITES]))


@cache
def _by_name() -> dict[str, Instance]:
    """Return all instances of suites by name; cached, since a command may name thousands of files."""
    found: dict[str, Instance] = {}
    for suite in SUITES.values():
        for instance in suite.build():
            found.setdefault(instance.name, instance)
    return found


def pool_in_words(instance: Instance) -> str:
    """Return the GPU pool as text, such as ``64 v100``."""
    return ", ".join(f"{'any' if pool.count is None else pool.count} {pool.type.name}" for pool in instance.gpus)


def looks_like_file(text: str) -> bool:
    """Return whether ``text`` must be a path and cannot be a built-in name."""
    is_path = os.sep in text or text.endswith(".json") or has_magic(text)
    return is_path or os.path.exists(text)  # noqa: PTH110 - see names_in


def anchored(text: str, folder: Path) -> str:
    """Return ``text`` with its file names relative to ``folder``; built-in names take precedence over files."""

    def seen(name: str) -> str:
        there = str(Path(escape(str(folder)) if has_magic(name) else folder) / name)
        is_file = looks_like_file(name) or os.path.exists(there)  # noqa: PTH110 - see names_in
        return there if is_file and not (name in SCENARIO_SUITES or named_instances(name)) else name

    return ",".join(seen(name) for name in names_in(text))


def names_in(text: str) -> list[str]:
    """Return the comma-separated names in ``text``; commas in brackets belong to the name of a variant."""
    # The name of an existing file may hold commas.
    if os.path.exists(text):  # noqa: PTH110 - False where Path.exists raises because the file name is impossible
        return [text]
    return [part.strip() for part in re.split(r",(?![^\[(]*[\])])", text) if part.strip()]


def _found(text: str, where: str) -> Iterator[tuple[str, Instance | ScenarioSet]]:
    """Yield the instances or the scenario set that ``text`` names, each with its origin."""
    if text in SCENARIO_SUITES:
        yield f'"{text}"', SCENARIO_SUITES[text].build()
        return
    if named := named_instances(text):
        yield from ((f'"{text}"', instance) for instance in named)
        return
    if not looks_like_file(text):
        raise unknown_name(where, "suite, instance or file", text, known_names(), [*SUITES, *SCENARIO_SUITES])
    if os.path.isdir(text):  # noqa: PTH112 - see names_in
        files = sorted(map(str, Path(text).glob("*.json")))
        yield from _read(files, where, f'folder "{text}" contains no *.json files')
    elif has_magic(text) and not os.path.exists(text):  # noqa: PTH110 - see names_in
        try:
            found = glob(text, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute patterns
        except ValueError:
            raise InputError(where, "no file can have this name") from None
        yield from _read(sorted(filter(os.path.isfile, found)), where, f'"{text}" matches no file')
    else:
        yield text, read_instance(Path(text))


def _read(files: Sequence[str], where: str, nothing: str) -> Iterator[tuple[str, Instance]]:
    if not files:
        raise InputError(where, nothing)
    yield from ((file, read_instance(Path(file))) for file in files)
