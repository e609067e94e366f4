"""Experience replay: the latest transitions, drawn uniformly."""

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


class Replay:
    """Ring buffer of transitions.

    Parameters
    ----------
    capacity
        Largest number of transitions; new transitions overwrite the oldest.
    fields
        Shape of each field of a transition by name. All fields are stored as float32.
    device
        Device that holds the transitions.
    """

    def __init__(self, capacity: int, fields: Mapping[str, tuple[int, ...]], device: torch.device) -> None:
        self.capacity = capacity
        self._fields = {name: torch.empty((capacity, *shape), device=device) for name, shape in fields.items()}
        self._device = device
        self._next = 0
        self._filled = 0

    def __len__(self) -> int:
        return self._filled

    def add(self, **fields: NDArray[Any]) -> None:
        """Store transitions; each field has shape (transitions, ...)."""
        count = len(next(iter(fields.values())))
        rows = torch.arange(self._next, self._next + count, device=self._device)[-self.capacity :] % self.capacity
        for name, stored in self._fields.items():
            added = torch.as_tensor(fields[name][-self.capacity :], dtype=torch.float32, device=self._device)
            stored.index_copy_(0, rows, added)
        self._next = (self._next + count) % self.capacity
        self._filled = min(self._filled + count, self.capacity)

    def sample(self, count: int, random: torch.Generator) -> dict[str, Tensor]:
        """Draw ``count`` transitions with replacement."""
        rows = torch.randint(self._filled, (count,), generator=random).to(self._device)
        return {name: stored.index_select(0, rows) for name, stored in self._fields.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the content."""
        fields = {name: stored[: self._filled].to("cpu", copy=True) for name, stored in self._fields.items()}
        return {"fields": fields, "next": self._next}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the content from a ``state_dict``."""
        for name, saved in state["fields"].items():
            self._fields[name][: len(saved)] = saved
            self._filled = len(saved)
        self._next = state["next"]
