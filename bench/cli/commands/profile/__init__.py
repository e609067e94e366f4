"""Command ``bench profile`` and its subcommands."""
