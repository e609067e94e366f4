"""A command line that needs nothing but Python: what is wrong with it is one line, as everywhere."""

from argparse import ArgumentParser
from typing import NoReturn

from instances.errors import InputError


class Parser(ArgumentParser):
    """Raises ``InputError`` where others print their usage and exit."""

    def error(self, message: str) -> NoReturn:
        """Refuse what was typed."""
        raise InputError(self.prog, f"{message}; see `{self.prog} --help`")
