"""Terminal output: results on standard output, messages on standard error; safe for odd names and closed pipes."""

import json
import math
import os
import sys
from collections.abc import Sequence
from io import StringIO
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_PIPE_WIDTH = 500
"""Columns of a table in a pipe or file, wide enough that no cell is folded."""


def open_closed_streams() -> None:
    """Open ``os.devnull`` for every standard stream that was closed when the process began (``>&-``).

    Otherwise the next opened file would get the stream's descriptor, and with it the output of child processes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - open until the process ends


def emit(text: str, stream: TextIO) -> None:
    """Write ``text`` at once.

    Raises
    ------
    InputError
        If ``stream`` cannot be written, for example on a full disk. A closed pipe (``| head``) is no error: the rest
        of the output is discarded, and the exit code stays valid.
    """
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        _silence(stream)
    except OSError as error:
        from instances import InputError

        _silence(stream)
        name = "standard error" if stream is sys.stderr else "standard output"
        raise InputError(name, f"cannot be written: {error.strerror}") from None


def _silence(stream: TextIO) -> None:
    """Discard the buffer of ``stream`` and all later output to it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def say(text: str) -> None:
    """Print a message for people as one line on standard error."""
    emit(f"{one_line(text)}\n", sys.stderr)


def print_json(value: object) -> None:
    """Print ``value`` as JSON on standard output, one line per list entry; numbers that are not finite become null."""
    if isinstance(value, list):
        text = ",\n".join(" " + json.dumps(_finite(entry)) for entry in value)
        emit(f"[\n{text}\n]\n" if value else "[]\n", sys.stdout)
    else:
        emit(json.dumps(_finite(value), indent=2) + "\n", sys.stdout)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, list | tuple) else value


def show(*things: "RenderableType", stream: TextIO | None = None) -> None:
    """Print tables and text on standard output or on ``stream``, without interpreting markup in text."""
    from rich.measure import Measurement

    stream = stream or sys.stdout
    sheet = _Sheet(stream)
    console = console_on(sheet)
    for thing in things:
        if isinstance(thing, str):
            console.print(thing, soft_wrap=True)
        else:  # if the terminal is too narrow even for folded cells, let lines wrap instead of cutting them off
            least = Measurement.get(console, console.options.update(max_width=_PIPE_WIDTH), thing).minimum
            console.width = max(console.width, least)
            console.print(thing)
    emit("\n".join(line.rstrip() for line in sheet.getvalue().split("\n")), stream)


class _Sheet(StringIO):
    """Buffer with the properties of ``stream``, so that ``emit`` can write all output at once."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Encoding of the stream."""
        return self._stream.encoding

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()


def console_on(stream: TextIO) -> "Console":
    """Return a console without markup, since names from files may look like markup."""
    from rich.console import Console

    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def one_line(text: str) -> str:
    """Return ``text`` on one line, with unprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def many_lines(text: str) -> str:
    """Return ``text`` with its line breaks, and with other unprintable characters escaped."""
    return "\n".join(one_line(line.replace("\t", "    ")) for line in text.splitlines())


def draws_unicode(stream: TextIO | None = None) -> bool:
    """Return whether ``stream`` (default: standard output) can encode block characters and marks."""
    return ((stream or sys.stdout).encoding or "").lower().replace("-", "").startswith("utf")


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return the first ``most`` names separated by commas, and the number of further names."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
