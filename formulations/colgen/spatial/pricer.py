"""Exact pricing on one GPU type: patterns that gain, or a proof that none does."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from formulations.colgen.clock import CELLS_PER_NODE, NODES_PER_S, now, spend_nodes
from formulations.colgen.interference_boxes import RESIDENTS
from formulations.colgen.pairs import Pairs
from formulations.colgen.refinement import refine
from formulations.colgen.restricted_master import Priced
from formulations.colgen.spatial.axes import axes_of
from formulations.colgen.spatial.boxes import Boxes, LeastDemands
from formulations.colgen.spatial.choices import MANY_OPTIONS, Choices, all_choices
from formulations.colgen.spatial.decisions import Decisions
from formulations.colgen.spatial.search import Buffers, FoundPatterns, SearchLimits, search_box
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.configurations import Rates
from instances.least_shares import raise_to_feasible
from instances.one_gpu import Pattern, Resident
from instances.tables import Tables
from instances.view import View

HALVING_NODES = 3_000
"""Nodes without a pattern after which a box is halved: nearly all sets that fit a wide box are infeasible."""

HALVING_FRACTION = 0.15
"""Limit on the same nodes as a fraction of the node limit: what a short search cannot finish is halved all the more."""

FEW_NODES, PATIENCE_FACTOR, FEW_PATTERNS = 100, 4, 50
"""``HALVING_NODES`` for many choices: the first number, its growth, and the patterns of a call below which it grows."""

MOST_KNOWN = 100_000_000
"""Number of options times boxes from which no box is halved if choices are many: half a gigabyte."""

NODES_PER_HALVING, OPTIONS_PER_NODE = 20, 40
"""A pricing call with a node limit of n may halve n / ``NODES_PER_HALVING`` boxes, or fewer if options are many.

Halving a box then takes as long as one node for each ``OPTIONS_PER_NODE`` options. A call may ask for more.
"""

BOXES_PER_CALL, NODES_PER_CALL = 64, 200_000
"""Boxes searched between two checks of the clock, fewer if they may take more than this number of nodes.

It is one box with parts or entries by batch: its search takes longer.
"""

NODES_PER_NODE, DECISION_NODES_PER_NODE = 10, 4
"""Nodes of a search, and nodes of a decision that is not remembered, in the time of one node of the clock."""

FEWEST_DECISION_NODES, LONGEST_CALL_S = 2_000, 1e4
"""Least limit on nodes of decisions, however little time is left, and the time beyond which the limit stays."""

KNOTS = 6
"""Points between which the duals of a model's workloads are linear in the mean share."""

FEW_RESIDENTS, MANY_RESIDENTS = 2, 5
"""Residents of the boxes over which shares and power are averaged."""


@compiled
def _search_boxes(
    tables: Tables,
    choices: Choices,
    least: LeastDemands,
    order: Ints,
    profit: Floats,
    threshold: float,
    bonus: float,
    limits: SearchLimits,
    patterns: FoundPatterns,
    buffers: Buffers,
    decisions: Decisions,
) -> int:
    """Search boxes in ``order`` until ``patterns`` is full, and write their bounds; return the nodes visited."""
    total_nodes = 0
    profit_with_bonus = profit + bonus
    patient = SearchLimits(limits.nodes, limits.nodes, limits.patterns, limits.decision_nodes)
    for i in order:
        bonuses = least.box[i, RESIDENTS] * bonus
        bound, nodes, least.cut[i] = search_box(
            tables,
            choices,
            least,
            i,
            profit_with_bonus,
            threshold + bonuses,
            patient if least.narrow[i] else limits,
            patterns,
            buffers,
            decisions,
        )
        least.bound[i] = bound - bonuses if bound > threshold + bonuses else threshold
        total_nodes += nodes
        if patterns.stored[0] >= len(patterns.value):
            break
    return total_nodes


