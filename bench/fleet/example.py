"""Example of the tables from which `bench plan` makes a plan, with the A100 latencies of the catalogue."""

from pathlib import Path

from instances.catalogue import gpu_type
from instances.files import write_bytes
from instances.inputs.tables import PAIRS
from instances.model_error.choice import all_pairs, next_pairs
from instances.performance.validation import latencies_ms

SERVICES = """\
service,model,rate_rps,slo_ms
search-ranking,resnet50,750,60
photo-tags,vgg16,200,80
moderation,resnet101,150,100
thumbnails,mobilenet,500,50
near-duplicates,densenet121,100,120
ads-images,resnet152,80,150
"""
"""Content of ``services.csv``."""

GPUS = """\
gpu,count,price_per_hour
a100,8,4.10
"""
"""Content of ``gpus.csv``."""


LOAD_BY_HOUR_PCT = (40, 35, 30, 30, 35, 45, 60, 75, 90, 95, 100, 100, 95, 95, 95, 90, 90, 95, 100, 90, 80, 70, 60, 50)
"""Rates of a made-up day, in percent of those in ``services.csv``."""


def write_example(folder: Path) -> list[Path]:
    """Write ``services.csv``, ``profile.csv``, ``gpus.csv``, ``pairs.csv`` and ``rates.csv``, and return their paths.

    The pairs are predictions of the catalogue. The rates are those of a day with the same shape for all services.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    files = {
        "services.csv": SERVICES,
        "profile.csv": _profile(),
        "gpus.csv": GPUS,
        "pairs.csv": _pairs(),
        "rates.csv": _rates(),
    }
    for name, text in files.items():
        write_bytes(folder / name, text.encode())
    return [folder / name for name in files]


def _models() -> list[str]:
    return list(dict.fromkeys(line.split(",")[1] for line in SERVICES.splitlines()[1:]))


def _rates() -> str:
    """Return the rate of each service at the beginning of each hour."""
    names, _, rates_rps, _ = zip(*(line.split(",") for line in SERVICES.splitlines()[1:]), strict=True)
    lines = [",".join(("time_s", *names))]
    for hour, load_pct in enumerate(LOAD_BY_HOUR_PCT):
        lines.append(",".join([f"{3600 * hour}", *(f"{load_pct * float(rate) / 100.0:g}" for rate in rates_rps)]))
    return "\n".join(lines) + "\n"


def _pairs() -> str:
    """Return latencies of the models beside each other on an A100, as the catalogue predicts them."""
    gpu, lines = gpu_type("a100"), [",".join(column.name for column in PAIRS)]
    pairs = next_pairs(all_pairs({name: gpu.model(name).profiled(gpu.name).batch for name in _models()}))
    for pair, times_ms in zip(pairs, latencies_ms(gpu, "hybrid", pairs), strict=True):
        cells = [f"{placed.model},{placed.batch},{placed.share_pct:g}" for placed in pair]
        lines.append(f"{gpu.name},{','.join(cells)},{','.join(f'{time_ms:.3f}' for time_ms in times_ms)}")
    return "\n".join(lines) + "\n"


def _profile() -> str:
    """Return the solo latencies of the services' models on an A100, transfers included."""
    gpu = gpu_type("a100")
    lines = ["gpu,model,batch,share_pct,latency_ms,memory_mib"]
    for name in _models():
        model = gpu.model(name)
        solo = model.profiled(gpu.name)
        for batch, row in zip(solo.batch, solo.gpu_ms, strict=True):
            transfer_ms = batch * (model.input_bytes + model.output_bytes) / gpu.hardware.pcie_bytes_per_ms
            for share_pct, gpu_ms in zip(solo.share_pct, row, strict=True):
                latency, memory = gpu_ms + transfer_ms, model.memory_mib(batch)
                lines.append(f"{gpu.name},{name},{batch},{share_pct:g},{latency:.3f},{memory:.0f}")
    return "\n".join(lines) + "\n"
