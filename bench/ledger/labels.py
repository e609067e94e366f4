"""Labels of runs: a scheduler's name, and the parameters in which the runs of a table differ."""

from collections.abc import Sequence
from json import dumps
from typing import Protocol

from bench.ledger.row import JsonObject


class LabelledRun(Protocol):
    """Run with a label: a task or a row."""

    @property
    def key(self) -> str:
        """Key of the run's row."""

    @property
    def scheduler(self) -> str:
        """Spec of the scheduler; ``b@a`` runs ``a`` first."""

    @property
    def parameters(self) -> JsonObject:
        """Values of all parameters, by scheduler name."""


def labels(runs: Sequence[LabelledRun]) -> dict[str, str]:
    """Return the label of each run by key: the scheduler's name, and the parameters in which ``runs`` differ."""
    values_of: dict[tuple[str, str, str], set[str]] = {}
    for run in runs:
        for stage, parameters in run.parameters.items():
            for name, value in parameters.items():
                values_of.setdefault((run.scheduler, stage, name), set()).add(in_words(value))
    return {run.key: "@".join(_label(run, stage, values_of) for stage in run.scheduler.split("@")) for run in runs}


def _label(run: LabelledRun, stage: str, values_of: dict[tuple[str, str, str], set[str]]) -> str:
    parameters = run.parameters.get(stage, {})
    differing = [
        f"{name}={in_words(value)}"
        for name, value in parameters.items()
        if len(values_of[run.scheduler, stage, name]) > 1
    ]
    return f"{stage}[{', '.join(differing)}]" if differing else stage


def in_words(value: object) -> str:
    """Return the value of a parameter in the form of the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) else dumps(value)
