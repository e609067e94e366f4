"""Large neighbourhood search within a budget: GPUs are emptied and packed again so that more workloads are served."""

import math

import numpy as np

from formulations.colgen.clock import now
from formulations.colgen.column_generation import ColumnGeneration, Solution
from formulations.colgen.restricted_master import LinearMaster, Relaxation
from formulations.colgen.spatial.problem import SpatialProblem
from formulations.pattern import Pattern
from instances.arrays import Floats
from instances.costs import cost_step, next_cost

TIME_FRACTION, MOST_FAILURES = 0.8, 40
"""Fraction of the remaining time for repacking, and the number of failed searches that end it."""

CONVERGING_TIME_FRACTION = 0.2
"""Largest fraction of the remaining time for the convergence of the relaxation before repacking."""

FEWEST_RESIDENTS, MOST_RESIDENTS = 12, 32
"""Range of the number of residents whose GPUs a step empties."""

WASTE, FAVOUR = 1e-6, 0.5
"""Reduced cost from which a GPU counts as wasteful, and the head start of such GPUs when a step chooses."""

WEIGHT, NOISE = 20.0, 0.05
"""A workload weighs 1, plus ``WEIGHT`` times its dual over the mean dual, with this relative noise in each step."""

OWN_PART = 2.0 / 3.0
"""A step uses a known pattern if it packs at least this fraction of the pattern's workloads."""

ROUNDS, PATTERNS_PER_BOX, PATTERNS_PER_CALL, NODES_PER_BOX = 8, 10, 60, 2_000
"""Pricing calls per step and type, and their limits."""

GAIN, KNOWN_PATTERNS = 1e-4, 2_000
"""Gain from which a pattern is added, and the number of latest patterns from which a step takes its first ones."""

BUDGET_ROOM = 1e-9
"""Allowance for the rounding of sums of prices."""

MOST_STALLED = 100
"""Steps in a row without a new least worth of the unserved workloads after which a search fails."""

EXCHANGE_S, EXCHANGE_GAP, PACKING_S, PACKING_GAP = 0.3, 0.2, 3.0, 0.02
"""Time limit and gap of a step's integer program: one that can only exchange unserved workloads, and one that may
serve more."""

TIE = 0.01
"""Largest random cost of a GPU in that program, to decide between equal packings; a workload weighs at least 1."""


def suits(problem: SpatialProblem) -> bool:
    """Return whether repacking helps: integer programs over all patterns are weak on bounded pools of several types."""
    bounded = problem.minimised and len(problem.views) > 1 and bool(np.isfinite(problem.count).all())
    return bounded and len(problem.class_of) > MOST_RESIDENTS and not problem.divisible


def repack(problem: SpatialProblem, solution: Solution) -> None:
    """Search for plans at the cost of the bound; after a failure there, search once at a higher cost."""
    generation, run = solution.generation, solution.run
    least_left_s = (1.0 - CONVERGING_TIME_FRACTION) * run.remaining_s
    generation.solve(lambda: run.remaining_s < least_left_s)  # the search needs the duals of the optimum
    solution.report_bound()
    repacking, deadline = BudgetSearch(problem, generation), now() + TIME_FRACTION * run.remaining_s
    failures, higher, room = 0, False, 0.0
    while not solution.proven() and now() < deadline and failures < MOST_FAILURES:
        target = next_cost(generation.bound, solution.instance) + (room if higher else 0.0)
        if target > solution.worst_of_interest():
            failures, higher, room = failures + 1, False, 0.0
            continue
        if not higher:
            repacking.restart()
        patterns = repacking.search(target, deadline)
        if patterns is None:
            failures, higher = failures + 1, not higher
            room = max(2.0 * room, repacking.unserved_worth(), cost_step(solution.instance)) if higher else room
            continue
        generation.add(patterns)
        before, higher, room = solution.value, False, 0.0
        solution.accept(generation.master.counts(patterns))
        if solution.value >= before:
            return


