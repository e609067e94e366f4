"""L2 and DRAM utilisation of a batch, counted by Nsight Compute."""

import csv
import math
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.replay.nets import build, example_input, settle

NCU = "ncu"

DURATION = "gpu__time_duration.sum"
L2, DRAM = "lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "dram__throughput.avg.pct_of_peak_sustained_elapsed"

PATIENCE_S = 300.0

_ROOT = Path(__file__).resolve().parents[3]


def counted_traffic(
    model: str, batch: int, half: bool, environment: Mapping[str, str], patience_s: float = PATIENCE_S
) -> tuple[float, float] | None:
    """Return L2 and DRAM utilisation of a batch on the whole GPU, each times its duration, in percent ms.

    The result is ``None`` if Nsight Compute is missing or the driver does not permit counting.
    """
    if shutil.which(NCU) is None:
        return None
    command = [NCU, "--csv", "--metrics", f"{DURATION},{L2},{DRAM}", "--profile-from-start", "off"]
    try:
        done = subprocess.run(  # noqa: S603 - a tool of the driver's maker, found on the path
            [*command, sys.executable, "-m", __name__, model, str(batch), str(int(half))],
            capture_output=True,
            text=True,
            timeout=patience_s,
            env=dict(environment),
            cwd=_ROOT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return traffic_of(done.stdout)


def traffic_of(printed: str) -> tuple[float, float] | None:
    """Return the sums over all kernels in what Nsight Compute printed; ``None`` if there are none."""
    lines = printed.splitlines()
    begin = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    kernels: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(lines[begin:]):
        try:
            value = float(row["Metric Value"].replace(",", ""))
        except (AttributeError, ValueError):  # a message of the profiler, or "n/a"
            continue
        in_ms = {"ns": 1e-6, "us": 1e-3, "usecond": 1e-3, "nsecond": 1e-6, "ms": 1.0, "msecond": 1.0}
        scale = in_ms.get(row["Metric Unit"], 1.0) if row["Metric Name"] == DURATION else 1.0
        kernels.setdefault(row["ID"], {})[row["Metric Name"]] = scale * value
    whole = [k for k in kernels.values() if len(k) == len((DURATION, L2, DRAM)) and all(map(math.isfinite, k.values()))]
    if not whole:
        return None
    l2, dram = (sum(kernel[DURATION] * kernel[metric] for kernel in whole) for metric in (L2, DRAM))
    return l2, dram


def run_once(model: str, batch: int, half: bool) -> None:
    """Run a batch between the profiler's start and stop, as the program that Nsight Compute profiles."""
    import torch

    with torch.device("cuda"), torch.inference_mode():
        net = build(model)
        settle(net, example_input(model, 2))
        net, requests = (net.half() if half else net), example_input(model, batch, half)
        net(requests)
        torch.cuda.synchronize()
        torch.cuda.profiler.start()  # type: ignore[no-untyped-call]
        net(requests)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    run_once(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "1")
