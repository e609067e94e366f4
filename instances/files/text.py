"""Reading and atomic writing of text, JSON and TOML files.

A read checks size and syntax. A write replaces the whole file or fails. JSON is written with line breaks for people.
"""

import gzip
import json
import os
import tomllib
import zlib
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

from instances.errors import InputError, printable
from instances.files.problems import Location, input_error
from instances.special_files import refuse_special

MAX_BYTES = 64 * 2**20
"""Largest file that is read, in bytes."""

_SQLITE = b"SQLite format 3\0"
"""First bytes of an SQLite database."""

_WIDTH = 120
"""Largest width of a line of JSON, unless a single value is longer."""


class _Repeated(dict[str, object]):
    """A JSON object in which ``key`` occurs more than once."""

    key: str


def read_text(path: Path) -> str:
    """Return the text of the file at ``path``.

    Raises
    ------
    InputError
        If the file cannot be read, is too large or is not UTF-8.
    """
    where = printable(str(path))
    content = read_bytes(path, where)
    if path.suffix == ".gz":
        content = _decompressed(content, where)
    try:
        return content.decode("utf-8-sig")  # some editors begin a file with a byte order mark
    except UnicodeDecodeError as error:
        raise InputError(where, f"is not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def read_toml(path: Path) -> dict[str, object]:
    """Return the content of the TOML file at ``path``.

    Raises
    ------
    InputError
        If the file cannot be read, is too large, is not UTF-8, is not TOML (with line and column), or is nested too
        deeply.
    """
    where = printable(str(path))
    text = read_text(path)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InputError(where, "is nested too deeply; expected fewer than ten levels") from None
    except ValueError as error:  # wrong syntax, impossible dates, and numbers of thousands of digits
        raise InputError(where, printable(f"is not valid TOML: {error}")) from None


def read_json(path: Path) -> object:
    """Return the content of the JSON file at ``path``.

    ``NaN`` and ``Infinity`` become floats; the check of their field refuses them.

    Raises
    ------
    InputError
        If the file cannot be read, is too large, is not UTF-8, is not JSON (with line and column), is nested too
        deeply, or has an object with the same key twice.
    """
    where = printable(str(path))
    text = read_text(path)
    repeated: list[_Repeated] = []

    def build(pairs: list[tuple[str, object]]) -> dict[str, object]:
        built = dict(pairs)
        if len(built) == len(pairs):
            return built
        repeated_object, earlier_keys = _Repeated(built), set[str]()
        for key, _ in pairs:
            if key in earlier_keys:
                repeated_object.key = key
                break
            earlier_keys.add(key)
        repeated.append(repeated_object)
        return repeated_object

    try:
        data: object = json.loads(text, object_pairs_hook=build)
    except json.JSONDecodeError as error:
        problem = f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise InputError(f"{where}: line {error.lineno}, column {error.colno}", printable(problem)) from None
    except RecursionError:
        raise InputError(where, "is nested too deeply; instance and plan files have fewer than ten levels") from None
    except ValueError:
        # The parser's only other error: Python limits the digits of a whole number.
        raise InputError(where, "has a number of thousands of digits; expected numbers of ordinary size") from None
    if repeated:
        raise input_error(where, [(location, "occurs twice; a key may occur once") for location in _repetitions(data)])
    return data


def _decompressed(content: bytes, where: str) -> bytes:
    """Return the decompressed content of a gzip file, at most ``MAX_BYTES``."""
    decompressor = zlib.decompressobj(wbits=31)
    try:
        text = decompressor.decompress(content, MAX_BYTES)
    except zlib.error as error:
        raise InputError(where, f"is not a gzip file: {error}") from None
    if decompressor.unconsumed_tail or not decompressor.eof:
        raise InputError(where, f"is cut off, or holds more than {MAX_BYTES // 2**20} MiB")
    return text


def read_bytes(path: Path, where: str) -> bytes:
    """Return the content of a file; ``where`` is the place that errors name."""
    refuse_special(path)
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = b"" if size > MAX_BYTES else file.read(MAX_BYTES + 1)  # files in /proc state a size of 0
            too_large = size > MAX_BYTES or len(content) > MAX_BYTES
    except OSError as error:
        raise InputError(where, f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise InputError(where, "cannot be read: this is not a valid file name") from None
    if too_large:
        raise InputError(where, f"is larger than {MAX_BYTES // 2**20} MiB, the largest size that is read")
    return content


def _repetitions(data: object) -> Iterator[Location]:
    """Yield the locations of repeated keys, in the order of the text."""
    unvisited: list[tuple[Location, object]] = [((), data)]
    while unvisited:
        location, value = unvisited.pop()
        if isinstance(value, _Repeated):
            yield (*location, value.key)
        children: list[tuple[int | str, object]] = []
        if isinstance(value, dict):
            children = list(value.items())
        elif isinstance(value, list):
            children = list(enumerate(value))
        unvisited.extend(((*location, part), child) for part, child in reversed(children))


def write_json(path: Path, data: object) -> None:
    """Write ``data`` as JSON to ``path`` atomically; create the folder if needed.

    A name that ends in ``.gz`` makes a gzip file. Keys keep their order. A value that fits into a line is written on
    one line, except the outermost object or list.

    Raises
    ------
    InputError
        If ``data`` contains a number that is not finite or text that is not Unicode, or ``path`` cannot be written.
    """
    try:
        content = (_laid_out(data, 0, _WIDTH) + "\n").encode()
    except ValueError as error:
        raise InputError(printable(str(path)), printable(f"cannot be written as JSON: {error}")) from None
    write_bytes(path, gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def write_bytes(path: Path, content: bytes) -> None:
    """Write ``content`` to ``path`` atomically; create the folder if needed.

    Raises
    ------
    InputError
        If the file cannot be written. Pipes, devices and databases, such as a ledger, are never replaced.
    """
    where = printable(str(path))
    refuse_special(path)
    if _is_database(path):
        raise InputError(where, "is a ledger or another database; it is not replaced, name another file")
    temporary = path.parent / f".{token_hex(8)}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(where, f"cannot be written: {error.strerror}") from None
    except ValueError:
        raise InputError(where, "cannot be written: this is not a valid file name") from None


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except (OSError, ValueError):  # there is no such file, or the write reports the problem
        return False


def _laid_out(value: object, indent: int, used: int) -> str:
    """Lay out ``value`` in a block indented by ``indent``; ``used`` characters of the first line are already used."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not value or not isinstance(value, dict | list | tuple) or used + len(line) <= _WIDTH:
        return line
    inner = indent + 2
    if isinstance(value, dict):
        opening, closing = "{", "}"
        prefixes = [f"{json.dumps(str(key), ensure_ascii=False)}: " for key in value]
        children = list(value.values())
    else:
        opening, closing = "[", "]"
        prefixes = [""] * len(value)
        children = list(value)
    entries = [
        prefix + _laid_out(child, inner, inner + len(prefix) + len(","))
        for prefix, child in zip(prefixes, children, strict=True)
    ]
    gap = "\n" + " " * inner
    return opening + gap + f",{gap}".join(entries) + "\n" + " " * indent + closing
