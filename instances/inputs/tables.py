"""Columns of the tables of services, GPUs, profiles and pairs."""

from instances.attainment_terms import LEAST_ATTAINMENT, MOST_ATTAINMENT
from instances.files.records import TableColumn

_MOST_BATCH = 10_000
_MODEL = TableColumn("model", "name of the DNN model", number=False)

SERVICES = (
    TableColumn("service", "name of the service; names do not repeat", number=False),
    _MODEL,
    TableColumn("rate_rps", "mean arrival rate, requests per second"),
    TableColumn("slo_ms", "latency objective of a request, milliseconds; not for language models", required=False),
    TableColumn(
        "attainment",
        f"fraction of the requests to serve in time, {LEAST_ATTAINMENT:g} to {MOST_ATTAINMENT:g}; the strictest counts",
        required=False,
        minimum=LEAST_ATTAINMENT,
        maximum=MOST_ATTAINMENT,
        closed=True,
    ),
    TableColumn("arrivals", "poisson or gamma:CV; the burstiest counts", number=False, required=False),
    TableColumn("weight", "value of a served request if the GPUs do not suffice; 1 by default", required=False),
    TableColumn(
        "priority",
        "larger priorities are served first if the GPUs do not suffice; 0 by default",
        required=False,
        minimum=0,
        maximum=1_000,
        whole=True,
    ),
    *(
        TableColumn(
            f"{name}_tokens",
            f"{meaning}; language models only",
            required=False,
            maximum=1_000_000,
            whole=True,
            minimum=1,
        )
        for name, meaning in (("prompt", "tokens of a prompt"), ("output", "tokens generated for a request"))
    ),
    TableColumn("ttft_ms", "largest time to first token, milliseconds; language models only", required=False),
    TableColumn("tpot_ms", "largest mean time per output token, milliseconds; language models only", required=False),
)

GPUS = (
    TableColumn("gpu", "name of the GPU type", number=False),
    TableColumn(
        "count", "GPUs on offer; empty: as many as needed", required=False, minimum=1, maximum=1_000_000, whole=True
    ),
    TableColumn("price_per_hour", "price of one GPU, dollars per hour", required=False),
    TableColumn("memory_mib", "device memory, MiB", required=False),
    TableColumn("sms", "streaming multiprocessors of the GPU", required=False, minimum=1, maximum=10_000, whole=True),
)

PROFILE = (
    TableColumn("gpu", "GPU type; needed with several", number=False, required=False),
    _MODEL,
    TableColumn("batch", "requests per batch", minimum=1, maximum=_MOST_BATCH, whole=True),
    TableColumn("share_pct", "share of the GPU, percent", maximum=100.0),
    TableColumn("latency_ms", "mean time of a whole inference of the batch alone, milliseconds"),
    TableColumn("memory_mib", "device memory of the process at this batch, MiB", required=False),
    TableColumn("l2_util_pct", "utilisation of the L2 cache, percent", required=False, maximum=100.0, closed=True),
    TableColumn(
        "dram_util_pct", "utilisation of the DRAM bandwidth, percent", required=False, maximum=100.0, closed=True
    ),
    TableColumn("power_w", "power above idle, watts; checked and not used", required=False, closed=True),
)

PAIRS = (
    TableColumn("gpu", "GPU type; needed with several", number=False, required=False),
    *(
        column
        for x, position in (("a", "first"), ("b", "second"))
        for column in (
            TableColumn(f"model_{x}", f"{position} model", number=False),
            TableColumn(
                f"batch_{x}", f"its requests per batch ({position} model)", minimum=1, maximum=_MOST_BATCH, whole=True
            ),
            TableColumn(f"share_{x}_pct", f"its share of the GPU, percent ({position} model)", maximum=100.0),
        )
    ),
    TableColumn("latency_a_ms", "latency of the first beside the second, milliseconds"),
    TableColumn("latency_b_ms", "latency of the second beside the first, milliseconds", required=False),
)

ANALYZER = (
    TableColumn("Model", "name of the model", number=False),
    TableColumn("Batch", "requests per batch", minimum=1, maximum=_MOST_BATCH, whole=True),
    TableColumn("Concurrency", "requests in flight", minimum=1, maximum=1_000_000, whole=True),
    TableColumn("Instance Group", "instances of the model on each GPU", number=False, required=False),
    TableColumn("p99 Latency (ms)", "P99 latency of a batch, milliseconds"),
    TableColumn("Max GPU Memory Usage (MB)", "device memory, megabytes", required=False),
)
"""Columns that are read of the table of Triton Model Analyzer; its other columns are ignored."""
