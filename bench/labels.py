"""Labels for runs of one scheduler with different parameters, such as ``colgen[plan_class=split]``."""

from collections.abc import Sequence
from json import dumps
from typing import Protocol

from bench.ledger.row import JsonObject


class LabelledRun(Protocol):
    """Run with a label: a task or a row."""

    @property
    def key(self) -> str:
        """Key of its row."""
        ...

    @property
    def scheduler(self) -> str:
        """Spec of the scheduler; ``b@a`` runs ``a`` first."""
        ...

    @property
    def parameters(self) -> JsonObject:
        """Values of all parameters, by scheduler name."""
        ...


def labels(runs: Sequence[LabelledRun]) -> dict[str, str]:
    """Return the label of each run by key: the scheduler's name, and the parameters in which ``runs`` differ."""
    seen: dict[tuple[str, str, str], set[str]] = {}
    for run in runs:
        for stage, values in run.parameters.items():
            for name, value in values.items():
                seen.setdefault((run.scheduler, stage, name), set()).add(in_words(value))
    return {run.key: "@".join(_label(run, stage, seen) for stage in run.scheduler.split("@")) for run in runs}


def _label(run: LabelledRun, stage: str, seen: dict[tuple[str, str, str], set[str]]) -> str:
    values = run.parameters.get(stage, {})
    varied = [
        f"{name}={in_words(value)}" for name, value in values.items() if len(seen[run.scheduler, stage, name]) > 1
    ]
    return f"{stage}[{', '.join(varied)}]" if varied else stage


def in_words(value: object) -> str:
    """Return the value of a parameter in the form of the command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else dumps(value)
