"""Parts that all trainings share: checks of settings, the loop over episodes, and checkpoints for resuming.

The folder of a training holds ``scalars.csv`` with a row per episode, ``checkpoint.pt`` and ``policy.pt``. The
checkpoint has the complete state and is written at regular intervals, when training is stopped after an episode, and at
the end. On the same CPU and with the same number of threads, resumed training gives the same result, bit for bit, as
uninterrupted training; a GPU may sum in another order. ``policy.pt`` is written together with the checkpoint and has
the weights of the actors alone.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from instances import InputError, Instance
from instances.files import write_bytes
from rl.weights import in_a_line, load_weights, save_weights

FORMAT = 2
"""Version of the checkpoint format. Version 2 has the state of PyTorch's optimisers; version 1 has no number."""

Scalars = dict[str, float]
"""Numbers that describe a step or an episode, by name."""


def means(steps: Sequence[Scalars]) -> Scalars:
    """Return the mean of each scalar over the steps that have it."""
    return {name: float(np.mean([scalars[name] for scalars in steps if name in scalars])) for name in _names(steps)}


def _names(rows: Sequence[Scalars]) -> list[str]:
    return list(dict.fromkeys(name for scalars in rows for name in scalars))


def check_settings(
    settings: object, names: Sequence[str], is_permitted: Callable[[float], bool], expected: str
) -> None:
    """Raise a ``ValueError`` for the first of the named settings whose value is not as expected."""
    for name in names:
        value = getattr(settings, name)
        if not is_permitted(value):
            text = f"{value:g}" if isinstance(value, float) else str(value)
            raise ValueError(f"{name} is {text}; expected {expected}")


def faded(number: int, halve_every: float) -> float:
    """Return the fraction of the initial exploration that remains in episode ``number``, counted from 1.

    The fraction halves in every ``halve_every`` episodes.
    """
    return 0.5 ** ((number - 1) / halve_every)


class Resumable(Protocol):
    """Object with a state that training can resume from."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state for an exact resumption."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from a ``state_dict``."""


def run_episodes(
    folder: Path,
    settings: Mapping[str, Any],
    instance: Instance,
    seed: int,
    parts: Mapping[str, Resumable],
    episode: Callable[[int], Scalars],
    save: Callable[[Path, dict[str, Any]], None],
    tell: Callable[[int, Scalars], None],
) -> None:
    """Run the remaining episodes.

    Parameters
    ----------
    folder
        Folder of all files; created if necessary.
    settings
        Settings of the training. ``episodes`` is the total number of episodes, ``save_every`` the number of episodes
        between two checkpoints. Resumed training may change these two; all others, the instance and the seed must be
        those of the checkpoint.
    parts
        Objects whose state changes during training, by name.
    episode
        Function that runs an episode; its argument is the number of the episode, from 1.
    save
        Function that writes the policy to a path; its second argument describes the training so far.
    tell
        Called after each episode with its number and its scalars. If it raises ``KeyboardInterrupt``, training stops
        there and writes a checkpoint.

    Raises
    ------
    InputError
        If the checkpoint in ``folder`` belongs to another training or was written by another version.
    """
    folder.mkdir(parents=True, exist_ok=True)
    fixed_settings = {name: value for name, value in settings.items() if name not in ("episodes", "save_every")}
    fixed_settings |= {"instance": instance.fingerprint, "seed": seed}
    history = _resume(folder / "checkpoint.pt", fixed_settings, parts)

    def write_checkpoint(number: int) -> None:
        # The checkpoint is written last: after an interruption before it, training resumes from the previous one.
        save(folder / "policy.pt", {**settings, "seed": seed, "episodes": number})
        states = {name: part.state_dict() for name, part in parts.items()}
        save_weights(
            {"format": FORMAT, "terms": fixed_settings, "history": history, **states}, folder / "checkpoint.pt"
        )

    for number in range(len(history) + 1, settings["episodes"] + 1):
        history.append(episode(number))
        write_bytes(folder / "scalars.csv", _as_csv(history).encode())
        try:
            tell(number, history[-1])
        except KeyboardInterrupt:
            write_checkpoint(number)
            raise
        if number % settings["save_every"] == 0 or number == settings["episodes"]:
            write_checkpoint(number)


def _resume(path: Path, fixed_settings: Mapping[str, Any], parts: Mapping[str, Resumable]) -> list[Scalars]:
    if not path.exists():
        return []
    saved = load_weights(path)
    if saved.get("format") != FORMAT:
        raise InputError(str(path), "was written by another version of gpushare-bench; train anew in another folder")
    try:
        for name, value in fixed_settings.items():
            if saved["terms"].get(name) != value:
                raise InputError(
                    str(path), f"belongs to a training with {name} {saved['terms'].get(name)}, not {value}"
                )
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        history: list[Scalars] = [
            {str(name): float(value) for name, value in scalars.items()} for scalars in saved["history"]
        ]
    except InputError:
        raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(str(path), f"is not a checkpoint of this training: {in_a_line(error)}") from None
    return history


def _as_csv(history: list[Scalars]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["episode", *_names(history)], lineterminator="\n")
    writer.writeheader()
    writer.writerows({"episode": number} | scalars for number, scalars in enumerate(history, start=1))
    return text.getvalue()
