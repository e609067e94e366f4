"""Pictures of an instance: plans and bounds over time, simulated latencies, and measured over predicted ones."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.ledger.row import Row
from reports.charts.palette import scheduler_look
from reports.charts.scales import BENT_AT, Scale
from reports.charts.series import ChartSeries, Rule
from reports.page.curves import progress
from reports.page.instance_results import InstanceResults
from reports.page.latencies import SLO_MULTIPLES
from reports.page.pictures import Picture, series_picture

_BENT_FROM_PCT = 200.0
"""Range of distances, in percent, above which their axis is bent: logarithmic beyond ``BENT_AT``."""

_START_LIMITS_S = (1e-5, 1e-3)
"""Smallest and largest start of the time axis, in seconds."""

_MARK_DISTANCE, _FIRST_MARK = 12, 6
"""Number of points of a distribution from one mark to the next, and position of the first point with a mark."""


def progress_picture(
    instance_results: InstanceResults, row_of: Mapping[str, Row], reference: tuple[float, str]
) -> Picture | None:
    """Return plans and bounds over time, in percent worse than the reference; ``None`` without plans and bounds.

    ``reference`` is the value and its name, as returned by ``reports.page.curves.reference``.
    """
    limit_s = max(row.time_limit_s for row in instance_results.all_rows)
    variants = variants_of((name, row.scheduler) for name, row in row_of.items())
    series = []
    for name, row in row_of.items():
        points_of, look = progress(row, instance_results, reference[0]), scheduler_look(row.scheduler)
        plans = ChartSeries(name, look, points_of["plans"], "plan", variants[name], line="steps", until=limit_s)
        bounds = ChartSeries(
            name,
            look,
            points_of["bounds"],
            "certified bound",
            variants[name],
            line="dotted steps",
            marked=(0,),
            until=limit_s,
        )
        series += [chart_series for chart_series in (plans, bounds) if chart_series.points]
    if not series:
        return None
    times_s, worse_pct = zip(*(point for chart_series in series for point in chart_series.points), strict=True)
    low, high = min(0.0, *worse_pct), max(0.0, *worse_pct)
    bent, margin_pct = high - low > _BENT_FROM_PCT, max(1.0, 0.05 * (high - low))
    start_s = max(_START_LIMITS_S[0], min(_START_LIMITS_S[1], *times_s))
    x = Scale("Decision time (s)", log=True, domain=(start_s, max(limit_s, *times_s)), unit=" s")
    bend_text = f", logarithmic beyond ±{BENT_AT:g}" if bent else ""
    y = Scale(
        f"Worse than {reference[1]} (%{bend_text})",
        bent=bent,
        domain=(low - margin_pct, high + margin_pct),
        unit=" % worse",
    )
    return series_picture("progress", "Plans and bounds over time", series, x, y, [Rule(y=0.0)])


def latency_picture(row_of: Mapping[str, Row], latencies: Mapping[str, Mapping[str, Any]]) -> Picture | None:
    """Return the distributions of simulated latencies over all workloads; ``None`` without simulations."""
    variants = variants_of((name, row.scheduler) for name, row in row_of.items())
    slo_multiples = SLO_MULTIPLES.round(4).tolist()
    series = [
        ChartSeries(
            name,
            scheduler_look(row_of[name].scheduler),
            [
                (slo_multiple, 100.0 * fraction)
                for slo_multiple, fraction in zip(slo_multiples, distribution["in_time"], strict=True)
            ],
            variant=variants[name],
            marked=range(_FIRST_MARK, len(slo_multiples), _MARK_DISTANCE),
        )
        for name, distribution in latencies.items()
    ]
    if not series:
        return None
    x = Scale("Latency (multiple of the SLO)", log=True, domain=(slo_multiples[0], slo_multiples[-1]), unit=" × SLO")
    y = Scale("Requests served (%)", domain=(0.0, 100.0), unit=" % served")
    return series_picture("latency", "Distribution of simulated latencies", series, x, y, [Rule(x=1.0, title="SLO")])


def measured_picture(replays: Sequence[Mapping[str, Any]]) -> Picture | None:
    """Return measured against predicted latencies of the replays; ``None`` without replays."""
    latencies_ms = [ms for replay in replays for point in replay["points"] for ms in point[:2]]
    if not latencies_ms:
        return None
    variants = variants_of((replay["name"], replay["scheduler"]) for replay in replays)
    series = [
        ChartSeries(
            replay["name"],
            scheduler_look(replay["scheduler"]),
            [point[:2] for point in replay["points"]],
            variant=variants[replay["name"]],
            words=[point[2] for point in replay["points"]],
            line="",
        )
        for replay in replays
    ]
    domain = (min(latencies_ms) / 1.3, max(latencies_ms) * 1.3)
    x, y = (
        Scale(f"{kind} P99 latency (ms)", log=True, domain=domain, unit=" ms") for kind in ("Predicted", "Measured")
    )
    return series_picture("measured", "Predicted against measured P99 latencies", series, x, y, [Rule()])


def variants_of(entrants: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the position of each entrant among the entrants of its scheduler; ``entrants`` are (name, scheduler)."""
    counts: Counter[str] = Counter()
    variants: dict[str, int] = {}
    for name, scheduler in entrants:
        if name not in variants:
            variants[name] = counts[scheduler]
            counts[scheduler] += 1
    return variants
