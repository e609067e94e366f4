"""Selection of instances by the name of a suite, scenario set, instance, library entry, file, pattern or folder."""

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


def find_problems(names: Sequence[str | Instance | ScenarioSet], where: str) -> list[Instance | ScenarioSet]:
    """Return the problems that ``names`` contains or names, in this order and without duplicates.

    A text may hold several names separated by commas. A built-in name takes precedence over a file or folder of the
    same name: ``./smoke`` is the folder.

    Raises
    ------
    InputError
        If a name is unknown, a file is no instance, a folder or pattern matches no file, or two different instances
        have the same name.
    """
    problems: dict[str, Instance | ScenarioSet] = {}
    sources: dict[str, str] = {}
    for source, problem in _problems_of(names, where):
        first_of_name = problems.setdefault(problem.name, problem)
        first_source = sources.setdefault(problem.name, source)
        if first_of_name.fingerprint != problem.fingerprint:
            if first_source and source:
                clash = f'{first_source} and {source} are different instances called "{problem.name}"'
            else:
                clash = f'two different instances are called "{problem.name}"'
            raise InputError(where, f"{clash}; rename one")
    if not problems:
        raise InputError(where, "names no instance" if names else "is missing; see `bench list instances`")
    return list(problems.values())


def find_plain_instances(names: Sequence[str], where: str) -> list[Instance]:
    """Return the instances that ``names`` name, as ``find_problems`` does; refuse scenario sets."""
    problems = find_problems(names, where)
    if sets := [problem.name for problem in problems if isinstance(problem, ScenarioSet)]:
        raise InputError(where + f" {sets[0]}", "is a scenario set; expected instances")
    return [problem for problem in problems if isinstance(problem, Instance)]


def _problems_of(
    names: Sequence[str | Instance | ScenarioSet], where: str
) -> Iterator[tuple[str, Instance | ScenarioSet]]:
    """Yield the source of every problem and the problem; the source of an object is empty."""
    names_so_far: set[str] = set()
    for entry in names:
        if not isinstance(entry, str):
            yield "", entry
            continue
        for name in names_in(entry):
            if name not in names_so_far:
                names_so_far.add(name)
                yield from _named_problems(name, where)


def find_plan(file: Path, chosen: Instance | str | None) -> tuple[Plan, Instance]:
    """Read a plan and its instance.

    ``chosen`` is the instance or its name. If ``None``, the instance is the one that the plan embeds or names.

    Raises
    ------
    InputError
        If a file cannot be read, the instance is unknown, or the plan does not belong to it.
    """
    from bench.judging.judge import check_belongs  # loads compiled code, which `bench list` does not need

    plan, instance = read_plan(file)
    if chosen is not None:
        instance = chosen if isinstance(chosen, Instance) else find_instance(chosen, "INSTANCE")
    elif instance is None:
        instance = find_instance(plan.instance, f"{file}: instance")
    check_belongs(plan, instance, str(file))
    return plan, instance


def find_instance(text: str, where: str) -> Instance:
    """Return the one instance that ``text`` names.

    Raises
    ------
    InputError
        As in ``find_problems``, and if ``text`` names several instances or a scenario set.
    """
    problems = find_problems([text], where)
    if len(problems) > 1:
        raise InputError(where, f'"{text}" names {len(problems)} instances; name one, such as "{problems[0].name}"')
    (problem,) = problems
    if isinstance(problem, ScenarioSet):
        raise InputError(where, f'"{text}" has {len(problem):,} scenarios; name one, such as "{text}{SCENARIO_MARK}0"')
    return problem


def named_instances(name: str) -> list[Instance]:
    """Return the built-in instance called ``name``, or all instances of the suite called ``name``.

    An instance takes precedence over a suite. A scenario of a set is an instance; the set itself is not.
    ``library/NAME`` is an instance of the library; plans call it ``NAME``. ``library/PATTERN`` stands for all instances
    that match.
    """
    if name.startswith(MARK):
        pattern = name.removeprefix(MARK)
        # Reading a removed entry raises the error that says what became of it.
        return [LIBRARY.instance(entry) for entry in LIBRARY.names(pattern) or [pattern] * LIBRARY.removed(pattern)]
    if (instance := _by_name().get(name)) is not None:
        return [instance]
    if LIBRARY.has(name) or LIBRARY.removed(name):
        return [LIBRARY.instance(name)]
    set_name, separator, position = name.rpartition(SCENARIO_MARK)
    if separator and set_name in SCENARIO_SUITES and position.isdecimal():
        scenarios = SCENARIO_SUITES[set_name].build()
        return [scenarios.scenario(int(position))] if int(position) < len(scenarios) else []
    return list(SUITES[name].build()) if name in SUITES else []


