"""Command lines and options as text, for reports, advice and documents.

Names of options have underscores in place of dashes. Errors do not use this module. They name fields, and
``bench.cli.option_names`` replaces the fields by options.
"""

from collections.abc import Iterable
from shlex import quote


def option(name: str, value: object = True) -> str:
    """Return an option with its value, such as ``--time-limit 60``; a flag for ``True``."""
    return " ".join(_words(name, value))


def command_line(command: str, *arguments: object, **options: object) -> str:
    """Return a command of ``bench`` as text for a shell.

    Parameters
    ----------
    command
        Name of the command, such as ``run``.
    arguments
        Arguments before the options.
    options
        Values by option, in order. ``True`` is a flag; ``None`` and ``False`` leave an option out; a list repeats it.

    Examples
    --------
    >>> command_line("run", instances="smoke", time_limit=60.0, param=["a.x=1", "b.y=2"], check_holds=True)
    'bench run --instances smoke --time-limit 60 --param a.x=1 --param b.y=2 --check-holds'
    """
    return " ".join(["bench", command, *map(quote, words(*arguments, **options))])


def words(*arguments: object, **options: object) -> tuple[str, ...]:
    """Return arguments and options as the words of a command line; see ``command_line``."""
    return (*map(str, arguments), *(word for name, value in options.items() for word in _words(name, value)))


def _words(name: str, value: object) -> Iterable[str]:
    if value is None or value is False:
        return []
    dashed_name = f"{'-' if len(name) == 1 else '--'}{name.replace('_', '-')}"
    if isinstance(value, list | tuple):
        return [word for entry in value for word in (dashed_name, str(entry))]
    if value is True:
        return [dashed_name]
    return [dashed_name, f"{value:g}" if isinstance(value, float) else str(value)]
