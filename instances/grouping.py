"""Grouping of values by key."""

from collections.abc import Hashable, Iterable
from typing import TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


def grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    """Return the values of each key; keys, and the values of a key, are in the order of ``pairs``."""
    groups: dict[_Key, list[_Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
