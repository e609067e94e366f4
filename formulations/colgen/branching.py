"""Branch and price.

The first branching rule, for ``cost`` alone, bounds the number of GPUs of a type. The second is Ryan and Foster's: two
workloads share a GPU, or they do not. The last one decides whether a workload is on GPUs of a type or not.

A class is a set of identical workloads (``identical_workloads``). The last two rules branch on classes of one workload,
of which a plan has at most one slot. Under ``goodput`` it may have none: "together" then means that each GPU has both
workloads or neither.

Bounds in the tree are lower bounds on the cost of the master. If the objective is a throughput, this cost is the
throughput with the opposite sign.
"""

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np

from bench.api import Branching, Duals, ProofNode
from formulations.colgen.capacity.problem import CapacityProblem
from formulations.colgen.claims import excludes_every_plan
from formulations.colgen.clock import now
from formulations.colgen.pairs import Pairs
from formulations.colgen.restricted_master import Priced, Relaxation, whole_counts
from formulations.colgen.solution import ColumnGeneration, Solution
from formulations.colgen.spatial.problem import SpatialProblem
from instances.arrays import Floats, Ints
from instances.costs import next_cost
from instances.one_gpu import Pattern

BranchedProblem = SpatialProblem | CapacityProblem
"""Problems whose pricing takes the conditions of a branch."""

ROUNDING_TIME_FRACTION = 0.2
"""Largest fraction of the branching time that is spent on solving the restricted master over integers."""

WHOLE = 1e-6
"""Distance from an integer below which a sum of weights counts as an integer."""

FIRST_TOLERANCE, LAST_TOLERANCE, TOLERANCE_FACTOR = 0.01, 1e-6, 0.01
"""Least relative excess of a pattern's worth over its price for which pricing returns it: at first, at last, and the
factor from one value to the next.
"""

LAST_THROUGHPUT_TOLERANCE = 1e-10
"""``LAST_TOLERANCE`` under a throughput objective, whose values are not rounded to sums of prices."""

FIRST_NODES, LAST_NODES = 2_000, 20_000_000
"""Node limit per box in pricing, at first and at last."""


def branch_and_price(problem: BranchedProblem, solution: Solution) -> None:
    """Branch and price until no better plan can exist or the time is over."""
    generation, run = solution.generation, solution.run
    if (
        math.isinf(solution.worst_of_interest())  # no plan and an unlimited pool: no branch could be left out
        or run.remaining_s <= 0.0
        or excludes_every_plan(generation.dual_bound, solution.instance)
    ):
        return
    tree = Tree(problem, generation, solution.excludes_better, solution.accept)
    began, rounding_s = now(), 0.0
    while tree.open and run.remaining_s > 0.0:
        explored, before = tree.step(), solution.value
        generation.proof = tree.nodes
        generation.bound = tree.sign * max(tree.sign * generation.bound, min(tree.bound, solution.value))
        solution.report_bound()
        at = now()
        if not explored or rounding_s < ROUNDING_TIME_FRACTION * (at - began):
            # At the end rounding may take all the remaining time, before that as long as branching took so far.
            solution.round(at - began if explored else 1e6)
            rounding_s += now() - at
        if not explored and solution.value == before:
            return


@dataclass(frozen=True, slots=True)
class Branch:
    """Node of the branch-and-bound tree: conditions that its plans share.

    Attributes
    ----------
    bound
        Lower bound on the master's cost of its plans.
    least, most
        Least and largest number of GPUs of each type, shape (GPU types,).
    position, duals
        Position among the tree's nodes, and duals from which the bound follows.
    barred
        Pairs (class, GPU type): no GPU of the type holds the class, which has one workload.
    apart, together
        Pairs of classes with one workload each that must not, or must, share a GPU.
    depth
        Number of branchings above it.
    nodes
        Node limit per box in pricing.
    """

    bound: float
    least: Floats
    most: Floats
    position: int
    duals: Duals
    barred: tuple[tuple[int, int], ...] = ()
    apart: tuple[tuple[int, int], ...] = ()
    together: tuple[tuple[int, int], ...] = ()
    depth: int = 0
    nodes: int = FIRST_NODES

    def allows(self, pool: int, classes: set[int]) -> bool:
        """Return whether the branch permits a GPU of the type with exactly these classes."""
        return not (
            any(a in classes and pool == t for a, t in self.barred)
            or any(a in classes and b in classes for a, b in self.apart)
            or any((a in classes) != (b in classes) for a, b in self.together)
        )

    def pairs(self, order: Ints, class_of: Ints) -> Pairs:
        """Return the conditions on pairs of workloads, by their places in the order of pricing.

        Parameters
        ----------
        order
            Workload at each place.
        class_of
            Class of each workload.
        """
        # A pair has classes of one workload, and each of these has one place.
        place = {int(class_of[w]): at for at, w in enumerate(order.tolist())}
        pairs = Pairs.none(len(order))
        for a, b in self.apart:
            pairs.apart[place[a], place[b]] = pairs.apart[place[b], place[a]] = True
        group = np.arange(len(order))
        for a, b in self.together:
            group[group == group[place[a]]] = group[place[b]]
        for number in np.unique(group):
            mates = np.flatnonzero(group == number)
            pairs.mate_before[mates[1:]], pairs.mate_after[mates[:-1]] = mates[:-1], mates[1:]
        return pairs


