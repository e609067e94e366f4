"""Which rows a figure draws."""

from reports.figure import Need
from reports.selection import gaps, instances_of, own_rows, plans_and_notes

NEEDS = (
    Need("igniter-scaling", ("igniter", "ffd+"), quick="igniter-mix-10-s0,64gpu-cost"),
    Need("igniter-12", ("cpsat",)),
)


def test_needs_name_suites_and_instances():
    sizes = {name: len(instance.workloads) for name, instance in instances_of(NEEDS).items()}
    assert sizes == {
        "igniter-12": 12,
        "64gpu-cost": 160,
        **{f"igniter-mix-{size}-s0": size for size in (10, 20, 50, 100, 200, 500, 1000)},
    }


def test_the_latest_row_of_a_run_counts_in_the_order_of_the_needs(make_row):
    rows = [
        make_row("other"),
        make_row("cpsat", value=1.0),
        make_row("ffd+", "igniter-mix-1000-s0"),
        make_row("ffd+", "igniter-mix-50-s0", seed=1),
        make_row("ffd+", "igniter-mix-50-s0"),
        make_row("cpsat", value=2.0),
        make_row("igniter"),
        make_row("igniter", "64gpu-pool"),
    ]
    found = own_rows("name", rows, NEEDS)
    assert [(row.scheduler, row.instance, row.seed, row.value) for row in found] == [
        ("igniter", "igniter-12", 0, None),
        ("ffd+", "igniter-mix-50-s0", 0, None),
        ("ffd+", "igniter-mix-50-s0", 1, None),
        ("ffd+", "igniter-mix-1000-s0", 0, None),
        ("cpsat", "igniter-12", 0, 2.0),
        ("other", "igniter-12", 0, None),
    ]


def test_the_first_seed_with_a_plan_is_drawn(make_row, two_gpus):
    rows = [make_row(seed=2, plan=two_gpus), make_row(seed=0), make_row(seed=1, plan=two_gpus)]
    plans, notes = plans_and_notes("name", rows, (Need("igniter-12", ("igniter",)),))
    assert {scheduler: row.seed for scheduler, row in plans.items()} == {"igniter": 1}
    assert notes == []


def test_gaps_are_gathered_by_scheduler_and_cause(make_row):
    rows = [
        make_row("ffd+", "igniter-mix-10-s0", termination="wall_limit", status="unknown"),
        make_row("ffd+", "igniter-mix-20-s0", termination="wall_limit", status="unknown"),
        make_row("ffd+", "igniter-mix-20-s0", seed=1, termination="wall_limit", status="unknown"),
        make_row("cpsat", status="infeasible"),
    ]
    assert gaps(rows, rows, NEEDS) == [
        "Not run: igniter.",
        "Without a result: ffd+ (wall limit) on igniter-mix-10-s0, igniter-mix-20-s0;"
        " cpsat (infeasible) on igniter-12.",
    ]
    assert gaps(rows, [], NEEDS[1:]) == []