def known_names() -> list[str]:
    """Return the names of all suites, instances and scenario sets without duplicates."""
    return list(dict.fromkeys([*SUITES, *_by_name(), *SCENARIO_SUITES]))


@cache
def _by_name() -> dict[str, Instance]:
    """Return all instances of suites by name; cached, since a command may look up thousands of names."""
    instances: dict[str, Instance] = {}
    for suite in SUITES.values():
        for instance in suite.build():
            instances.setdefault(instance.name, instance)
    return instances


def pool_in_words(instance: Instance) -> str:
    """Return the GPU pool as text, such as ``64 v100``."""
    return ", ".join(f"{'any' if pool.count is None else pool.count} {pool.type.name}" for pool in instance.gpus)


def looks_like_file(text: str) -> bool:
    """Return whether ``text`` must be a path and cannot be a built-in name."""
    is_path = os.sep in text or text.endswith(".json") or has_magic(text)
    return is_path or os.path.exists(text)  # noqa: PTH110 - see names_in


def anchored(text: str, folder: Path) -> str:
    """Return ``text`` with its file names relative to ``folder``; built-in names take precedence over files."""

    def anchored_name(name: str) -> str:
        path = str(Path(escape(str(folder)) if has_magic(name) else folder) / name)
        is_file = looks_like_file(name) or os.path.exists(path)  # noqa: PTH110 - see names_in
        return path if is_file and not (name in SCENARIO_SUITES or named_instances(name)) else name

    return ",".join(anchored_name(name) for name in names_in(text))


def names_in(text: str) -> list[str]:
    """Return the comma-separated names in ``text``; commas in brackets belong to the name of a variant."""
    # The name of an existing file may contain commas.
    if os.path.exists(text):  # noqa: PTH110 - False where Path.exists raises because the file name is impossible
        return [text]
    return [part.strip() for part in re.split(r",(?![^\[(]*[\])])", text) if part.strip()]


def _named_problems(text: str, where: str) -> Iterator[tuple[str, Instance | ScenarioSet]]:
    """Yield the instances or the scenario set that ``text`` names, each with its origin."""
    if text in SCENARIO_SUITES:
        yield f'"{text}"', SCENARIO_SUITES[text].build()
        return
    if instances := named_instances(text):
        yield from ((f'"{text}"', instance) for instance in instances)
        return
    if text.startswith(MARK) and not (os.path.exists(text) or glob(text)):  # noqa: PTH110, PTH207 - see names_in
        entries = [f"{MARK}{name}" for name in LIBRARY.names()]
        raise unknown_name(where, "entry of the library", text, entries, "`bench library` lists all")
    if not looks_like_file(text):
        raise unknown_name(where, "suite, instance or file", text, known_names(), [*SUITES, *SCENARIO_SUITES])
    if os.path.isdir(text):  # noqa: PTH112 - see names_in
        files = sorted(map(str, Path(text).glob("*.json")))
        yield from _read_files(files, where, f'folder "{text}" contains no *.json files')
    elif has_magic(text) and not os.path.exists(text):  # noqa: PTH110 - see names_in
        try:
            files = glob(text, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute patterns
        except ValueError:
            raise InputError(where, "no file can have this name") from None
        yield from _read_files(sorted(filter(os.path.isfile, files)), where, f'"{text}" matches no file')
    else:
        yield text, read_instance(Path(text))


def _read_files(files: Sequence[str], where: str, problem: str) -> Iterator[tuple[str, Instance]]:
    if not files:
        raise InputError(where, problem)
    yield from ((file, read_instance(Path(file))) for file in files)
