"""gpulet ATC'22, Fig. 5 and 16, and arXiv'21, Fig. 4 and 15: scenarios that schedulers can schedule."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from reports.charts.scenario_bars import count_missed, draw_counts, missed_note
from reports.claim import NOTHING_PUBLISHED, Claim, Values, query
from reports.figure import Figure
from reports.need import Need
from reports.papers.gpulet_schedulers import (
    Variant,
    elastic_need,
    gpulet_and_ideal,
    ideal_need,
    two_passes,
    with_margins,
)
from reports.runs import Runs


def _on_halves(scenarios: str, quick: str) -> dict[str, Need]:
    """Return the needs of squishy bin packing on whole GPUs and on halved GPUs."""
    return {
        label: Need(
            scenarios,
            ("sbp",),
            quick=quick,
            parameters=("sbp.variant=atc22", "sbp.rest=batch", f"sbp.halves={halves}", "sbp.margins=printed"),
        )
        for label, halves in (("sbp", "false"), ("sbp, halves", "true"))
    }


def _with_the_ideal(scenarios: str, variant: Variant, quick: str) -> dict[str, Need]:
    """Return the needs of the ideal scheduler, and of gpulet with and without interference."""
    return {
        "ideal": ideal_need(scenarios, quick=quick),
        "gpulet+int": elastic_need(scenarios, variant, interference=True, quick=quick),
        "gpulet": elastic_need(scenarios, variant, interference=False, quick=quick),
    }


HALVES, ARXIV_HALVES = _on_halves("gpulet-19682", "gpulet-1790"), _on_halves("gpulet-1023", "gpulet-93")
HALVES_IN_PAPER = {"sbp": 5772, "sbp, halves": 19682}
"""Counts of the ATC'22 paper (Sec. 3.2)."""

TIME_SHARING = Need(
    "gpulet-19682", ("sbp",), quick="gpulet-1790", parameters=("sbp.variant=glet-code", "sbp.margins=printed")
)
"""The time sharing that gpulet's authors published; it has whole GPUs only."""

ARXIV_HALVES_IN_PAPER = {"sbp, halves": 1023}
"""Count of the arXiv'21 version (Sec. 3.1); it states no count for whole GPUs."""

IDEAL = _with_the_ideal("gpulet-19682", "atc22", "gpulet-1790")
ARXIV_IDEAL = _with_the_ideal("gpulet-1023", "arxiv", "gpulet-93")


_HALVES_AS_PRINTED = ARXIV_HALVES["sbp, halves"]
WAIT = replace(
    _HALVES_AS_PRINTED,
    parameters=tuple(text.replace("rest=batch", "rest=wait") for text in _HALVES_AS_PRINTED.parameters),
)
"""Squishy bin packing on halves, where a batch of b requests is collected in (b - 1) / rate, not in b / rate.

(b - 1) / rate is the time that the first request of the batch waits for the last.
"""


@query
def _accepted(runs: Runs, *needs: Need) -> Values:
    return tuple((row.scenarios or {})["accepted"] for (row,) in runs.rows_of_each(needs))


@query
def _unplanned(runs: Runs, *needs: Need) -> Values:
    """Return the number of scenarios without a plan, for each need."""
    counts = [row.scenarios or {} for (row,) in runs.rows_of_each(needs)]
    return tuple(count["count"] - count["accepted"] for count in counts)


@query
def _missed(runs: Runs, needs: Mapping[str, Need], second_pass: bool, margins: bool = False) -> Values:
    """Return the number of scenarios that the ideal scheduler can plan but gpulet+int cannot, and their percentage."""
    both = gpulet_and_ideal(needs, second_pass)
    (gpulet_row,), (ideal_row,) = runs.rows_of_each(tuple(map(with_margins, both)) if margins else both)
    missed_count = count_missed(gpulet_row, ideal_row)
    return missed_count, 100.0 * missed_count / (gpulet_row.scenarios or {})["count"]


def _missed_claims(figure: str, needs: Mapping[str, Need], published: tuple[int, float]) -> tuple[Claim, ...]:
    """Return the claims on missed scenarios: as printed, with a second pass, and with the published code's margins."""
    what = "scenarios of `ideal` that elastic partitioning misses"
    claims = two_passes(
        (figure, what),
        partial(_missed, needs),
        reason="no reserve is printed; with the reserves of the published code (last line) the number is another",
        paper=published,
        form="{} ({:.1f} %)",
        supports=lambda _, missed_pct: abs(missed_pct - published[1]) <= 0.5,
        criterion="within half a point",
    )
    with_reserves = Claim(
        what=f"– {figure}: both with the reserves of the published code",
        paper=NOTHING_PUBLISHED,
        ours=_missed(needs, False, True),
        form="{} ({:.1f} %)",
        note="`margins=glet-code` is in no paper, so it has no verdict",
    )
    return (*claims, with_reserves)


