"""MediatorDNN (Nabavinejad, Reda, Guo): the portfolio effect, forty jobs, and what groups ask for over time."""

from collections.abc import Callable
from statistics import fmean
from typing import TYPE_CHECKING

from reports.experiments.claim import Claim, Values
from reports.experiments.runs import Runs
from reports.figure import Need
from reports.figures.mediator_fig4 import colocations, deviation_pct
from reports.figures.mediator_fig8 import NEEDS, OTHERS, OURS, Fares, Rates, fares, improvement_pct

if TYPE_CHECKING:
    from bench.ledger.row import Row

(FORTY,) = NEEDS
_ALL = (OURS, *OTHERS)


def _rows(scheduler: str, runs: Runs) -> "list[Row]":
    return runs.rows(Need(FORTY.instances, (scheduler,)))


def _deviations(_: Runs) -> Values:
    return tuple(sum(map(deviation_pct, colocations()[name])) for name in ("bin-packing", OURS))


def _better(other: str, rates: Callable[[Fares], Rates]) -> Callable[[Runs], Values]:
    """Query by how many percent the jobs fare better: mean, most, and the mean of the worst and the best mix."""

    def query(runs: Runs) -> Values:
        found = [
            list(improvement_pct(rates(_fares(ours)), rates(_fares(theirs))).values())
            for ours, theirs in zip(_rows(OURS, runs), _rows(other, runs), strict=True)
        ]
        means = [fmean(mix) for mix in found]
        return fmean(means), max(map(max, found)), min(means), max(means)

    return query


_KEPT: dict[str, Fares] = {}
"""By run: several lines ask the same."""


def _fares(row: "Row") -> Fares:
    if row.key not in _KEPT:
        _KEPT[row.key] = fares(row)
    return _KEPT[row.key]


def _means(of: "Callable[[Row], float | None]") -> Callable[[Runs], Values]:
    def query(runs: Runs) -> Values:
        return tuple(fmean(value for row in _rows(name, runs) if (value := of(row)) is not None) for name in _ALL)

    return query


def _per_gpu(runs: Runs) -> Values:
    """By how many percent fewer requests are served per GPU than by each other scheduler, over all mixes."""
    served = {
        name: sum(sum(_fares(row).served.values()) for row in _rows(name, runs))
        / sum(row.gpus_used or 0 for row in _rows(name, runs))
        for name in _ALL
    }
    return tuple(100.0 * (served[OURS] / served[other] - 1.0) for other in OTHERS)


_MIXES = "{:+.1f} % (most {:.0f} %; mixes {:+.1f} to {:+.1f} %)"

CLAIMS = (
    Claim(
        what="Fig. 4: deviations of four jobs in pairs, blind and by portfolio",
        paper=(40, 31),
        ours=_deviations,
        form="{:.0f} and {:.0f}",
        within=0.01,
    ),
    *(
        Claim(
            what=f"Fig. 8: throughput of a job over {other}, per second of processing",
            paper=f"{paper_pct:+} % (most {most_pct} %)",
            ours=_better(other, lambda found: found.processed),
            form=_MIXES,
            holds=lambda mean, *_, paper_pct=paper_pct: abs(mean - paper_pct) <= 3.0,
            note="the mean; mixes differ so widely that agreement to a point is luck",
        )
        for other, paper_pct, most_pct in zip(OTHERS, (21, 31), (108, 79), strict=True)
    ),
    *(
        Claim(
            what=f"– requests served, over {other}",
            paper="–",
            ours=_better(other, lambda found: found.served),
            form=_MIXES,
            note="requests that wait are served later: most jobs cannot gain",
        )
        for other in OTHERS
    ),
    Claim(
        what=f"Fig. 9: time over capacity, {', '.join(_ALL)}",
        paper="less often than both",
        ours=_means(lambda row: row.over_capacity_pct),
        form="{:.1f} %, {:.1f} %, {:.1f} %",
        holds=lambda ours, *others: ours < min(others),
    ),
    Claim(
        what="GPUs (groups)",
        paper="more than both",
        ours=_means(lambda row: row.gpus_used),
        form="{:.1f}, {:.1f}, {:.1f}",
        holds=lambda ours, *others: ours > max(others),
    ),
    Claim(
        what=f"Requests served per GPU, over {' and '.join(OTHERS)}",
        paper="–",
        ours=_per_gpu,
        form="{:+.1f} %, {:+.1f} %",
        note="it serves more because it leaves room",
    ),
)
