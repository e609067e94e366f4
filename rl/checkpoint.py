"""Episodes of training with scalars as CSV and checkpoints to go on from.

The folder holds ``scalars.csv``, a row per episode; ``checkpoint.pt``, written every so often, when training is stopped
after an episode, and at the end, has everything: training that goes on from it ends bit for bit where it would have
ended without the interruption, on the same machine and with the same number of threads. ``policy.pt``, written with
it, has the actors alone.
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

_NOT_LASTING = ("episodes", "save_every")


class Means:
    """Means over the steps of an episode; a scalar need not be there in every step."""

    def __init__(self) -> None:
        self._told: dict[str, list[float]] = {}

    def add(self, scalars: Scalars) -> None:
        """Take those of a step into account."""
        for name, value in scalars.items():
            self._told.setdefault(name, []).append(value)

    def scalars(self) -> Scalars:
        """Return the mean of each."""
        return {name: float(np.mean(values)) for name, values in self._told.items()}


def lasting(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that must be the same when training goes on: all but how long, and how often it is saved."""
    return {name: value for name, value in settings.items() if name not in _NOT_LASTING}


def faded(number: int, halve_every: float) -> float:
    """Return how much of the exploration is left in the episode of a number, from 1."""
    return 0.5 ** ((number - 1) / halve_every)


class Resumable(Protocol):
    """What has a state to go on from."""

    def state_dict(self) -> dict[str, Any]:
        """Return what it takes to go on bit for bit."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a ``state_dict``."""
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
    """Run the episodes that are left.

    Parameters
    ----------
    folder
        Where everything goes; made if need be.
    terms
        What must be the same for training to go on.
    parts
        What changes in the course of it, by name.
    episodes, save_every
        How many in all, and from one checkpoint to the next.
    episode
        Runs the episode of a number, from 1.
    save
        Writes the policy after an episode to a path.
    tell
        Called after each episode with its number and its scalars. If it raises ``KeyboardInterrupt``, training stops
        there, with a checkpoint.

    Raises
    ------
    InputError
        If the checkpoint in ``folder`` is of other training.
    """
    folder.mkdir(parents=True, exist_ok=True)
    told = _resume(folder / "checkpoint.pt", terms, parts)

    def keep(number: int) -> None:
        # The checkpoint last: whatever is interrupted before is done again.
        save(number, folder / "policy.pt")
        states = {name: part.state_dict() for name, part in parts.items()}
        save_weights({"terms": terms, "told": told, **states}, folder / "checkpoint.pt")

    for number in range(len(told) + 1, episodes + 1):
        told.append(episode(number))
        write_bytes(folder / "scalars.csv", _as_csv(told).encode())
        try:
            tell(number, told[-1])
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
                raise InputError(str(path), f"is of training with {name} {saved['terms'].get(name)}, not {value}")
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        told: list[Scalars] = [{str(name): float(value) for name, value in one.items()} for one in saved["told"]]
    except InputError:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(str(path), f"is no checkpoint of this training: {in_a_line(error)}") from None
    return told


def _as_csv(told: list[Scalars]) -> str:
    text = io.StringIO()
    names = list(dict.fromkeys(name for scalars in told for name in scalars))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["episode", *names])
    for number, scalars in enumerate(told, start=1):
        writer.writerow([number, *(repr(scalars[name]) if name in scalars else "" for name in names)])
    return text.getvalue()
