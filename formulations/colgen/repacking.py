"""Large neighbourhood search within a budget: GPUs are emptied and packed again so that more workloads are served."""

import math
from collections import deque

import numpy as np

from formulations.colgen.clock import now
from formulations.colgen.restricted_master import LinearMaster, Pattern, Relaxation
from formulations.colgen.spatial.generation import CostGeneration
from instances.arrays import Floats

FEWEST_RESIDENTS, MOST_RESIDENTS = 12, 32
"""Range of the number of residents whose GPUs a step empties."""

ROUNDS, PATTERNS_PER_BOX, PATTERNS_PER_CALL, NODES_PER_BOX = 8, 10, 60, 2_000
"""Pricing calls per step and type, and their limits."""

GAIN, KNOWN_PATTERNS = 1e-4, 4_000
"""Reduced cost from which a pattern is added, and the number of latest patterns from which a step starts."""

BUDGET_ROOM = 1e-9
"""Allowance for the rounding of sums of prices."""

MOST_STALLED = 30
"""Steps in a row that may serve no more workloads than before."""

EXCHANGE_S, EXCHANGE_GAP, PACKING_S = 0.3, 0.2, 3.0
"""Time limit and gap of a step's integer program that only exchanges unserved workloads; time limit of one that may
serve more."""


def suits(generation: CostGeneration) -> bool:
    """Return whether repacking helps: integer programs over all patterns are weak on bounded pools of several types."""
    bounded = len(generation.views) > 1 and bool(np.isfinite(generation.count).all())
    return bounded and len(generation.class_of) > MOST_RESIDENTS and not generation.divisible


class BudgetSearch:
    """Search for a plan within a budget.

    The state is a set of GPUs within the budget that may leave workloads unserved. A step empties some GPUs and packs
    their workloads and the unserved ones again: column generation over these workloads alone, then an integer program
    that leaves as little unserved as possible. Larger workloads weigh more, with random noise, so that steps
    exchange the unserved ones.

    Parameters
    ----------
    generation
        Column generation without divisible workloads; its patterns are used.

    Attributes
    ----------
    gpus
        The state.
    """

    def __init__(self, generation: CostGeneration) -> None:
        self._generation, self._random = generation, np.random.default_rng(generation.run.seed)
        fair = generation.first_duals([generation.least_fraction(pricer) for pricer in generation.pricers])
        self._size = fair / max(float(fair.max()), 1e-9)
        self._known = deque(generation.master.patterns, KNOWN_PATTERNS)
        self._held = deque(generation.master.amounts, KNOWN_PATTERNS)
        self.gpus: list[Pattern] = []

    def keep_within(self, budget: float) -> None:
        """Remove GPUs until the others are within the budget and the pool: those that serve the least alone."""
        price = self._generation.price
        while self.gpus:
            pools = np.array([gpu.pool for gpu in self.gpus])
            excess = float(price[pools].sum()) - budget
            full = np.bincount(pools, minlength=len(price)) > self._generation.count
            if excess <= BUDGET_ROOM and not full.any():
                return
            eligible = full[pools] if full.any() else price[pools] >= excess
            left = [self._left([*self.gpus[:g], *self.gpus[g + 1 :]]) for g in range(len(pools))]
            lost = (np.array(left) - self.unserved()) @ self._size
            del self.gpus[int(np.argmin(np.where(eligible, lost, np.inf) if eligible.any() else lost / price[pools]))]

    def search(self, budget: float, deadline: float) -> list[Pattern] | None:
        """Step until every workload is served within the budget; ``None`` if steps or the time until then run out."""
        fewest, stalled = math.inf, 0
        while self.unserved().any():
            unserved = float(self.unserved().sum())
            stalled = stalled + 1 if unserved >= fewest else 0
            fewest = min(fewest, unserved)
            if now() >= deadline or stalled > MOST_STALLED:
                return None
            self._step(budget, deadline)
        return self.gpus

    def unserved(self) -> Floats:
        """Return the number of unserved workloads of each class."""
        return self._left(self.gpus)

    def _left(self, gpus: list[Pattern]) -> Floats:
        served = sum((self._generation.amounts(gpu) for gpu in gpus), start=np.zeros_like(self._generation.copies))
        return np.maximum(self._generation.copies - served, 0.0)

    def _emptied(self) -> list[int]:
        """Choose the GPUs that a step empties: random ones, until enough residents are on them."""
        most = self._random.integers(FEWEST_RESIDENTS, MOST_RESIDENTS)
        order = self._random.permutation(len(self.gpus)).tolist()
        residents = np.cumsum([len(self.gpus[g].members) for g in order])
        return order[: max(2, int(np.searchsorted(residents, most)) + 1)]

    def _step(self, budget: float, deadline: float) -> None:
        generation, emptied = self._generation, self._emptied()
        kept = [gpu for g, gpu in enumerate(self.gpus) if g not in emptied]
        left = self._left(kept)
        budget -= math.fsum(generation.price[gpu.pool] for gpu in kept)
        used = np.bincount([gpu.pool for gpu in kept], minlength=len(generation.count))
        count = generation.count - used.astype(np.float64)
        weight = 1.0 + self._size * self._random.uniform(0.5, 1.5, len(left))
        unserved = float(weight @ self.unserved())
        packed = _Packing(generation, left, weight, budget, count)
        packed.add([self.gpus[g] for g in emptied])
        packed.add([self._known[c] for c in np.flatnonzero((np.array(self._held) @ (left > 0.0)) >= 1.0)])
        new = packed.generate(deadline)
        self._known.extend(new)
        self._held.extend(generation.amounts(pattern) for pattern in new)
        found = packed.integer(unserved, int(self.unserved().sum()), deadline)
        if found is not None and weight @ self._left([*kept, *found]) <= unserved + 1e-9:
            self.gpus = [*kept, *found]


