"""Search for plans whose slots may take turns: contents are improved, and an integer program chooses among them."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from formulations.colgen.claims import proves
from formulations.colgen.clock import now, spend_nodes
from formulations.colgen.restricted_master import LinearMaster
from formulations.colgen.temporal.contents import (
    GpuContents,
    contents_of,
    improve,
    pattern_of_contents,
    plannable_rps,
    serve,
)
from formulations.colgen.temporal.generation import Column, TemporalGeneration
from formulations.colgen.temporal.gpulet_positions import Worth
from formulations.colgen.temporal.plans import plan_of_contents, start_patterns, value_of
from instances import Objective, Plan
from instances.arrays import Floats, Ints
from instances.one_gpu import Pattern, Resident

MOST_GPULETS = 12
"""Largest number of gpulets in an improved content."""

LEAST_START_WORTH = 0.8
"""Least worth of a relaxed content from which improvement starts, as a fraction of the largest worth of one."""

DISTURBANCE = (0.6, 1.6)
"""Least and largest random factor on a dual."""

EXCHANGE_GAIN = 0.003
"""Relative gain in scale that ``polish`` aims at when it changes one GPU."""

FEW_GPULETS = 4
"""Largest number of gpulets in the random contents that ``cover`` improves."""

NEGLIGIBLE_PART = 1e-9
"""Unserved part of a rate that is neglected."""

COVER_TIME_FRACTION = 0.5
"""Fraction of the time for plans that ``cover`` builds GPU by GPU."""

COVER_PATIENCE = 50
"""Number of successive calls of ``cover`` without a better plan after which the search goes on without it."""

PATIENCE = 12
"""Number of successive rounds of disturbed duals without a better plan after which the search ends."""

INTEGER_TIME_FRACTION = 0.3
"""Fraction of the remaining time that one integer program may take."""

ALMOST_INTEGER = 0.999999
"""Fractional part from which a number of GPUs is rounded up: the integer program returns integers up to rounding."""

IMPROVEMENT_NODES = 100
"""Work of an improvement for each workload and gpulet, in nodes."""


class PlanSearch:
    """Known contents with their exact rates, and the best plan made of them.

    Parameters
    ----------
    generation
        Column generation that bounds the value; its pricers propose contents.

    Attributes
    ----------
    known_contents
        Column of the master for each pattern, and its buffer with rates and cycles.
    plan, value
        The best plan and its value; ``None`` and an infinitely bad value before there is one.
    """

    def __init__(self, generation: TemporalGeneration) -> None:
        self.generation, self.instance, self.run = generation, generation.instance, generation.run
        self.known_contents: dict[Pattern, tuple[Column, GpuContents]] = {}
        self.plan: Plan | None = None
        self.value = math.inf if generation.minimised else -math.inf
        self._chosen: tuple[Pattern, ...] = ()
        self._dual: Floats | None = None
        self._alone_price: Floats | None = None
        self._random = np.random.default_rng(self.run.seed)

    # Contents ---------------------------------------------------------------------------------------------------

    def add(self, pattern: Pattern) -> bool:
        """Add a pattern; return whether it is new and feasible."""
        if pattern in self.known_contents:
            return False
        generation, contents = self.generation, contents_of(pattern)
        pricer = generation.pricers[pattern.pool]
        if not serve(pricer.demand, contents):
            return False
        worth = generation.worth_at(np.zeros(len(generation.rate_rps)))
        served, least, throughput = np.zeros(len(worth.per_rps)), np.zeros(len(worth.per_rps)), 0.0
        for g, (_, slots) in enumerate(pattern.gpulets):
            for s, (w, _, _) in enumerate(slots):
                served[w] += plannable_rps(worth, w, contents.rate_rps[g, s])
                least[w] += contents.least_rps[g, s]
                throughput += float(contents.throughput_rps[g, s])
        self.known_contents[pattern] = ((pattern.pool, generation.amounts(served, least, throughput)), contents)
        return True

    def add_plan(self, plan: Plan, feasible: bool) -> None:
        """Add the contents of a plan, and offer the plan made of them; offer ``plan`` itself only if ``feasible``."""
        patterns = start_patterns(self.instance, plan)
        if patterns is not None:
            for pattern in patterns:
                self.add(pattern)
            feasible_patterns = [pattern for pattern in patterns if pattern in self.known_contents]
            self._accept(feasible_patterns)
            if feasible and len(feasible_patterns) == len(patterns):
                throughput = self._throughput_rps(feasible_patterns)
                self.offer(plan, value_of(self.instance, plan, throughput), tuple(feasible_patterns))

    def _served(self, pattern: Pattern) -> Floats:
        """Return the part of each workload's rate that a known pattern serves, shape (workloads,)."""
        return self.known_contents[pattern][0][1][: len(self.generation.rate_rps)]

    def _throughput_rps(self, patterns: Iterable[Pattern]) -> float:
        return math.fsum(float(self.known_contents[pattern][0][1][-1]) for pattern in patterns)

    def _improved(self, start: Pattern, worth: Worth) -> Pattern | None:
        """Return ``start`` with changes that raise its worth; ``None`` if no feasible GPU was found."""
        pricer, buffer = self.generation.pricers[start.pool], contents_of(start, self._most_gpulets(start.pool))
        spend_nodes(IMPROVEMENT_NODES * len(worth.per_rps) * len(buffer.units))
        value = improve(pricer.demand, worth, buffer, self.generation.slots)
        return pattern_of_contents(start.pool, buffer) if math.isfinite(value) and buffer.units.any() else None

    def _most_gpulets(self, pool: int) -> int:
        tables = self.generation.pricers[pool].tables
        return min(MOST_GPULETS, tables.most_residents, int(tables.share_units // tables.permitted[0]))

    def _starts(self, dual: Floats) -> Iterable[Pattern]:
        """Yield the relaxed patterns of high worth as starts of the improvement."""
        generation, worth = self.generation, self.generation.worth_at(dual)
        for priced in generation.priced(dual, generation.most_served(), exact_turns=True):
            worths = [
                float(worth.per_rps @ generation.served_rps(relaxed)) + worth.throughput * relaxed.throughput_rps
                for relaxed in priced.patterns
            ]
            for relaxed, value in zip(priced.patterns, worths, strict=True):
                fits = len(relaxed.gpulets) <= self._most_gpulets(relaxed.pool)
                if fits and value >= LEAST_START_WORTH * max(worths):
                    yield relaxed

    def propose(self, dual: Floats, starts: Iterable[Pattern]) -> int:
        """Improve relaxed contents and the contents in ``starts`` at the duals; return how many new ones were found."""
        worth, count = self.generation.worth_at(dual), 0
        for start in [*self._starts(dual), *starts]:
            if self.run.remaining_s <= 0.0:
                break
            content = self._improved(start, worth)
            count += content is not None and self.add(content)
        return count

    # Plans ------------------------------------------------------------------------------------------------------

    def solve(self, deadline: float) -> None:
        """Search until no disturbance of the duals helps, the plan reaches the bound, or the deadline."""
        rounds_without_gain = 0
        if self.instance.objective is Objective.COST:
            cover_until = now() + COVER_TIME_FRACTION * (deadline - now())
            while rounds_without_gain <= COVER_PATIENCE and now() < cover_until and not self.proven():
                before = self.value
                self.cover(cover_until)
                rounds_without_gain = 0 if self.value != before else rounds_without_gain + 1
            rounds_without_gain = 0
        while now() < deadline and rounds_without_gain <= PATIENCE and not self.proven():
            before = self.value
            dual, contents = self._generate_contents(deadline)
            used = [content for content, weight in contents if weight > 1e-9]
            self.choose_among_known(INTEGER_TIME_FRACTION * (deadline - now()))
            rounds_without_gain = 0 if self.value != before else rounds_without_gain + 1
            for _ in range(2):
                factor = self._random.uniform(*DISTURBANCE, len(dual))
                self.propose(dual * factor, [*used, *self._chosen])
        self.choose_among_known(INTEGER_TIME_FRACTION * (deadline - now()))
        self.polish(deadline)

    def polish(self, deadline: float, chosen: Sequence[Pattern] = ()) -> None:
        """Improve one GPU at a time for the rates that the others leave unserved, under ``scale`` and ``goodput``.

        Start from the contents ``chosen``, or without any, from those of the best plan.
        """
        generation, is_scale, dual = self.generation, self.instance.objective is Objective.SCALE, self._dual
        current, rounds_without_gain = list(chosen or self._chosen), 0
        if dual is None or not current or self.instance.objective not in (Objective.SCALE, Objective.GOODPUT):
            return
        served = {content: self._served(content) for content in current}
        value = self._served_value(served[content] for content in current)
        while rounds_without_gain < PATIENCE and now() < deadline and not self.proven():
            rounds_without_gain += 1
            worth = generation.worth_at(dual * self._random.uniform(*DISTURBANCE, len(dual)))
            for position, content in enumerate(current):
                others = current[:position] + current[position + 1 :]
                served_by_others = np.sum([np.zeros(len(dual)), *(served[other] for other in others)], axis=0)
                target = value * (1.0 + EXCHANGE_GAIN) if is_scale else 1.0
                most_rps = np.maximum(0.0, target - served_by_others) * generation.rate_rps
                improved = self._improved(content, worth._replace(most_rps=most_rps))
                if improved is None or not (self.add(improved) or improved in self.known_contents):
                    continue
                new_value = self._served_value([served_by_others, self._served(improved)])
                if new_value > value:
                    value, rounds_without_gain, current[position] = new_value, 0, improved
                    served[improved] = self._served(improved)
                    break
        self._accept(current)

    def cover(self, deadline: float) -> None:
        """Build a plan GPU by GPU for ``cost``: each content is improved for the rates that are still unserved."""
        generation = self.generation
        dual = self._prices_alone() if self._dual is None else self._dual
        worth = generation.worth_at(dual * self._random.uniform(*DISTURBANCE, len(dual)))
        price, free = generation.price.tolist(), generation.count.tolist()
        preference = self._random.uniform(*DISTURBANCE, len(price)) / np.maximum(price, 1e-9)
        unserved, chosen = np.ones(len(dual)), list[Pattern]()
        while unserved.any() and now() < deadline:
            gains: dict[Pattern, float] = {}
            for pool in (t for t, count in enumerate(free) if count > 0):
                for gpulets in range(1, min(FEW_GPULETS, self._most_gpulets(pool)) + 1):
                    start = self._random_start(pool, gpulets, np.flatnonzero(unserved))
                    candidate = self._improved(start, worth._replace(most_rps=unserved * generation.rate_rps))
                    if candidate is not None and (self.add(candidate) or candidate in self.known_contents):
                        served = np.minimum(self._served(candidate), unserved)
                        gains[candidate] = float(served * generation.rate_rps @ worth.per_rps) * preference[pool]
            best = max(gains, key=lambda content: gains[content], default=None)
            if best is None or gains[best] <= 0.0:
                return
            chosen.append(best)
            free[best.pool] -= 1
            unserved = np.maximum(0.0, unserved - self._served(best))
            unserved[unserved < NEGLIGIBLE_PART] = 0.0
            cost = math.fsum(price[content.pool] for content in chosen)
            if cost + (min(price) if unserved.any() else 0.0) >= self.value:
                return
        if not unserved.any():
            self._accept(chosen)

    def _prices_alone(self) -> Floats:
        """Return the price of the GPUs that serve each workload alone at its whole rate, shape (workloads,)."""
        if self._alone_price is None:
            self._alone_price = np.full(len(self.generation.rate_rps), math.inf)
            for w in range(len(self._alone_price)):
                only = np.zeros(len(self._alone_price))
                only[w] = 1.0
                worth = self.generation.worth_at(only, math.inf)
                for pool, offer in enumerate(self.instance.gpus):
                    content = self._improved(self._random_start(pool, 1, np.array([w])), worth)
                    if content is not None and (self.add(content) or content in self.known_contents):
                        price = offer.type.price_per_hour / float(self._served(content)[w])
                        self._alone_price[w] = min(self._alone_price[w], price)
        return self._alone_price

    def _random_start(self, pool: int, gpulets: int, workloads: Ints) -> Pattern:
        """Return a GPU of ``gpulets`` equal gpulets with random ones of ``workloads``, at batches of 1."""
        tables = self.generation.pricers[pool].tables
        share_position = np.searchsorted(tables.permitted, tables.share_units // gpulets, side="right") - 1
        chosen = self._random.choice(workloads, gpulets).tolist()
        return Pattern(pool, tuple((int(tables.permitted[share_position]), (Resident(w, 1, 0.0),)) for w in chosen))

    def _served_value(self, served: Iterable[Floats]) -> float:
        """Return the value of GPUs that serve these fractions of the rates, under ``scale`` or ``goodput``."""
        total = np.sum(list(served), axis=0)
        if self.instance.objective is Objective.SCALE:
            return float(total.min())
        return float(np.minimum(total, 1.0) @ self.generation.rate_rps)

    def _master(self, columns: Iterable[Column]) -> tuple[LinearMaster, int]:
        """Return a master with these columns, and the index of the first one in it."""
        master = self.generation.restricted_master()
        first, most = master.columns, self.generation.most_served()
        for column in columns:
            self.generation.add_to(master, column, most)
        return master, first

    def _generate_contents(self, deadline: float) -> tuple[Floats, list[tuple[Pattern, float]]]:
        """Propose contents until none is new or the time is over.

        Return the duals of the last restricted master, and the known contents with their weights in it.
        """
        while True:
            master, first = self._master(column for column, _ in self.known_contents.values())
            relaxation = master.relax()
            contents = list(zip(self.known_contents, relaxation.weight[first:].tolist(), strict=True))
            used = [content for content, weight in contents if weight > 1e-9]
            self._dual = dual = relaxation.workload_dual[: len(self.generation.rate_rps)]
            if now() >= deadline or not self.propose(dual, used):
                return dual, contents

    def choose_among_known(self, limit_s: float, tolerance: float = 1e-6) -> None:
        """Choose an integer number of each known content, up to a relative gap of ``tolerance``."""
        if limit_s <= 0.0 or self.proven():
            return
        columns = [column for column, _ in self.known_contents.values()]
        self.choose(list(self.known_contents), columns, limit_s, tolerance)

    def choose(self, contents: list[Pattern], columns: Iterable[Column], limit_s: float, tolerance: float) -> float:
        """Choose an integer number of each content and offer the plan, unless a chosen content is infeasible.

        Return a bound on the master's value, within the solver's tolerances.
        """
        master, first = self._master(columns)
        amounts, bound = master.integer_amounts(first, limit_s, self.run.seed, tolerance)
        used = [] if amounts is None else zip(contents, amounts[first:].tolist(), strict=True)
        chosen = [content for content, amount in used for _ in range(int(amount + 1.0 - ALMOST_INTEGER))]
        if chosen and all(content in self.known_contents for content in chosen):
            self._accept(chosen)
            self.polish(self.run.deadline, chosen)
        return bound

    def _accept(self, chosen: list[Pattern]) -> None:
        """Offer the plan of these contents, if they serve all that must be served."""
        plan = plan_of_contents(self.instance, [(content, self.known_contents[content][1]) for content in chosen])
        if plan is not None:
            throughput = self._throughput_rps(chosen)
            self.offer(plan, value_of(self.instance, plan, throughput), tuple(chosen))

    def offer(self, plan: Plan, value: float, chosen: tuple[Pattern, ...] = ()) -> None:
        """Make a plan the best one if it is better."""
        if (value < self.value) if self.generation.minimised else (value > self.value):
            self.plan, self.value, self._chosen = plan, value, chosen
            self.run.report(plan=plan)

    def proven(self) -> bool:
        """Return whether the bound proves the plan optimal."""
        generation = self.generation
        if self.plan is None:
            return False
        return proves(generation.bound, self.value, self.instance, generation.proof_tolerance)
