"""Columns of the tables of services, GPUs, profiles and pairs."""

from instances.attainment_terms import LEAST_ATTAINMENT, MOST_ATTAINMENT
from instances.files.records import Column

_MOST_BATCH = 10_000
_MODEL = Column("model", "name of the DNN model", number=False)

SERVICES = (
    Column("service", "name of the service, once", number=False),
    _MODEL,
    Column("rate_rps", "mean arrival rate, requests per second"),
    Column("slo_ms", "latency objective of a request, milliseconds"),
    Column(
        "attainment",
        f"fraction of the requests to serve in time, {LEAST_ATTAINMENT:g} to {MOST_ATTAINMENT:g}; the strictest counts",
        required=False,
        least=LEAST_ATTAINMENT - 1e-9,
        most=MOST_ATTAINMENT,
    ),
    Column("arrivals", "poisson or gamma:CV; the burstiest counts", number=False, required=False),
)

GPUS = (
    Column("gpu", "name of the GPU type", number=False),
    Column("count", "GPUs on offer; empty: as many as needed", required=False, least=1, most=1_000_000, whole=True),
    Column("price_per_hour", "price of one GPU, dollars per hour", required=False),
    Column("memory_mib", "device memory, MiB", required=False),
    Column("sms", "streaming multiprocessors of the GPU", required=False, least=1, most=10_000, whole=True),
)

PROFILE = (
    Column("gpu", "GPU type; needed with several", number=False, required=False),
    _MODEL,
    Column("batch", "requests per batch", least=1, most=_MOST_BATCH, whole=True),
    Column("share_pct", "share of the GPU, percent", most=100.0),
    Column("latency_ms", "mean time of a whole inference of the batch alone, milliseconds"),
    Column("memory_mib", "device memory of the process at this batch, MiB", required=False),
    Column("l2_util_pct", "utilisation of the L2 cache, percent", required=False, least=-1e-9, most=100.0),
    Column("dram_util_pct", "utilisation of the DRAM bandwidth, percent", required=False, least=-1e-9, most=100.0),
    Column("power_w", "power above idle, watts; checked and not used", required=False, least=-1e-9),
)

PAIRS = (
    Column("gpu", "GPU type; needed with several", number=False, required=False),
    *(
        column
        for x, whose in (("a", "first"), ("b", "second"))
        for column in (
            Column(f"model_{x}", f"{whose} model", number=False),
            Column(f"batch_{x}", f"its requests per batch ({whose} model)", least=1, most=_MOST_BATCH, whole=True),
            Column(f"share_{x}_pct", f"its share of the GPU, percent ({whose} model)", most=100.0),
        )
    ),
    Column("latency_a_ms", "latency of the first beside the second, milliseconds"),
    Column("latency_b_ms", "latency of the second beside the first, milliseconds", required=False),
)

ANALYZER = (
    Column("Model", "name of the model", number=False),
    Column("Batch", "requests per batch", least=1, most=_MOST_BATCH, whole=True),
    Column("Concurrency", "requests in flight", least=1, most=1_000_000, whole=True),
    Column("p99 Latency (ms)", "latency that 99 % of the batches keep, milliseconds"),
    Column("Max GPU Memory Usage (MB)", "device memory, megabytes", required=False),
)
"""Columns of Triton Model Analyzer's table that are read; the others are ignored."""
