"""Table of a catalogue file with checked access to its fields; errors name the file and the field."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, TypeVar

from instances.errors import InputError, unknown_name

_LARGEST_WHOLE = 2**31 - 1
"""Largest whole number in a catalogue file, far above every real value."""

Built = TypeVar("Built")


@dataclass(frozen=True, slots=True)
class FileTable:
    """A table of a catalogue file: its fields, the name of the file, and the keys that lead to the table."""

    content: Mapping[str, Any]
    file: str
    path: str = ""

    def __contains__(self, key: str) -> bool:
        return key in self.content

    def _field(self, key: str, read: Callable[[Any], Built], expected: str) -> Built:
        """Return a field converted by ``read``, which raises ``TypeError`` or ``ValueError`` for a wrong value."""
        if key not in self.content:
            raise InputError(self._at(key), f"is missing; expected {expected}")
        try:
            return read(self.content[key])
        except (TypeError, ValueError, OverflowError):
            raise InputError(self._at(key), f"expected {expected}") from None

    def _at(self, key: str) -> str:
        path = f"{self.path}.{key}" if self.path else key
        return f"{self.file}: {path}"

    def text(self, key: str) -> str:
        """Return a field that is text."""
        return self._field(key, _text, "text")

    def number(self, key: str) -> float:
        """Return a field that is a finite number."""
        return self._field(key, _number, "a finite number")

    def whole(self, key: str, largest: int = _LARGEST_WHOLE) -> int:
        """Return a field that is a whole number from 0 to ``largest``."""
        return self._field(key, lambda value: _whole(value, largest), f"a whole number from 0 to {largest}")

    def numbers(self, key: str, count: int | None = None) -> tuple[float, ...]:
        """Return a field that is a list of finite numbers, exactly ``count`` if it is not ``None``."""
        expected = f"a list of {'' if count is None else f'{count} '}finite numbers"
        return self._field(key, lambda value: _listed(value, _number, count), expected)

    def wholes(self, key: str) -> tuple[int, ...]:
        """Return a field that is a list of whole numbers."""
        return self._field(key, lambda value: _listed(value, _whole), "a list of whole numbers")

    def line(self, key: str) -> tuple[float, float]:
        """Return a field that is a slope and an intercept."""
        slope, intercept = self.numbers(key, 2)
        return slope, intercept

    def grid(self, key: str, rows: int, columns: int) -> tuple[tuple[float, ...], ...]:
        """Return a field that is a list of lists of finite numbers."""

        def row(value: object) -> tuple[float, ...]:
            return _listed(value, _number, columns)

        expected = f"{rows} lists of {columns} finite numbers"
        return self._field(key, lambda value: _listed(value, row, rows), expected)

    def rows(self, key: str, *kinds: type) -> tuple[tuple[Any, ...], ...]:
        """Return a field that is a list of rows whose cells have the types ``kinds``.

        A type is ``int``, ``float`` or an enumeration of texts.
        """

        def row(value: object) -> tuple[Any, ...]:
            read: dict[type, Callable[[Any], Any]] = {int: _whole, float: _number}
            if not isinstance(value, list):
                raise TypeError
            return tuple(read.get(kind, kind)(cell) for kind, cell in zip(kinds, value, strict=True))

        return self._field(key, lambda value: _listed(value, row), f"a list of rows of {len(kinds)} cells")

    def table(self, key: str) -> "FileTable":
        """Return a field that is a table."""
        content = self._field(key, _mapping, "a table")
        return FileTable(content, self.file, f"{self.path}.{key}" if self.path else key)

    def tables(self, key: str) -> Iterator["FileTable"]:
        """Yield the tables of a field that is a list of them."""
        entries: tuple[Mapping[str, Any], ...] = self._field(
            key, lambda value: _listed(value, _mapping), "a list of tables"
        )
        for position, entry in enumerate(entries):
            yield FileTable(entry, self.file, f"{self.path}.{key}[{position}]")

    def as_numbers(self, kind: type[Built]) -> Built:
        """Return the table as a dataclass of numbers; the table must have exactly the fields of the dataclass."""
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type] # callers pass dataclasses
        for name in self.content:
            if name not in names:
                raise unknown_name(self._at(name), "field", name, names)
        return kind(**{name: self.number(name) for name in names})


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError
    return float(value)


def _whole(value: object, largest: int = _LARGEST_WHOLE) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= largest:
        raise TypeError
    return value


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError
    return value


def _listed(value: object, read: Callable[[Any], Built], count: int | None = None) -> tuple[Built, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or count not in (None, len(value)):
        raise TypeError
    return tuple(map(read, value))
