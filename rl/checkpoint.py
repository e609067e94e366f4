"""Training episodes with scalars as CSV, and checkpoints from which training resumes.

The folder holds ``scalars.csv`` with a row per episode, ``checkpoint.pt`` and ``policy.pt``. The checkpoint is written
at regular intervals, when training is stopped after an episode, and at the end. It has the complete state. On the same
machine and with the same number of threads, resumed training ends bit for bit where uninterrupted training would.
``policy.pt`` is written together with it and has the actors alone.
"""

import csv
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from instances import InputError
from instances.files import write_bytes
from rl.weights import in_a_line, load_weights, save_weights

Scalars = dict[str, float]

_MAY_CHANGE = ("episodes", "save_every")


class Means:
    """Means of scalars over the steps of an episode; a scalar may be missing in some steps."""

    def __init__(self) -> None:
        self._values: dict[str, list[float]] = {}

    def add(self, scalars: Scalars) -> None:
        """Add the scalars of a step."""
        for name, value in scalars.items():
            self._values.setdefault(name, []).append(value)

    def scalars(self) -> Scalars:
        """Return the mean of each scalar."""
        return {name: float(np.mean(values)) for name, values in self._values.items()}


def lasting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that resumed training must share: all but its length and the interval of checkpoints."""
    return {name: value for name, value in settings.items() if name not in _MAY_CHANGE}


def faded(number: int, halve_every: float) -> float:
    """Return the remaining fraction of the exploration in episode ``number``, counted from 1."""
    return 0.5 ** ((number - 1) / halve_every)


class Resumable(Protocol):
    """Object with a state that training can resume from."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resumption."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a ``state_dict``."""
        ...


def run_episodes(
    folder: Path,
    terms: Mapping[str, Any],
    parts: Mapping[str, Resumable],
    episodes: int,
    save_every: int,
    episode: Callable[[int], Scalars],
    save: Callable[[int, Path], None],
    tell: Callable[[int, Scalars], None],
) -> None:
    """Run the remaining episodes.

    Parameters
    ----------
    folder
        Folder of all files; created if necessary.
    terms
        Settings that a resumed training must share.
    parts
        Objects whose state changes during training, by name.
    episodes, save_every
        Total number of episodes, and episodes between two checkpoints.
    episode
        Runs episode ``number``, counted from 1.
    save
        Writes the policy after an episode to a path.
    tell
        Called after each episode with its number and its scalars. If it raises ``KeyboardInterrupt``, training stops
        there and writes a checkpoint.

    Raises
    ------
    InputError
        If the checkpoint in ``folder`` belongs to another training.
    """
    folder.mkdir(parents=True, exist_ok=True)
    history = _resume(folder / "checkpoint.pt", terms, parts)

    def keep(number: int) -> None:
        # The checkpoint is written last: after an interruption before it, training resumes from the previous one.
        save(number, folder / "policy.pt")
        states = {name: part.state_dict() for name, part in parts.items()}
        save_weights({"terms": terms, "told": history, **states}, folder / "checkpoint.pt")

    for number in range(len(history) + 1, episodes + 1):
        history.append(episode(number))
        write_bytes(folder / "scalars.csv", _as_csv(history).encode())
        try:
            tell(number, history[-1])
        except KeyboardInterrupt:
            keep(number)
            raise
        if number % save_every == 0 or number == episodes:
            keep(number)


def _resume(path: Path, terms: Mapping[str, Any], parts: Mapping[str, Resumable]) -> list[Scalars]:
    if not path.exists():
        return []
    saved = load_weights(path)
    try:
        for name, value in terms.items():
            if saved["terms"].get(name) != value:
                raise InputError(str(path), f"is of a training with {name} {saved['terms'].get(name)}, not {value}")
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        history: list[Scalars] = [{str(name): float(value) for name, value in one.items()} for one in saved["told"]]
    except InputError:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(str(path), f"is not a checkpoint of this training: {in_a_line(error)}") from None
    return history


def _as_csv(history: list[Scalars]) -> str:
    text = io.StringIO()
    names = list(dict.fromkeys(name for scalars in history for name in scalars))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["episode", *names])
    for number, scalars in enumerate(history, start=1):
        writer.writerow([number, *(repr(scalars[name]) if name in scalars else "" for name in names)])
    return text.getvalue()
