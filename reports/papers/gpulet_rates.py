"""gpulet ATC'22, Fig. 14 and 17, and arXiv'21, Fig. 13 and 16: largest planned rates."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from bench.evaluation import SIMULATED
from bench.ledger.row import Row
from bench.max_rate import late_fraction
from bench.plan_simulation import Settings, simulate
from bench.simulation.allowance import VIOLATIONS_ALLOWED
from reports.charts.rate_bars import MEAN, draw_late_at_largest_rates, draw_relative_scales, relative_scales
from reports.claim import NOTHING_PUBLISHED, Claim, Values, query
from reports.figure import Figure
from reports.need import Need
from reports.papers.gpulet_schedulers import (
    ALL_RESERVES,
    ARXIV_NAMES,
    NAMES,
    elastic_need,
    gpulet_and_ideal,
    ideal_need,
    two_passes,
    with_margins,
)
from reports.papers.gpulet_served import ARXIV_LARGEST, HEADROOM, LARGEST
from reports.runs import MissingDataError, Runs, the_instance

SPREADS = (0.05, 0.1, 0.14)
"""Standard deviations of batch times, relative to the predicted ones.

The papers' interference model errs by at most 10.26 % in 90 % of the cases and by at most 13.98 % in 95 %.
"""

PLANNED = {label: replace(LARGEST[label], quick=None) for label in ("gpulet", "gpulet+int")}
ARXIV_PLANNED = {label: replace(ARXIV_LARGEST[label], quick=None) for label in ("gpulet", "gpulet+int")}
"""Needs by label, for plans at the largest rates that a scheduler can plan. gpulet is blind to interference."""

_INSTANCES, _ARXIV_INSTANCES = ",".join(NAMES), ",".join(ARXIV_NAMES)
_IDEAL_QUICK = "gpulet-scen2,gpulet-scen3,gpulet-scen4"
IDEAL = {
    "ideal": ideal_need(_INSTANCES, quick=_IDEAL_QUICK),
    "gpulet+int": elastic_need(_INSTANCES, "atc22", interference=True, quick=_IDEAL_QUICK),
}

_ARXIV_IDEAL_QUICK = "gpulet-arxiv-traffic,gpulet-long-only"
ARXIV_IDEAL = {
    "ideal": ideal_need(_ARXIV_INSTANCES, quick=_ARXIV_IDEAL_QUICK),
    "gpulet+int": elastic_need(_ARXIV_INSTANCES, "arxiv", interference=True, quick=_ARXIV_IDEAL_QUICK),
}


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
def _blind_and_late(runs: Runs, planned: Mapping[str, Need]) -> Values:
    """Return the number of instances whose largest blind plan is late, and the number of instances."""
    rows = runs.rows(planned["gpulet"])
    return sum(_is_late(row) for row in rows), len(rows)


@query
def _names_of_late(runs: Runs, need: Need, names: Mapping[str, str]) -> Values:
    """Return the instances whose largest plans are late."""
    return (", ".join(names[row.instance] for row in runs.rows(need) if _is_late(row)) or "none",)


@query
def _refused_and_late(runs: Runs, planned: Mapping[str, Need]) -> Values:
    """Return two numbers of instances, among those whose largest blind plan is late.

    The first number counts instances on which gpulet+int has no plan for the rates of the blind plan. The second counts
    instances on which gpulet+int plans for these rates or higher ones, and its plan is late, too.
    """
    blind_rows, rows = runs.rows_of_each(planned[label] for label in ("gpulet", "gpulet+int"))
    pairs = [(blind, row) for blind, row in zip(blind_rows, rows, strict=True) if _is_late(blind)]
    planned_rows = [row for blind, row in pairs if (row.value or 0.0) >= (blind.value or 0.0)]
    return len(pairs) - len(planned_rows), sum(map(_is_late, planned_rows))


@query
def _late_at_own_rates(runs: Runs, planned_by: Sequence[Mapping[str, Need]], label: str) -> Values:
    """Return the number of a scheduler's largest plans that are late, under each of several conditions of planning."""
    return tuple(sum(map(_is_late, runs.rows(planned[label]))) for planned in planned_by)