class Tree:
    """Branch-and-bound tree: the open branches, explored best first.

    Under ``cost`` many branches share the least possible cost. Of these the deepest comes first, since its relaxation
    has the fewest fractional parts. A branch whose pricing exceeds its node limit gets a larger limit, and comes after
    the branches of the same cost with smaller limits.

    Parameters
    ----------
    problem, generation
        Problem, and its column generation with the linear relaxation solved.
    excludes_better
        Function that returns whether a bound proves that a branch holds no plan of interest.
    accept
        Function that takes a solution, the number of GPUs of each pattern, when a relaxation is integer.

    Attributes
    ----------
    sign
        1 if the objective is minimised, else -1: factor between the master's cost and the objective.
    nodes
        The tree so far, as a proof; a branch that is not explored has the duals of its parent.
    """

    def __init__(
        self,
        problem: BranchedProblem,
        generation: ColumnGeneration,
        excludes_better: Callable[[float], bool],
        accept: Callable[[dict[int, int]], None],
    ) -> None:
        self._problem, self._generation = problem, generation
        self._excludes_better, self._accept = excludes_better, accept
        generation.master.forbid_exchanges()  # slots then cover no class but their own
        self.sign = 1.0 if problem.minimised else -1.0
        count = problem.count
        nothing = Duals((0.0,) * len(problem.class_of), (0.0,) * len(count))
        dual_nodes = [node for node in generation.proof if isinstance(node, Duals)]
        duals = dual_nodes[0] if dual_nodes else nothing
        self._open: list[tuple[float, int, int, int, Branch]] = []
        self._push(Branch(generation.master_bound, np.zeros(len(count)), count.copy(), 0, duals))
        self.nodes: list[ProofNode] = [duals]

    @property
    def open(self) -> bool:
        """Whether some open branch may hold a plan of interest."""
        return bool(self._open) and not self._excludes_better(self.bound)

    @property
    def bound(self) -> float:
        """Lower bound on the master's cost of plans of interest; infinite if none can exist."""
        return min((branch.bound for *_, branch in self._open), default=math.inf)

    def step(self) -> bool:
        """Explore the best branch; return ``False`` if the time ran out or no branching rule applies."""
        before = heapq.heappop(self._open)[-1]
        branch, relaxation = self._solve(before)
        self.nodes[branch.position] = branch.duals
        if self._excludes_better(branch.bound):
            return True
        if branch.nodes > before.nodes:
            self._push(branch)
            return True
        children = [] if relaxation is None else self._children(branch, relaxation)
        for child in children or [branch]:
            self._push(child)
        return bool(children)

    def _push(self, branch: Branch) -> None:
        rank = self._cost(branch.bound), branch.nodes, -branch.depth, -branch.position
        heapq.heappush(self._open, (*rank, branch))

    def _cost(self, bound: float) -> float:
        """Return the least cost of whole GPUs that is at least ``bound``; under a throughput objective ``bound``."""
        return next_cost(bound, self._problem.instance) if self._problem.minimised else bound

    def _solve(self, branch: Branch) -> tuple[Branch, Relaxation | None]:
        """Solve the relaxation of a branch; return the branch with its best bound and duals, and the relaxation.

        The relaxation is ``None`` if the bound excludes better plans, the branch is put off, or the time is over.
        """
        problem, generation, master = self._problem, self._generation, self._generation.master
        banned = [
            c for c, pattern in enumerate(master.patterns) if not branch.allows(pattern.pool, self._classes(pattern))
        ]
        master.restrict(banned, branch.least, branch.most)
        pairs = branch.pairs(problem.order, problem.class_of)
        tolerance = FIRST_TOLERANCE
        solved: Relaxation | None = None
        while generation.run.remaining_s > 0.0 and solved is None:
            relaxation = master.relax()
            if self._cost(relaxation.value) <= self._cost(branch.bound):
                solved = relaxation  # more patterns would not raise the bound
                break
            priced = self._priced(branch, pairs, relaxation, tolerance, branch.nodes)
            generation.nodes += sum(p.nodes for p in priced)
            worth = np.array([p.bound for p in priced])
            bound = self.sign * generation.bound_from(relaxation, worth, branch.most, branch.least)
            if bound > branch.bound:
                branch = replace(branch, bound=bound, duals=generation.duals(relaxation, worth))
            if self._excludes_better(branch.bound):
                break
            if generation.add([pattern for p in priced for pattern in p.patterns]):
                continue
            if any(p.cut_short for p in priced) and branch.nodes < LAST_NODES:
                branch = replace(branch, nodes=10 * branch.nodes)
                break
            if tolerance > (LAST_TOLERANCE if problem.minimised else LAST_THROUGHPUT_TOLERANCE):
                tolerance *= TOLERANCE_FACTOR
            else:
                solved = relaxation
        if solved is not None and np.all(np.abs(solved.weight - np.round(solved.weight)) < WHOLE) and master.complete():
            self._accept(whole_counts(solved.weight))
        master.restrict([], np.zeros(len(problem.count)), problem.count)
        return branch, solved

    def _priced(
        self, branch: Branch, pairs: Pairs, relaxation: Relaxation, tolerance: float, node_limit: int
    ) -> list[Priced]:
        """Solve the pricing problem of every GPU type under the conditions of the branch."""
        problem, priced = self._problem, []
        for pool in range(len(problem.count)):
            dual = relaxation.workload_dual.copy()
            dual[[a for a, t in branch.barred if t == pool]] = -np.inf
            threshold = max(0.0, problem.threshold(pool, relaxation, tolerance))
            limits = threshold, node_limit, self._generation.run.deadline
            priced.append(problem.price_in_branch(pool, replace(relaxation, workload_dual=dual), pairs, *limits))
        return priced

    def _children(self, branch: Branch, relaxation: Relaxation) -> list[Branch]:
        """Return the two children at a fractional part of the relaxation; none if no branching rule applies."""
        patterns, weight = self._generation.master.patterns, relaxation.weight
        used = np.zeros(len(branch.least))
        weight_on_type: dict[tuple[int, int], float] = defaultdict(float)
        weight_of_pair: dict[tuple[int, int], float] = defaultdict(float)
        for column in np.flatnonzero(weight > WHOLE).tolist():
            pool = patterns[column].pool
            used[pool] += weight[column]
            single_classes = sorted(c for c in self._classes(patterns[column]) if self._has_one_slot(c))
            for a in single_classes:
                weight_on_type[a, pool] += weight[column]
            for pair in combinations(single_classes, 2):
                weight_of_pair[pair] += weight[column]
        distance = np.abs(used - np.round(used))
        pool = int(np.argmax(distance))
        if self._problem.minimised and distance[pool] > WHOLE:
            fewer, more = branch.most.copy(), branch.least.copy()
            fewer[pool], more[pool] = math.floor(used[pool]), math.ceil(used[pool])
            halves = replace(branch, most=fewer), replace(branch, least=more)
            return self._branched(branch, "gpus", pool, math.floor(used[pool]), halves)
        fractional_pair = _most_fractional(
            {pair: sum_ for pair, sum_ in weight_of_pair.items() if pair not in branch.together}
        )
        if fractional_pair is not None:
            apart, together = (*branch.apart, fractional_pair), (*branch.together, fractional_pair)
            halves = replace(branch, apart=apart), replace(branch, together=together)
            a, b = fractional_pair
            return self._branched(branch, "pair", self._member(a), self._member(b), halves)
        on_several_types = [a for a, count in Counter(a for a, _ in weight_on_type).items() if count > 1]
        seat = _most_fractional({seat: sum_ for seat, sum_ in weight_on_type.items() if seat[0] in on_several_types})
        if seat is not None:  # a class on a GPU type
            a, pool = seat
            other_types = [(a, t) for t in range(len(used)) if t != pool]
            barred_here, barred_elsewhere = (*branch.barred, seat), (*branch.barred, *other_types)
            halves = replace(branch, barred=barred_here), replace(branch, barred=barred_elsewhere)
            return self._branched(branch, "seat", self._member(a), pool, halves)
        return []

    def _branched(
        self,
        branch: Branch,
        on: Literal["gpus", "pair", "seat"],
        first: int,
        second: int,
        halves: tuple[Branch, Branch],
    ) -> list[Branch]:
        """Make the two halves of a branch nodes of the tree; return them with their positions."""
        at = len(self.nodes)
        self.nodes[branch.position] = Branching(on, first, second, (at, at + 1))
        self.nodes += [branch.duals, branch.duals]
        below = branch.depth + 1
        return [replace(half, position=at + k, depth=below, nodes=FIRST_NODES) for k, half in enumerate(halves)]

    def _member(self, class_index: int) -> int:
        """Return the position of the one workload of a class."""
        return int(np.flatnonzero(self._problem.class_of == class_index)[0])

    def _has_one_slot(self, class_index: int) -> bool:
        """Return whether plans have at most one slot of a class, as the rules on pairs and types require."""
        divisible = {int(self._problem.class_of[w]) for w in self._problem.divisible}
        return self._problem.copies[class_index] == 1.0 and class_index not in divisible

    def _classes(self, pattern: Pattern) -> set[int]:
        return {int(self._problem.class_of[w]) for w, _, _ in pattern.residents}


def _most_fractional(sums: dict[tuple[int, int], float]) -> tuple[int, int] | None:
    """Return the key of the sum nearest to one half, or ``None`` if all sums are integers."""
    key = min(sums, key=lambda k: abs(sums[k] - 0.5), default=None)
    return key if key is not None and WHOLE < sums[key] < 1.0 - WHOLE else None
