"""Error for wrong input (exit code 2)."""

from difflib import get_close_matches
from typing import Self


class FieldName(str):
    """Name of a field or parameter that has a wrong value; the command line shows the name of its option instead.

    Parameters
    ----------
    field
        Name in the dataclass or function, such as ``time_limit_s``.
    suffix
        Text after the name, such as the wrong value.
    """

    __slots__ = ("field", "suffix")

    field: str
    suffix: str

    def __new__(cls, field: str, suffix: str = "") -> Self:
        """Return the name and suffix as one text."""
        place = super().__new__(cls, field + suffix)
        place.field, place.suffix = field, suffix
        return place

    def __add__(self, suffix: str) -> Self:
        """Return this name with ``suffix`` added at the end."""
        return type(self)(self.field, self.suffix + suffix)

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        """Return the arguments of ``__new__``, so that the name can be pickled."""
        return self.field, self.suffix


class InputError(ValueError):
    """Wrong input: the place, the problem and the expected value.

    Parameters
    ----------
    where
        A ``FieldName``, or a file and the path of a field, such as ``mix.json: workloads[2].slo_ms``.
    problem
        The problem and the expected value, in one line. Names of fields and parameters stand in backticks.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str]]:
        """Return the constructor's arguments, so that the error can be pickled between processes."""
        return type(self), (self.where, self.problem)


def unknown_name(
    where: str, kind: str, name: str, known: list[str], listed: list[str] | str | None = None
) -> InputError:
    """Build the error for an unknown name, with a hint: the most similar ``known`` name, or ``listed`` if none is.

    ``listed`` is a list of names (default: ``known``), or a text that says where the names are listed.
    """
    nearest = get_close_matches(name, known, n=1)
    listed = known if listed is None else listed
    hint = listed if isinstance(listed, str) else f"known: {', '.join(sorted(listed)) or 'none'}"
    hint = f'did you mean "{nearest[0]}"?' if nearest else hint
    return InputError(where, f'unknown {kind} "{name}"; {hint}')


def shortened(text: str) -> str:
    """Return ``text`` with at most 60 characters, for a quotation."""
    return text if len(text) <= 60 else f"{text[:57]}..."


def printable(text: str) -> str:
    """Return ``text`` on one line, with unprintable characters escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