@query
def _late_with_spread(runs: Runs, planned: Mapping[str, Need], label: str) -> Values:
    """Return the number of a scheduler's largest plans that are late if batch times vary, for each of ``SPREADS``."""
    plans = [(row.plan, the_instance(row.instance)) for row in runs.rows(planned[label])]
    counts: list[int | None] = []
    for spread in SPREADS:
        late = 0
        for plan, instance in plans:
            if plan is None:
                return (None,) * len(SPREADS)
            simulated = simulate(plan, instance, Settings(noise=spread))
            rates = [simulated.violation_rate, *(application.violation_rate for application in simulated.applications)]
            late += max(rates) > VIOLATIONS_ALLOWED
        counts.append(late)
    return tuple(counts)


def _with_reserves(planned: Mapping[str, Need]) -> tuple[Claim, ...]:
    """Return the claims on late plans as printed, with reserves of the published code, and if batch times vary."""
    with_buffer = {label: replace(need, trial=replace(SIMULATED, headroom=HEADROOM)) for label, need in planned.items()}
    with_all = {label: with_margins(need) for label, need in planned.items()}
    conditions = (planned, with_buffer, with_all)
    words = "as printed, with the latency buffer of the published code (headroom of 1.1), with all its reserves"
    spreads = ", ".join(f"{100.0 * spread:g}" for spread in SPREADS)
    return tuple(
        Claim(what=what, paper=NOTHING_PUBLISHED, ours=ours, form="{}, {}, {}")
        for label in ("gpulet", "gpulet+int")
        for what, ours in (
            (f"– plans of {label} late at its own largest rates: {words}", _late_at_own_rates(conditions, label)),
            (
                f"– with all reserves, if batch times vary with a standard deviation of {spreads} %: plans of {label} "
                "late",
                _late_with_spread(with_all, label),
            ),
        )
    )


def _late_blind_plans(figure: str, published: str, blind: Need, names: Mapping[str, str]) -> tuple[Claim, ...]:
    """Return the claims with the names of the blind plans that are late, as printed and with all reserves."""
    return (
        Claim(
            what=f"{figure}: these blind plans",
            paper=(published,),
            ours=_names_of_late(blind, names),
            reason="as the line above; with the reserves of the published code, the next line",
        ),
        Claim(what=f"– {ALL_RESERVES}", paper=NOTHING_PUBLISHED, ours=_names_of_late(with_margins(blind), names)),
    )


def _is_late(row: Row) -> bool:
    """Return whether more than 1 % of the requests are not in time in the simulation of a run's plan."""
    fraction = late_fraction(row)
    if fraction is None:
        raise MissingDataError("not simulated")
    return fraction > VIOLATIONS_ALLOWED


FIG14 = Figure(
    name="gpulet-fig14",
    title="Requests not in time at the largest schedulable rates, with and without interference",
    paper="gpulet ATC'22, Fig. 14",
    shows="Without interference, gpulet has more than 1 % of the requests not in time on scen2, scen3 and scen5; "
    "gpulet+int does not schedule those rates (scen2, scen3) or serves them (scen5).",
    look_for="Without interference, plans for the largest rates have more than 1 % of their requests not in time "
    "everywhere, not only in three of seven cases, because they use the full predicted capacity. gpulet+int does not "
    "schedule these rates (N).",
    cost="14 runs, a few seconds",
    needs=tuple(PLANNED.values()),
    draws=partial(draw_late_at_largest_rates, needs=PLANNED, names=NAMES),
    claims=(
        Claim(
            what="ATC Fig. 14: blind plans that are late at their largest rates",
            paper=(3, 7),
            ours=_blind_and_late(PLANNED),
            form="{} of {}",
            reason="no reserve is printed, so plans are filled to the last request; with the reserves of the published "
            "code fewer are late than in print, and more again if batch times vary (lines below)",
        ),
        *_late_blind_plans("ATC Fig. 14", "scen2, scen3, scen5", PLANNED["gpulet"], NAMES),
        Claim(
            what="– of these rates gpulet+int does not plan, plans late",
            paper=(2, 0),
            ours=_refused_and_late(PLANNED),
            form="{}, {}",
            reason="every blind plan is late, so gpulet+int refuses more rates",
        ),
        *_with_reserves(PLANNED),
    ),
)

