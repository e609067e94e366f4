"""Pictures of an instance: plans and bounds over time, simulated latencies, predicted against measured latencies."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.ledger.row import Row
from reports.charts.palette import scheduler_look
from reports.charts.scales import BENT_AT, Scale
from reports.charts.series import ChartSeries, Rule
from reports.page.curves import progress
from reports.page.instance_results import InstanceResults
from reports.page.latencies import RATIOS
from reports.page.pictures import Picture, series_picture

_BENT_FROM_PCT = 200.0
"""Range of distances from which their axis is bent."""

_LEAST_S = (1e-5, 1e-3)
"""Limits of the start of the time axis."""

_EVERY, _FIRST = 12, 6
"""Distance of the marks on a distribution, and the first of them."""


def progress_picture(case: InstanceResults, full: Mapping[str, Row], by: tuple[float, str]) -> Picture | None:
    """Return plans and bounds over time in percent worse than ``by``; ``None`` without any."""
    limit_s = max(row.time_limit_s for row in case.all_rows)
    variants = variants_of((name, row.scheduler) for name, row in full.items())
    series = []
    for name, row in full.items():
        found, look = progress(row, case, by[0]), scheduler_look(row.scheduler)
        plans = ChartSeries(name, look, found["plans"], "plan", variants[name], line="steps", until=limit_s)
        bounds = ChartSeries(
            name,
            look,
            found["bounds"],
            "certified bound",
            variants[name],
            line="dotted steps",
            marked=(0,),
            until=limit_s,
        )
        series += [one for one in (plans, bounds) if one.points]
    if not series:
        return None
    times_s, worse_pct = zip(*(point for one in series for point in one.points), strict=True)
    low, high = min(0.0, *worse_pct), max(0.0, *worse_pct)
    bent, pad = high - low > _BENT_FROM_PCT, max(1.0, 0.05 * (high - low))
    begin = max(_LEAST_S[0], min(_LEAST_S[1], *times_s))
    x = Scale("Decision time (s)", log=True, domain=(begin, max(limit_s, *times_s)), unit=" s")
    beyond = f", logarithmic beyond ±{BENT_AT:g}" if bent else ""
    y = Scale(f"Worse than {by[1]} (%{beyond})", bent=bent, domain=(low - pad, high + pad), unit=" % worse")
    return series_picture("progress", "Plans and bounds over time", series, x, y, [Rule(y=0.0)])


def latency_picture(full: Mapping[str, Row], latencies: Mapping[str, Mapping[str, Any]]) -> Picture | None:
    """Return the distributions of the simulated latencies of all workloads together; ``None`` without any."""
    variants = variants_of((name, row.scheduler) for name, row in full.items())
    ratios = RATIOS.round(4).tolist()
    series = [
        ChartSeries(
            name,
            scheduler_look(full[name].scheduler),
            [(ratio, 100.0 * fraction) for ratio, fraction in zip(ratios, found["in_time"], strict=True)],
            variant=variants[name],
            marked=range(_FIRST, len(ratios), _EVERY),
        )
        for name, found in latencies.items()
    ]
    if not series:
        return None
    x = Scale("Latency (multiple of the SLO)", log=True, domain=(ratios[0], ratios[-1]), unit=" × SLO")
    y = Scale("Requests served (%)", domain=(0.0, 100.0), unit=" % served")
    return series_picture("latency", "Distribution of simulated latencies", series, x, y, [Rule(x=1.0, title="SLO")])


def measured_picture(replays: Sequence[Mapping[str, Any]]) -> Picture | None:
    """Return predicted against measured latencies of the replays; ``None`` without any."""
    found = [ms for replay in replays for point in replay["points"] for ms in point[:2]]
    if not found:
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
    domain = (min(found) / 1.3, max(found) * 1.3)
    x, y = (
        Scale(f"{kind} P99 latency (ms)", log=True, domain=domain, unit=" ms") for kind in ("Predicted", "Measured")
    )
    return series_picture("measured", "Predicted against measured P99 latencies", series, x, y, [Rule()])


def variants_of(entrants: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the number of each entrant among those of its scheduler; they are given as (name, scheduler)."""
    counts: Counter[str] = Counter()
    found: dict[str, int] = {}
    for name, scheduler in entrants:
        if name not in found:
            found[name] = counts[scheduler]
            counts[scheduler] += 1
    return found
