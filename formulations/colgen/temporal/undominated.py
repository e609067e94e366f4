"""Lists of gpulets or GPUs of which none dominates another in rates, or in rates, least rates and throughput."""

from typing import NamedTuple

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import compiled


class Undominated(NamedTuple):
    """Entries with their contents.

    Attributes
    ----------
    size
        Number of entries, shape (1,).
    amounts
        Amounts by which entries are compared, the larger the better, shape (most, amounts): the rates of the workloads,
        or these followed by the negated least rates and by the worth of the throughput.
    worth
        Largest worth of the entry and of those that it dominates, shape (most,); 0 if the user of the list ignores it.
    content
        Numbers that describe the content, -1 for none, shape (most, numbers).
    """

    size: Ints
    amounts: Floats
    worth: Floats
    content: Ints


def nothing_listed(most: int, amounts: int, numbers: int) -> Undominated:
    """Return an empty list with room for ``most`` entries."""
    return Undominated(
        np.zeros(1, dtype=np.int64),
        np.zeros((most, amounts)),
        np.zeros(most),
        np.full((most, numbers), -1, dtype=np.int64),
    )


@compiled
def offer(listed: Undominated, amounts: Floats, worth: float, content: Ints) -> bool:
    """Insert an entry unless another one dominates it, and remove those that it dominates; ``False`` if it is full."""
    kept = 0
    for k in range(listed.size[0]):
        if _covers(listed.amounts[k], amounts):
            # No entry was removed yet: this one dominates such an entry, and listed entries never dominate each other.
            listed.worth[k] = max(listed.worth[k], worth)
            return True
        if _covers(amounts, listed.amounts[k]):
            worth = max(worth, listed.worth[k])
        else:
            if kept < k:
                listed.amounts[kept], listed.worth[kept] = listed.amounts[k], listed.worth[k]
                listed.content[kept] = listed.content[k]
            kept += 1
    if kept == len(listed.worth):
        return False
    listed.amounts[kept], listed.worth[kept], listed.content[kept] = amounts, worth, content
    listed.size[0] = kept + 1
    return True


@compiled
def _covers(first: Floats, second: Floats) -> bool:
    """Return whether every entry of the first array is at least that of the second, of the same length."""
    for k in range(len(second)):
        if first[k] < second[k]:
            return False
    return True