FIG17 = Figure(
    name="gpulet-fig17",
    title="Largest schedulable rates of elastic partitioning relative to the ideal scheduler",
    paper="gpulet ATC'22, Fig. 17",
    shows="Elastic partitioning reaches 92.6 % of the ideal scheduler's rates on average.",
    look_for="Compare the mean with its star: as printed, Algorithm 1 has one pass. A second pass "
    "(`second_pass=yes`), which the paper does not have, is a line of EXPERIMENTS.md. A rate is the last one before "
    "the first without a plan. The ideal scheduler enumerates all partitions at every rate. The time limit may stop "
    "it; the note then says so, and its bar is its incumbent.",
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

ARXIV_FIG13 = Figure(
    name="gpulet-arxiv-fig13",
    title="Requests not in time at the largest schedulable rates, with and without interference",
    paper="gpulet arXiv'21, Fig. 13",
    shows="Without interference, gpulet has more than 1 % of the requests not in time on equal and short-skew; "
    "gpulet+int does not schedule such rates or serves them.",
    look_for="Without interference, plans for the largest rates have more than 1 % of their requests not in time "
    "everywhere; gpulet+int does not schedule these rates (N).",
    cost="10 runs, a few seconds",
    needs=tuple(ARXIV_PLANNED.values()),
    draws=partial(draw_late_at_largest_rates, needs=ARXIV_PLANNED, names=ARXIV_NAMES),
    claims=(
        Claim(
            what="arXiv Fig. 13: blind plans that are late at their largest rates",
            paper=(2, 5),
            ours=_blind_and_late(ARXIV_PLANNED),
            form="{} of {}",
            reason="no reserve is printed, so plans are filled to the last request; reserves and times of batches that "
            "vary change the number (lines below)",
        ),
        *_late_blind_plans("arXiv Fig. 13", "equal, short-skew", ARXIV_PLANNED["gpulet"], ARXIV_NAMES),
        Claim(
            what="– of these rates gpulet+int does not plan, plans late",
            paper='"successfully filters out such rate"',
            ours=_refused_and_late(ARXIV_PLANNED),
            form="{}, {}",
            supports=lambda _, late: late == 0,
            criterion="no late plan",
            reason="gpulet+int fills its gpulets to the last request, too",
        ),
        *_with_reserves(ARXIV_PLANNED),
    ),
)

ARXIV_FIG16 = Figure(
    name="gpulet-arxiv-fig16",
    title="Largest schedulable rates of elastic partitioning relative to the ideal scheduler",
    paper="gpulet arXiv'21, Fig. 16",
    shows="Elastic partitioning reaches 92.3 % of the ideal scheduler's rates on average, on traffic 87.7 %.",
    look_for="Compare the mean with its star; in the paper the lowest bar is traffic. The time limit may stop "
    "the ideal scheduler; the note then says so.",
    cost="10 runs, about half a minute; at most the time limit for the ideal scheduler",
    needs=tuple(ARXIV_IDEAL.values()),
    draws=partial(
        draw_relative_scales, needs=ARXIV_IDEAL, reference="ideal", names=ARXIV_NAMES, paper={"gpulet+int": 0.923}
    ),
    claims=(
        *two_passes(
            ("arXiv Fig. 16", "largest scale relative to `ideal`: mean, least"),
            partial(_of_the_ideal, ARXIV_IDEAL, ARXIV_NAMES),
            paper="92.3 %",
            form="{:.1f} %; {} {:.1f} %",
            supports=lambda mean, *_: abs(mean - 92.3) <= 2.0,
            criterion="the mean within 2 points",
        ),
        Claim(
            what="arXiv Fig. 16: the least of these scales",
            paper="traffic 87.7 %",
            ours=_least_of_the_ideal(ARXIV_IDEAL, ARXIV_NAMES),
            form="{} {:.1f} %",
            supports=lambda name, smallest: name == "traffic" and abs(smallest - 87.7) <= 2.0,
            criterion="traffic, within 2 points",
            reason="in one pass, as printed; the line above has the least of our second pass",
        ),
    ),
)

FIGURES = (FIG14, FIG17, ARXIV_FIG13, ARXIV_FIG16)
