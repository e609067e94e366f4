"""Experience replay: the latest transitions, drawn uniformly."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor


class Replay:
    """Ring buffer of transitions.

    Parameters
    ----------
    capacity
        Largest number of transitions; older ones are overwritten.
    fields
        Shape of each part of a transition by name. All parts are stored as float32.
    """

    def __init__(self, capacity: int, fields: Mapping[str, tuple[int, ...]]) -> None:
        self.capacity = capacity
        self._parts = {name: torch.empty((capacity, *shape)) for name, shape in fields.items()}
        self._next = 0
        self._filled = 0

    def __len__(self) -> int:
        return self._filled

    def add(self, **parts: Tensor) -> None:
        """Store transitions; each part has shape (transitions, ...)."""
        count = len(next(iter(parts.values())))
        rows = (self._next + torch.arange(count)) % self.capacity
        for name, part in self._parts.items():
            part[rows] = parts[name].to(part)
        self._next = (self._next + count) % self.capacity
        self._filled = min(self._filled + count, self.capacity)

    def sample(self, count: int, random: torch.Generator, device: torch.device) -> dict[str, Tensor]:
        """Draw ``count`` transitions with replacement."""
        rows = torch.randint(self._filled, (count,), generator=random)
        return {name: part[rows].to(device) for name, part in self._parts.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the content."""
        parts = {name: part[: self._filled].clone() for name, part in self._parts.items()}
        return {"parts": parts, "next": self._next}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the content of another buffer."""
        for name, part in state["parts"].items():
            self._parts[name][: len(part)] = part
            self._filled = len(part)
        self._next = state["next"]
