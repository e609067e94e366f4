"""Pieces of a plan to draw, one per slot, and the pieces that a violation marks."""

import pytest

from instances import InputError
from instances.suites import suite
from reports.placement import pieces

(INSTANCE,) = suite("igniter-12").build()


@pytest.fixture
def plan(make_plan):
    return make_plan([(10, ("W5", 4)), (20, ("W6", 4), ("W7", 2))], [(4, ("W5", 2)), (8, ("W1", 6))])


def test_every_slot_is_a_piece(make_row, plan):
    drawn = [
        (p.gpu, p.start_pct, p.share_pct, p.turn, p.turns, p.workload, p.model, p.batch)
        for p in pieces(make_row(plan=plan), INSTANCE)
    ]
    assert drawn == [
        (0, 0.0, 25.0, 0, 1, "W5", "resnet50", 4),
        (0, 25.0, 50.0, 0, 2, "W6", "resnet50", 4),
        (0, 25.0, 50.0, 1, 2, "W7", "vgg19", 2),
        (1, 0.0, 10.0, 0, 1, "W5", "resnet50", 2),
        (1, 10.0, 20.0, 0, 1, "W1", "alexnet", 6),
    ]


def test_a_plan_for_another_instance_is_refused_in_one_line(make_row, make_plan):
    stray = make_row(key="ab" * 32, plan=make_plan([(10, ("W99", 4))]))
    with pytest.raises(InputError, match='plan: places "W99", which igniter-12 lacks'):
        pieces(stray, INSTANCE)


@pytest.mark.parametrize(
    ("gpu", "workload", "marked"),
    [
        (0, "W5", [(0, "W5")]),
        (0, None, [(0, "W5"), (0, "W6"), (0, "W7")]),
        (None, "W5", [(0, "W5"), (1, "W5")]),
        (None, None, []),
    ],
    ids=["a slot", "a GPU", "a workload", "the pool"],
)
def test_a_violation_marks_the_pieces_of_its_gpu_and_workload(make_row, plan, gpu, workload, marked):
    row = make_row(plan=plan, violations=1, violation_details=[{"kind": "any", "gpu": gpu, "workload": workload}])
    assert [(piece.gpu, piece.workload) for piece in pieces(row, INSTANCE) if piece.violating] == marked


def test_without_a_plan_there_are_no_pieces(make_row):
    assert pieces(make_row(), INSTANCE) == []


def plan_of(instance, gpu_type, *gpulets):
    slot = {"batch": 1, "rate_rps": 1.0}
    listed = [
        {"share_units": units, "duty_cycle_ms": None, **place, "slots": [{"workload": name, **slot}]}
        for units, name, place in gpulets
    ]
    return {"version": 1, "instance": instance.name, "gpus": [{"type": gpu_type, "gpulets": listed}]}


def test_mig_instances_are_at_their_starts(make_row):
    instance = suite("parvagpu").build()[0]
    names = [workload.id for workload in instance.workloads]
    plan = plan_of(instance, "a100-mig", (2, names[0], {"start": 4}), (1, names[1], {"start": 0}))
    spans = [(p.start_pct, p.share_pct) for p in pieces(make_row(plan=plan), instance)]
    assert spans == [pytest.approx((400 / 7, 200 / 7)), pytest.approx((0.0, 100 / 7))]


def test_jobs_on_one_gpu_are_drawn_as_equal_parts(make_row):
    instance = suite("mediator-40").build()[0]
    all_units = instance.gpus[0].type.share_units
    plan = plan_of(instance, instance.gpus[0].type.name, *((all_units, job.id, {}) for job in instance.jobs[:4]))
    drawn = pieces(make_row(plan=plan), instance)
    assert [(p.start_pct, p.share_pct) for p in drawn] == [(0.0, 25.0), (25.0, 25.0), (50.0, 25.0), (75.0, 25.0)]
    assert [p.model for p in drawn] == [job.model for job in instance.jobs[:4]]
