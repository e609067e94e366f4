"""Argument parser of the standard library that reports errors in one line, as the other command lines do."""

from argparse import ArgumentParser
from typing import NoReturn

from instances.errors import InputError


class Parser(ArgumentParser):
    """Argument parser that raises ``InputError`` instead of printing its usage and exiting."""

    def error(self, message: str) -> NoReturn:
        """Raise an ``InputError`` that points to the help."""
        raise InputError(self.prog, f"{message}; see `{self.prog} --help`")
