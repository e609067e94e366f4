"""Files of compact models in the formats of the field, for solvers of one's own."""

from pathlib import Path

from bench.api import Outcome, Run
from formulations.compact.build import build
from formulations.compact.model import CompactModel
from formulations.compact.search import Search
from instances import InputError, Instance


def whole_model(instance: Instance, continuous_shares: bool = False) -> CompactModel:
    """Return the model of all plans that are at least as good as first fit, without its nonlinear relations.

    Raises
    ------
    InputError
        If the instance has no such model.
    """
    search = Search.of(instance, Run())
    if isinstance(search, Outcome):
        raise InputError(instance.name, f"has no model: {search.reason or 'no plan needs a GPU'}")
    return build(search.problem, search.gpus(ties=True), continuous_shares)


def write(model: CompactModel, file: Path) -> None:
    """Write a model with the names of its variables; the ending of the file names the format."""
    model.pyomo.write(str(file), io_options={"symbolic_solver_labels": True})
