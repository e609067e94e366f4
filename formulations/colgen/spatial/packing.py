"""First patterns: choices alone, and packings by ruin and recreate, also between the rounds of pricing."""

import math
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from formulations.colgen.clock import now, spend_nodes, wall_time_left_s
from formulations.colgen.solution import Solution
from instances import PART_STEPS
from instances.arrays import Ints
from instances.configurations import Configurations
from instances.costs import next_cost
from instances.least_shares import shares_alone
from instances.one_gpu import Pattern, Resident, fit_gpu
from instances.ruin_recreate.problem import PackingProblem
from instances.ruin_recreate.search import PackingSearch

if TYPE_CHECKING:
    from formulations.colgen.spatial.pricer import Pricer
    from formulations.colgen.spatial.problem import SpatialProblem

NODES_PER_ROUND = 30
"""Work of a round of the search, in nodes of a pricing search."""

ROUNDS_PER_CHECK = 50
"""Rounds between two checks of the clock."""

CHEAPER = 1e-6
"""Relative difference by which the next packing must cost less."""

FIRST_FRACTION, FIRST_STALLED = 0.1, 25
"""Largest fraction of the time for first packings, and the rounds per item without a better one that end their search.
"""

TIME_FRACTION, STALLED = 0.2, 250
"""The same between the rounds of column generation."""


def pack(problem: "SpatialProblem", solution: Solution) -> None:
    """Search for better packings from the incumbent; their GPUs become columns."""
    packer, generation = problem.packer, solution.generation
    # Under goodput, values are below 0.
    if solution.counts is not None and (
        math.isinf(packer.value) or solution.value < packer.value - CHEAPER * abs(packer.value)
    ):
        packer.start_from(generation.master.chosen(solution.counts))
    for packing in packer.packings(now() + TIME_FRACTION * solution.run.remaining_s, STALLED):
        generation.add(packing)
        if problem.complete(packing):
            solution.accept(generation.master.counts(packing))
        if solution.proven():
            return


def run_rounds(search: PackingSearch) -> int:
    """Search for at most ``ROUNDS_PER_CHECK`` rounds, count their work, and return their number."""
    before = search.rounds
    search.run(ROUNDS_PER_CHECK, time.monotonic() + wall_time_left_s())
    spend_nodes(NODES_PER_ROUND * (search.rounds - before))
    return search.rounds - before


def every_choice_alone(problem: "SpatialProblem", pricer: "Pricer") -> Iterator[Pattern]:
    """Yield a pattern for each choice alone; for a divisible workload only that of the largest part that fits."""
    for place, w in enumerate(pricer.workloads.tolist()):
        for choice in range(pricer.choices.first[place], pricer.choices.first[place + 1]):
            pattern = _alone(pricer, choice)
            if pattern is not None:
                yield pattern
                if w in problem.divisible:
                    break


def _alone(pricer: "Pricer", choice: int) -> Pattern | None:
    """Return a choice alone at its first feasible batch: a least share ignores the choice's own power."""
    choices = pricer.choices
    w, rate = int(pricer.workloads[choices.workload[choice]]), float(choices.rate_rps[choice])
    for option in range(choices.option[choice], choices.option[choice + 1]):
        resident = Resident(w, int(choices.batch[option]), rate)
        if fit_gpu(pricer.view, [resident]) is not None:
            return Pattern.of(pricer.pool, [resident])
    return None


