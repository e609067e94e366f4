"""Refusal of pipes, devices and sockets where a file is expected."""

import stat
from pathlib import Path

from instances.errors import InputError, printable


def refuse_special(path: Path) -> None:
    """Refuse a path that exists and is neither a regular file nor a folder.

    Opening a pipe can wait forever, reading a device may never end, and an output file would replace either of them.

    Raises
    ------
    InputError
        If ``path`` is a pipe, a device or a socket.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return  # opening the file reports this
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        raise InputError(printable(str(path)), f"is a {kind}; expected a regular file")
