"""Solvers, checker and judge on instances whose batches take time to assemble."""

from dataclasses import replace
from pathlib import Path
from random import Random

import highspy
import pytest

from bench.api import Run, Status
from bench.certificate.checking import check
from bench.cli.app import main
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.compact.build import build
from formulations.compact.options import problem_of
from formulations.cpsat import CpSat
from formulations.minlp import Minlp
from formulations.pwl import Pwl
from instances import GpuPool, Instance, Objective, SloRule, Workload
from instances.files import instance_to_json, write_json
from tests.bench.certificate.drawn import certified
from tests.formulations.compact_values import assign, broken
from tests.formulations.edges import MOST_BATCH, least_cost
from tests.formulations.exhaustive import small_batches
from tests.instances.profiles import PROFILED
from tests.instances.test_batching_time import with_batching

SEEDS = range(4)
SLO_MS = {"gpulet": (8.2, 8.5), "inss": (14.0, 40.0), "igniter": (14.0, 40.0)}
"""Ranges of SLOs in which the batching time changes the cost; under gpulet's model, whether there is a plan."""


def drawn(seed: int, model: str, batching_ms: tuple[float, ...] = (2.0, 6.0, 12.0, 24.0)) -> Instance:
    """Draw an instance of four workloads whose batch of 2 takes longer to assemble than two batches of 1.

    ``batching_ms`` has the batching times of the batch sizes; without times, batches take no time to assemble.
    """
    random = Random(seed)
    gpu = replace(with_batching(PROFILED, batching_ms), share_units=4, name="small-batches")
    low_ms, high_ms = SLO_MS[model]
    workloads = tuple(
        Workload(
            f"w{n}", random.choice(("small", "large")), random.uniform(low_ms, high_ms), random.uniform(20.0, 150.0)
        )
        for n in range(4)
    )
    rule = random.choice((SloRule.HALF_SLO, SloRule.DUTY_CYCLE))
    pools = (GpuPool(small_batches(gpu, MOST_BATCH), None),)
    return Instance("batching", Objective.COST, rule, model, pools, workloads)


@pytest.mark.parametrize("model", ["gpulet", "inss", "igniter"])
def test_solvers_and_checker_agree_with_brute_force(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    costs, costs_without = [], []
    for seed in SEEDS:
        instance = drawn(seed, model)
        cost = least_cost(instance)
        costs.append(cost)
        costs_without.append(least_cost(drawn(seed, model, ())))
        compact = [Minlp(), Pwl()] if model == "igniter" else []
        for solver in (ColGen(), CpSat(), *compact):
            outcome = solver.schedule(instance, Run())
            if cost is None:
                assert outcome.status is Status.INFEASIBLE, (seed, solver.name)
                continue
            assert outcome.plan is not None
            assert judge(outcome.plan, instance).violations == ()
            assert judge(outcome.plan, instance).value == pytest.approx(cost), (seed, solver.name)
            if solver.name == "colgen":
                assert check(certified(instance, outcome, monkeypatch, False), "proof").proven
    assert costs != costs_without


def test_rows_of_the_compact_model_break_where_the_judge_finds_a_violation() -> None:
    for seed in SEEDS:
        instance = drawn(seed, "igniter")
        plan = ColGen().schedule(instance, Run()).plan
        if plan is None:
            continue
        (slot, *_) = judge(plan, instance).slots
        for factor in (1.0001, 0.9999):
            slos_ms = {slot.workload: 2.0 * factor * slot.t_inf_ms}
            workloads = tuple(replace(w, slo_ms=slos_ms.get(w.id, 1e4)) for w in instance.workloads)
            limited = replace(instance, workloads=workloads)
            model = build(problem_of(limited, narrow=False), [plan.gpus_used])
            model.state_relations(exact=True)
            assign(model, plan)
            assert bool(broken(model)) == bool(judge(plan, limited).violations) == (factor < 1.0)


@pytest.mark.parametrize("model", ["gpulet", "inss", "igniter"])
def test_the_compact_model_counts_the_batching_time_in_the_throughput(model: str) -> None:
    instance = replace(drawn(0, model), objective=Objective.CAPACITY)
    instance = replace(instance, gpus=(replace(instance.gpus[0], count=4),))
    exact, compact = ColGen().schedule(instance, Run()), Minlp().schedule(instance, Run())

    assert exact.plan is not None
    assert compact.plan is not None
    assert judge(compact.plan, instance).value == pytest.approx(judge(exact.plan, instance).value)


@pytest.mark.parametrize("model", ["inss", "igniter"])
def test_exported_models_count_the_batching_time(tmp_path: Path, model: str) -> None:
    costs = []
    for seed in SEEDS:
        instance = drawn(seed, model)
        cost = least_cost(instance)
        if cost is None:
            continue
        write_json(tmp_path / "instance.json", instance_to_json(instance))
        file = tmp_path / f"model{seed}.mps"
        assert main(["model", str(tmp_path / "instance.json"), "-o", str(file)]) == 0
        solver = highspy.Highs()
        solver.silent()
        assert solver.readModel(str(file)) is not highspy.HighsStatus.kError
        solver.run()
        assert solver.getInfo().objective_function_value == pytest.approx(cost), seed
        assert "batching_ms(o): " in file.read_text()
        costs.append(cost)
    assert costs