class Packer:
    """Search for packings of a problem: all workloads at less cost, or under ``goodput`` more value.

    Parameters
    ----------
    problem
        Problem whose pricers have choices.
    seed
        Seed of the search.

    Attributes
    ----------
    value
        Master cost of the best packing; infinite before the first one.
    """

    def __init__(self, problem: "SpatialProblem", seed: int) -> None:
        self._problem = problem
        self._random = np.random.default_rng(seed)
        self._search: PackingSearch | None = None
        self._loss = self.value = math.inf
        self._placed: set[int] = set()  # items that ``_rows`` has used
        options = [_options(problem, pricer) for pricer in problem.pricers]
        parts = [(w, steps) for w in range(len(problem.class_of)) for steps in _parts(problem, options, w)]
        by_type = [_configurations(problem, of_type, parts) for of_type in options]
        rate_rps = np.array([problem.instance.workloads[w].rate_rps for w, _ in parts], dtype=np.float64)
        least = np.full(len(parts), np.inf)
        for pricer, of_type in zip(problem.pricers, by_type, strict=True):
            share = of_type.units / pricer.tables.share_units
            price = (
                float(problem.price[pricer.pool]) if problem.minimised else rate_rps[of_type.item] / of_type.rate_rps
            )
            np.minimum.at(least, of_type.item, share * price)
        servable = np.isfinite(least)
        # Under ``cost`` no packing costs less: the least shares fill whole GPUs without gaps.
        self._least_cost = next_cost(math.fsum(least[servable]), problem.instance) * (1.0 + CHEAPER)
        weight = np.where(servable, least, 0.0)
        if problem.minimised and not weight[servable].all():
            weight = servable.astype(np.float64)  # some GPUs are free
        priority = weight
        if not problem.minimised:
            weight = rate_rps * problem.value[[w for w, _ in parts]]
            priority = np.where(servable, weight / least, 0.0)
        limits = [len(parts) if math.isinf(count) else min(int(count), len(parts)) for count in problem.count]
        self._packing = PackingProblem.of(
            problem.views, limits, by_type, weight, priority, apart=bool(problem.divisible)
        )
        self._configurations = self._packing.configurations
        self._row_of: dict[tuple[int, int, int, float], list[int]] = defaultdict(list)
        first_row = np.cumsum([0, *(of_type.size for of_type in by_type)])
        for pool, of_type in enumerate(by_type):
            figures = (of_type.workload.tolist(), of_type.batch.tolist(), of_type.rate_rps.tolist())
            for row, key in enumerate(zip(*figures, strict=True), start=int(first_row[pool])):
                self._row_of[pool, *key].append(row)

    @property
    def possible(self) -> bool:
        """Whether some packing may be a solution: under ``cost`` it must serve every item, else at least one."""
        priority = self._packing.priority
        return bool(priority.all() if self._problem.minimised else priority.any())

    def warm(self) -> None:
        """Load the compiled kernels of the search: small instances are solved without a round."""
        search = PackingSearch(self._packing, self._random)
        search.build()
        search.limit_cost(0.0)
        search.run(1, math.inf)

    def start_from(self, patterns: Sequence[Pattern]) -> None:
        """Forget the present packing, and continue from these GPUs; residents that are no choices are placed anew."""
        self._search = search = PackingSearch(self._packing, self._random)
        self._placed.clear()
        self._loss = math.inf
        for pattern, residents in zip(patterns, self._problem.residents_of(patterns), strict=True):
            rows = self._rows(pattern.pool, residents)
            if len(rows):
                search.take_over(pattern.pool, rows)
        search.build()

    def packings(self, until: float, stalled: int) -> Iterator[list[Pattern]]:
        """Yield packings, each better than the last, until ``now()`` reaches ``until`` or hardly one is found.

        The search ends after ``stalled`` rounds per item in a row without a better packing.
        """
        if self._search is None:
            self.start_from(())
        search, idle, items = self._search, 0, len(self._packing.priority)
        while search is not None and self.possible:
            if search.waiting == 0 if self._problem.minimised else search.loss < self._loss:
                idle, self._loss = 0, search.loss
                packing = list(self._patterns(search))
                self.value = math.fsum(map(self._problem.cost, packing))
                yield packing
                least = self._least_cost if self._problem.minimised else math.inf
                if search.loss == 0.0 and search.cost_per_hour <= least:
                    return
                if self._problem.minimised:
                    search.limit_cost(search.cost_per_hour * (1.0 - CHEAPER))
                    if search.waiting == 0:  # no float is between the two costs
                        return
            if idle >= stalled * items or now() >= until:
                return
            idle += max(run_rounds(search), 1)

    def _patterns(self, search: PackingSearch) -> Iterator[Pattern]:
        """Yield the GPUs of the best packing."""
        for pool, rows, _ in search.gpus():
            pattern = self._problem.pattern_if_feasible(pool, self._residents(rows))
            if pattern is not None:
                yield pattern

    def _residents(self, rows: Ints) -> list[Resident]:
        """Return the residents of these configurations, in the order of a pattern."""
        of = self._configurations
        figures = (of.workload[rows].tolist(), of.batch[rows].tolist(), of.rate_rps[rows].tolist())
        return sorted(Resident(*figure) for figure in zip(*figures, strict=True))

    def _rows(self, pool: int, residents: Sequence[Resident]) -> Ints:
        """Return configurations of these residents, each of an item that no earlier call used."""
        rows = []
        for resident in residents:
            for row in self._row_of.get((pool, *resident), ()):
                item = int(self._configurations.item[row])
                if item not in self._placed:
                    self._placed.add(item)
                    rows.append(row)
                    break
        return np.array(rows, dtype=np.int64)


