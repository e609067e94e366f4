"""Readers of CSV, TOML and JSON tables: every value is checked, and errors name file, line and column."""

import csv
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any

from instances.errors import InputError, printable, shortened, unknown_name
from instances.files.foreign import refuse_foreign, refuse_manifest
from instances.files.text import read_bytes, read_json, read_toml

_NUMBER = r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """Column of a table: its meaning with the unit, and the permitted values.

    Attributes
    ----------
    name, meaning
        Name, and description with the unit.
    number
        Whether the values are numbers; otherwise they are text.
    required
        Whether every row must have a value.
    minimum, maximum
        Range of a number; ``minimum`` itself is excluded unless ``closed`` or ``whole``.
    whole
        Whether a number must be whole.
    closed
        Whether ``minimum`` itself is permitted.
    """

    name: str
    meaning: str
    number: bool = True
    required: bool = True
    minimum: float = 0.0
    maximum: float = inf
    whole: bool = False
    closed: bool = False

    @property
    def expected(self) -> str:
        """Permitted values in words."""
        if not self.number:
            return f"text ({self.meaning})"
        kind = "a whole number" if self.whole else "a number"
        lower = f"of at least {self.minimum:g}" if self.whole or self.closed else f"greater than {self.minimum:g}"
        upper = "" if self.maximum == inf else f" and at most {self.maximum:g}"
        return f"{kind} {lower}{upper} ({self.meaning})"


@dataclass(frozen=True, slots=True)
class Record:
    """Row of a table.

    Attributes
    ----------
    values
        Text or number by column; columns without a value are left out.
    place
        File and line, such as ``services.csv: line 3``, or the entry of a TOML or JSON file.
    """

    values: Mapping[str, Any]
    place: str

    def error(self, column: str, problem: str) -> InputError:
        """Build the error for a value of this row."""
        return InputError(f"{self.place}, column {column}", problem)


def read_records(
    path: Path, name: str, columns: Sequence[TableColumn], unique: Sequence[str], ignore_others: bool = False
) -> list[Record]:
    """Return the rows of the table at ``path``: a CSV file, or a TOML or JSON file with a list called ``name``.

    Parameters
    ----------
    path
        Path of the file; a name that ends in neither ``.toml`` nor ``.json`` means CSV.
    name
        Key of the list in a TOML or JSON object, such as ``services``.
    columns
        Columns that the table may have.
    unique
        Columns whose values together identify a row; if there are none, rows may repeat.
    ignore_others
        Whether columns that are not in ``columns`` are ignored; otherwise they are refused.

    Raises
    ------
    InputError
        If the file cannot be read or a value is wrong; the error names file, line and column.
    """
    file = printable(str(path))
    by_name = {column.name: column for column in columns}
    is_list = path.suffix.lower() in (".toml", ".json")
    rows = list(_listed_rows(path, file, name) if is_list else _csv_rows(path, file, by_name, ignore_others))
    if not rows:
        raise InputError(f"{file}: line 2", f"has no rows; expected one for each of the {name}")
    records: list[Record] = []
    first_rows: dict[tuple[object, ...], str] = {}
    for row in rows:
        if is_list and not ignore_others:
            _check_names(list(row.values), by_name, f"{row.place}, column {{}}".format)
        missing = [column.name for column in columns if column.required and row.values.get(column.name) in (None, "")]
        if missing:
            others = f"; so are {', '.join(missing[1:])}" if missing[1:] else ""
            raise row.error(missing[0], f"is empty; expected {by_name[missing[0]].expected}{others}")
        values = {
            key: _checked(raw, by_name[key], f"{row.place}, column {key}")
            for key, raw in row.values.items()
            if raw not in (None, "") and key in by_name
        }
        identity = tuple(values.get(key) for key in unique)
        if unique and identity in first_rows:
            repeated = ", ".join(str(value) for value in identity if value is not None)
            expected = f"expected one row for each {' and '.join(unique)}"
            raise row.error(unique[0], f'"{_short(repeated)}" is a repetition of {first_rows[identity]}; {expected}')
        first_rows[identity] = row.place.removeprefix(f"{file}: ")
        records.append(Record(values, row.place))
    return records


def describe(columns: Sequence[TableColumn]) -> list[tuple[str, str]]:
    """Return name and description of every column, for help texts."""
    return [
        (column.name, column.meaning if column.required else f"{column.meaning}; may be left out") for column in columns
    ]


def _csv_rows(path: Path, file: str, columns: Mapping[str, TableColumn], ignore_others: bool) -> Iterator[Record]:
    text = csv_text(path)
    if not ignore_others:
        refuse_foreign(text, file)
    lines = text.splitlines(keepends=True)
    reader = csv.reader(lines, strict=True)
    header: list[str] = []
    next_line = 1
    try:
        for cells in reader:
            line, next_line = next_line, reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip() for cell in cells]
                _check_header(header, cells, columns, ignore_others, f"{file}: line {line}")
                continue
            place = f"{file}: line {line}"
            if len(cells) > len(header):
                problem = f"has {len(cells)} values for {len(header)} columns; write numbers without thousands commas"
                raise InputError(f"{place}, column {len(header) + 1}", problem)
            if len(cells) < len(header):
                problem = f"is missing: the line has {len(cells)} values for {len(header)} columns"
                raise InputError(f"{place}, column {header[len(cells)]}", problem)
            yield Record({key: cell.strip() for key, cell in zip(header, cells, strict=True)}, place)
    except csv.Error as error:
        raise InputError(f"{file}: line {next_line}, column 1", f"is not valid CSV: {error}") from None
    if not header:
        raise InputError(f"{file}: line 1, column 1", f"is empty; expected the columns {', '.join(columns)}")


