"""Performance models: latency of a batch on a share of a GPU, alone and beside others.

All models have the same interface for a DNN model on a GPU type, vectorised over batch and share. In all models, the
interference on a GPU depends only on the number N of residents and on the sums of their L2 demands C, DRAM demands D
and power P (``instances.interference``). gpulet's model is an exception: it clips the factor of each pair, so that
these sums are exact for two residents only.
"""

from instances.errors import InputError, unknown_name
from instances.mig import MIG_TABLE
from instances.performance.gpulet import GpuletModel
from instances.performance.hybrid import HybridModel
from instances.performance.igniter import IGniterModel
from instances.performance.inss import InssModel
from instances.performance.model import PerformanceModel
from instances.performance.table import TABLE, TableModel

_MODELS: dict[str, PerformanceModel] = {
    model.name: model for model in (IGniterModel(), InssModel(), GpuletModel(), HybridModel(), TableModel())
}


def performance_model_names() -> list[str]:
    """Return the names of the performance models for GPUs divided into shares."""
    return list(_MODELS)


def interference_model_names() -> list[str]:
    """Return the names of the performance models for GPUs divided into shares that predict interference."""
    return [name for name in _MODELS if name != TABLE]


def performance_in_words(name: str) -> str:
    """Return the name of a performance model; for ``table``, also say that interference was not measured."""
    return f"{name} (no interference measured)" if name == TABLE else name


def performance_model(name: str, where: str = "performance_model") -> PerformanceModel:
    """Return the performance model called ``name``.

    Raises
    ------
    InputError
        If there is no such model, or it is the table of MIG instances, which has no shares; ``where`` is the place that
        the error names.
    """
    if name == MIG_TABLE:
        raise InputError(where, f'"{name}" is a table of MIG instances; it has no latencies of shares')
    if name not in _MODELS:
        raise unknown_name(where, "performance model", name, [*_MODELS, MIG_TABLE])
    return _MODELS[name]