def _options(problem: "SpatialProblem", pricer: "Pricer") -> Configurations:
    """Return the options of a GPU type that serve a workload alone within budgets that are sure.

    An item is a workload; steps are parts of its rate, in multiples of ``1 / PART_STEPS``.
    """
    choices, tables = pricer.choices, pricer.tables
    choice = np.repeat(np.arange(len(choices.workload)), np.diff(choices.option))
    units = shares_alone(tables, choices.model[choice], choices.batch, choices.sure_ms)
    row = np.flatnonzero(units <= tables.share_units)
    row = row[np.argsort(pricer.workloads[choices.workload[choice[row]]], kind="stable")]
    choice, full_rps = choice[row], np.array([w.rate_rps for w in problem.instance.workloads], dtype=np.float64)
    workload, rate_rps = pricer.workloads[choices.workload[choice]], choices.rate_rps[choice]
    return Configurations(
        np.searchsorted(workload, np.arange(len(full_rps) + 1)),
        workload,
        workload,
        choices.model[choice],
        choices.batch[row],
        units[row],
        rate_rps,
        np.rint(PART_STEPS * rate_rps / full_rps[workload]).astype(np.int64),
        choices.sure_ms[row],
    )


def _parts(problem: "SpatialProblem", options: Sequence[Configurations], workload: int) -> list[int]:
    """Return the steps, of ``PART_STEPS``, of each item of a workload: all of it, or about equal parts that fit."""
    if workload not in problem.divisible:
        return [PART_STEPS]
    steps = (of_type.step[of_type.first[workload] : of_type.first[workload + 1]] for of_type in options)
    count = -(-PART_STEPS // max(max(int(of_type.max(initial=0)) for of_type in steps), 1))
    return [PART_STEPS // count + (n < PART_STEPS % count) for n in range(count)]


def _configurations(
    problem: "SpatialProblem", options: Configurations, parts: Sequence[tuple[int, int]]
) -> Configurations:
    """Return the options of the items: under ``cost`` at their rates, else also at lower ones."""
    at, items = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for item, (w, most) in enumerate(parts):
        step = options.step[options.first[w] : options.first[w + 1]]
        if not problem.minimised:
            suits = step <= most
        elif w in problem.divisible:
            suits = step == most
        else:
            suits = step > 0  # all rates are at least its own
        at.append(options.first[w] + np.flatnonzero(suits))
        items.append(np.full(len(at[-1]), item))
    position, item_of = np.concatenate(at), np.concatenate(items)
    step_of = np.ones_like(position) if problem.minimised else options.step[position]
    order = np.lexsort((options.units[position], -step_of, item_of))
    position, item_of = position[order], item_of[order]
    first = np.searchsorted(item_of, np.arange(len(parts) + 1))
    columns = (column[position] for column in options[2:])
    return Configurations._make((first, item_of, *columns))._replace(step=step_of[order])
