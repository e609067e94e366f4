"""Tables of gpulet: schedulable scenarios and largest rates."""

from collections.abc import Mapping

from bench.max_rate import late_fraction
from bench.simulation.result import VIOLATIONS_ALLOWED
from reports.claim import QueryTable, duration, query
from reports.need import Need
from reports.papers.gpulet_rates import ARXIV_LARGEST, LARGEST
from reports.papers.gpulet_schedulers import ARXIV_NAMES, ELASTIC, NAMES, Variant, elastic_need
from reports.runs import Runs, the_instance


def _elastic(variant: Variant, *, interference: bool = True, second_pass: bool = False) -> tuple[str, tuple[str, ...]]:
    return ELASTIC, elastic_need("", variant, interference=interference, second_pass=second_pass).parameters


VARIANTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "`sbp`": ("sbp", ("sbp.variant=atc22", "sbp.halves=false")),
    "`sbp` on halves": ("sbp", ("sbp.variant=atc22", "sbp.halves=true")),
    "greedy, blind": ("greedy-best-fit", ("greedy-best-fit.interference=false",)),
    "elastic, blind": _elastic("atc22", interference=False),
    "elastic `atc22`": _elastic("atc22"),
    "– second pass": _elastic("atc22", second_pass=True),
    "elastic `arxiv`": _elastic("arxiv"),
    "– its second pass": _elastic("arxiv", second_pass=True),
    "ideal": ("ideal", ("ideal.interference=true",)),
}

SETS = ("gpulet-1023", "gpulet-19682")


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
def _rate(runs: Runs, needs: Mapping[str, Need], label: str, instance: str) -> str:
    """Return the largest rate served in time, and the largest planned rate, both in requests per second.

    The planned rate is bold if the simulation of its plan is in time.
    """
    served_rps = runs.climbs(needs[label])[instance].throughput_rps
    planned = next(row for row in runs.rows(needs[label]) if row.instance == instance)
    planned_rps = (planned.value or 0.0) * sum(workload.rate_rps for workload in the_instance(instance).workloads)
    late = late_fraction(planned)
    in_time = late is not None and late <= VIOLATIONS_ALLOWED
    return f"{served_rps:,.0f} / {f'**{planned_rps:,.0f}**' if in_time else f'{planned_rps:,.0f}'}"


def _rates(needs: Mapping[str, Need], names: Mapping[str, str]) -> QueryTable:
    return QueryTable(
        ("", *needs), [(instance, *(_rate(needs, label, instance) for label in needs)) for instance in names]
    )


RATES, ARXIV_RATES = _rates(LARGEST, NAMES), _rates(ARXIV_LARGEST, ARXIV_NAMES)
