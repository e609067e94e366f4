"""Recorded rows, certificates, page and figures: they stay the same from commit to commit.

``python -m tests.regression.test_recorded`` records them again after a change that is meant to change them.
"""

import json
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bench.cli.app import main
from reports.papers import figure
from tests.regression.rows import Fields, differences, rows
from tests.reports.rows import rows_of

RECORDED = Path(__file__).with_name("recorded.json")
EXPERIMENTS = Path(__file__).parents[2] / "docs" / "experiments.sqlite.xz"

SMALL = (
    "igniter-12,parvagpu,gpulet-scen1,gpulet-scen2,gpulet-scen3,gpulet-scen4,gpulet-scen5,4gpu,mediator-40-s0,"
    "llm-4gpu,hetero-2-40,hetero-2-12-scale,hetero-2-30-capacity"
)
LARGE = "64gpu,hold"
FAST = (
    "bin-packing,elastic-partitioning,ffd+,ffd++,gpu-lets+,gslice+,igniter,mediator,horus,sbp,"
    "guided-self-tuning,greedy-best-fit"
)
RUNS = (
    (f"{SMALL},{LARGE}", FAST, 1),
    (SMALL, "local-search,random,ideal", 200),
    (SMALL, "mig", 100),
    (f"{SMALL},{LARGE}", "colgen", 300_000),
    (f"igniter-3,{SMALL}", "cpsat", 5),
    ("igniter-3,igniter-12,4gpu", "pwl", 2),
)
"""Instances, schedulers and work limit of each group of runs: no result depends on the speed of a machine."""

CERTIFICATES = {
    "dual, cost": "igniter-12",
    "dual, capacity": "4gpu",
    "dual, scale": "gpulet-scen1",
    "dual, split plans": "igniter-12-hold",
    "tree": "hetero-2-40",
    "exhaustive": "igniter-3",
}
"""Instance whose certificate is of each kind."""

FIGURES = {
    "learning_curve": "inss-fig8",
    "online": "igniter-fig17",
    "panels": "igniter-fig3",
    "plan_bars": "igniter-fig14",
    "predictions": "igniter-fig12",
    "rate_bars": "gpulet-fig13",
    "scenario_bars": "gpulet-fig16",
    "scheduler_bars": "inss-fig12",
    "groups": "mediator-fig8",
    "page": "exact-gap",
}
"""A figure that is drawn by each chart of ``reports.charts``."""


def recorded_now(folder: Path) -> dict[str, Fields]:
    """Run everything in ``folder`` and return what is compared; large parts are returned as digests."""
    ledger = folder / "ledger.sqlite"
    for instances, schedulers, work in RUNS:
        options = ["--schedulers", schedulers, "--work-limit", str(work), "--time-limit", "600", "--jobs", "1"]
        assert main(["run", "--instances", instances, *options, "--ledger", str(ledger)]) == 0
    return {
        **{f"{run[0]} {run[2]}": _shortened(row) for run, row in rows(ledger).items()},
        **{f"certificate: {kind}": _certificate(name, ledger, folder) for kind, name in CERTIFICATES.items()},
        **{f"figure: {chart}": _figure(name, folder / "figures" / chart) for chart, name in FIGURES.items()},
        "page": _page(folder / "page"),
    }


def _certificate(instance: str, ledger: Path, folder: Path) -> Fields:
    file = folder / "certificate.json"
    assert main(["prove", instance, "-o", str(file), "--ledger", str(ledger)]) == 0
    certificate = json.loads(file.read_text())
    return {"kind": certificate["proof"]["kind"], **certificate["claim"], "proof": _digest(certificate["proof"])}


def _figure(name: str, folder: Path) -> Fields:
    folder.mkdir(parents=True)
    figure(name).draw(rows_of(figure(name)), folder)
    return {file.name: _digest(file.read_bytes().hex()) for file in sorted(folder.iterdir())}


def _page(folder: Path) -> Fields:
    """Return a digest of every page of ``bench report`` that is not an instance's, and of one instance's page."""
    assert main(["report", str(EXPERIMENTS), "--output", str(folder)]) == 0
    instance = min(folder.rglob("igniter-12-*.html"), key=lambda file: len(file.name))
    return {file.name: _digest(file.read_text()) for file in (*sorted(folder.glob("*.html")), instance)}


READABLE = frozenset({"status", "termination", "plan_class", "value", "bound", "feasible"})
"""Columns that are recorded as they are; of the others only a digest is recorded.

If the digest differs, ``tests.regression.rows`` shows which columns of two ledgers differ.
"""


def _shortened(row: Fields) -> Fields:
    """Return the readable columns of a row, and digests of its plan and of the other columns."""
    others = {name: value for name, value in row.items() if name not in READABLE | {"plan"}}
    return {name: row[name] for name in sorted(READABLE)} | {"plan": _digest(row["plan"]), "others": _digest(others)}


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@pytest.mark.soak
def test_results_are_those_that_were_recorded(tmp_path: Path) -> None:
    now, then = recorded_now(tmp_path), json.loads(RECORDED.read_text())
    assert now.keys() == then.keys()
    before, after = ({(run,): row for run, row in rows_by_run.items()} for rows_by_run in (then, now))
    assert list(differences(before, after)) == []


if __name__ == "__main__":
    with TemporaryDirectory() as temporary:
        lines = (
            f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(recorded_now(Path(temporary)).items())
        )
        RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
