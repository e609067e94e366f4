"""The scheduler behind online runs: headroom where it fits, and what is said when something is wrong."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest

import bench.online.planner as planner_module
from bench.api import Outcome, Run, Status
from bench.judging.judge import judge
from bench.online.planner import Planner, SchedulerError
from bench.schedulers.registry import Entry
from instances import InputError, Instance, Objective, Plan, spatial_gpu
from tests.frozen import frozen


@pytest.fixture
def instance() -> Instance:
    return replace(frozen("gpulet-scen3"), objective=Objective.COST)


def test_plans_are_for_the_rates_of_the_moment(instance: Instance) -> None:
    planner = Planner("gpu-scaling", instance)

    few, many = planner.plan(np.full(3, 50.0)), planner.plan(np.full(3, 480.0))

    assert few is not None
    assert many is not None
    assert few.gpus_used < many.gpus_used
    fast = replace(instance, workloads=tuple(replace(w, rate_rps=480.0) for w in instance.workloads))
    assert judge(many, fast).feasible
    assert not judge(few, fast).feasible


def test_headroom_is_for_latencies_and_left_out_where_the_pool_is_too_small(instance: Instance) -> None:
    rates = np.full(3, 480.0)
    bare, wide = Planner("gpu-scaling", instance), Planner("gpu-scaling", instance, headroom=1.5)

    assert wide.plan(np.full(3, 350.0)) != bare.plan(np.full(3, 350.0))
    assert not wide.without_headroom
    assert wide.plan(rates) == bare.plan(rates)
    assert (wide.without_headroom, bare.without_headroom) == (True, False)
    assert wide.plan(rates) is not None
    assert wide.plan(np.full(3, 800.0)) is None


def test_one_scheduler_goes_on_from_the_others_plan(instance: Instance) -> None:
    plan = Planner("local-search@igniter", instance, time_limit_s=0.5).first()

    assert judge(plan, instance).feasible


def test_a_first_plan_that_does_not_exist_is_the_inputs_fault(instance: Instance) -> None:
    with pytest.raises(InputError, match="finds no plan for the rates"):
        Planner("gpu-scaling", instance.scaled(20.0)).first()


def test_unknown_and_unable_schedulers_are_refused(instance: Instance) -> None:
    with pytest.raises(InputError, match='did you mean "igniter"'):
        Planner("ignite", instance)
    with pytest.raises(InputError, match="mig does not plan GPUs divided by shares"):
        Planner("mig", instance)
    with pytest.raises(InputError, match="headroom"):
        Planner("igniter", instance, headroom=0.0)


class _Rogue:
    """Answers with whatever is set."""

    name: ClassVar[str] = "rogue"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})
    answer: ClassVar[Any] = None

    def schedule(self, instance: Instance, run: Run) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def rogue(monkeypatch: pytest.MonkeyPatch) -> type[_Rogue]:
    entry = Entry("rogue", "rogue")
    monkeypatch.setattr(planner_module, "entries", lambda: {"rogue": entry})
    monkeypatch.setattr(planner_module, "load", lambda *_: _Rogue)
    return _Rogue


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        pytest.param(RuntimeError("out of ideas"), "rogue: RuntimeError: out of ideas", id="raises"),
        pytest.param("a plan", "rogue: RefusedError: rogue returned a str; expected an Outcome", id="no outcome"),
        pytest.param(Outcome(Status.FEASIBLE, Plan("other", ())), 'made for "other"', id="another instance's plan"),
    ],
)
def test_a_scheduler_that_fails_is_named(
    instance: Instance, rogue: type[_Rogue], monkeypatch: pytest.MonkeyPatch, answer: Any, said: str
) -> None:
    monkeypatch.setattr(rogue, "answer", answer)

    with pytest.raises(SchedulerError, match=said):
        Planner("rogue", instance).first()


def test_a_plan_on_more_gpus_than_there_are_is_none(
    instance: Instance, rogue: type[_Rogue], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = spatial_gpu("rtx2080ti", [("mobilenet", 2, 1, 100.0), ("resnet50", 4, 1, 100.0), ("vgg16", 4, 1, 100.0)])
    monkeypatch.setattr(rogue, "answer", Outcome(Status.FEASIBLE, Plan(instance.name, (gpu,) * 4)))
    assert Planner("rogue", instance).plan(np.full(3, 100.0)) is not None

    monkeypatch.setattr(rogue, "answer", Outcome(Status.FEASIBLE, Plan(instance.name, (gpu,) * 5)))
    assert Planner("rogue", instance).plan(np.full(3, 100.0)) is None
