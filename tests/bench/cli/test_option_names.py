"""Option names in errors and notes that come from functions below the command line."""

from collections.abc import Callable
from typing import Annotated

import pytest
import typer

from bench.cli.option_names import OptionCommand, in_options
from instances import InputError
from instances.errors import FieldName

Run = Callable[[str], None]


def run_command(act: Run) -> None:
    """Call ``act`` as the body of a command with the options ``--then`` and ``--switch-at``."""
    app = typer.Typer()

    @app.command(cls=OptionCommand)
    def command(
        plan: Annotated[str, typer.Argument()],
        then: Annotated[str, typer.Option()] = "",
        switch_at_s: Annotated[float, typer.Option("--switch-at")] = 0.0,
    ) -> None:
        act(plan)

    app(["plan.json"], standalone_mode=False)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError(FieldName("switch_at_s"), "needs `then`"), "--switch-at: needs --then"),
        (InputError(FieldName("switch_at_s", " 3"), "see `bench list`"), "--switch-at 3: see `bench list`"),
        (InputError("switch_at_s", "is a file of this name"), "switch_at_s: is a file of this name"),
        (InputError(FieldName("plan"), "is no option"), "plan: is no option"),
        (InputError(FieldName("headroom"), "`seeds` are no options here"), "headroom: `seeds` are no options here"),
    ],
)
def test_errors_name_the_options_of_their_command(error: InputError, message: str) -> None:
    def fail(_: str) -> None:
        raise error

    with pytest.raises(InputError) as raised:
        run_command(fail)
    assert str(raised.value) == message


def test_notes_name_the_options_of_their_command() -> None:
    notes: list[str] = []
    run_command(lambda _: notes.append(in_options("`switch_at_s` 3: reduced; see `then` and `headroom`")))
    assert notes == ["--switch-at 3: reduced; see --then and `headroom`"]
    assert in_options("`then`") == "`then`"  # no command is running


def test_other_errors_are_not_changed() -> None:
    def fail(_: str) -> None:
        raise ValueError("`then`")

    with pytest.raises(ValueError, match=r"^`then`$"):
        run_command(fail)
