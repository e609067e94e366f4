"""The command line: the commands, and what they share."""

from bench.cli.app import main

__all__ = ["main"]
