"""Performance models: how long a batch takes on a share of a GPU, alone and beside others.

Every model answers the same questions about a DNN model on a GPU type, vectorised over batch and share. The
interference of co-located workloads then depends on the residents of a GPU only through their number N and the sums of
their L2 demand C, DRAM demand D and power P (``instances.interference``), whatever the model. gpulet's model clips the
factor of each pair, so its sums are exact for two residents only.
"""

from instances.errors import InputError, unknown_name
from instances.mig import MIG_TABLE
from instances.performance.gpulet import GpuletModel
from instances.performance.hybrid import HybridModel
from instances.performance.igniter import IGniterModel
from instances.performance.inss import InssModel
from instances.performance.model import PerformanceModel

_MODELS: dict[str, PerformanceModel] = {
    model.name: model for model in (IGniterModel(), InssModel(), GpuletModel(), HybridModel())
}


def performance_model_names() -> list[str]:
    """Names of the performance models of shares."""
    return list(_MODELS)


def performance_model(name: str, where: str = "performance_model") -> PerformanceModel:
    """Return the performance model called ``name``.

    Raises
    ------
    InputError
        If there is none, or it is the table of MIG instances, which knows no shares; ``where`` names the place that
        asked.
    """
    if name == MIG_TABLE:
        raise InputError(where, f'"{name}" is a table of MIG instances; it does not say what a share of a GPU does')
    if name not in _MODELS:
        raise unknown_name(where, "performance model", name, [*_MODELS, MIG_TABLE])
    return _MODELS[name]
