"""Paired comparison of two sets of runs, with significance tests."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from json import dumps
from statistics import fmean

from bench.ledger.gap import Gap
from bench.ledger.labels import labels
from bench.ledger.row import Row
from reports.statistics.gaps import TOLERANCE, UNSOLVED, achieved
from reports.statistics.inference import holm, mean_interval, signed_ranks

TIME_TOLERANCE, TIME_TOLERANCE_S = 0.1, 0.01
"""Relative and absolute tolerance of decision times: within either tolerance, two times count as equal."""


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
    """Two runs on one instance with one seed under equal conditions.

    Attributes
    ----------
    a, b
        The first and the second run. A run without a feasible plan is worse by 100 % than any run with a plan.
    gap_a, gap_b
        Gaps of the two runs to the best certified bound; ``None`` without a bound.
    name
        Scheduler of the second run, with the parameters that distinguish runs.
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
        """Return how much worse the second run is than the first; ``None`` if they cannot be compared.

        A negative result means that the second run is better. The change of a value is ``(b - a) / max(|a|, |b|)``; a
        maximised objective reverses the sign. The change of a gap is ``b - a``. Decision times have the formula of
        values; they are compared if both runs have a feasible plan.
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
    """Comparison of one scheduler by one measure over all instances.

    Attributes
    ----------
    scheduler
        Name of the scheduler on both sides; ``None`` if two schedulers are compared.
    better, equal, worse
        Numbers of instances on which the second side is better, equal or worse, by the mean change over the seeds.
    mean_change, interval
        Mean of ``Pair.change`` over the instances, and its 95 % bootstrap interval, which is ``None`` for fewer than
        two instances.
    p, p_holm
        p value of Wilcoxon's signed-rank test over the instances, and the same value corrected by Holm's method for
        all tests of the comparison.
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

    The two runs of a pair have the same instance, seed, source, headroom, margin and truth. If a side has several such
    runs, the two runs also have the same limits and, unless ``across``, the same parameters. The latest of several
    equal runs counts. Skipped runs and runs without a partner are left out.

    Parameters
    ----------
    a, b
        Rows, oldest first.
    gaps_a, gaps_b
        Gaps by run key.
    across
        Whether two schedulers are compared; otherwise the two runs of a pair have the same scheduler.
    """
    runs_by_key_a, runs_by_key_b = _latest_by_key(a, across), _latest_by_key(b, across)
    names = labels([*a, *b])
    pairs = []
    for key, runs_a in runs_by_key_a.items():
        runs_b = runs_by_key_b.get(key, {})
        if len(runs_a) == len(runs_b) == 1:
            partners = [(*runs_a.values(), *runs_b.values())]
        else:
            partners = [(runs_a[variant], runs_b[variant]) for variant in runs_a if variant in runs_b]
        pairs += [
            Pair(run_a, run_b, gaps_a[run_a.key].gap, gaps_b[run_b.key].gap, names[run_b.key])
            for run_a, run_b in partners
        ]
    return pairs


def compare_pairs(pairs: Sequence[Pair], across: bool, alpha: float) -> list[Comparison]:
    """Test every measure of every scheduler, with p values corrected for all of these tests together.

    Pairs on one instance, such as those of several seeds, count once, by their mean. A measure without comparable
    pairs is not tested.
    """
    changes_by_instance: dict[tuple[str | None, Measure], dict[str, list[float]]] = {}
    for pair in pairs:
        for measure in Measure:
            change = pair.change(measure)
            if change is not None:
                key = None if across else pair.name, measure
                changes_by_instance.setdefault(key, defaultdict(list))[pair.a.instance_hash].append(change)
    mean_changes_by_key = {
        key: [fmean(seed_changes) for seed_changes in instance_changes.values()]
        for key, instance_changes in changes_by_instance.items()
    }
    tests = [signed_ranks(mean_changes) for mean_changes in mean_changes_by_key.values()]
    corrected_p = holm([test.p for test in tests])
    comparisons = []
    for ((scheduler, measure), mean_changes), test, p_holm in zip(
        mean_changes_by_key.items(), tests, corrected_p, strict=True
    ):
        verdicts = [_verdict(change) for change in mean_changes]
        comparisons.append(
            Comparison(
                scheduler=scheduler,
                measure=measure,
                better=verdicts.count(PairVerdict.BETTER),
                equal=verdicts.count(PairVerdict.EQUAL),
                worse=verdicts.count(PairVerdict.WORSE),
                mean_change=fmean(mean_changes),
                interval=mean_interval(mean_changes),
                p=test.p,
                p_holm=p_holm,
                verdict=_verdict(test.plus - test.minus) if p_holm <= alpha else None,
            )
        )
    return comparisons


def _latest_by_key(rows: Iterable[Row], across: bool) -> dict[Hashable, dict[Hashable, Row]]:
    """Return the latest runs by two keys.

    The first key has the fields that must be equal in a pair. The second key has the fields that distinguish several
    runs of one side.
    """
    latest: dict[Hashable, dict[Hashable, Row]] = {}
    for row in rows:
        if row.termination != "skipped":
            limits = row.time_limit_s, row.work_limit, row.memory_limit_mb, row.threads
            key = row.instance_hash, row.seed, row.source, row.reserve, row.truth, row.second_objective
            if across:
                latest.setdefault(key, {})[limits] = row
            else:
                variant = *limits, dumps(row.parameters, sort_keys=True)
                latest.setdefault((*key, row.scheduler), {})[variant] = row
    return latest


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
    if change == 0.0:
        return PairVerdict.EQUAL
    return PairVerdict.WORSE if change > 0.0 else PairVerdict.BETTER
