"""Tables of gpulet: schedulable scenarios and largest rates."""

from collections.abc import Mapping

from bench.max_rate import late_fraction
from bench.simulation.result import VIOLATIONS_ALLOWED
from reports.claim import QueryTable, duration, query
from reports.need import Need
from reports.papers.gpulet_rates import ARXIV_LARGEST, LARGEST
from reports.papers.gpulet_schedulers import ARXIV_NAMES, ELASTIC, NAMES, Variant, elastic
from reports.runs import Runs, the_instance


def _elastic(variant: Variant, *, interference: bool = True, second_pass: bool = False) -> tuple[str, tuple[str, ...]]:
    return ELASTIC, elastic("", variant, interference=interference, second_pass=second_pass).parameters


VARIANTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "`sbp`": ("sbp", ("sbp.halves=false",)),
    "`sbp` on halves": ("sbp", ("sbp.halves=true",)),
    "greedy, blind": ("greedy-best-fit", ("greedy-best-fit.interference=false",)),
    "elastic, blind": _elastic("atc22", interference=False),
    "elastic `atc22`": _elastic("atc22"),
    "– second pass": _elastic("atc22", second_pass=True),
    "elastic `arxiv`": _elastic("arxiv"),
    "– its second pass": _elastic("arxiv", second_pass=True),
    "ideal": ("ideal", ("ideal.interference=true",)),
}

SETS = ("gpulet-1023", "gpulet-19682")


def _on(scenarios: str, label: str) -> Need:
    scheduler, parameters = VARIANTS[label]
    return Need(scenarios, (scheduler,), parameters=parameters)


@query
def _counted(runs: Runs, need: Need) -> str:
    counts = runs.row(need).scenarios or {}
    return f"{counts['accepted']:,} / {counts['served']:,}"


@query
def _taken(runs: Runs, need: Need) -> str:
    row = runs.row(need)
    counts = row.scenarios or {}
    return f"{duration(row.decision_s)} ({duration(counts['decision_median_s'])})"


COUNTS = QueryTable(
    ("scheduler", *(f"plans / confirmed, `{scenarios}`" for scenarios in SETS), "all decisions, larger set (median)"),
    [
        (label, *(_counted(_on(scenarios, label)) for scenarios in SETS), _taken(_on(SETS[-1], label)))
        for label in VARIANTS
    ],
)


@query
def _rate(runs: Runs, needs: Mapping[str, Need], label: str, instance: str) -> str:
    """Return the largest rate served in time, and the largest rate with a plan, bold if its simulation is in time."""
    reached = runs.climbs(needs[label])[instance].throughput_rps
    planned = next(row for row in runs.rows(needs[label]) if row.instance == instance)
    most = (planned.value or 0.0) * sum(workload.rate_rps for workload in the_instance(instance).workloads)
    late = late_fraction(planned)
    kept = late is not None and late <= VIOLATIONS_ALLOWED
    return f"{reached:,.0f} / {f'**{most:,.0f}**' if kept else f'{most:,.0f}'}"


def _rates(needs: Mapping[str, Need], names: Mapping[str, str]) -> QueryTable:
    return QueryTable(
        ("", *needs), [(instance, *(_rate(needs, label, instance) for label in needs)) for instance in names]
    )


RATES, ARXIV_RATES = _rates(LARGEST, NAMES), _rates(ARXIV_LARGEST, ARXIV_NAMES)
