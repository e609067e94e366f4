"""Planned margins: entries, files, times with margins, and the order of plans by level."""

import time
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.api import Run, Status
from bench.judging.judge import judge
from formulations.cpsat import CpSat
from instances import GpuPool, GpuType, InputError, Instance, Objective, SloRule, Workload
from instances.catalogue import gpu_type, gpu_type_from_toml, gpu_type_names, gpu_type_to_toml
from instances.margin import Basis, LevelMargins, Margin
from instances.measurements import Configuration, read_pairs
from instances.model_error.calibration import LEVELS, calibrated_margins
from instances.performance.margins import level_margins, with_floor, with_margins
from instances.performance.validation import latencies_ms
from instances.tables import gpu_tables
from tests.instances.test_performance_fit import measured

A100, V100 = gpu_type("a100"), gpu_type("v100")
H100_GRAPHS = Path(__file__).parents[2] / "instances" / "measured" / "h100-graphs" / "pairs.csv"


def times_ms(gpu: GpuType, *sides: Configuration) -> np.ndarray:
    """Return the GPU times of configurations on one GPU; margins do not change transfers."""
    return latencies_ms(replace(gpu, hardware=replace(gpu.hardware, pcie_bytes_per_ms=1e30)), "hybrid", [sides])[0]


@pytest.mark.parametrize(
    ("name", "folder"),
    [pytest.param("a100", "a100-gpulet", marks=pytest.mark.soak), ("v100", "v100-igniter"), ("h100-sxm", "")],
)
def test_the_margins_of_an_entry_follow_from_its_measured_pairs(name: str, folder: str) -> None:
    file = measured(folder) if folder else H100_GRAPHS
    assert calibrated_margins(gpu_type(name), read_pairs(file)) == gpu_type(name).margins


def test_margins_of_measured_entries_grow_with_the_level_and_are_saved() -> None:
    measured_types = [name for name in gpu_type_names() if gpu_type(name).margins]
    assert measured_types == ["a100", "h100-sxm", "v100"]
    for name in measured_types:
        gpu = gpu_type(name)
        assert tuple(margins.level for margins in gpu.margins) == LEVELS
        flat = [margins.flat for margins in gpu.margins]
        assert flat[0] > 1.0
        assert flat == sorted(flat)
        for model, batches in gpu.margins[0].by_batch.items():
            for batch in batches:
                factors = [margins.by_batch[model][batch].factor for margins in gpu.margins]
                assert [1.0, *factors] == sorted([1.0, *factors]), (model, batch)
        restored = gpu_type_from_toml(tomllib.loads(gpu_type_to_toml(gpu)), "again.toml")
        assert restored.margins == gpu.margins
        assert replace(gpu, margins=()) == gpu


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ('[[1, 1.2, 5, "hearsay"]]', r"margins\[0\].by_batch.a: expected a list of rows of 4 cells"),
        ("[]", r"margins\[0\].by_batch.a: is empty; expected a row for each batch"),
    ],
)
def test_wrong_margins_of_a_file_are_named(row: str, problem: str) -> None:
    text = gpu_type_to_toml(replace(V100, margins=()))
    margins = f"[[margins]]\nlevel = 0.9\nrows = 5\nflat = 1.2\n[margins.by_batch]\na = {row}\n"
    with pytest.raises(InputError, match=problem):
        gpu_type_from_toml(tomllib.loads(text + margins), "mine.toml")


def test_a_margin_lengthens_only_times_beside_others() -> None:
    margins = LevelMargins(
        0.9, 40, {"resnet50": {1: Margin(1.5, 20, Basis.BATCH), 32: Margin(1.1, 20, Basis.BATCH)}}, 2.0
    )
    gpu = with_margins(A100, margins)
    for batch, least in ((1, 1.5), (8, 1.5), (32, 1.1)):
        own, other = Configuration("resnet50", batch, 50.0), Configuration("mobilenet", 8, 50.0)
        assert times_ms(gpu, own) == pytest.approx(times_ms(A100, own))
        ratio = times_ms(gpu, own, other)[0] / times_ms(A100, own, other)[0]
        assert least - 1e-9 <= ratio <= 1.5 + 1e-9
    # vgg19 has no row in these margins: its slowdown is the same beside one neighbour and beside two
    for others in (1, 2):
        group = [Configuration("vgg19", 8, 30.0), *[Configuration("mobilenet", 8, 30.0)] * others]
        assert times_ms(gpu, *group)[0] == pytest.approx(2.0 * times_ms(A100, group[0])[0])
    assert gpu.margins == ()
    assert "margins at the level 0.9 of 40 measured latencies" in gpu.provenance.source