def csv_text(path: Path) -> str:
    """Return the text of a CSV file.

    Raises
    ------
    InputError
        If the file cannot be read or is not UTF-8; the error names line and column.
    """
    file = printable(str(path))
    content = read_bytes(path, file)
    if content[:4] == b"PK\x03\x04":
        raise InputError(f"{file}: line 1, column 1", "is a workbook of Excel or another ZIP file; save a sheet as CSV")
    if content[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in content[:100]:
        raise InputError(f"{file}: line 1, column 1", "is UTF-16 or binary; save the file as CSV in UTF-8")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = before[before.rfind(b"\n") + 1 :].count(b",") + 1
        where = f"{file}: line {before.count(bytes([10])) + 1}, column {column}"
        problem = f"has the byte 0x{content[error.start]:02x}, which is not UTF-8; save the file as UTF-8"
        raise InputError(where, problem) from None


def _check_header(
    header: Sequence[str], cells: Sequence[str], columns: Mapping[str, TableColumn], ignore_others: bool, place: str
) -> None:
    if len(cells) == 1 and len(columns) > 1:
        for separator, word in ((";", "semicolons"), ("\t", "tabs")):
            if separator in cells[0]:
                raise InputError(f"{place}, column 1", f"is separated by {word}; expected commas")
    for number, key in enumerate(header):
        if header.index(key) != number:
            raise InputError(f"{place}, column {key}", f"occurs twice, the second time as column {number + 1}")
    if not ignore_others:
        _check_names(header, columns, lambda key: f"{place}, column {header.index(key) + 1}")
    missing = [name for name, column in columns.items() if column.required and name not in header]
    if missing:
        raise InputError(f"{place}, column {missing[0]}", f"is missing; the table needs {', '.join(missing)}")


def _check_names(names: Sequence[str], columns: Mapping[str, TableColumn], where: Callable[[str], str]) -> None:
    for key in names:
        if key not in columns:
            raise unknown_name(where(key), "column", _short(key), list(columns))


def _listed_rows(path: Path, file: str, name: str) -> Iterator[Record]:
    data: Any = read_toml(path) if path.suffix.lower() == ".toml" else read_json(path)
    if isinstance(data, dict):
        refuse_manifest(data, file)
    entries = data.get(name) if isinstance(data, dict) else data
    if not isinstance(entries, list):
        raise InputError(f"{file}: {name}", "is missing; expected a list of tables, one for each row")
    for position, entry in enumerate(entries):
        place = f"{file}: {name}[{position}]"
        if not isinstance(entry, dict):
            raise InputError(place, "is not a row; expected a table of columns and values")
        yield Record(entry, place)


def _checked(raw: object, column: TableColumn, where: str) -> str | float:
    """Return a value as text or as a number in the column's range."""
    if not column.number:
        if not isinstance(raw, str) or not raw.isprintable() or len(raw) > 200:
            raise InputError(where, f"is {_quoted(raw)}; expected printable text of at most 200 characters")
        return raw
    value = _number(raw, column, where)
    outside = value < column.minimum if column.whole or column.closed else value <= column.minimum
    if outside or value > column.maximum or not isfinite(value) or (column.whole and value != int(value)):
        raise InputError(where, f"is {_quoted(raw)}; expected {column.expected}")
    return int(value) if column.whole else value


def _number(raw: object, column: TableColumn, where: str) -> float:
    if isinstance(raw, int | float) and not isinstance(raw, bool):
        return float(raw) if abs(raw) < 1e300 else inf  # float() refuses larger whole numbers
    text = raw if isinstance(raw, str) else ""
    if re.fullmatch(_NUMBER, text, re.ASCII):
        return float(text)
    if re.fullmatch(r"[-+]?\d{1,3}([,.' _\u00a0\u202f]\d{3})+([.,]\d+)?", text):
        problem = "has thousands separators; write the digits alone and a point before decimals"
    elif re.fullmatch(r"[-+]?\d+,\d+", text):
        problem = "has a decimal comma; write a point"
    elif re.fullmatch(rf"{_NUMBER}\s*[^\W\d_%/]*[%/\w]*", text):
        problem = f"has a unit; write the number alone ({column.meaning})"
    else:
        problem = f"is no number; expected {column.expected}"
    raise InputError(where, f"{_quoted(raw)} {problem}")


def _quoted(raw: object) -> str:
    return f'"{_short(raw)}"' if isinstance(raw, str) else _short(str(raw))


def _short(text: str) -> str:
    return printable(shortened(text))
