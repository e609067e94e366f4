"""Who competes, by name."""

from dataclasses import replace

from reports.page.entrants import entrants
from tests.reports.page.runs_made_here import GAME, TWELVE, row_of


def names(*rows):
    found = entrants(rows)
    return [found[row.key] for row in rows]


def run(scheduler="colgen", instance=TWELVE, **given):
    return row_of(scheduler, instance, **given)


def test_seeds_are_one_entrant():
    assert names(run(seed=0), run(seed=1)) == ["colgen", "colgen"]


def test_what_differs_is_told():
    split, spatial = ({"colgen": {"plan_class": kind, "fraction": 0.5}} for kind in ("split", "spatial"))
    assert names(run(parameters=split), run(parameters=spatial), run("igniter")) == [
        "colgen (plan_class=split)",
        "colgen (plan_class=spatial)",
        "igniter",
    ]


def test_limits_and_conditions_are_told():
    first, second = run(), replace(run(), key="other", time_limit_s=60.0, headroom=1.1, truth="hybrid", threads=2)
    assert names(first, second) == [
        "colgen (headroom 1, as planned, 10 s, 1 thread)",
        "colgen (headroom 1.1, really hybrid, 60 s, 2 threads)",
    ]


def test_what_differs_between_instances_alone_is_not():
    assert names(run(time_limit_s=10.0), run(instance=GAME, time_limit_s=60.0)) == ["colgen", "colgen"]


def test_parameters_of_several_stages_name_their_scheduler():
    warm, cold = ({"cpsat": {}, "igniter": {"spend_spare": spend}} for spend in (True, False))
    found = names(run("cpsat@igniter", parameters=warm), run("cpsat@igniter", parameters=cold))
    assert found == ["cpsat@igniter (igniter.spend_spare=true)", "cpsat@igniter (igniter.spend_spare=false)"]
