"""Tested plans of the page: GPUs over the workloads that keep their attainment."""

from collections.abc import Sequence
from typing import Any

from bench.ledger.row import Row
from reports.page.instance_results import InstanceResults


def hold_data(cases: Sequence[InstanceResults]) -> dict[str, list[dict[str, Any]]]:
    """Return the tested plans of each instance, by its name, as series of a chart."""
    found: dict[str, list[dict[str, Any]]] = {}
    for case in cases:
        series: dict[str, list[Row]] = {}
        for row in case.rows:
            if row.holds is not None and row.gpus_used is not None and case.instance is not None:
                series.setdefault(row.scheduler, []).append(row)
        if series and case.instance is not None:
            count = len(case.instance.workloads)
            found[case.name] = [
                {
                    "name": scheduler,
                    "points": sorted(
                        [
                            100.0 * (1.0 - (row.late_workloads or 0) / count),
                            row.gpus_used,
                            f"{'holds' if row.holds else 'late'}; headroom {row.headroom or 1.0:g}",
                        ]
                        for row in rows
                    ),
                }
                for scheduler, rows in series.items()
            ]
    return found