FIG5 = Figure(
    name="gpulet-fig5",
    title="Scenarios that squishy bin packing can schedule, on whole and on halved GPUs",
    paper="gpulet ATC'22, Fig. 5",
    shows=f"Of 19,682 scenarios of nine models, squishy bin packing schedules {HALVES_IN_PAPER['sbp']:,} on whole "
    "GPUs and all of them on halves. Each half counts as a GPU of its own.",
    look_for="Halves make nearly every scenario schedulable, as in the paper. Whole GPUs serve more than twice as "
    "many scenarios as in the paper. The time sharing that the authors published serves fewer; it is not drawn. "
    "The dark part of the lower bar "
    "counts plans that break SLOs: nearly all on halves, since the rule ignores the interference between them.",
    cost="2 scenario sets: about a minute on two cores",
    needs=(*HALVES.values(), TIME_SHARING),
    draws=partial(draw_counts, needs=HALVES, paper=HALVES_IN_PAPER),
    claims=(
        Claim(
            what="ATC Fig. 5: scenarios on whole GPUs, of 19,682: `sbp` as printed",
            paper=(HALVES_IN_PAPER["sbp"],),
            ours=_accepted(HALVES["sbp"]),
            form="{:,}",
            within=0.02,
            reason="the authors published another time sharing, not squishy bin packing; with it, the next line",
        ),
        Claim(
            what="– the same by the time sharing that the authors published",
            paper=(HALVES_IN_PAPER["sbp"],),
            ours=_accepted(TIME_SHARING),
            form="{:,}",
            within=0.02,
            reason="on the authors' own tables it decides every known scenario as their code does; here nearly all "
            "scenarios of five models fail, since residual batches fill their SLOs and leave no time for another model",
        ),
        Claim(
            what="ATC Fig. 5: scenarios that `sbp` can plan on halves, of 19,682",
            paper=(HALVES_IN_PAPER["sbp, halves"],),
            ours=_accepted(HALVES["sbp, halves"]),
            form="{:,}",
            within=0.02,
            reason="our times are calibrated",
        ),
    ),
)

FIG16 = Figure(
    name="gpulet-fig16",
    title="Scenarios that elastic partitioning and the ideal scheduler can schedule",
    paper="gpulet ATC'22, Fig. 16",
    shows="Elastic partitioning with interference (gpulet+int) schedules 520 of 19,682 scenarios fewer than the ideal "
    "scheduler, 2.6 % of all.",
    look_for="The note counts the scenarios that the ideal scheduler schedules and elastic partitioning does not, "
    "here and in the paper. Without interference (gpulet) more scenarios have a plan, but the judge finds SLO "
    "violations in most of these plans.",
    cost="3 scenario sets: about a minute on two cores",
    needs=tuple(IDEAL.values()),
    draws=partial(
        draw_counts, needs=IDEAL, notes_on=lambda rows_by_label: missed_note(rows_by_label, "gpulet+int", "ideal", 520)
    ),
    claims=_missed_claims("ATC Fig. 16", IDEAL, (520, 2.6)),
)

ARXIV_FIG4 = Figure(
    name="gpulet-arxiv-fig4",
    title="Scenarios that squishy bin packing can schedule, on whole and on halved GPUs",
    paper="gpulet arXiv'21, Fig. 4",
    shows="Of 1,023 scenarios of five models, squishy bin packing schedules a part on whole GPUs and all of them on "
    "halves. Each half counts as a GPU of its own.",
    look_for="Halves make every scenario schedulable but those with LeNet at 600 requests per second. The judge "
    "rejects nearly all plans on halves, since the rule ignores the interference between them.",
    cost="3 scenario sets: a few seconds",
    needs=(*ARXIV_HALVES.values(), WAIT),
    draws=partial(draw_counts, needs=ARXIV_HALVES, paper=ARXIV_HALVES_IN_PAPER),
    claims=(
        Claim(
            what="arXiv Fig. 4: scenarios that `sbp` can plan on halves, of 1,023",
            paper=tuple(ARXIV_HALVES_IN_PAPER.values()),
            ours=_accepted(ARXIV_HALVES["sbp, halves"]),
            form="{:,}",
            within=0.02,
            reason="at LeNet's largest rate, one image takes longer than the time until the next, and two are not "
            "collected and served in time; the next line collects them as the first waits",
        ),
        Claim(
            what="– the same with `sbp.rest=wait`",
            paper=NOTHING_PUBLISHED,
            ours=_accepted(WAIT),
            form="{:,}",
            note="the paper counts the time of all requests of a batch, so this has no verdict",
        ),
        Claim(
            what="arXiv Sec. 3.1: scenarios that `sbp` cannot plan: on whole GPUs, on halves",
            paper='"most scenarios identified as unschedulable by the baseline scheduling algorithm are eliminated"',
            ours=_unplanned(*ARXIV_HALVES.values()),
            form="{:,}, {:,}",
            supports=lambda whole, halves: halves <= 0.5 * whole,
            criterion="halves leave at most half of them",
            reason="as in the line on halves above: LeNet's largest rate",
        ),
    ),
)

ARXIV_FIG15 = Figure(
    name="gpulet-arxiv-fig15",
    title="Scenarios that elastic partitioning and the ideal scheduler can schedule",
    paper="gpulet arXiv'21, Fig. 15",
    shows="Elastic partitioning with interference (gpulet+int) schedules 18 of 1,023 scenarios fewer than the ideal "
    "scheduler, 1.8 % of all.",
    look_for="The note counts the scenarios that the ideal scheduler schedules and elastic partitioning does not, "
    "here and in the paper.",
    cost="3 scenario sets: about a minute, mostly for unsuccessful searches of the ideal scheduler",
    needs=tuple(ARXIV_IDEAL.values()),
    draws=partial(
        draw_counts,
        needs=ARXIV_IDEAL,
        notes_on=lambda rows_by_label: missed_note(rows_by_label, "gpulet+int", "ideal", 18),
    ),
    claims=_missed_claims("arXiv Fig. 15", ARXIV_IDEAL, (18, 1.8)),
)

FIGURES = (FIG5, FIG16, ARXIV_FIG4, ARXIV_FIG15)
