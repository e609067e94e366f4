"""Table of what the error of a performance model costs: GPUs and late workloads of plans for measured pairs."""

from functools import partial

from instances.model_error.experiment import MEASURED, NO_INTERFERENCE
from instances.performance import interference_model_names
from reports.claim import QueryTable, query
from reports.experiments.models import GPUS
from reports.papers.model_error import model_costs
from reports.runs import Runs


@query
def _gpus_and_late(_: Runs, gpu: str, model: str, calibrated: bool) -> str:
    """Return GPUs and late workloads of plans by a model: without a margin, or with one calibrated to 1 % late."""
    costs = [cost for cost in model_costs(gpu) if cost.model == model and (cost.level is not None) == calibrated]
    if not costs:
        return ""
    cost = costs[0] if calibrated else next(cost for cost in costs if cost.margin.value == 1.0)
    error = "" if cost.gpus.error is None else f" ± {cost.gpus.error:.2f}"
    margin = f", margin {cost.margin.value:.2f}" if calibrated else ""
    return f"{cost.gpus.value:.2f}{error}, {100.0 * cost.violations.value:.1f} % late{margin}"


PRICES = QueryTable(
    ("GPU", "plans by", "GPUs for twelve workloads, no margin", "margin for at most 1 % late"),
    [
        (
            gpu,
            name if model in (MEASURED, NO_INTERFERENCE) else f"`{model}`",
            *map(partial(_gpus_and_late, gpu, model), (False, True)),
        )
        for gpu in GPUS
        for model, name in (
            (MEASURED, "measured latencies (optimum)"),
            (NO_INTERFERENCE, NO_INTERFERENCE),
            *((name, name) for name in interference_model_names()),
        )
    ],
)
