"""gpulet ATC'22, Fig. 6, 13, 14 and 17, and arXiv'21, Fig. 12, 13 and 16: largest rates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean

from bench.max_rate import late_fraction
from bench.simulation.result import VIOLATIONS_ALLOWED
from instances.suites.gpulet import PAIRS as MODEL_PAIRS
from reports.charts.rate_bars import (
    MEAN,
    draw_late_at_largest_rates,
    draw_max_rates,
    draw_relative_scales,
    relative_scales,
    with_climbs,
)
from reports.claim import Claim, Values, query
from reports.figure import Figure
from reports.need import Need
from reports.papers.gpulet_schedulers import ARXIV_NAMES, NAMES, elastic_need, gpulet_and_ideal, ideal_need, two_passes
from reports.runs import MissingDataError, Runs

PAIRS = {
    "sbp": Need("gpulet-pairs", ("sbp",), parameters=("sbp.halves=false",)),
    "greedy": Need("gpulet-pairs", ("greedy-best-fit",), parameters=("greedy-best-fit.interference=true",)),
    "ideal": Need("gpulet-pairs", ("ideal",), parameters=("ideal.interference=true",)),
}
PAIR_NAMES = {
    f"gpulet-pair{number}": f"{first} +\n{second}".replace("ssd-", "ssd-\n")
    for number, (first, second) in enumerate(MODEL_PAIRS, start=1)
}
PAIR_LABELS = {"sbp": "by turns (sbp)", "greedy": "in space (greedy)", "ideal": "best partition (ideal)"}
PAIRS_IN_PAPER = {"sbp": 1.0 / 1.51, "ideal": 1.23}
"""Mean scales relative to greedy best fit, which is 51 % above squishy bin packing; the static ideal is 23 % above it.

