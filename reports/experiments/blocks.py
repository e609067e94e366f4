"""Tables of EXPERIMENTS.md that another document shows, too, between marks that name them.

A block begins with ``<!-- table: optimum.gaps -->``, the module of a section and the table's name there, and ends with
``<!-- end -->``. What is between is replaced whenever EXPERIMENTS.md is written, so that the two never differ.
"""

import re
from collections.abc import Mapping

from instances.errors import InputError, unknown_name

_BLOCK = re.compile(r"(<!-- table: (?P<name>\S+) -->\n)(?P<table>.*?)(<!-- end -->)", re.DOTALL)


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the name and the content of every block of a document, in their order."""
    return [(found["name"], found["table"].strip()) for found in _BLOCK.finditer(text)]


def refreshed(text: str, tables: Mapping[str, str], where: str) -> str:
    """Return a document with the tables in its blocks made anew.

    Raises
    ------
    InputError
        If a block names no table, or one has no end; ``where`` names the document.
    """
    if text.count("<!-- table: ") != len(blocks(text)):
        raise InputError(where, "has a `<!-- table: NAME -->` without an `<!-- end -->` behind it")

    def anew(found: re.Match[str]) -> str:
        name = found["name"]
        if name not in tables:
            raise unknown_name(where, "table", name, list(tables))
        return f"{found[1]}{tables[name].strip()}\n{found[4]}"

    return _BLOCK.sub(anew, text)
