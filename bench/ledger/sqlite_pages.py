"""The records of an SQLite file that SQLite itself may refuse: every table leaf that is whole is read, page by page.

The layout is that of https://www.sqlite.org/fileformat2.html, section 1.6 (pages), 2.1 (records), 4 (write-ahead log).
"""

import mmap
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from instances import InputError

_HEADER = b"SQLite format 3\0"
_HEADER_BYTES = 100
_USUAL_PAGE_BYTES = 4096
_TABLE_LEAF = 0x0D
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_WAL_HEADER = struct.Struct(">8I")
_FRAME_HEADER = struct.Struct(">6I")
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}

Value = None | int | float | str | bytes


class Record(NamedTuple):
    """What a table holds under a rowid; of which table is for the reader to tell by the values."""

    rowid: int
    values: list[Value]


def records(path: Path) -> Iterator[Record]:
    """Yield the records of the file at ``path`` that can be read, with what its write-ahead log has committed.

    Raises
    ------
    InputError
        If the file cannot be read.
    """
    with ExitStack() as stack:
        content = _mapped(path, stack)
        log = _mapped(path.with_name(path.name + "-wal"), stack) if path.with_name(path.name + "-wal").exists() else b""
        file = _File(content, log)
        for number in range(1, file.pages + 1):
            yield from file.leaf(number)


def _mapped(path: Path, stack: ExitStack) -> bytes | mmap.mmap:
    """Return the content of a file without loading what is not looked at."""
    try:
        file = stack.enter_context(path.open("rb"))
        if file.seek(0, 2) == 0:
            return b""
        return stack.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except ValueError:
        raise InputError(str(path), "cannot be read: no file can have this name") from None


class _File:
    """Pages by number, those of the write-ahead log in the place of older ones."""

    def __init__(self, content: bytes | mmap.mmap, log: bytes | mmap.mmap) -> None:
        self._content = content
        known = len(content) >= _HEADER_BYTES and content[: len(_HEADER)] == _HEADER
        stated = int.from_bytes(content[16:18], "big") if known else 0
        stated = 2**16 if stated == 1 else stated
        self._page_bytes = stated if stated >= 512 and stated & (stated - 1) == 0 else _USUAL_PAGE_BYTES
        reserved = content[20] if known and content[20] <= 32 else 0
        self._usable = self._page_bytes - reserved
        self._log = log
        self._in_log = self._frames()
        self.pages = max([len(content) // self._page_bytes, *self._in_log])

    def _frames(self) -> dict[int, int]:
        """Return where in the log the newest committed state of a page begins, by its number."""
        if len(self._log) < _WAL_HEADER.size:
            return {}
        magic, _, page_bytes, _, *salts, _, _ = _WAL_HEADER.unpack_from(self._log)
        if magic not in _WAL_MAGIC or page_bytes != self._page_bytes:
            return {}
        committed: dict[int, int] = {}
        pending: dict[int, int] = {}
        at = _WAL_HEADER.size
        while at + _FRAME_HEADER.size + page_bytes <= len(self._log):
            number, pages_after_commit, *frame_salts, _, _ = _FRAME_HEADER.unpack_from(self._log, at)
            if frame_salts != salts or number == 0:
                break
            pending[number] = at + _FRAME_HEADER.size
            if pages_after_commit:
                committed |= pending
                pending = {}
            at += _FRAME_HEADER.size + page_bytes
        return committed

    def _page(self, number: int) -> bytes:
        begin = self._in_log.get(number)
        if begin is not None:
            return self._log[begin : begin + self._page_bytes]
        begin = (number - 1) * self._page_bytes
        return self._content[begin : begin + self._page_bytes] if number > 0 else b""

    def leaf(self, number: int) -> Iterator[Record]:
        """Yield the records that begin on a page, if it is the leaf of a table."""
        page = self._page(number)
        head = _HEADER_BYTES if number == 1 else 0
        if len(page) < self._page_bytes or page[head] != _TABLE_LEAF:
            return
        cells = int.from_bytes(page[head + 3 : head + 5], "big")
        for cell in range(min(cells, self._page_bytes // 4)):
            pointer = head + 8 + 2 * cell
            try:
                yield self._record(page, int.from_bytes(page[pointer : pointer + 2], "big"))
            except (ValueError, IndexError, struct.error):
                continue  # this one is damaged; its neighbours may be whole

    def _record(self, page: bytes, at: int) -> Record:
        size, at = _varint(page, at)
        rowid, at = _varint(page, at)
        if size > len(self._content) + len(self._log):
            raise ValueError("longer than the file")
        most = self._usable - 35
        local = size
        if size > most:
            least = (self._usable - 12) * 32 // 255 - 23
            local = least + (size - least) % (self._usable - 4)
            local = local if local <= most else least
        payload = bytearray(page[at : at + local])
        following = int.from_bytes(page[at + local : at + local + 4], "big") if local < size else 0
        while len(payload) < size:
            overflow = self._page(following)
            if len(overflow) < self._page_bytes:
                raise ValueError("an overflow page is missing")
            following = int.from_bytes(overflow[:4], "big")
            payload += overflow[4 : self._usable][: size - len(payload)]
        return Record(rowid - 2**64 if rowid >= 2**63 else rowid, _values(bytes(payload)))


def _values(payload: bytes) -> list[Value]:
    header_bytes, at = _varint(payload, 0)
    kinds = []
    while at < header_bytes:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[Value] = []
    at = header_bytes
    for kind in kinds:
        size = _INTEGER_BYTES.get(kind, 8 if kind == 7 else max(0, (kind - 12) // 2))
        piece = payload[at : at + size]
        if len(piece) < size:
            raise ValueError("shorter than it says")
        values.append(_value(kind, piece))
        at += size
    return values


def _value(kind: int, piece: bytes) -> Value:
    match kind:
        case 0:
            return None
        case 7:
            (number,) = struct.unpack(">d", piece)
            return float(number)
        case 8 | 9:
            return kind - 8
        case 10 | 11:
            raise ValueError("a kind of value that no file has")
        case _ if kind < 7:
            return int.from_bytes(piece, "big", signed=True)
        case _:
            return piece.decode() if kind % 2 else piece


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number of up to nine bytes that begins at ``at``, and where it ends."""
    number = 0
    for place in range(8):
        byte = data[at + place]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at + place + 1
    return number << 8 | data[at + 8], at + 9
