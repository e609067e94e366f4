"""Tables of measurements on an H100: errors of performance models, and replayed plans beside predictions."""

from collections.abc import Mapping
from typing import Any

from instances.catalogue import gpu_type
from instances.measurements import Configuration
from instances.performance import interference_model_names
from instances.performance.profile_fit import HELD_OUT
from instances.performance.validation import latencies_ms
from reports.claim import QueryTable
from reports.experiments.models import error_line, error_table
from reports.measured import measured_solo, project_copies, project_replays

GPU = "h100-sxm"
EAGER, GRAPHS = "h100-eager", "h100-graphs"
"""Folders of the measurements: without CUDA graphs, and with CUDA graphs."""

ERRORS = error_table(
    [
        *(error_line(GPU, model) for model in interference_model_names()),
        *(error_line(GPU, "hybrid", held_out) for held_out in HELD_OUT),
    ]
)


def _copies() -> QueryTable:
    """Return the table of a model's latency beside copies of the model, each copy on a fifth of the GPU."""
    copy = Configuration("vgg19", 8, 20.0)
    measured_ms = {1: next(sample.latency_ms for sample in measured_solo(GPU) if sample.configuration == copy)}
    for row in project_copies(GRAPHS):
        is_copy = (row["model"], row["batch"], row["share_pct"]) == ("vgg19", "8", "20")
        if is_copy and not row["scheduling_delay_ms_per_kernel"]:
            measured_ms[int(row["residents"])] = float(row["latency_ms"])
    groups = [(copy,) * count for count in measured_ms]
    predicted_ms = {
        model: [float(group[0]) for group in latencies_ms(gpu_type(GPU), model, groups)]
        for model in interference_model_names()
    }
    return QueryTable(
        ("gpulets of VGG-19, batch 8, 20 % each", "measured", "growth", *(f"`{model}`" for model in predicted_ms)),
        [
            (
                str(count),
                f"{latency_ms:.2f} ms",
                f"{100.0 * (latency_ms / measured_ms[1] - 1.0):.1f} %",
                *(f"{predictions[position]:.2f} ms" for predictions in predicted_ms.values()),
            )
            for position, (count, latency_ms) in enumerate(measured_ms.items())
        ],
    )


COPIES = _copies()


def _replay_text(replay: Mapping[str, Any]) -> str:
    graphs = " with CUDA graphs" if replay["graphs"] else ""
    return f"`{replay['backend']}`{graphs}{'' if replay['dropping'] else ', no dropping'}"


def _line(folder: str, replay: Mapping[str, Any]) -> tuple[str, ...]:
    workloads = replay["workloads"]
    late_ids = [workload["id"] for workload in workloads if workload["violating"]]
    predicted_late = sum(workload["predicted"]["violation_rate"] * workload["requests"] for workload in workloads)
    generator_ms = replay["generator"]["p99"]
    return (
        f"{replay['instance']}, profiled {'with' if folder == GRAPHS else 'without'} CUDA graphs",
        _replay_text(replay),
        f"{100.0 * replay['violation_rate']:.1f} %",
        f"{100.0 * predicted_late / sum(workload['requests'] for workload in workloads):.1f} %",
        ", ".join(late_ids) or "none",
        f"{generator_ms:.2f} ms{'' if replay['valid'] else ', too late'}",
    )


REPLAYS = QueryTable(
    ("plan", "replayed by", "not in time", "predicted", "late workloads", "load generator, P99"),
    [_line(folder, replay) for folder in (EAGER, GRAPHS) for replay in project_replays(folder)],
)


def _batches() -> QueryTable:
    """Return the table of full batches in replays that use CUDA graphs exactly if the plan's profile used them."""
    replays = [
        (
            folder,
            next(
                replay
                for replay in project_replays(folder)
                if replay["backend"] == "mps" and replay["graphs"] == (folder == GRAPHS)
            ),
        )
        for folder in (EAGER, GRAPHS)
    ]
    return QueryTable(
        ("plan", "gpulet", "full batch, measured", "predicted", "P99, measured", "predicted"),
        [
            (
                f"{replay['instance']}, {'with' if folder == GRAPHS else 'without'} CUDA graphs",
                f"{slot['workload']}, batch {slot['batch']}, {slot['share_pct']:.1f} %",
                f"{slot['gpu_ms']:.2f} ms",
                f"{slot['predicted_gpu_ms']:.2f} ms",
                f"{workload['p99_ms']:.1f} ms",
                f"{workload['predicted']['p99_ms']:.1f} ms",
            )
            for folder, replay in replays
            for slot, workload in zip(replay["slots"], replay["workloads"], strict=True)
        ],
    )


BATCHES = _batches()
