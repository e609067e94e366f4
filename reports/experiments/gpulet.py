"""Tables of gpulet: schedulable scenarios and largest rates."""

from collections.abc import Mapping, Sequence

from bench.max_rate import late_fraction
from bench.simulation.allowance import VIOLATIONS_ALLOWED
from reports.claim import QueryTable, duration, query
from reports.need import Need
from reports.papers.gpulet_schedulers import ARXIV_NAMES, ELASTIC, NAMES, Variant, elastic_need
from reports.papers.gpulet_served import ARXIV_LARGEST, TABLE3_LARGEST, TABLE4_LARGEST, WITH_GREEDY_INT
from reports.quantities import requests_rps
from reports.runs import Runs, the_instance


def _elastic(variant: Variant, *, interference: bool = True, second_pass: bool = False) -> tuple[str, tuple[str, ...]]:
    return ELASTIC, elastic_need("", variant, interference=interference, second_pass=second_pass).parameters


_SBP = ("sbp.variant=atc22", "sbp.rest=batch", "sbp.margins=printed")

VARIANTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "`sbp`": ("sbp", (*_SBP, "sbp.halves=false")),
    "`sbp` on halves": ("sbp", (*_SBP, "sbp.halves=true")),
    "greedy, blind": ("greedy-best-fit", ("greedy-best-fit.interference=false", "greedy-best-fit.margins=printed")),
    "elastic, blind": _elastic("atc22", interference=False),
    "elastic `atc22`": _elastic("atc22"),
    "– second pass": _elastic("atc22", second_pass=True),
    "elastic `arxiv`": _elastic("arxiv"),
    "– its second pass": _elastic("arxiv", second_pass=True),
    "ideal": ("ideal", ("ideal.interference=true", "ideal.margins=printed")),
}

"""Scheduler and parameters of each line of ``COUNTS``, by label. Blind schedulers ignore interference."""

SETS = ("gpulet-1023", "gpulet-19682")
"""Scenario sets of arXiv'21 (five models) and of ATC'22 (nine models)."""


def _need_on(scenarios: str, label: str) -> Need:
    scheduler, parameters = VARIANTS[label]
    return Need(scenarios, (scheduler,), parameters=parameters)


@query
def _plan_counts(runs: Runs, need: Need) -> str:
    counts = runs.row(need).scenarios or {}
    return f"{counts['accepted']:,} / {counts['served']:,}"


@query
def _decision_times(runs: Runs, need: Need) -> str:
    row = runs.row(need)
    counts = row.scenarios or {}
    return f"{duration(row.decision_s)} ({duration(counts['decision_median_s'])})"


COUNTS = QueryTable(
    ("scheduler", *(f"plans / confirmed, `{scenarios}`" for scenarios in SETS), "all decisions, larger set (median)"),
    [
        (
            label,
            *(_plan_counts(_need_on(scenarios, label)) for scenarios in SETS),
            _decision_times(_need_on(SETS[-1], label)),
        )
        for label in VARIANTS
    ],
)


@query
def _rate(runs: Runs, need: Need, instance: str) -> str:
    """Return the largest rate served in time, and the largest planned rate, both in requests per second.

    The planned rate is bold if the simulation of its plan is in time.
    """
    per_scale_rps = requests_rps(the_instance(instance))
    served_rps = runs.climbs(need)[instance].largest_passed * per_scale_rps
    planned = next(row for row in runs.rows(need) if row.instance == instance)
    planned_rps = (planned.value or 0.0) * per_scale_rps
    late = late_fraction(planned)
    in_time = late is not None and late <= VIOLATIONS_ALLOWED
    return f"{served_rps:,.0f} / {f'**{planned_rps:,.0f}**' if in_time else f'{planned_rps:,.0f}'}"


def _rates(needs: Mapping[str, Need], needs_of_tables: Mapping[str, Need], instances: Sequence[str]) -> QueryTable:
    """Return a table with a line for each of ``instances``, then a line for each instance of ``needs_of_tables``."""
    lines = [(name, needs) for name in instances]
    lines += [(name, needs_of_tables) for name in next(iter(needs_of_tables.values())).instances.split(",")]
    return QueryTable(
        ("", *needs), [(name, *(_rate(need, name) for need in line_needs.values())) for name, line_needs in lines]
    )


RATES = _rates(WITH_GREEDY_INT, TABLE3_LARGEST, list(NAMES))
ARXIV_RATES = _rates(ARXIV_LARGEST, TABLE4_LARGEST, list(ARXIV_NAMES))
