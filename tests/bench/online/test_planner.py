"""The planner of online runs: plans with headroom if the pool is large enough, and errors of schedulers."""

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


def test_plans_are_for_the_given_rates(instance: Instance) -> None:
    planner = Planner("gpu-scaling", instance)

    for_50_rps, for_480_rps = planner.plan(np.full(3, 50.0)), planner.plan(np.full(3, 480.0))

    assert for_50_rps is not None
    assert for_480_rps is not None
    assert for_50_rps.gpus_used < for_480_rps.gpus_used
    fast = replace(instance, workloads=tuple(replace(w, rate_rps=480.0) for w in instance.workloads))
    assert judge(for_480_rps, fast).feasible
    assert not judge(for_50_rps, fast).feasible


def test_plans_have_headroom_unless_the_pool_is_too_small(instance: Instance) -> None:
    rates = np.full(3, 480.0)
    without, with_headroom = Planner("gpu-scaling", instance), Planner("gpu-scaling", instance, headroom=1.5)

    assert with_headroom.plan(np.full(3, 350.0)) != without.plan(np.full(3, 350.0))
    assert not with_headroom.without_headroom
    assert with_headroom.plan(rates) == without.plan(rates)
    assert (with_headroom.without_headroom, without.without_headroom) == (True, False)
    assert with_headroom.plan(rates) is not None
    assert with_headroom.plan(np.full(3, 800.0)) is None


def test_a_chain_of_schedulers_plans(instance: Instance) -> None:
    plan = Planner("local-search@igniter", instance, time_limit_s=0.5).first()

    assert judge(plan, instance).feasible


def test_rates_without_a_first_plan_are_an_input_error(instance: Instance) -> None:
    with pytest.raises(InputError, match="finds no plan for the rates"):
        Planner("gpu-scaling", instance.scaled(20.0)).first()


def test_unknown_and_unsuitable_schedulers_are_refused(instance: Instance) -> None:
    with pytest.raises(InputError, match='did you mean "igniter"'):
        Planner("ignite", instance)
    with pytest.raises(InputError, match="mig does not plan GPUs divided by shares"):
        Planner("mig", instance)
    with pytest.raises(InputError, match="headroom"):
        Planner("igniter", instance, headroom=0.0)


class _Rogue:
    """Returns or raises ``answer``, which tests set."""

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
    monkeypatch.setattr(planner_module, "registered_schedulers", lambda: {"rogue": entry})
    monkeypatch.setattr(planner_module, "load", lambda *_: _Rogue)
    return _Rogue


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(RuntimeError("out of ideas"), "rogue: RuntimeError: out of ideas", id="raises"),
        pytest.param("a plan", "rogue: RefusedError: rogue returned a str; expected an Outcome", id="no outcome"),
        pytest.param(Outcome(Status.FEASIBLE, Plan("other", ())), 'made for "other"', id="another instance's plan"),
    ],
)
def test_a_scheduler_that_fails_is_named(
    instance: Instance, rogue: type[_Rogue], monkeypatch: pytest.MonkeyPatch, answer: Any, message: str
) -> None:
    monkeypatch.setattr(rogue, "answer", answer)

    with pytest.raises(SchedulerError, match=message):
        Planner("rogue", instance).first()


def test_a_plan_with_more_gpus_than_the_pool_is_no_plan(
    instance: Instance, rogue: type[_Rogue], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = spatial_gpu("rtx2080ti", [("mobilenet", 2, 1, 100.0), ("resnet50", 4, 1, 100.0), ("vgg16", 4, 1, 100.0)])
    monkeypatch.setattr(rogue, "answer", Outcome(Status.FEASIBLE, Plan(instance.name, (gpu,) * 4)))
    assert Planner("rogue", instance).plan(np.full(3, 100.0)) is not None

    monkeypatch.setattr(rogue, "answer", Outcome(Status.FEASIBLE, Plan(instance.name, (gpu,) * 5)))
    assert Planner("rogue", instance).plan(np.full(3, 100.0)) is None
