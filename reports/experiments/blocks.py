"""Blocks: copies of tables of EXPERIMENTS.md in another document.

A block begins with ``<!-- table: optimum.gaps -->`` (the names of the section and of the table) and ends with
``<!-- end -->``. Whenever EXPERIMENTS.md is written, its tables replace the text of the blocks.
"""

import re
from collections.abc import Mapping

from instances.errors import InputError, unknown_name

_BLOCK = re.compile(r"(<!-- table: (?P<name>\S+) -->\n)(?P<table>.*?)(<!-- end -->)", re.DOTALL)


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the table's name and the text of every block of a document, in order."""
    return [(block["name"], block["table"].strip()) for block in _BLOCK.finditer(text)]


def refreshed(text: str, tables: Mapping[str, str], where: str) -> str:
    """Return a document with new tables in its blocks.

    Raises
    ------
    InputError
        If a block names an unknown table or has no end; ``where`` names the document in the message.
    """
    if text.count("<!-- table: ") != len(blocks(text)):
        raise InputError(where, "has a `<!-- table: NAME -->` without an `<!-- end -->` after it")

    def new_block(block: re.Match[str]) -> str:
        name = block["name"]
        if name not in tables:
            raise unknown_name(where, "table", name, list(tables))
        return f"{block[1]}{tables[name].strip()}\n{block[4]}"

    return _BLOCK.sub(new_block, text)
