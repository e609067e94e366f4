"""Terminal view of an instance."""

from bench.cli.terminal import one_line, show
from bench.cli.views.tables import table
from bench.selection import pool_in_words
from instances import Instance


def show_instance(instance: Instance) -> None:
    """Show an instance with its workloads or jobs."""
    show(
        one_line(f"{instance.name}: {instance.objective} on {pool_in_words(instance)}"),
        *([one_line(f"  {instance.provenance}")] if instance.provenance else []),
        f"  rule {instance.slo_rule}, model {one_line(instance.performance_model)}, "
        f"latency buffer {instance.latency_buffer:g}, {len(instance.workloads)} workloads"
        + (f", {len(instance.jobs)} jobs" if instance.jobs else ""),
        "",
    )
    if instance.workloads:
        rows = [[w.id, w.model, f"{w.slo_ms:g} ms", f"{w.rate_rps:g} req/s"] for w in instance.workloads]
        show(table(["workload", "model", ">SLO", ">rate"], rows), "")
    if instance.applications:
        applications = [[a.id, list(a.stages), f"{a.slo_ms:g} ms"] for a in instance.applications]
        show(table(["application", "stages", ">SLO"], applications), "")
    if instance.jobs:
        jobs = [
            [
                j.id,
                j.model,
                f"{j.mean_batch:.3g}",
                max(j.batches),
                f"{j.mean_gap_ms:.4g} ms",
                f"{j.rate_rps:,.4g} req/s",
            ]
            for j in instance.jobs
        ]
        show(table(["job", "model", ">mean batch", ">largest", ">mean gap", ">rate"], jobs), "")
