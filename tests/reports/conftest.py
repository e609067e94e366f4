"""What the tests of figures share: rows made by hand, and the page that a figure was drawn on."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure as Page

from bench.ledger.row import Row, Termination, columns
from instances.suites import suite
from reports import canvas
from reports.canvas import save
from reports.figure import Need
from reports.figures import figure

SUITES_OF_ROWS = (
    *("igniter-12", "igniter-12-t4", "igniter-scaling", "4gpu", "inss-clusters", "64gpu", "exact-scaling"),
    *("mediator-40", "smoke", "gpulet-pairs", "gpulet-game", "gpulet-traffic", "gpulet-equal"),
    *("gpulet-scen1", "gpulet-scen2"),
)


@pytest.fixture(scope="session")
def stated() -> Callable[[Need], dict[str, dict[str, object]]]:
    """Return the parameters that a need states, as a row has them."""

    def parameters(need: Need) -> dict[str, dict[str, object]]:
        found: dict[str, dict[str, object]] = {}
        for text in need.parameters:
            name, _, value = text.partition("=")
            scheduler, _, field = name.rpartition(".")
            found.setdefault(scheduler, {})[field] = {"true": True, "false": False}.get(value, value)
        return found

    return parameters


@pytest.fixture(scope="session")
def make_plan() -> Callable[..., dict[str, Any]]:
    """Make a plan on V100s, in the plan file's format, from the gpulets ``(share_units, (workload, batch), ...)``."""

    def make(*gpus: list[Any]) -> dict[str, Any]:
        listed = [{"type": "v100", "gpulets": [_gpulet(units, slots) for units, *slots in gpu]} for gpu in gpus]
        return {"version": 1, "instance": "igniter-12", "gpus": listed}

    return make


def _gpulet(share_units: int, slots: Sequence[tuple[str, int]]) -> dict[str, Any]:
    return {
        "share_units": share_units,
        "duty_cycle_ms": None if len(slots) == 1 else 20.0,
        "slots": [{"workload": workload, "batch": batch, "rate_rps": 1.0} for workload, batch in slots],
    }


@pytest.fixture(scope="session")
def two_gpus(make_plan: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """Return a plan with 92.5 % of one V100, and 75 % and 15 % of another."""
    return make_plan([(37, ("W12", 8))], [(30, ("W8", 6)), (6, ("W6", 4))])


@pytest.fixture(scope="session")
def make_row() -> Callable[..., Row]:
    """Make the row of a finished run on an instance of a suite; what is not given is unknown or a default."""
    known = {i.name: i for name in SUITES_OF_ROWS for i in suite(name).build()}
    blank = {column.name: None for column in columns()} | {
        "parameters": {},
        "seed": 0,
        "status": "feasible",
        "termination": Termination.FINISHED,
        "violations": 0,
        "violation_details": [],
        "gpus_used": 2,
        "cost_per_hour": 6.12,
        "time_limit_s": 10.0,
    }

    def make(scheduler: str = "igniter", instance: str = "igniter-12", **given: Any) -> Row:
        own = {"scheduler": scheduler, "instance": instance, "instance_hash": known[instance].fingerprint}
        return Row(**(blank | own | given))

    return make


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Sequence[Row]], Page]:
    """Draw a figure and return its page, which would have been saved."""

    def drawn(name: str, rows: Sequence[Row]) -> Page:
        pages: list[Page] = []

        def keep(page: Page, saved_as: str, folder: Path) -> list[Path]:
            assert saved_as == name
            page.draw_without_rendering()  # what cannot be drawn fails here
            pages.append(page)
            return []

        chosen = figure(name)
        with monkeypatch.context() as patch:
            for module in [module for name, module in list(sys.modules.items()) if name.startswith("reports.")]:
                if getattr(module, "save", None) is save and module is not canvas:
                    patch.setattr(module, "save", keep)
            chosen.draw(rows, Path())
        return pages[0]

    return drawn
