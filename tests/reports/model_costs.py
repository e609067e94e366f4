"""Made-up results of ``bench profile cost``."""

from collections.abc import Sequence

from instances.model_error.experiment import MEASURED, NO_INTERFERENCE, Mean, ModelCost
from instances.performance import interference_model_names


def made_up_costs(margins: Sequence[float] = ()) -> list[ModelCost]:
    """Return costs of each model at a calibrated margin, at ``margins`` from large to small, and at margin 1."""
    costs = [_cost(MEASURED, None, 1.0, 8.0, 0.0)]
    for name in (NO_INTERFERENCE, *interference_model_names()):
        costs.append(_cost(name, 0.01, 1.25, 10.5, 0.008))
        costs += [_cost(name, None, margin, 8.0 + margin, 0.1 / margin) for margin in (*sorted(margins)[::-1], 1.0)]
    return costs


def _cost(model: str, level: float | None, margin: float, gpus: float, violations: float) -> ModelCost:
    means = Mean(margin, None), Mean(gpus, 0.125), Mean(violations, 0.0), Mean(gpus / 8.0 - 1.0, 0.0)
    return ModelCost(model, "" if model in (MEASURED, NO_INTERFERENCE) else "cell", level, *means)