def test_a_margin_common_to_all_batches_multiplies_the_time() -> None:
    margins = LevelMargins(0.9, 20, {name: {1: Margin(1.25, 20, Basis.MODEL)} for name in A100.models}, 2.0)
    group = [Configuration("vgg19", 8, 40.0), Configuration("resnet50", 4, 60.0)]
    assert times_ms(with_margins(A100, margins), *group) == pytest.approx(1.25 * times_ms(A100, *group))


def test_a_floor_is_the_smallest_slowdown() -> None:
    group = [Configuration("vgg19", 8, 40.0), Configuration("resnet50", 4, 60.0)]
    alone_ms = np.array([times_ms(A100, side)[0] for side in group])
    assert np.all(times_ms(with_floor(A100, 1.8), *group) >= 1.8 * alone_ms - 1e-9)
    assert times_ms(with_floor(A100, 1.0), *group) == pytest.approx(times_ms(A100, *group))


def test_the_next_known_level_is_used() -> None:
    used = [level_margins(V100, level) for level in (0.1, 0.8, 0.91, 0.999)]
    assert [margins and margins.level for margins in used] == [0.8, 0.8, 0.95, None]
    for level in (-0.5, 0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match=r"margin: is .*; expected a fraction between 0 and 1"):
            level_margins(V100, level)


@pytest.mark.parametrize("name", ["a100", "v100", "h100-sxm"])
def test_times_grow_with_the_level_at_every_batch_and_share(name: str) -> None:
    plain = gpu_tables(gpu_type(name), "hybrid")
    lower = plain
    for margins in gpu_type(name).margins:
        tables = gpu_tables(with_margins(gpu_type(name), margins), "hybrid")
        assert np.array_equal(tables.active_ms, plain.active_ms)
        observed = [row for row, model in enumerate(gpu_type(name).models) if model in margins.by_batch]
        for before, after in (
            (lower.company, tables.company),
            (lower.alpha_l2, tables.alpha_l2),
            (lower.alpha_dram, tables.alpha_dram),
        ):
            assert np.all(after[observed] >= before[observed] * (1.0 - 1e-12))
        assert tables.falling == plain.falling
        lower = tables


def mix(rates: list[float], slo_factor: float) -> Instance:
    models = ("resnet50", "vgg19", "densenet121")
    workloads = tuple(
        Workload(f"w{i}", models[i % 3], slo_factor * (25.0, 45.0, 60.0)[i % 3], rate) for i, rate in enumerate(rates)
    )
    return Instance("mix", Objective.COST, SloRule.HALF_SLO, "hybrid", (GpuPool(A100),), workloads)


def proven_costs(instance: Instance) -> list[float]:
    """Return the proven costs without a margin and at every level."""
    costs = []
    types = [A100, *(with_margins(A100, margins) for margins in A100.margins)]
    for gpu in types:
        planned = replace(instance, gpus=(GpuPool(gpu),))
        outcome = CpSat().schedule(planned, Run(deadline=time.monotonic() + 60.0))
        if outcome.status is Status.INFEASIBLE:
            costs.append(np.inf)
            continue
        assert outcome.status is Status.OPTIMAL
        assert outcome.plan is not None
        costs.append(judge(outcome.plan, planned).cost_per_hour)
        assert judge(outcome.plan, instance).feasible, "a plan with a margin is one without"
    return costs


@settings(max_examples=5, deadline=None)
@given(st.lists(st.sampled_from([60.0, 200.0, 400.0, 700.0]), min_size=3, max_size=6), st.sampled_from([0.6, 0.8]))
def test_a_larger_margin_never_gives_a_cheaper_proven_optimum(rates: list[float], slo_factor: float) -> None:
    costs = proven_costs(mix(rates, slo_factor))
    assert costs == sorted(costs)


def test_a_margin_can_cost_a_gpu() -> None:
    assert len(set(proven_costs(mix([400.0, 200.0, 200.0, 200.0], 0.6)))) > 1