class Pricer:
    """Exact pricing on one GPU type; boxes, multipliers and buffers are kept between calls.

    Parameters
    ----------
    pool
        Index of the type in the instance's pool.
    workloads, copy_of, rates, covering, bracketed, hasty
        See ``all_choices``. Where a pattern needs it, bounds on budgets are replaced by the budgets. With
        ``MANY_OPTIONS``, ``covering`` or ``hasty`` pricing has boxes with entries by batch and halves the worst first.
    deadline
        Deadline of ``all_choices`` and ``reachable_boxes``.
    """

    def __init__(
        self,
        view: View,
        pool: int,
        workloads: Ints,
        copy_of: Ints,
        rates: Sequence[Rates],
        covering: bool = False,
        deadline: float = math.inf,
        bracketed: bool = False,
        hasty: bool = False,
    ) -> None:
        self.pool = pool
        self.view, self.bracketed = view, bracketed
        self.patience = HALVING_NODES
        self.workloads = workloads
        self.tables = view.tables
        self.choices = all_choices(view, workloads, copy_of, rates, covering, deadline, bracketed, hasty)
        self.rough = np.any(self.choices.budget_ms > self.choices.sure_ms, axis=1)
        self.by_batch = (covering or hasty) and len(self.choices.batch) >= MANY_OPTIONS
        if self.by_batch:
            self.patience = FEW_NODES
        self.boxes = Boxes(axes_of(view.tables), self.choices, deadline, self.by_batch)
        self.most_residents = int(self.boxes.least.box[:, RESIDENTS].max(initial=0.0))
        self._buffers = Buffers.of(
            len(workloads),
            len(self.choices.batch if self.by_batch else self.choices.workload),
            self.most_residents,
            self.tables.share_units,
        )
        self._decisions = Decisions.of(max(self.most_residents, 1), keeps_fitting=not bracketed)

    def price(
        self,
        profit: Floats,
        threshold: float,
        node_limit: int,
        pattern_limit: int = 50,
        stop_after: int = 500,
        deadline: float = math.inf,
        bonus: float = 0.0,
        pairs: Pairs | None = None,
        effort: int = 1,
    ) -> Priced:
        """Search the boxes for patterns worth more than ``threshold``.

        Parameters
        ----------
        profit
            Profit of each choice of ``self.choices``.
        threshold
            At least 0, or ``-bonus``.
        node_limit, pattern_limit
            Limits per box.
        stop_after
            Limit on the patterns of all boxes. Once it is reached, the bound is infinite: other boxes are skipped.
        deadline
            Value of ``clock.now()`` after which the remaining boxes are skipped.
        bonus
            Added to each profit to decide which residents to leave out: those whose sum is not above 0. The pattern is
            worth no less without them. The bonus does not count as worth.
        pairs
            Conditions of a branch on pairs of workloads; ``None`` without branching.
        effort
            Factor on the nodes per box, and on the number of boxes that may be halved.
        """
        choices = self.choices if pairs is None else self.choices._replace(pairs=pairs)
        nodes = 0
        while True:
            patterns, bound, cut_short, visited = self._search(
                profit, threshold, node_limit, pattern_limit, stop_after, deadline, bonus, choices, effort
            )
            nodes += visited
            count = int(patterns.stored[0])
            feasible_rows = [row for row in range(count) if not self.bracketed or self._is_feasible(patterns, row)]
            # A complete list also needs the patterns of the same workloads at their true budgets: search again.
            if len(feasible_rows) == count or (feasible_rows and bonus == 0.0) or now() >= deadline:
                return Priced(bound, [self._pattern(patterns, row) for row in feasible_rows], nodes, cut_short)

    def _is_feasible(self, patterns: FoundPatterns, row: int) -> bool:
        """Return whether a pattern is feasible; if bounds on its budgets do not decide, replace them by the budgets."""
        choices, size = self.choices, int(patterns.size[row])
        chosen, batch = patterns.choice[row, :size], patterns.batch[row, :size]
        options = np.array(
            [
                choices.option[k]
                + int(np.flatnonzero(choices.batch[choices.option[k] : choices.option[k + 1]] == b)[0])
                for k, b in zip(chosen, batch, strict=True)
            ]
        )
        if self._fits(chosen, batch, choices.sure_ms[options], options):
            return True
        for o, k in zip(options.tolist(), chosen.tolist(), strict=True):
            if self.rough[o]:
                w, rate = int(self.workloads[choices.workload[k]]), float(choices.rate_rps[k])
                choices.budget_ms[o] = choices.sure_ms[o] = self.view.budgets_ms(w, int(choices.batch[o]), rate)
                self.rough[o] = False
                choices.known.forget(k)
        return self._fits(chosen, batch, choices.budget_ms[options], options)

    def _fits(self, chosen: Ints, batch: Ints, budget_ms: Floats, options: Ints) -> bool:
        units = self.choices.lower_units[options].copy()
        return raise_to_feasible(self.tables, self.choices.model[chosen], batch, budget_ms, units, len(chosen))

    def _search(
        self,
        profit: Floats,
        threshold: float,
        node_limit: int,
        pattern_limit: int,
        stop_after: int,
        deadline: float,
        bonus: float,
        choices: Choices,
        effort: int,
    ) -> tuple[FoundPatterns, float, bool, int]:
        """Return patterns, a bound, whether a limit stopped some box, and the nodes visited; see ``price``."""
        most_residents = max(self.most_residents, 1)
        patterns = FoundPatterns(
            np.zeros(1, dtype=np.int64),
            np.zeros(stop_after, dtype=np.int64),
            np.zeros((stop_after, most_residents), dtype=np.int64),
            np.zeros((stop_after, most_residents), dtype=np.int64),
            np.zeros(stop_after),
        )
        boxes = self.boxes
        boxes.least.bound[: boxes.count], boxes.least.cut[:] = np.inf, False
        # Boxes with the largest excess over the threshold in the last call come first.
        order = np.argsort(-boxes.heat[: boxes.count], kind="stable")
        nodes, cells = 0, len(profit) * math.prod(self._buffers.table.shape[1:])
        nodes_per_halving = max(NODES_PER_HALVING, len(self.choices.batch) // OPTIONS_PER_NODE)
        if self.by_batch:  # its halves have entries of their own, and it has few boxes
            nodes_per_halving = NODES_PER_HALVING
        most_halved = effort * node_limit // nodes_per_halving
        patience = min(self.patience, max(1, int(HALVING_FRACTION * node_limit)))
        if self.by_batch:
            # A complete list needs the patterns of a box, not its bound.
            patience = HALVING_NODES if bonus > 0.0 else self.patience
            node_limit = max(node_limit, 2 * patience)
            most_halved = min(most_halved, MOST_KNOWN // len(self.choices.batch) - boxes.count)
            patience = patience if most_halved > 0 else node_limit
        # The search does not look at the clock; what it cannot decide in time is cut short.
        decision_nodes = max(FEWEST_DECISION_NODES, min(deadline - now(), LONGEST_CALL_S) * NODES_PER_S)
        limits = SearchLimits(effort * node_limit, patience, pattern_limit, int(decision_nodes))
        boxes_per_call = max(1, min(BOXES_PER_CALL, NODES_PER_CALL // limits.nodes))

        def goes_on() -> bool:
            return now() < deadline and int(patterns.stored[0]) < stop_after

        def examine(part: list[int]) -> list[int]:
            nonlocal nodes
            if not goes_on():
                return []
            self._decisions.begin_call()
            nodes += _search_boxes(
                self.tables,
                choices,
                boxes.of_box(part[0]) if self.by_batch else boxes.least,
                np.array([0] if self.by_batch else part),
                profit,
                threshold,
                bonus,
                limits,
                patterns,
                self._buffers,
                self._decisions,
            )
            decided = int(self._decisions.nodes[0])
            spend_nodes(len(part) * cells / CELLS_PER_NODE + decided / DECISION_NODES_PER_NODE)
            return [i for i in part if boxes.least.cut[i]]

        refine(
            order.tolist(),
            (),
            lambda i: float(boxes.least.bound[i]),
            examine,
            boxes.halve,
            goes_on,
            most_halved,
            at_once=1 if self.choices.covering or self.by_batch else boxes_per_call,
            depth_first=not self.by_batch,
        )
        spend_nodes(nodes / NODES_PER_NODE)
        count, bounds = int(patterns.stored[0]), boxes.least.bound[: boxes.count]
        bounded = np.isfinite(bounds)
        boxes.heat[: boxes.count][bounded] = bounds[bounded] - threshold
        best_found = float((patterns.value - bonus * patterns.size)[:count].max()) if count else threshold
        bound = max(float(bounds.max()), best_found) if len(bounds) else threshold
        cut_short = bool(np.any(bounds > threshold))
        if self.by_batch and cut_short and count < FEW_PATTERNS and now() < deadline:
            self.patience = min(PATIENCE_FACTOR * self.patience, HALVING_NODES)
        return patterns, bound, cut_short, int(nodes)

    def _pattern(self, patterns: FoundPatterns, row: int) -> Pattern:
        size = int(patterns.size[row])
        residents = (
            Resident(int(self.workloads[self.choices.workload[k]]), int(b), float(self.choices.rate_rps[k]))
            for k, b in zip(patterns.choice[row, :size], patterns.batch[row, :size], strict=True)
        )
        return Pattern.of(self.pool, sorted(residents))


def features(choices: Choices, boxes: Boxes, class_of: Ints, classes: int) -> Floats:
    """Return features of the classes, shape (classes, features), from 0 to 1.

    For each model they are a constant, the workload's mean share over the boxes, cut into pieces at quantiles, and its
    mean power. A dual that is linear in them with weights of at least 0 does not fall as the share grows, and may grow
    or fall with the power.

    Parameters
    ----------
    choices, boxes
        Choices with one choice per workload, and the boxes with their least shares and demands.
    class_of
        Class of each choice.
    """
    least = boxes.least
    few = np.flatnonzero((least.box[:, RESIDENTS] >= FEW_RESIDENTS) & (least.box[:, RESIDENTS] <= MANY_RESIDENTS))
    units, power_w, counted = np.zeros(len(class_of)), np.zeros(len(class_of)), np.zeros(len(class_of))
    for i in few:
        fits = np.isfinite(least.power[i])
        units += least.units[i]
        power_w[fits] += least.power[i, fits]
        counted += fits
    power_w /= np.maximum(counted, 1.0)
    columns = []
    for model in np.unique(choices.model):
        of_model = np.flatnonzero(choices.model == model)
        pieces = [np.ones(len(of_model))]
        knots = np.unique(np.quantile(units[of_model], np.linspace(0.0, 1.0, KNOTS)))
        pieces += [np.clip((units[of_model] - low) / (high - low), 0.0, 1.0) for low, high in pairwise(knots)]
        least_w, range_w = power_w[of_model].min(), np.ptp(power_w[of_model])
        if range_w > 0.0:
            pieces += [(power_w[of_model] - least_w) / range_w, 1.0 - (power_w[of_model] - least_w) / range_w]
        for piece in pieces:
            column = np.zeros(classes)
            column[class_of[of_model]] = piece
            columns.append(column)
    return np.array(columns).reshape(len(columns), classes).T
