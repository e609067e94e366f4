"""Experience replay: the latest transitions, drawn uniformly."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from instances.arrays import Singles


class Replay:
    """Ring buffer of transitions.

    Parameters
    ----------
    capacity
        Largest number of transitions; new transitions overwrite the oldest.
    fields
        Shape of each part of a transition by name. All parts are stored as float32.
    """

    def __init__(self, capacity: int, fields: Mapping[str, tuple[int, ...]]) -> None:
        self.capacity = capacity
        self._parts: dict[str, Singles] = {
            name: np.empty((capacity, *shape), dtype=np.float32) for name, shape in fields.items()
        }
        self._next = 0
        self._filled = 0

    def __len__(self) -> int:
        return self._filled

    def add(self, **parts: NDArray[Any]) -> None:
        """Store transitions; each part has shape (transitions, ...)."""
        count = len(next(iter(parts.values())))
        rows = (self._next + np.arange(count)) % self.capacity
        for name, part in self._parts.items():
            part[rows] = parts[name]
        self._next = (self._next + count) % self.capacity
        self._filled = min(self._filled + count, self.capacity)

    def sample(self, count: int, random: torch.Generator) -> dict[str, Singles]:
        """Draw ``count`` transitions with replacement."""
        rows = torch.randint(self._filled, (count,), generator=random).numpy()
        return {name: part[rows] for name, part in self._parts.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the content."""
        parts = {name: torch.from_numpy(part[: self._filled].copy()) for name, part in self._parts.items()}
        return {"parts": parts, "next": self._next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the content from a ``state_dict``."""
        for name, part in state["parts"].items():
            self._parts[name][: len(part)] = part.numpy()
            self._filled = len(part)
        self._next = state["next"]