class BudgetSearch:
    """Search for a plan within a budget.

    The state is a set of GPUs within the budget that may leave workloads unserved. A step empties some GPUs and packs
    their workloads and the unserved ones again: column generation over these workloads alone, then an integer program
    that leaves as little unserved as possible. The weight of a workload grows with its dual: at a budget of the
    relaxation's value, the duals of the unserved ones sum to the reduced costs of the GPUs, so steps lower the waste.
    Random noise lets steps exchange the unserved ones.

    Parameters
    ----------
    problem
        Problem without divisible workloads.
    generation
        Its column generation, whose patterns and duals are used.
    """

    def __init__(self, problem: SpatialProblem, generation: ColumnGeneration) -> None:
        self._problem, self._generation = problem, generation
        self._random = np.random.default_rng(generation.run.seed)
        relaxation = generation.relaxed()
        self._dual, self._pool_dual = relaxation.workload_dual, relaxation.pool_dual
        patterns = generation.master.patterns
        waste = np.array([self._waste(pattern) for pattern in patterns])
        self._first = [patterns[c] for c in sorted(np.argsort(waste, kind="stable")[:KNOWN_PATTERNS].tolist())]
        self.restart()

    def restart(self) -> None:
        """Forget the GPUs and the patterns of earlier steps: after a failed search a fresh start packs better."""
        self.gpus: list[Pattern] = []
        self._known: list[Pattern] = []
        self._held = np.empty((0, len(self._problem.copies)))
        self._learn(self._first)

    def _waste(self, pattern: Pattern) -> float:
        """Return the reduced cost of a pattern at the duals of the first relaxation."""
        worth = float(self._dual @ self._problem.amounts(pattern) + self._pool_dual[pattern.pool])
        return float(self._problem.price[pattern.pool]) - worth

    def _learn(self, patterns: list[Pattern]) -> None:
        """Keep the latest patterns, with the number of workloads of each class that they hold."""
        self._known = [*self._known, *patterns][-KNOWN_PATTERNS:]
        new = [self._problem.amounts(pattern) for pattern in patterns]
        self._held = np.vstack([self._held, *new])[-KNOWN_PATTERNS:]

    def search(self, budget: float, deadline: float) -> list[Pattern] | None:
        """Step until every workload is served; ``None`` at the deadline, or once many steps in a row lower nothing.

        The present GPUs must be within the budget.
        """
        fewest, stalled = math.inf, 0
        while self.unserved().any():
            unserved = self.unserved_worth()
            stalled = stalled + 1 if unserved >= fewest else 0
            fewest = min(fewest, unserved)
            if now() >= deadline or stalled > MOST_STALLED:
                return None
            self._step(budget, deadline)
        return self.gpus

    def unserved(self) -> Floats:
        """Return the number of unserved workloads of each class."""
        return self._left(self.gpus)

    def unserved_worth(self) -> float:
        """Return the sum of the duals of the unserved workloads: about the cost of serving them."""
        return float(self.unserved() @ self._dual)

    def _left(self, gpus: list[Pattern]) -> Floats:
        served = sum((self._problem.amounts(gpu) for gpu in gpus), start=np.zeros_like(self._problem.copies))
        return np.maximum(self._problem.copies - served, 0.0)

    def _emptied(self) -> list[int]:
        """Choose GPUs to empty: at random, preferring wasteful ones, until enough residents are on them."""
        most = self._random.integers(FEWEST_RESIDENTS, MOST_RESIDENTS)
        wasteful = np.array([self._waste(gpu) > WASTE for gpu in self.gpus], dtype=np.float64)
        order = np.argsort(self._random.random(len(self.gpus)) - FAVOUR * wasteful).tolist()
        residents = np.cumsum([len(self.gpus[g].gpulets) for g in order])
        return order[: max(2, int(np.searchsorted(residents, most)) + 1)]

    def _step(self, budget: float, deadline: float) -> None:
        problem, emptied = self._problem, self._emptied()
        untouched = [gpu for g, gpu in enumerate(self.gpus) if g not in emptied]
        left = self._left(untouched)
        budget -= math.fsum(problem.price[gpu.pool] for gpu in untouched)
        used = np.bincount([gpu.pool for gpu in untouched], minlength=len(problem.count))
        count = problem.count - used.astype(np.float64)
        noise = self._random.uniform(1.0 - NOISE, 1.0 + NOISE, len(left))
        weight = 1.0 + WEIGHT * noise * self._dual / max(float(self._dual.mean()), 1e-9)
        unserved = float(weight @ self.unserved())
        packed = _Packing(problem, self._generation, left, weight, budget, count, self._random)
        packed.add([self.gpus[g] for g in emptied])
        packs_most = self._held @ (left > 0.0) >= OWN_PART * self._held.sum(axis=1)
        packed.add([self._known[c] for c in np.flatnonzero(packs_most)])
        self._learn(packed.generate(deadline))
        gpus = packed.integer(unserved, int(self.unserved().sum()), deadline)
        if gpus is not None and weight @ self._left([*untouched, *gpus]) <= unserved + 1e-9:
            self.gpus = [*untouched, *gpus]


