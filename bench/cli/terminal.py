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
"""Columns of a table that no terminal shows: nobody wants it folded."""


def open_closed_streams() -> None:
    """Send nowhere what would go to a stream that was closed when the process began (``>&-``).

    Its number is taken, too: otherwise the next file to be opened would get it, and what children print.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - for as long as the process lives


def emit(text: str, stream: TextIO) -> None:
    """Write ``text`` at once.

    Raises
    ------
    InputError
        If the disk behind ``stream`` is full or the like. A reader that has gone away (``| head``) is no error: what is
        left to say goes nowhere, and the exit code still tells how it went.
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
    """Send what ``stream`` still holds, and all that follows, nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def say(text: str) -> None:
    """Tell people something, in one line on standard error."""
    emit(f"{one_line(text)}\n", sys.stderr)


def print_json(value: object) -> None:
    """Print ``value`` as JSON on standard output, each entry of a list on a line; what is not finite becomes null."""
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
    """Print tables and text on standard output, or on ``stream``; text is taken literally."""
    from rich.measure import Measurement

    stream = stream or sys.stdout
    sheet = _Sheet(stream)
    console = console_on(sheet)
    for thing in things:
        if isinstance(thing, str):
            console.print(thing, soft_wrap=True)
        else:  # where a terminal is too narrow even for folded cells, lines run on rather than lose their end
            least = Measurement.get(console, console.options.update(max_width=_PIPE_WIDTH), thing).minimum
            console.width = max(console.width, least)
            console.print(thing)
    emit("\n".join(line.rstrip() for line in sheet.getvalue().split("\n")), stream)


class _Sheet(StringIO):
    """Takes what is meant for ``stream`` and looks like it, so that writing to it in one go is left to ``emit``."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """That of the stream."""
        return self._stream.encoding

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()


def console_on(stream: TextIO) -> "Console":
    """Return a console that takes text literally: names from files may look like markup."""
    from rich.console import Console

    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)


def one_line(text: str) -> str:
    """Return ``text`` on one line, with whatever a terminal cannot show escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def many_lines(text: str) -> str:
    """Return ``text`` with its lines, with whatever else a terminal cannot show escaped."""
    return "\n".join(one_line(line.replace("\t", "    ")) for line in text.splitlines())


def draws_unicode(stream: TextIO | None = None) -> bool:
    """Whether ``stream`` (standard output) takes block characters and marks."""
    return ((stream or sys.stdout).encoding or "").lower().replace("-", "").startswith("utf")


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return the first of ``names`` separated by commas, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
