"""Command line: the commands and the code that they share."""

from bench.cli.app import main

__all__ = ["main"]