Source: Sec. 3.3.
"""

_INSTANCES, _ARXIV_INSTANCES = ",".join(NAMES), ",".join(ARXIV_NAMES)

LARGEST = {
    "sbp": Need(_INSTANCES, ("sbp",), quick="gpulet-scen3", parameters=("sbp.halves=false",)),
    "greedy": Need(
        _INSTANCES, ("greedy-best-fit",), quick="gpulet-scen3", parameters=("greedy-best-fit.interference=true",)
    ),
    "gpulet": elastic_need(_INSTANCES, "atc22", interference=False, quick="gpulet-scen3"),
    "gpulet+int": elastic_need(_INSTANCES, "atc22", interference=True, quick="gpulet-scen3"),
}

ARXIV_LARGEST = {
    "sbp": Need(_ARXIV_INSTANCES, ("sbp",), quick="gpulet-equal", parameters=("sbp.halves=false",)),
    "self-tuning": Need(_ARXIV_INSTANCES, ("guided-self-tuning",), quick="gpulet-equal"),
    "gpulet": elastic_need(_ARXIV_INSTANCES, "arxiv", interference=False, quick="gpulet-equal"),
    "gpulet+int": elastic_need(_ARXIV_INSTANCES, "arxiv", interference=True, quick="gpulet-equal"),
}

PLANNED = {label: replace(LARGEST[label], quick=None) for label in ("gpulet", "gpulet+int")}
ARXIV_PLANNED = {label: replace(ARXIV_LARGEST[label], quick=None) for label in ("gpulet", "gpulet+int")}

_IDEAL_QUICK = "gpulet-scen2,gpulet-scen3,gpulet-scen4"
IDEAL = {
    "ideal": ideal_need(_INSTANCES, quick=_IDEAL_QUICK),
    "gpulet+int": elastic_need(_INSTANCES, "atc22", interference=True, quick=_IDEAL_QUICK),
}

ARXIV_IDEAL_NAMES = {"gpulet-arxiv-game": "game", "gpulet-arxiv-traffic": "traffic"} | {
    f"gpulet-{name}": name for name in ("equal", "long-only", "short-skew")
}
_ARXIV_IDEAL_INSTANCES = ",".join(ARXIV_IDEAL_NAMES)
_ARXIV_IDEAL_QUICK = "gpulet-arxiv-traffic,gpulet-long-only"
ARXIV_IDEAL = {
    "ideal": ideal_need(_ARXIV_IDEAL_INSTANCES, quick=_ARXIV_IDEAL_QUICK),
    "gpulet+int": elastic_need(_ARXIV_IDEAL_INSTANCES, "arxiv", interference=True, quick=_ARXIV_IDEAL_QUICK),
}


def _three_ways(runs: Runs) -> Values:
    relative = relative_scales(dict(zip(PAIRS, runs.rows_of_each(PAIRS.values()), strict=True)), "greedy")
    return tuple(relative[label][MEAN] for label in PAIRS)


@query
def _of_the_ideal(runs: Runs, needs: Mapping[str, Need], names: Mapping[str, str], second_pass: bool) -> Values:
    """Return gpulet+int's scale in percent of the ideal scheduler's scale.

    The result is the mean, the instance with the smallest percentage, and this percentage.
    """
    rows = runs.rows_of_each(gpulet_and_ideal(needs, second_pass))
    ratios = dict(relative_scales(dict(zip(("gpulet+int", "ideal"), rows, strict=True)), "ideal")["gpulet+int"])
    mean = ratios.pop(MEAN)
    worst = min(ratios, key=lambda name: ratios[name])
    return 100.0 * mean, names[worst], 100.0 * ratios[worst]


@query
def _least_of_the_ideal(runs: Runs, needs: Mapping[str, Need], names: Mapping[str, str]) -> Values:
    """Return the instance with gpulet+int's smallest scale relative to the ideal scheduler's, and its percentage."""
    _, name, smallest = _of_the_ideal(needs, names, False)(runs)
    return name, smallest


@query
def _ahead(runs: Runs, needs: Mapping[str, Need], others: Sequence[str]) -> Values:
    """Return the mean lead of gpulet+int over each scheduler in ``others``: planned scales, in percent."""
    gpulet_scales, *scales_of_others = (
        [row.value or 0.0 for row in rows]
        for rows in runs.rows_of_each(needs[label] for label in ("gpulet+int", *others))
    )
    return tuple(
        100.0 * (fmean(scale / other for scale, other in zip(gpulet_scales, other_scales, strict=True) if other) - 1.0)
        for other_scales in scales_of_others
    )


def _blind_and_late(runs: Runs) -> Values:
    """Return the number of instances whose largest plan without interference is late, and the number of instances."""
    rows = runs.rows(PLANNED["gpulet"])
    late_fractions = [late_fraction(row) for row in rows]
    if None in late_fractions:
        raise MissingDataError("not simulated")
    return sum(fraction > VIOLATIONS_ALLOWED for fraction in late_fractions if fraction is not None), len(rows)


FIG6 = Figure(
    name="gpulet-fig6",
    title="Largest rates of two models on two GPUs: turns, sharing in space, best partition",
    paper="gpulet ATC'22, Fig. 6",
    shows="On average greedy best fit (in space) serves 51 % more than squishy bin packing (by turns), and the best "
    "partition of each GPU in two 23 % more than that.",
    look_for="The order of the means is the paper's; the differences are smaller, since turns lose less here. Greedy "
    "best fit takes interference into account, so its plans meet their SLOs. Rates of a pair are equal, which the "
    "paper does not state.",
    cost="12 runs, a few seconds",
    needs=tuple(PAIRS.values()),
    draws=partial(
        draw_relative_scales, needs=PAIRS, reference="greedy", names=PAIR_NAMES, paper=PAIRS_IN_PAPER, words=PAIR_LABELS
    ),
    claims=(
        Claim(
            what="ATC Fig. 6: relative scale of four pairs on two GPUs: in turns, in space, in the best partition",
            paper=(PAIRS_IN_PAPER["sbp"], 1.0, PAIRS_IN_PAPER["ideal"]),
            ours=_three_ways,
            form="{:.2f} : {:.2f} : {:.2f}",
            within=0.1,
            reason="the order is that of the paper; temporal sharing loses less with our calibrated times",
        ),
    ),
)

FIG13 = Figure(
    name="gpulet-fig13",
    title="Most throughput with 99 % of the requests in time, by simulation",
    paper="gpulet ATC'22, Fig. 13",
    shows="gpulet+int serves 61.7 % more than squishy bin packing and 81.2 % more than greedy best fit on average. On "
    "game it serves 1,650 req/s and squishy bin packing 690. The interference model contributes 7.5 %.",
    look_for="Without the interference model (hatched) the rates served end far below the planned ones. A bar ends at "
    "the largest rates that are served in time. Lower rates may fail: their plans have few and completely full "
    "gpulets, and turns leave no slack for random arrivals (SLO 5 ms, a LeNet each 3.6 ms in game). gpulet+int is not "
    "ahead by the paper's margins. Stages of game and traffic count one by one. SSD's batches reach the next stage of "
    "traffic all at once, which no plan takes into account.",
    cost="28 climbs of about ten runs each: some minutes on two cores",
    needs=with_climbs(LARGEST),
    draws=partial(draw_max_rates, needs=LARGEST, names=NAMES),
    claims=(
        Claim(
            what="ATC Fig. 13: mean lead of gpulet+int over `sbp` and greedy, as planned",
            paper=(61.7, 81.2),
            ours=_ahead(LARGEST, ("sbp", "greedy")),
            form="{:+.1f} %, {:+.1f} %",
            within=0.1,
            reason="our times are calibrated; squishy bin packing and greedy best fit fill their GPUs better here",
        ),
    ),
)

FIG14 = Figure(
    name="gpulet-fig14",
    title="Requests not in time at the largest schedulable rates, with and without interference",
    paper="gpulet ATC'22, Fig. 14",
    shows="Without interference, gpulet has more than 1 % of the requests not in time on scen2, scen3 and scen5; "
    "gpulet+int does not schedule those rates (scen2, scen3) or serves them (scen5).",
    look_for="Without interference, plans for the largest rates have more than 1 % of their requests not in time "
    "everywhere, not only in three of seven cases, because they use the full predicted capacity. gpulet+int does not "
    "schedule these rates (N). On game both make the same plan.",
    cost="14 runs, a few seconds",
    needs=tuple(PLANNED.values()),
    draws=partial(draw_late_at_largest_rates, needs=PLANNED, names=NAMES),
    claims=(
        Claim(
            what="ATC Fig. 14: blind plans that are late at their largest rates",
            paper=(3, 7),
            ours=_blind_and_late,
            form="{} of {}",
            reason="our blind plans are filled to the last request",
        ),
    ),
)

FIG17 = Figure(
    name="gpulet-fig17",
    title="Largest schedulable rates of elastic partitioning relative to the ideal scheduler",
    paper="gpulet ATC'22, Fig. 17",
    shows="Elastic partitioning reaches 92.6 % of the ideal scheduler's rates on average.",
    look_for="Compare the mean with its star: as printed, Algorithm 1 has one pass. A second pass "
    "(`second_pass=yes`), which the paper does not have, comes close to the star. Scenarios of two or three large "
    "models lose most. The ideal scheduler enumerates all partitions at every rate. The time limit may stop it; the "
    "note then says so, and its bar is its incumbent.",
    cost="14 runs, about half a minute; at most the time limit for the ideal scheduler",
    needs=tuple(IDEAL.values()),
    draws=partial(draw_relative_scales, needs=IDEAL, reference="ideal", names=NAMES, paper={"gpulet+int": 0.926}),
    claims=two_passes(
        ("ATC Fig. 17", "largest scale relative to `ideal`: mean, least"),
        partial(_of_the_ideal, IDEAL, NAMES),
        paper="92.6 %",
        form="{:.1f} %; {} {:.1f} %",
        supports=lambda mean, *_: abs(mean - 92.6) <= 2.0,
        criterion="the mean within 2 points",
    ),
)

ARXIV_FIG12 = Figure(
    name="gpulet-arxiv-fig12",
    title="Most throughput with 99 % of the requests in time, by simulation",
    paper="gpulet arXiv'21, Fig. 12",
    shows="gpulet and gpulet+int serve 106.0 % and 102.6 % more than squishy bin packing on average, of game 1,502 "
    "req/s where squishy bin packing serves 720; gpulet+int serves 74.8 % more than guided self-tuning.",
    look_for="As in gpulet-fig13, gpulet without the interference model does not serve its planned rates in time. "
    "Bars end at the largest rates that are served in time. In the paper the variant without interference gains over "
    "gpulet+int by its planned rates; in the simulation it loses. On game self-tuning is far ahead, since no LeNet "
    "waits for its turn.",
    cost="20 climbs of about ten runs each: some minutes on two cores",
    needs=with_climbs(ARXIV_LARGEST),
    draws=partial(draw_max_rates, needs=ARXIV_LARGEST, names=ARXIV_NAMES),
    claims=(
        Claim(
            what="arXiv Fig. 12: mean lead of gpulet+int over `sbp` and self-tuning, as planned",
            paper=(102.6, 74.8),
            ours=_ahead(ARXIV_LARGEST, ("sbp", "self-tuning")),
            form="{:+.1f} %, {:+.1f} %",
            within=0.1,
            reason="our times are calibrated; the search of squishy bin packing ends at its first rate without a plan",
        ),
    ),
)

ARXIV_FIG13 = Figure(
    name="gpulet-arxiv-fig13",
    title="Requests not in time at the largest schedulable rates, with and without interference",
    paper="gpulet arXiv'21, Fig. 13",
    shows="Without interference, gpulet has more than 1 % of the requests not in time on equal and short-skew; "
    "gpulet+int does not schedule such rates or serves them.",
    look_for="Without interference, plans for the largest rates have more than 1 % of their requests not in time "
    "everywhere; gpulet+int does not schedule these rates (N). On game both make the same plan.",
    cost="10 runs, a few seconds",
    needs=tuple(ARXIV_PLANNED.values()),
    draws=partial(draw_late_at_largest_rates, needs=ARXIV_PLANNED, names=ARXIV_NAMES),
)

ARXIV_FIG16 = Figure(
    name="gpulet-arxiv-fig16",
    title="Largest schedulable rates of elastic partitioning relative to the ideal scheduler",
    paper="gpulet arXiv'21, Fig. 16",
    shows="Elastic partitioning reaches 92.3 % of the ideal scheduler's rates on average, on traffic 87.7 %.",
    look_for="Compare the mean with its star. The lowest bar is the mix of all five models at equal rates; in the "
    "paper it is traffic. The time limit may stop the ideal scheduler; the note then says so.",
    cost="10 runs, about half a minute; at most the time limit for the ideal scheduler",
    needs=tuple(ARXIV_IDEAL.values()),
    draws=partial(
        draw_relative_scales, needs=ARXIV_IDEAL, reference="ideal", names=ARXIV_IDEAL_NAMES, paper={"gpulet+int": 0.923}
    ),
    claims=(
        *two_passes(
            ("arXiv Fig. 16", "largest scale relative to `ideal`: mean, least"),
            partial(_of_the_ideal, ARXIV_IDEAL, ARXIV_IDEAL_NAMES),
            paper="92.3 %",
            form="{:.1f} %; {} {:.1f} %",
            supports=lambda mean, *_: abs(mean - 92.3) <= 2.0,
            criterion="the mean within 2 points",
        ),
        Claim(
            what="arXiv Fig. 16: the least of these scales",
            paper="traffic 87.7 %",
            ours=_least_of_the_ideal(ARXIV_IDEAL, ARXIV_IDEAL_NAMES),
            form="{} {:.1f} %",
            supports=lambda name, smallest: name == "traffic" and abs(smallest - 87.7) <= 2.0,
            criterion="traffic, within 2 points",
            reason="in one pass, as printed; the line above has the least of our second pass",
        ),
    ),
)

FIGURES = (FIG6, FIG13, FIG14, FIG17, ARXIV_FIG12, ARXIV_FIG13, ARXIV_FIG16)
