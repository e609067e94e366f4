"""Figure of the GPUs that sharing saves for language-model services."""

from types import SimpleNamespace

import pytest

from reports.papers.llm_sharing import OPTIMUM, PANELS, SHARING, bound_gpus, gpus
from reports.selection import instances_of

EIGHTHS = "colgen, eighths"


def row(gpus_used, feasible=True, bound=None, instance=""):
    return SimpleNamespace(gpus_used=gpus_used, feasible=feasible, bound=bound, bound_certified=True, instance=instance)


@pytest.fixture
def optimum_rows():
    """Rows of the optimum on every instance of the mixes, and of eighths on llm-4gpu."""
    rows = {(OPTIMUM, name): row(6, bound=21.0, instance=name) for name in PANELS["llm-mix"]}
    rows[EIGHTHS, "llm-4gpu-eighths"] = row(5)
    return rows


def test_a_panel_adds_up_the_gpus_of_its_instances(optimum_rows):
    assert gpus(optimum_rows, OPTIMUM, PANELS["llm-mix"]) == 30
    assert gpus(optimum_rows, EIGHTHS, PANELS["llm-4gpu"]) == 5
    assert gpus(optimum_rows, OPTIMUM, PANELS["llm-4gpu"]) is None


def test_an_infeasible_plan_or_a_missing_bound_gives_no_sum(optimum_rows):
    assert bound_gpus(optimum_rows, PANELS["llm-mix"]) == 30  # a bound of 21 dollars means more than five GPUs
    optimum_rows[OPTIMUM, "llm-mix-3"] = row(6, feasible=False)
    assert gpus(optimum_rows, OPTIMUM, PANELS["llm-mix"]) is None
    assert bound_gpus(optimum_rows, PANELS["llm-mix"]) is None


def test_the_figure_needs_instances_that_exist():
    names = set(instances_of(SHARING.needs))
    assert {name for panel in PANELS.values() for name in panel} <= names
    assert {f"{name}-eighths" for panel in PANELS.values() for name in panel} <= names
