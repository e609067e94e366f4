"""Fixtures of the reports' tests: made-up plans, rows and measurements, and a function that draws a figure."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure as Page

from bench.ledger.row import Row, Termination, columns
from instances.suites import suite
from reports.papers import figure
from tests.row_values import of_classes

SUITES_OF_ROWS = (
    *("igniter-3", "igniter-12", "igniter-12-t4", "igniter-scaling", "4gpu", "inss-clusters", "64gpu", "exact-scaling"),
    *(
        "hold",
        "margins",
        "mediator-40",
        "mediator-pairs",
        "smoke",
        "gpulet-pairs",
        "gpulet-game",
        "gpulet-traffic",
        "gpulet-equal",
    ),
    *("gpulet-scen1", "gpulet-scen2"),
)


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
    """Return a function that makes the row of a finished run on an instance of a suite, from values and defaults."""
    instances = {i.name: i for name in SUITES_OF_ROWS for i in suite(name).build()}
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
        identity = {"scheduler": scheduler, "instance": instance, "instance_hash": instances[instance].fingerprint}
        return Row(**of_classes(blank | identity | given))

    return make


@pytest.fixture(scope="session")
def few_measurements(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a folder of made-up measurements with data for every figure."""
    folder = tmp_path_factory.mktemp("measurements")
    pairs = "model_a,batch_a,share_a_pct,model_b,batch_b,share_b_pct,latency_a_ms,latency_b_ms,std_a_ms,std_b_ms"
    solo = "model,batch,share_pct,latency_ms,l2_util_pct,dram_util_pct"
    files = {
        "v100-igniter/pairs.csv": [
            pairs,
            "vgg19,4,40,ssd,4,60,19.2,20.1,0.1,0.1",
            "alexnet,2,50,resnet50,2,50,1.4,4.6,0.1,0.1",
            "resnet50,16,50,alexnet,2,50,22.0,1.4,0.1,0.1",
            "vgg19,4,50,resnet50,16,50,15.0,24.0,0.1,0.1",
        ],
        "v100-igniter/solo.csv": [solo, "resnet50,16,50,20.0,17,13"],
        "v100-igniter/profile.json": [json.dumps(_light_profile())],
        "a100-gpulet/pairs.csv": [pairs.partition(",latency_b_ms")[0], "vgg16,4,40,resnet50,4,60,19.2"],
        "a100-gpulet/solo.csv": [
            solo,
            *(f"{model},{b},100,{5 + b / 2},{10 + b},{12 + b}" for model in ("resnet50", "vgg16") for b in (1, 8, 32)),
        ],
    }
    for name, lines in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("\n".join(lines))
    return folder


def _light_profile() -> dict[str, Any]:
    copies = {
        "power_w": [120.0, 190.0, 260.0, 300.0, 300.0],
        "frequency_mhz": [1530.0, 1530.0, 1530.0, 1490.0, 1430.0],
        "scheduling_delay_ms_per_kernel": [0.001, 0.002, 0.007, 0.012, 0.017],
    }
    model = {
        "scheduling_delay_alone_ms": 0.07,
        "gpu_latency_ms[batch][share]": [[8.0, 3.0, 2.5], [90.0, 20.0, 12.0], [180.0, 40.0, 21.0]],
        "power_w[batch][share]": [[80.0, 120.0, 130.0], [85.0, 190.0, 290.0], [85.0, 190.0, 293.5]],
        "frequency_mhz[batch][share]": [[1530.0, 1530.0, 1530.0]] * 2 + [[1530.0, 1530.0, 1509.0]],
        "l2_util_pct_at_(1,10)_(16,50)_(32,100)": [3.0, 17.0, 33.0],
    }
    gpu = {"max_frequency_mhz": 1530, "idle_power_w": 53.5, "identical_vgg19_colocated_1_to_5": copies}
    return {"gpu": gpu, "profiled_batches": [1, 16, 32], "models": {"resnet50": model}}


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Sequence[Row]], Page]:
    """Return a function that draws a figure and returns its page without saving it."""

    def draw_figure(name: str, rows: Sequence[Row]) -> Page:
        pages: list[Page] = []

        def record_page(page: Page, file: Path, **options: Any) -> None:
            assert file.stem == name
            pages.append(page)

        with monkeypatch.context() as patch:
            patch.setattr(Page, "savefig", record_page)
            figure(name).draw(rows, Path())
        return pages[0]

    return draw_figure
