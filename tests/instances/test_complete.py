"""Instances with every feature: files, pickles and fingerprints lose none of them."""

import pickle
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest

from instances import Instance
from instances.files import instance_to_json, read_instance, write_json
from tests.complete import complete_instances

INSTANCES = complete_instances()


def parts(value: object) -> Iterator[Any]:
    """Yield the dataclasses in ``value``, itself included."""
    if is_dataclass(value):
        yield value
        for field in fields(value):
            yield from parts(getattr(value, field.name))
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from parts(inner)
    elif isinstance(value, tuple):
        for inner in value:
            yield from parts(inner)


def is_default(part: Any, field: Field[Any]) -> bool:
    default = field.default_factory() if field.default_factory is not MISSING else field.default
    return bool(getattr(part, field.name) == default)


def test_every_field_differs_from_its_default_somewhere() -> None:
    all_parts = [part for instance in INSTANCES.values() for part in parts(instance)]
    always_default: dict[str, bool] = {}
    for part in all_parts:
        for field in fields(part):
            name = f"{type(part).__name__}.{field.name}"
            always_default[name] = always_default.get(name, True) and is_default(part, field)
    assert [name for name, default in always_default.items() if default] == []


@pytest.mark.parametrize("name", INSTANCES)
def test_files_and_pickles_keep_every_field(name: str, tmp_path: Path) -> None:
    instance = INSTANCES[name]
    write_json(tmp_path / "instance.json", instance_to_json(instance))
    for restored in (read_instance(tmp_path / "instance.json"), pickle.loads(pickle.dumps(instance))):
        assert restored == instance
        assert restored.fingerprint == instance.fingerprint


def changed(instance: Instance, field: str) -> Instance:
    """Return a copy with another value in ``field``, without validation."""
    other = copy(instance)
    other.__dict__.pop("fingerprint", None)
    value = getattr(instance, field)
    object.__setattr__(other, field, not value if isinstance(value, bool) else "another value")
    return other


@pytest.mark.parametrize("name", INSTANCES)
def test_every_field_that_counts_is_in_the_fingerprint(name: str) -> None:
    instance = INSTANCES[name]
    unused = set() if name == "requests" else {"attainment", "arrivals"}
    same = {f.name for f in fields(instance) if changed(instance, f.name).fingerprint == instance.fingerprint}
    assert same == unused
