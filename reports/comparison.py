"""Paired comparison of two sets of runs, with significance tests."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from json import dumps
from statistics import fmean

from bench.formatting import labels
from bench.ledger.gap import Gap
from bench.ledger.row import Row
from reports.statistics.gaps import TOLERANCE, UNSOLVED, achieved
from reports.statistics.inference import holm, mean_interval, signed_ranks

TIME_TOLERANCE, TIME_TOLERANCE_S = 0.1, 0.01
"""Decision times count as equal if they differ by less than either of these, the noise of a busy machine."""


class Measure(StrEnum):
    """Compared quantity."""

    VALUE = "value"
    GAP = "gap"
    DECISION = "decision"


class PairVerdict(StrEnum):
    """Verdict of the second run against the first, or of all pairs together."""

    BETTER = "better"
    EQUAL = "equal"
    WORSE = "worse"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two runs on one instance with one seed under equal conditions, with their gaps to the best certified bound.

    ``name`` is the scheduler of the second run, with the parameters that distinguish runs. A run without a feasible
    plan is worse by 100 % than any run with one.
    """

    a: Row
    b: Row
    gap_a: float | None
    gap_b: float | None
    name: str

    @property
    def lost(self) -> bool:
        """Whether only the first run has a feasible plan."""
        return achieved(self.a) is not None and achieved(self.b) is None

    def change(self, measure: Measure) -> float | None:
        """Return how much worse the second run is; negative if it is better, ``None`` if it cannot be compared.

        For values it is ``(b - a) / max(|a|, |b|)``, with the sign changed for maximised objectives; for gaps it is
        ``b - a``. Decision times have the formula of values, and can be compared if both runs have a feasible plan.
        """
        value_a, value_b = achieved(self.a), achieved(self.b)
        if value_a is None or value_b is None:
            unsolved = (value_b is None) - (value_a is None)
            return None if measure is Measure.DECISION else UNSOLVED * unsolved
        match measure:
            case Measure.VALUE:
                worse = _relative(value_a, value_b)
                return _rounded(worse if self.a.objective == "cost" else -worse)
            case Measure.GAP:
                return None if self.gap_a is None or self.gap_b is None else _rounded(self.gap_b - self.gap_a)
            case Measure.DECISION:
                return _time_change(self.a.decision_s, self.b.decision_s)

    def verdict(self, measure: Measure) -> PairVerdict | None:
        """Return the verdict on a measure, ``None`` if it cannot be compared."""
        change = self.change(measure)
        return None if change is None else _verdict(change)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure of one scheduler over all instances.

    Attributes
    ----------
    scheduler
        Name of the scheduler on both sides; ``None`` if two schedulers are compared.
    better, equal, worse
        Numbers of instances on which the second is better, equal or worse, by the mean over its seeds.
    mean_change, interval
        Mean of ``Pair.change`` over the instances and its 95 % bootstrap interval, ``None`` for fewer than two.
    p, p_holm
        p value of Wilcoxon's signed-rank test over the instances, alone and corrected for all tests of the comparison.
    verdict
        ``better`` or ``worse`` where ``p_holm`` is significant, otherwise ``None``.
    """

    scheduler: str | None
    measure: Measure
    better: int
    equal: int
    worse: int
    mean_change: float
    interval: tuple[float, float] | None
    p: float
    p_holm: float
    verdict: PairVerdict | None


def pair_runs(
    a: Sequence[Row], b: Sequence[Row], gaps_a: Mapping[str, Gap], gaps_b: Mapping[str, Gap], across: bool = False
) -> list[Pair]:
    """Return the comparable pairs of runs, in the order of the first side.

    Partners have the same instance, seed, source, headroom and truth. If a side has several such runs, partners also
    agree in their limits and, unless ``across``, in their parameters; of runs that agree in all this the latest counts.
    Skipped runs and runs without a partner are left out.

    Parameters
    ----------
    a, b
        Rows, oldest first.
    gaps_a, gaps_b
        Gaps by run key.
    across
        Whether two schedulers are compared; otherwise partners have the same scheduler.
    """
    left, right = _by_place(a, across), _by_place(b, across)
    names = labels([*a, *b])
    found = []
    for place, runs_a in left.items():
        runs_b = right.get(place, {})
        if len(runs_a) == len(runs_b) == 1:
            partners = [(*runs_a.values(), *runs_b.values())]
        else:
            partners = [(runs_a[variant], runs_b[variant]) for variant in runs_a if variant in runs_b]
        found += [
            Pair(one, other, gaps_a[one.key].gap, gaps_b[other.key].gap, names[other.key]) for one, other in partners
        ]
    return found


def compare_pairs(pairs: Sequence[Pair], across: bool, alpha: float) -> list[Comparison]:
    """Test every measure of every scheduler; the p values are corrected for all of these tests together.

    Pairs of one instance, such as its seeds, count as one: their mean. A measure without comparable pairs is not
    tested.
    """
    groups: dict[tuple[str | None, Measure], dict[str, list[float]]] = {}
    for pair in pairs:
        for measure in Measure:
            change = pair.change(measure)
            if change is not None:
                place = None if across else pair.name, measure
                groups.setdefault(place, defaultdict(list))[pair.a.instance_hash].append(change)
    changes = {place: [fmean(seeds) for seeds in group.values()] for place, group in groups.items()}
    ranks = [signed_ranks(of_instances) for of_instances in changes.values()]
    corrected = holm([rank.p for rank in ranks])
    found = []
    for ((scheduler, measure), of_instances), rank, p_holm in zip(changes.items(), ranks, corrected, strict=True):
        verdicts = [_verdict(change) for change in of_instances]
        found.append(
            Comparison(
                scheduler=scheduler,
                measure=measure,
                better=verdicts.count(PairVerdict.BETTER),
                equal=verdicts.count(PairVerdict.EQUAL),
                worse=verdicts.count(PairVerdict.WORSE),
                mean_change=fmean(of_instances),
                interval=mean_interval(of_instances),
                p=rank.p,
                p_holm=p_holm,
                verdict=_verdict(rank.plus - rank.minus) if p_holm <= alpha else None,
            )
        )
    return found


def _by_place(rows: Iterable[Row], across: bool) -> dict[Hashable, dict[Hashable, Row]]:
    """Return the latest run by the fields in which partners must agree, and by those in which runs of a side differ."""
    found: dict[Hashable, dict[Hashable, Row]] = {}
    for row in rows:
        if row.termination != "skipped":
            limits = row.time_limit_s, row.work_limit, row.memory_limit_mb, row.threads
            place = row.instance_hash, row.seed, row.source, row.headroom or 1.0, row.truth
            if across:
                found.setdefault(place, {})[limits] = row
            else:
                variant = *limits, dumps(row.parameters, sort_keys=True)
                found.setdefault((*place, row.scheduler), {})[variant] = row
    return found


def _relative(a: float, b: float) -> float:
    scale = max(abs(a), abs(b))
    return (b - a) / scale if scale > 0.0 else 0.0


def _rounded(change: float) -> float:
    return change if abs(change) > TOLERANCE else 0.0


def _time_change(a_s: float | None, b_s: float | None) -> float | None:
    if a_s is None or b_s is None:
        return None
    change = _relative(a_s, b_s)
    return change if abs(change) > TIME_TOLERANCE and abs(b_s - a_s) > TIME_TOLERANCE_S else 0.0


def _verdict(change: float) -> PairVerdict:
    return PairVerdict.EQUAL if change == 0.0 else PairVerdict.WORSE if change > 0.0 else PairVerdict.BETTER