class _Packing:
    """Restricted master of one step: rows are classes left, the budget and the pools."""

    def __init__(self, generation: CostGeneration, left: Floats, weight: Floats, budget: float, count: Floats) -> None:
        self._generation, self._left, self._weight = generation, left, weight
        self._classes = np.flatnonzero(left > 0.0)
        self._budget, self._count = budget + BUDGET_ROOM, count
        self._master = self._empty()
        self._patterns: dict[Pattern, Floats] = {}
        self._relaxation: Relaxation | None = None

    def _empty(self) -> LinearMaster:
        """Return a master that has only the columns of unserved workloads."""
        least = np.append(self._left[self._classes], -np.inf)
        most = np.append(np.full(len(self._classes), np.inf), self._budget)
        master = LinearMaster(least, most, self._count, self._generation.run.threads)
        for row, group in enumerate(self._classes):
            master.add_column(float(self._weight[group]), np.eye(1, len(least), row)[0])
        return master

    def add(self, patterns: list[Pattern]) -> list[Pattern]:
        """Add patterns without the classes that are served; return those that are new."""
        new = []
        for whole in patterns:
            members = tuple(m for m in whole.members if self._left[self._generation.class_of[m[0]]] > 0.0)
            pattern = Pattern(whole.pool, members)
            if members and pattern not in self._patterns:
                amounts = self._generation.amounts(pattern)[self._classes]
                self._patterns[pattern] = np.append(amounts, self._generation.price[pattern.pool])
                self._master.add_column(0.0, self._patterns[pattern], pattern.pool)
                new.append(pattern)
        return new

    def generate(self, deadline: float) -> list[Pattern]:
        """Generate columns; return the new patterns."""
        generation = self._generation
        new: list[Pattern] = []
        for _ in range(ROUNDS):
            self._relaxation = relaxation = self._master.relax()
            dual = np.full(len(self._left), -np.inf)
            dual[self._classes] = np.maximum(relaxation.workload_dual[:-1], 0.0)
            per_dollar = -min(float(relaxation.workload_dual[-1]), 0.0)
            found: list[Pattern] = []
            for pricer in generation.pricers:
                if self._count[pricer.pool] >= 1.0 and generation.price[pricer.pool] <= self._budget:
                    worth = per_dollar * generation.price[pricer.pool] - min(relaxation.pool_dual[pricer.pool], 0.0)
                    priced = pricer.price(
                        generation.profit(pricer, dual),
                        float(worth) + GAIN,
                        NODES_PER_BOX,
                        PATTERNS_PER_BOX,
                        PATTERNS_PER_CALL,
                        deadline,
                    )
                    generation.tally.nodes += priced.nodes
                    found += self.add(priced.patterns)
            new += found
            if not found or now() >= deadline:
                break
        return new

    def integer(self, unserved: float, workloads: int, deadline: float) -> list[Pattern] | None:
        """Return GPUs that leave little unserved; patterns in no solution as good as ``unserved`` are left out."""
        relaxation, patterns = self._relaxation, list(self._patterns)
        if relaxation is None or now() >= deadline:
            return None
        fewer = math.ceil(relaxation.value / float(self._weight.max()) - 1e-6) < workloads
        limit_s, gap = (PACKING_S, 0.0) if fewer else (EXCHANGE_S, EXCHANGE_GAP)
        amounts = np.array(list(self._patterns.values()))
        pools = np.array([pattern.pool for pattern in patterns])
        reduced = -amounts @ relaxation.workload_dual - relaxation.pool_dual[pools]
        room = unserved - relaxation.value + 1e-6
        master, columns = self._empty(), np.flatnonzero(reduced <= room)
        for column in columns:
            master.add_column(0.0, amounts[column], int(pools[column]))
        run = self._generation.run
        found, _ = master.whole(0, min(limit_s, deadline - now()), run.threads, run.seed, gap)
        if found is None:
            return None
        used = found[len(self._classes) :]
        return [patterns[columns[c]] for c in np.flatnonzero(used > 0.5) for _ in range(round(used[c]))]
