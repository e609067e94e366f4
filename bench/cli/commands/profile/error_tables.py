"""Tables of the prediction errors of a performance model."""

from typing import Any

from bench.cli.views.tables import table
from instances.performance.validation import Errors


def rows_of(errors: Errors) -> list[dict[str, Any]]:
    """Return predictions, observations and errors as JSON rows."""
    return [
        {
            "own": str(sample.own),
            "other": str(sample.other),
            "observed_ms": sample.latency_ms,
            "predicted_ms": float(predicted),
            "relative_error": float(relative),
        }
        for sample, predicted, relative in zip(errors.samples, errors.predicted_ms, errors.relative, strict=True)
    ]


def parts_of(errors: Errors) -> dict[str, dict[Any, dict[str, float]]]:
    """Return summaries by model, by batch and by share, under these names; batches and shares ascend."""
    return {
        "model": errors.by(lambda sample: sample.own.model),
        "batch": dict(sorted(errors.by(lambda sample: sample.own.batch).items())),
        "share": dict(sorted(errors.by(lambda sample: sample.own.share_pct).items())),
    }


def summary_table(name: str, summaries: dict[Any, dict[str, float]]) -> Any:
    """Return a table with one row per summary."""
    columns = ["mean", "p50", "p90", "p95", "max"]
    rows = [
        [str(value), f"{summary['rows']:.0f}", *(f"{100.0 * summary[column]:.2f} %" for column in columns)]
        for value, summary in summaries.items()
    ]
    return table([name, ">rows", *(f">{column}" for column in columns)], rows)


def worst_table(name: str, errors: Errors) -> Any:
    """Return a table with one row per measured latency of ``errors``."""
    rows = [
        [
            row["own"],
            row["other"],
            f"{row['observed_ms']:.3f}",
            f"{row['predicted_ms']:.3f}",
            f"{100 * row['relative_error']:+.1f} %",
        ]
        for row in rows_of(errors)
    ]
    return table([name, "beside", ">observed ms", ">predicted ms", ">error"], rows)
