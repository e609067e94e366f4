"""L2 and DRAM traffic of kernels, counted by Nsight Compute."""

import os
from pathlib import Path
from typing import Any

import pytest

from bench.replay.light_profile import demand

PRINTED = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","conv","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","30.00"
"0","7","conv","gpu__time_duration.sum","us","2,000.00"
"0","7","conv","lts__t_sectors.avg.pct_of_peak_sustained_elapsed","%","50.00"
"1","7","relu","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","10.00"
"1","7","relu","gpu__time_duration.sum","us","500.00"
"1","7","relu","lts__t_sectors.avg.pct_of_peak_sustained_elapsed","%","20.00"
"""


def test_traffic_is_summed_over_kernels() -> None:
    assert demand.traffic_of(PRINTED) == pytest.approx((50.0 * 2.0 + 20.0 * 0.5, 30.0 * 2.0 + 10.0 * 0.5))
    uncounted = PRINTED + '"2","7","copy","gpu__time_duration.sum","us","n/a"\n==PROF== Disconnected from process 7\n'
    assert demand.traffic_of(uncounted) == demand.traffic_of(PRINTED)
    assert demand.traffic_of("==ERROR== ERR_NVGPUCTRPERM\n") is None


@pytest.mark.parametrize(
    ("script", "expected"), [(None, None), ("exit 1", None), ("cat printed", (110.0, 65.0)), ("echo no", None)]
)
def test_without_permission_or_program_there_is_no_traffic(
    script: str | None, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "printed").write_text(PRINTED)
    if script:
        program = tmp_path / demand.NCU
        program.write_text(f"#!/bin/sh\n{script.replace('printed', str(tmp_path / 'printed'))}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")

    assert demand.counted_traffic("lenet", 1, False, os.environ) == expected
