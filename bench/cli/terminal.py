"""Terminal output: results on standard output, messages on standard error; safe for unprintable names."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from bench.judging.verdict import finite

_NAMES_LISTED = 5
"""Largest number of names that ``listed`` writes out."""


def open_closed_streams() -> None:
    """Open ``os.devnull`` for every standard stream that was closed when the process began (``>&-``).

    Otherwise the next opened file would get the descriptor of the stream, and child processes would write into it.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 - open until the process ends


def emit(text: str, stream: TextIO) -> None:
    """Write ``text`` and flush the stream.

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
        from instances import InputError  # loads NumPy, which `bench --help` does not need

        _silence(stream)
        name = "standard error" if stream is sys.stderr else "standard output"
        raise InputError(name, f"cannot be written: {error.strerror}") from None


def _silence(stream: TextIO) -> None:
    """Discard the buffered output of ``stream`` and all its later output."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null_device, stream.fileno())
    os.close(null_device)


def say(text: str) -> None:
    """Print a message for people as one line on standard error."""
    emit(f"{one_line(text)}\n", sys.stderr)


@contextmanager
def message_on_interrupt(message: str) -> Iterator[None]:
    """Print ``message`` after Ctrl-C; typer then ends the command with exit code 130."""
    try:
        yield
    except KeyboardInterrupt:
        say(message)
        raise


def print_json(value: object) -> None:
    """Print ``value`` as JSON on standard output, one line per list entry; numbers that are not finite become null."""
    if isinstance(value, list):
        text = ",\n".join(" " + json.dumps(finite(entry)) for entry in value)
        emit(f"[\n{text}\n]\n" if value else "[]\n", sys.stdout)
    else:
        emit(json.dumps(finite(value), indent=2) + "\n", sys.stdout)


def one_line(text: str) -> str:
    """Return ``text`` on one line, with unprintable characters escaped."""

    def printable(character: str) -> str:
        if character.isprintable():
            return character
        return character.encode("unicode_escape", "surrogatepass").decode()

    return "".join(map(printable, text))


def many_lines(text: str) -> str:
    """Return ``text`` with its line breaks, and with other unprintable characters escaped."""
    return "\n".join(one_line(line.replace("\t", "    ")) for line in text.splitlines())


def draws_unicode() -> bool:
    """Return whether standard output can encode block characters and marks."""
    return (sys.stdout.encoding or "").lower().replace("-", "").startswith("utf")


def listed(names: Sequence[str]) -> str:
    """Return the first names separated by commas, and the number of further names."""
    more = f" and {len(names) - _NAMES_LISTED} more" if len(names) > _NAMES_LISTED else ""
    return ", ".join(names[:_NAMES_LISTED]) + more
