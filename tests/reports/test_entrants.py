"""Names of entrants: schedulers with those parameters, limits and conditions that differ between their runs."""

from dataclasses import replace

from reports.entrants import entrants, facets_of, newest
from tests.reports.page.runs_made_here import GAME, TWELVE, row_of


def names(*rows, arrivals=()):
    arrivals_by_key = dict(zip([row.key for row in rows], arrivals, strict=False))
    entrant_of = entrants(rows, facets_of(rows, arrivals_by_key))
    return [entrant_of[row.key] for row in rows]


def run(scheduler="colgen", instance=TWELVE, **given):
    return row_of(scheduler, instance, **given)


def test_runs_with_different_seeds_are_one_entrant():
    assert names(run(seed=0), run(seed=1)) == ["colgen", "colgen"]


def test_differing_parameters_are_in_the_name():
    split, spatial = ({"colgen": {"plan_class": kind, "fraction": 0.5}} for kind in ("split", "spatial"))
    assert names(run(parameters=split), run(parameters=spatial), run("igniter")) == [
        "colgen (plan_class=split)",
        "colgen (plan_class=spatial)",
        "igniter",
    ]


def test_differing_limits_and_conditions_are_in_the_name():
    first, second = (
        run(),
        replace(
            run(),
            key="other",
            time_limit_s=60.0,
            headroom=1.1,
            margin=0.9,
            truth="hybrid",
            memory_limit_mb=None,
            threads=2,
        ),
    )
    assert names(first, second) == [
        "colgen (10 s, 8 GB, 1 thread)",
        "colgen (headroom 1.1, margin 0.9, really hybrid, 60 s, no memory limit, 2 threads)",
    ]


def test_differing_arrivals_are_in_the_name():
    plan = {"plan": {"gpus": []}, "plan_class": "spatial"}
    rows = [run(seed=seed, **plan) for seed in range(3)]
    assert names(*rows, arrivals=["poisson", "constant"]) == [
        "colgen",
        "colgen (constant arrivals)",
        "colgen (not simulated)",
    ]
    assert names(run(seed=0, **plan), run(seed=1), arrivals=["poisson"]) == [
        "colgen",
        "colgen",
    ]  # a run without a plan has no arrivals


def test_parameters_that_differ_on_one_instance_are_in_the_name_on_all():
    split, spatial = ({"colgen": {"plan_class": kind}} for kind in ("split", "spatial"))
    rows = [run(parameters=split), run(parameters=spatial), run(instance=GAME, parameters=split)]
    assert names(*rows)[2] == "colgen (plan_class=split)"


def test_a_run_without_a_plan_belongs_to_the_entrant_with_the_same_settings():
    plan = {"plan": {"gpus": []}, "plan_class": "spatial"}
    rows = [run(seed=0, **plan), run(seed=1), run(seed=2, instance=GAME), run("igniter")]
    assert names(*rows, arrivals=["constant"]) == ["colgen"] * 3 + ["igniter"]
    others = [run(seed=3, **plan), run(seed=4, time_limit_s=60.0)]
    assert names(*rows, *others, arrivals=["constant"]) == [
        *["colgen (10 s, constant arrivals)"] * 3,
        "igniter",
        "colgen (10 s, not simulated)",
        "colgen (60 s)",
    ]


def test_runs_of_newer_code_replace_older_ones():
    provenances = {age: {"code": age} for age in ("old", "new")}
    rows = [
        replace(run(seed=seed), key=f"{age}-{seed}", provenance=provenances[age])
        for age in provenances
        for seed in (0, 1)
    ]
    only_run = replace(run(seed=0, time_limit_s=60.0), key="longer")
    assert newest([*rows, only_run], facets_of([*rows, only_run], {})) == {"new-0", "new-1", "longer"}


def test_two_runs_of_the_same_code_are_both_newest():
    rows = [replace(run(), key=key) for key in ("one trace", "another of that name")]
    assert newest(rows, facets_of(rows, {})) == {"one trace", "another of that name"}


def test_settings_that_differ_between_instances_only_are_not_in_the_name():
    assert names(run(time_limit_s=10.0), run(instance=GAME, time_limit_s=60.0)) == ["colgen", "colgen"]


def test_parameters_of_several_stages_name_their_scheduler():
    warm, cold = ({"cpsat": {}, "igniter": {"spend_spare": spend}} for spend in (True, False))
    entrant_names = names(run("cpsat@igniter", parameters=warm), run("cpsat@igniter", parameters=cold))
    assert entrant_names == ["cpsat@igniter (igniter.spend_spare=true)", "cpsat@igniter (igniter.spend_spare=false)"]
