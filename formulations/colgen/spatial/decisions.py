"""Decisions on sets of choices that pricing remembers.

The same sets come up again in other boxes and at other duals. Whether a set fits on one GPU depends on neither.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.spatial.choices import Choices
from formulations.colgen.spatial.totals import decide
from instances.arrays import Ints
from instances.compiled import compiled
from instances.tables import Tables

ROWS = 1 << 17
"""Rows of the hash table, a power of 2; once half of them are in use, all decisions are forgotten."""

QUERIES, GROWTH, MOST_NODES = 64, 4, 1 << 14
"""Queries of an undecided set after which it is searched again, the growth of its node limit, and the largest one."""

RETRIES = 32
"""Largest number of sets that one call of pricing's kernel searches again: it does not look at the clock."""

_FREE = -2


class Decisions(NamedTuple):
    """Hash table of decisions.

    Attributes
    ----------
    chosen, batch
        Choices of each set, in increasing order and filled up with -1, and batches at which they fit, shape (rows, most
        residents).
    result
        Result of ``decide`` for each set, or ``_FREE``.
    limit, queries
        Node limit of each undecided set, and the number of queries since it was searched.
    used
        Number of rows in use, shape (1,).
    nodes, retries
        Nodes of ``decide`` since ``begin_call``, and the number of sets that may still be searched again, shape (1,).
    keeps_fitting
        Whether sets that fit are remembered: not if budgets are upper bounds, which may be replaced by lower ones.
    """

    chosen: NDArray[np.int32]
    batch: NDArray[np.int16]
    result: NDArray[np.int8]
    limit: Ints
    queries: Ints
    used: Ints
    nodes: Ints
    retries: Ints
    keeps_fitting: bool

    @classmethod
    def of(cls, residents: int, keeps_fitting: bool) -> "Decisions":
        """Allocate the table for sets of at most ``residents`` choices."""
        return cls(
            np.empty((ROWS, residents), dtype=np.int32),
            np.empty((ROWS, residents), dtype=np.int16),
            np.full(ROWS, _FREE, dtype=np.int8),
            np.empty(ROWS, dtype=np.int64),
            np.empty(ROWS, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            keeps_fitting,
        )

    def begin_call(self) -> None:
        """Count nodes anew, and let ``RETRIES`` more sets be searched again."""
        self.nodes[0], self.retries[0] = 0, RETRIES


@compiled
def decide_once(tables: Tables, choices: Choices, decisions: Decisions, chosen: Ints, batch: Ints, limit: int) -> int:
    """Return the result of ``decide``; a set that is remembered is searched again only if it was undecided."""
    residents = len(chosen)
    row = _row_of(decisions, chosen)
    limit = max(limit, choices.batches_limit)
    if decisions.result[row] != _FREE:
        if decisions.result[row] >= 0:
            for j in range(residents):
                batch[j] = decisions.batch[row, j]
            return int(decisions.result[row])
        decisions.queries[row] += 1
        if decisions.queries[row] >= QUERIES and decisions.retries[0] > 0:
            limit = max(limit, min(GROWTH * decisions.limit[row], MOST_NODES))
        if limit <= decisions.limit[row]:
            return -1
        decisions.retries[0] -= 1
    decided, nodes = decide(tables, choices, chosen, batch, limit)
    decisions.nodes[0] += nodes
    if decided > 0 and not decisions.keeps_fitting:
        return decided
    if decisions.result[row] == _FREE:
        decisions.used[0] += 1
        if 2 * decisions.used[0] > len(decisions.result):
            decisions.result[:], decisions.used[0] = _FREE, 1
            row = _row_of(decisions, chosen)
        for j in range(decisions.chosen.shape[1]):
            decisions.chosen[row, j] = chosen[j] if j < residents else -1
    for j in range(residents):
        decisions.batch[row, j] = batch[j]
    decisions.result[row], decisions.limit[row], decisions.queries[row] = decided, limit, 0
    return decided


@compiled
def _row_of(decisions: Decisions, chosen: Ints) -> int:
    """Return the row of a set, or the free row for it."""
    residents, width, rows = len(chosen), decisions.chosen.shape[1], len(decisions.result)
    code = residents
    for j in range(residents):
        code = (code * 1_000_003 + chosen[j]) & 0xFFFFFFFFFFFF
    row = (code ^ (code >> 17)) & (rows - 1)
    while decisions.result[row] != _FREE:
        same = residents == width or decisions.chosen[row, residents] < 0
        for j in range(residents):
            same = same and decisions.chosen[row, j] == chosen[j]
        if same:
            break
        row = (row + 1) & (rows - 1)
    return row
