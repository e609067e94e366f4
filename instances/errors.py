"""The one error that means "the input is wrong" (exit code 2)."""

from difflib import get_close_matches


class InputError(ValueError):
    """Input that a person can correct: says where, what is wrong and what would be right.

    Parameters
    ----------
    where
        File, field path or argument at fault, such as ``mix.json: workloads[2].slo_ms``.
    problem
        What is wrong and what would be right, in one line.
    """

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem

    def __reduce__(self) -> tuple[type["InputError"], tuple[str, str]]:
        """So that it goes from one process to another."""
        return type(self), (self.where, self.problem)


def unknown_name(where: str, kind: str, name: str, known: list[str], listed: list[str] | None = None) -> InputError:
    """Build the error for a mistyped name: with the nearest known one, else with those ``listed``, all if not given."""
    near = get_close_matches(name, known, n=1)
    listed = known if listed is None else listed
    hint = f'did you mean "{near[0]}"?' if near else f"known: {', '.join(sorted(listed)) or 'none'}"
    return InputError(where, f'unknown {kind} "{name}"; {hint}')


def printable(text: str) -> str:
    """Return ``text`` on one line, with whatever a terminal cannot show escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
