"""Compressed ledgers, which are read but not written: small enough for a repository."""

import lzma
from pathlib import Path

from instances import InputError

ENDING = ".xz"
"""End of a compressed ledger's name; ``xz FILE`` makes one."""

_MOST_BYTES = 2**30
"""Largest size of an unpacked ledger, which is SQLite's own limit in memory."""

_JOURNAL_MODE = slice(18, 20)
"""Place of the journal mode in the header of an SQLite file (https://www.sqlite.org/fileformat.html)."""


def unpacked(path: Path) -> bytes:
    """Return the SQLite database of a compressed ledger, without its mark for a write-ahead log.

    Raises
    ------
    InputError
        If the file is not compressed by xz, is damaged, or unpacks to more than 1 GiB.
    OSError
        If the file cannot be read.
    """
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    try:
        found = bytearray(unpacker.decompress(path.read_bytes(), max_length=_MOST_BYTES))
    except lzma.LZMAError as error:
        raise InputError(str(path), f"is no compressed ledger, or a damaged one: {error}") from None
    if not unpacker.eof:
        large = len(found) == _MOST_BYTES
        raise InputError(str(path), "unpacks to more than 1 GiB" if large else "is damaged: its end is missing")
    found[_JOURNAL_MODE] = b"\1\1"  # a database in memory has no write-ahead log
    return bytes(found)
