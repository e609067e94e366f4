"""Blocks: copies of tables of EXPERIMENTS.md in another document.

A block begins with ``<!-- table: optimum.gaps -->`` (the names of the section and of the table) and ends with
``<!-- end -->``. Its content is replaced whenever EXPERIMENTS.md is written, so the copies never differ.
"""

import re
from collections.abc import Mapping

from instances.errors import InputError, unknown_name

_BLOCK = re.compile(r"(<!-- table: (?P<name>\S+) -->\n)(?P<table>.*?)(<!-- end -->)", re.DOTALL)


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the name and the content of every block of a document, in order."""
    return [(found["name"], found["table"].strip()) for found in _BLOCK.finditer(text)]


def refreshed(text: str, tables: Mapping[str, str], where: str) -> str:
    """Return a document with new tables in its blocks.

    Raises
    ------
    InputError
        If a block names an unknown table or has no end; ``where`` names the document in the message.
    """
    if text.count("<!-- table: ") != len(blocks(text)):
        raise InputError(where, "has a `<!-- table: NAME -->` without an `<!-- end -->` after it")

    def anew(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in tables:
            raise unknown_name(where, "table", name, list(tables))
        return f"{found[1]}{tables[name].strip()}\n{found[4]}"

    return _BLOCK.sub(anew, text)
