"""gpulet ATC'22 and arXiv'21: the largest of all rates that are served in time, found from above.

ATC'22, Sec. 5.2, defines the throughput as "the maximum achievable throughput while 99% of requests are processed
within the SLO latency", and measures it by "gradually increasing the request rate". The figures use a search that goes
up (``bench.max_rate``) and may end below a larger rate in time; these lines use the largest rate of a grid. They have
no verdict: the largest rate in time is often between rates that are late, so another grid leads to other numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from reports.claim import NOTHING_PUBLISHED, Claim, Values
from reports.need import Need
from reports.papers.gpulet_leads import lead_of_means, lead_served, mean_served, saving_pct, served_on
from reports.papers.gpulet_pairs import PAIRS, PARTITIONS, best_partition
from reports.papers.gpulet_served import ARXIV_LARGEST, LARGEST
from reports.runs import Runs


def _from_above(needs: Mapping[str, Need]) -> dict[str, Need]:
    return {label: replace(need, from_above=True, quick=None) for label, need in needs.items()}


def _line(what: str, ours: Callable[[Runs], Values], form: str) -> Claim:
    return Claim(what=f"– largest of all rates in time: {what}", paper=NOTHING_PUBLISHED, ours=ours, form=form)


_ATC, _ARXIV, _PAIRS = _from_above(LARGEST), _from_above(ARXIV_LARGEST), _from_above(PAIRS)
_PARTITIONS: Sequence[Need] = tuple(replace(need, from_above=True) for need in PARTITIONS)
_LABELS = ("sbp", "greedy", "gpulet+int")
_OVER_BASELINES = (("gpulet+int", "sbp"), ("gpulet+int", "greedy"), ("gpulet+int", "gpulet"))
_OVER_ARXIV_BASELINES = (("gpulet", "sbp"), ("gpulet+int", "sbp"), ("gpulet+int", "self-tuning"))

MAXIMUM = (
    _line(
        "mean rates of `sbp`, greedy and gpulet+int (ATC Sec. 1: 1,023, 1,076, 1,584), req/s",
        ours=mean_served(_ATC, _LABELS),
        form="{:,.0f}, {:,.0f}, {:,.0f}",
    ),
    _line(
        "leads by these means over `sbp` and greedy (ATC Sec. 1: +54.8 %, +47.2 %)",
        ours=lead_of_means(_ATC, _OVER_BASELINES[:2]),
        form="{:+.1f} %, {:+.1f} %",
    ),
    _line(
        "mean leads over `sbp`, greedy and gpulet (ATC Sec. 5.2: +61.7 %, +81.2 %, +7.5 %)",
        ours=lead_served(_ATC, _OVER_BASELINES),
        form="{:+.1f} %, {:+.1f} %, {:+.1f} %",
    ),
    _line(
        "game by gpulet+int and `sbp` (ATC Sec. 5.2: 1,650, 690), req/s",
        ours=served_on(_ATC, ("gpulet+int", "sbp"), "gpulet-game"),
        form="{:,.0f}, {:,.0f}",
    ),
    _line("cost saved on game beside `sbp` (ATC: 58.2 %)", ours=saving_pct(_ATC, "gpulet-game"), form="{:.1f} %"),
    _line(
        "Fig. 6, greedy over turns, and the best partition over greedy (ATC: +51 %, +23 %)",
        ours=best_partition(_PAIRS, _PARTITIONS),
        form="{:+.0f} %, {:+.0f} %",
    ),
    _line(
        "arXiv Fig. 12, mean leads of gpulet and gpulet+int over `sbp`, and of gpulet+int over self-tuning "
        "(+106.0 %, +102.6 %, +74.8 %)",
        ours=lead_served(_ARXIV, _OVER_ARXIV_BASELINES),
        form="{:+.1f} %, {:+.1f} %, {:+.1f} %",
    ),
    _line(
        "arXiv, game by gpulet+int and `sbp` (1,502, 720), req/s",
        ours=served_on(_ARXIV, ("gpulet+int", "sbp"), "gpulet-arxiv-game"),
        form="{:,.0f}, {:,.0f}",
    ),
)
"""Lines of the largest rates found from above, without verdicts."""
