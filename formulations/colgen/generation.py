"""Column generation: the linear relaxation over all patterns, with a certified bound at every step."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.api import Run
from formulations.colgen.bounds import cost_bound, value_bound
from formulations.colgen.master import Cover, Master, Relaxation
from formulations.colgen.pricer import NO_PAIRS, Pattern, Priced, Pricer
from formulations.colgen.search import Pairs
from instances import Instance, Objective
from instances.one_gpu import Resident, fit_gpu
from instances.view import View

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_TOLERANCE, LAST_TOLERANCE = 0.02, 1e-6
"""A pattern is looked for when it gains at least this fraction of a GPU's worth; halved whenever none does."""

FIRST_NODE_LIMIT, LAST_NODE_LIMIT = 2_000, 200_000_000
PATTERNS_PER_CALL = 500
PATTERNS_PER_BOX = 10
PULL = 0.0
SEED_FILL, SEED_PATTERNS = 0.95, 3_000


@dataclass(slots=True)
class Tally:
    """Counts for the statistics of a run."""

    iterations: int = 0
    nodes: int = 0


class Generation:
    """Master and pricers of one instance.

    Parameters
    ----------
    instance
        Objective ``cost`` or ``goodput``.
    run
        Its terms.
    """

    def __init__(self, instance: Instance, run: Run) -> None:
        self.instance = instance
        self.run = run
        self.minimised = instance.objective is Objective.COST
        self.views = [View.of(instance, pool.type) for pool in instance.gpus]
        self.price = np.array([pool.type.price_per_hour for pool in instance.gpus])
        self.count = np.array([math.inf if pool.count is None else float(pool.count) for pool in instance.gpus])
        order, copy_of, self.class_of = identical_workloads(instance)
        self.copies = np.bincount(self.class_of).astype(np.float64)
        self.pricers = [Pricer(view, t, order, copy_of) for t, view in enumerate(self.views)]
        least = self.copies if self.minimised else np.zeros_like(self.copies)
        most = np.full_like(self.copies, np.inf) if self.minimised else self.copies
        artificial = 10.0 * float(self.price.max()) if self.minimised else 0.0
        self.master = Master(Cover(self.class_of, least, most, self.count, artificial), run.threads)
        self.bound = 0.0 if self.minimised else math.inf
        self.relaxation: Relaxation | None = None
        self.tally = Tally()
        self._centre: Relaxation | None = None
        self._seed_master()

    def _seed_master(self) -> None:
        """Start with each workload alone, and with what fills a GPU if everyone pays for its least share."""
        for pricer in self.pricers:
            choices = pricer.choices
            first = choices.option[:-1]
            alone = [
                Pattern(pricer.pool, ((int(pricer.workloads[choices.workload[k]]), int(choices.batch[o]), rate),))
                for k, (o, rate) in enumerate(zip(first, choices.rate_rps.tolist(), strict=True))
            ]
            self.add([pattern for pattern in alone if self._runs_alone(pattern)])
            if self.minimised and len(first):
                share = np.minimum.reduceat(choices.lower_units, first) / (SEED_FILL * pricer.tables.share_units)
                self.add(pricer.price(share, 1.0, FIRST_NODE_LIMIT, stop_after=SEED_PATTERNS).patterns)

    def _runs_alone(self, pattern: Pattern) -> bool:
        """Whether a single resident fits with its own power (its least share alone does not look at it)."""
        residents = [Resident(*member) for member in pattern.members]
        return fit_gpu(self.views[pattern.pool], residents) is not None

    def cost_of(self, pattern: Pattern) -> float:
        """Cost of a pattern in the minimised master."""
        if self.minimised:
            return float(self.price[pattern.pool])
        return -math.fsum(rate for _, _, rate in pattern.members)

    def add(self, patterns: list[Pattern]) -> int:
        """Add patterns to the master; how many were new."""
        return sum(self.master.add(pattern, self.cost_of(pattern)) for pattern in patterns)

    def servable(self) -> Ints:
        """Workloads that some GPU type serves alone, ascending positions."""
        served = [p.workloads[np.unique(p.choices.workload)] for p in self.pricers]
        return np.unique(np.concatenate(served)) if served else np.array([], dtype=np.int64)

    def solve(self, finished: Callable[[], bool], pairs: Pairs = NO_PAIRS) -> None:
        """Generate patterns until none gains, time is up or ``finished()`` says that the bound is good enough."""
        tolerance, node_limit, pull = FIRST_TOLERANCE, FIRST_NODE_LIMIT, PULL
        while self.run.remaining_s > 0.0:
            self.relaxation = self.master.relax()
            duals = self.relaxation
            if self._centre is not None and pull > 0.0:
                duals = replace(
                    duals,
                    workload_dual=pull * self._centre.workload_dual + (1.0 - pull) * duals.workload_dual,
                    pool_dual=pull * self._centre.pool_dual + (1.0 - pull) * duals.pool_dual,
                )
            priced = [self.price_at(p, duals, tolerance, node_limit, pairs) for p in self.pricers]
            self.tally.iterations += 1
            self.tally.nodes += sum(p.nodes for p in priced)
            new = sum(self.add(p.patterns) for p in priced)
            if all(math.isfinite(p.bound) for p in priced) and pairs is NO_PAIRS:
                self._improve_bound(priced, duals)
            if finished():
                return
            if self._gains(priced, self.relaxation):
                pull = PULL
                continue
            if pull > 0.0:
                pull = 0.0 if pull < 0.2 else pull / 2  # the pulled duals asked for patterns that gain nothing
                continue
            cut_short = any(
                p.bound > self._threshold(t, duals, tolerance) * (1.0 + 1e-12) for t, p in enumerate(priced)
            )
            if cut_short and node_limit < LAST_NODE_LIMIT:
                node_limit *= 10
            elif tolerance > LAST_TOLERANCE:
                tolerance /= 2.0
            else:
                return

    def _threshold(self, pool: int, relaxation: Relaxation, tolerance: float) -> float:
        """Worth that a pattern must exceed: its own cost, the charge of its pool, and the tolerance."""
        base = self.price[pool] if self.minimised else 0.0
        scale = self.price[pool] if self.minimised else abs(relaxation.value) / max(1.0, float(self.count.sum()))
        return float(base - relaxation.pool_dual[pool] + tolerance * scale)

    def price_at(
        self, pricer: Pricer, relaxation: Relaxation, tolerance: float, node_limit: int, pairs: Pairs = NO_PAIRS
    ) -> Priced:
        """Look for patterns that gain at the given duals by more than the tolerance."""
        return pricer.price(
            self.profit(pricer, relaxation.workload_dual),
            self._threshold(pricer.pool, relaxation, tolerance),
            node_limit,
            pattern_limit=PATTERNS_PER_BOX,stop_after=PATTERNS_PER_CALL,
            pairs=pairs,
        )

    def profit(self, pricer: Pricer, workload_dual: Floats) -> Floats:
        """Worth of each choice at the given duals."""
        workload = pricer.workloads[pricer.choices.workload]
        dual = workload_dual[self.class_of[workload]]
        return dual if self.minimised else pricer.choices.rate_rps + dual

    def _gains(self, priced: list[Priced], relaxation: Relaxation) -> bool:
        """Whether some pattern improves the master at its own duals."""
        for p in priced:
            for pattern in p.patterns:
                worth = sum(relaxation.workload_dual[self.class_of[w]] for w, _, _ in pattern.members)
                if worth + relaxation.pool_dual[pattern.pool] > self.cost_of(pattern) * (1+1e-9)+1e-9:
                    return True
        return False

    def _improve_bound(self, priced: list[Priced], duals: Relaxation) -> None:
        best_worth = np.array([p.bound for p in priced])
        dual = duals.workload_dual
        before = self.bound
        if self.minimised:
            self.bound = max(self.bound, cost_bound(dual, self.copies, best_worth, self.price, self.count))
        else:
            self.bound = min(self.bound, value_bound(-dual, self.copies, best_worth, self.count))
        if self.bound != before:
            self._centre = duals


def identical_workloads(instance: Instance) -> tuple[Ints, Ints, Ints]:
    """Group workloads of equal model, SLO and rate.

    Returns
    -------
    order
        Positions in the instance with identical workloads side by side, shape (workloads,).
    copy_of
        For each place in ``order`` the place before if identical, else -1.
    class_of
        Class of each workload, by position in the instance.
    """
    keys = [(w.model, w.slo_ms, w.rate_rps) for w in instance.workloads]
    classes = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    class_of = np.array([classes[key] for key in keys], dtype=np.int64)
    order = np.argsort(class_of, kind="stable").astype(np.int64)
    copy_of = np.full(len(order), -1, dtype=np.int64)
    same = class_of[order][1:] == class_of[order][:-1]
    copy_of[1:][same] = np.flatnonzero(same)
    return order, copy_of, class_of