class _Packing:
    """Restricted master of one step; its rows are the classes to pack, the budget and the pools."""

    def __init__(
        self,
        problem: SpatialProblem,
        generation: ColumnGeneration,
        left: Floats,
        weight: Floats,
        budget: float,
        count: Floats,
        random: np.random.Generator,
    ) -> None:
        self._problem, self._generation = problem, generation
        self._left, self._weight, self._random = left, weight, random
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
        """Add patterns without their residents of other classes; return those that are new."""
        new = []
        for whole in patterns:
            residents = [r for r in whole.residents if self._left[self._problem.class_of[r.workload]] > 0.0]
            pattern = Pattern.of(whole.pool, residents)
            if residents and pattern not in self._patterns:
                amounts = self._problem.amounts(pattern)[self._classes]
                self._patterns[pattern] = np.append(amounts, self._problem.price[pattern.pool])
                self._master.add_column(0.0, self._patterns[pattern], pattern.pool)
                new.append(pattern)
        return new

    def generate(self, deadline: float) -> list[Pattern]:
        """Generate columns; return the new patterns."""
        problem = self._problem
        new: list[Pattern] = []
        for _ in range(ROUNDS):
            self._relaxation = relaxation = self._master.relax()
            dual = np.full(len(self._left), -np.inf)
            dual[self._classes] = np.maximum(relaxation.workload_dual[:-1], 0.0)
            per_dollar = -min(float(relaxation.workload_dual[-1]), 0.0)
            added: list[Pattern] = []
            for pricer in problem.pricers:
                if self._count[pricer.pool] >= 1.0 and problem.price[pricer.pool] <= self._budget:
                    worth = per_dollar * problem.price[pricer.pool] - min(relaxation.pool_dual[pricer.pool], 0.0)
                    priced = pricer.price(
                        problem.profit(pricer, dual),
                        float(worth) + GAIN,
                        NODES_PER_BOX,
                        PATTERNS_PER_BOX,
                        PATTERNS_PER_CALL,
                        deadline,
                    )
                    self._generation.nodes += priced.nodes
                    added += self.add(priced.patterns)
            new += added
            if not added or now() >= deadline:
                break
        return new

    def integer(self, unserved: float, workloads: int, deadline: float) -> list[Pattern] | None:
        """Return GPUs that leave little unserved; ``None`` without a solution.

        A pattern is left out if no solution with it leaves a weight of at most ``unserved``; ``workloads`` is the
        number that are unserved now.
        """
        relaxation, patterns = self._relaxation, list(self._patterns)
        if relaxation is None or now() >= deadline:
            return None
        fewer = math.ceil(relaxation.value / float(self._weight.max()) - 1e-6) < workloads
        limit_s, gap = (PACKING_S, PACKING_GAP) if fewer else (EXCHANGE_S, EXCHANGE_GAP)
        amounts = np.array(list(self._patterns.values()))
        pools = np.array([pattern.pool for pattern in patterns])
        reduced = -amounts @ relaxation.workload_dual - relaxation.pool_dual[pools]
        room = unserved - relaxation.value + 1e-6
        master, columns = self._empty(), np.flatnonzero(reduced <= room)
        for column, tie in zip(columns, TIE * self._random.random(len(columns)), strict=True):
            master.add_column(float(tie), amounts[column], int(pools[column]))
        seed = int(self._random.integers(2**31))
        amount_of, _ = master.whole(0, min(limit_s, deadline - now()), seed, gap)
        if amount_of is None:
            return None
        used = amount_of[len(self._classes) :]
        return [patterns[columns[c]] for c in np.flatnonzero(used > 0.5) for _ in range(round(used[c]))]
