"""Rows of a few runs, as recorded: status, value, bound, plan and simulation stay the same from commit to commit.

``python -m tests.regression.test_recorded`` records them anew after a change that is meant to change them.
"""

import json
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from bench.cli.app import main
from tests.regression.rows import Fields, differences, rows

RECORDED = Path(__file__).with_name("recorded.json")

INSTANCES = "igniter-12,parvagpu-1,gpulet-scen1,4gpu,mediator-40-s0"
RUNS = (
    ("bin-packing,elastic-partitioning,ffd+,ffd++,gpu-lets+,gslice+,igniter,mediator,horus,sbp", "1"),
    ("guided-self-tuning,greedy-best-fit", "1"),
    ("local-search,random,ideal", "200"),
    ("colgen", "300000"),
    ("cpsat", "5"),
    ("mig", "100"),
)
"""Schedulers, and the work that each may do: no result depends on the speed of a machine."""


def recorded_now(ledger: Path) -> dict[str, Fields]:
    """Run all and return what is compared, large parts as digests."""
    for schedulers, work in RUNS:
        options = ["--schedulers", schedulers, "--work-limit", work, "--time-limit", "600", "--jobs", "1"]
        assert main(["run", "--instances", INSTANCES, *options, "--ledger", str(ledger)]) == 0
    return {
        f"{run[0]} {run[2]}": {name: _short(value) for name, value in row.items()} for run, row in rows(ledger).items()
    }


def _short(value: Any) -> Any:
    return (
        f"sha256 {sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()}" if isinstance(value, dict) else value
    )


@pytest.mark.soak
def test_rows_are_those_that_were_recorded(tmp_path: Path) -> None:
    now, then = recorded_now(tmp_path / "ledger.sqlite"), json.loads(RECORDED.read_text())
    assert now.keys() == then.keys()
    assert list(differences(*({(run,): row for run, row in each.items()} for each in (then, now)))) == []


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        text = json.dumps(recorded_now(Path(folder, "ledger.sqlite")), indent=1, sort_keys=True)
        RECORDED.write_text(text + "\n")
