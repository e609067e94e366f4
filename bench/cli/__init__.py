"""The command line: one file per command."""

from bench.cli.app import main

__all__ = ["main"]
