"""MediatorDNN (Nabavinejad, Reda, Guo): the portfolio effect, forty jobs, and the demand of groups over time."""

from collections.abc import Callable
from statistics import fmean

from bench.ledger.row import Row
from reports.experiments.claim import NOTHING_PUBLISHED, Claim, Values
from reports.experiments.runs import Runs
from reports.figure import Need
from reports.figures import mediator_jobs
from reports.figures.mediator_fig4 import colocations, deviation_pct
from reports.figures.mediator_fig8 import NEEDS, OTHERS, OURS, Fares, Rates, fares, improvement_pct

(FORTY,) = NEEDS
_ALL = (OURS, *OTHERS)


def _rows(scheduler: str, runs: Runs) -> list[Row]:
    return runs.rows(Need(FORTY.instances, (scheduler,)))


def _deviations(_: Runs) -> Values:
    return tuple(sum(map(deviation_pct, colocations()[name])) for name in ("bin-packing", OURS))


def _better(other: str, rates: Callable[[Fares], Rates]) -> Callable[[Runs], Values]:
    """Query the improvement of the jobs in percent: the mean of the mixes' means, and the largest of any job."""

    def query(runs: Runs) -> Values:
        found = [
            list(improvement_pct(rates(_fares(ours)), rates(_fares(theirs))).values())
            for ours, theirs in zip(_rows(OURS, runs), _rows(other, runs), strict=True)
        ]
        return fmean(map(fmean, found)), max(map(max, found))

    return query


_KEPT: dict[str, Fares] = {}
"""Results by run, because several lines need the same."""


def _fares(row: Row) -> Fares:
    if row.key not in _KEPT:
        _KEPT[row.key] = fares(row)
    return _KEPT[row.key]


def _means(of: Callable[[Row], float | None]) -> Callable[[Runs], Values]:
    def query(runs: Runs) -> Values:
        return tuple(fmean(value for row in _rows(name, runs) if (value := of(row)) is not None) for name in _ALL)

    return query


def _per_gpu(runs: Runs) -> Values:
    """Return the difference in requests served per GPU from each other scheduler, in percent over all mixes."""
    served = {
        name: sum(sum(_fares(row).served.values()) for row in _rows(name, runs))
        / sum(row.gpus_used or 0 for row in _rows(name, runs))
        for name in _ALL
    }
    return tuple(100.0 * (served[OURS] / served[other] - 1.0) for other in OTHERS)


def _slowed_by(other: str) -> Callable[[Runs], Values]:
    return lambda _: mediator_jobs.growth_pct(other)


def _not_modelled(_: Runs) -> Values:
    """Return a dash: the suite does not model the quantity."""
    return ("–",)


_NO_CPU = "no measurements of these DNNs on a CPU server are published"

MOTIVATION = (
    *(
        Claim(
            what=f"Fig. 1 (GPU): slowdown of Inception-V4 and of {other} side by side",
            paper=paper,
            ours=_slowed_by(other),
            form="{:.3g} %, {:.3g} %",
            within=0.1,
            reason="in our contention model launches take turns, whichever DNN is the neighbour",
        )
        for other, paper in mediator_jobs.PAPER_GROWTH_PCT.items()
    ),
    Claim(
        what="Fig. 6 (GPU): largest ratio of the deviations of two jobs with equal mean utilisation",
        paper="equal means, unequal deviations",
        ours=lambda _: (mediator_jobs.deviation_ratio(mediator_jobs.used()),),
        form="{:.1f} times",
        holds=lambda ratio: ratio >= 2.0,
        criterion="at least twice",
        note="equal: means within a twentieth of each other",
    ),
)

CLAIMS = (
    Claim(
        what="Fig. 4: sum of the deviations of two pairs of jobs, blind and by portfolio",
        paper=(40, 31),
        ours=_deviations,
        form="{:.0f} and {:.0f}",
        within=0.01,
    ),
    *(
        Claim(
            what=f"Fig. 8 (GPU): gain in a job's served requests over {other}, mean and largest",
            paper=(paper_pct, most_pct),
            ours=_better(other, lambda found: found.served),
            form="{:+.3g} %, {:+.0f} %",
            within=0.1,
            reason="a job serves at most the arriving requests; a GPU that keeps up serves all of them, only later",
        )
        for other, paper_pct, most_pct in zip(OTHERS, (21, 31), (108, 79), strict=True)
    ),
    *(
        Claim(
            what=f"– the same per second of processing time, over {other}",
            paper=NOTHING_PUBLISHED,
            ours=_better(other, lambda found: found.processed),
            form="{:+.3g} %, {:+.0f} %",
        )
        for other in OTHERS
    ),
    Claim(
        what="Fig. 8 (CPU): mean gain in a job's throughput over horus and bin-packing",
        paper="+10 %, +22 %",
        ours=_not_modelled,
        not_comparable=_NO_CPU,
    ),
    Claim(
        what="Table V (GPU): gain in throughput per watt over horus and bin-packing",
        paper="+8.05 %, +7.42 %",
        ours=_not_modelled,
        not_comparable="the RTX 2080 Ti stands in for the paper's GPU, and no power of these DNNs is published for it",
    ),
    Claim(
        what="Table V (CPU): gain in throughput per watt over horus and bin-packing",
        paper="+4.74 %, +17.06 %",
        ours=_not_modelled,
        not_comparable=_NO_CPU,
    ),
    Claim(
        what=f"Fig. 9: time over capacity, {', '.join(_ALL)}",
        paper="less often than both",
        ours=_means(lambda row: row.over_capacity_pct),
        form="{:.1f} %, {:.1f} %, {:.1f} %",
        holds=lambda ours, *others: ours < min(others),
        criterion="below both",
    ),
    Claim(
        what="Number of GPUs (groups), in the same order",
        paper="more than both",
        ours=_means(lambda row: row.gpus_used),
        form="{:.1f}, {:.1f}, {:.1f}",
        holds=lambda ours, *others: ours > max(others),
        criterion="above both",
    ),
    Claim(
        what=f"Difference in requests served per GPU from {' and '.join(OTHERS)}",
        paper=NOTHING_PUBLISHED,
        ours=_per_gpu,
        form="{:+.1f} %, {:+.1f} %",
        note="mediator serves more requests per job because it leaves room on its GPUs",
    ),
)
