"""Cost of a performance model's error: plans against enumeration, margins, and a model without errors."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from instances import InputError
from instances.catalogue import gpu_type
from instances.measurements import Configuration, SoloSample
from instances.model_error.calibration import covered_by_fit
from instances.model_error.cells import MeasuredCell, alone_ms, read_cells
from instances.model_error.experiment import MEASURED, NO_INTERFERENCE, Experiment, model_cost
from instances.model_error.pairing import Demands, Options, draw_demands, score
from instances.performance.validation import latencies_ms

V100 = gpu_type("v100")
MODELS = ("alexnet", "resnet50", "vgg19")
SHARES_PCT = ((20.0, 80.0), (40.0, 60.0), (50.0, 50.0), (60.0, 40.0), (80.0, 20.0))
SMALL = Experiment(instances=30, workloads=6, seeds=(0, 1))


def cells_of(batches: tuple[int, ...] = (1, 4, 16)) -> list[MeasuredCell]:
    """Return cells whose latencies are exactly those of the hybrid model."""
    sides = [
        (Configuration(first, first_batch, first_pct), Configuration(second, second_batch, second_pct))
        for first, second in (("alexnet", "resnet50"), ("alexnet", "vgg19"), ("resnet50", "vgg19"))
        for first_batch, second_batch in product(batches, batches)
        for first_pct, second_pct in SHARES_PCT
    ]
    times_ms = latencies_ms(V100, "hybrid", sides)
    return [MeasuredCell(pair, (float(ms[0]), float(ms[1]))) for pair, ms in zip(sides, times_ms, strict=True)]


CELLS = cells_of()
SOLO = [
    SoloSample(side, float(latencies_ms(V100, "hybrid", [(side,)])[0][0]), float("nan"), float("nan"))
    for side in dict.fromkeys(side for cell in CELLS for side in cell.sides)
]


def demands_of(seed: int, instances: int, workloads: int) -> Demands:
    return draw_demands(
        seed, instances, workloads, [sample.configuration for sample in SOLO], alone_ms(SOLO), MODELS, 1.6
    )


def options_of(cells: list[MeasuredCell], seed: int = 0) -> Options:
    return Options.of(cells, np.random.default_rng(seed).permutation(len(cells)), MODELS)


def latencies_of(cells: list[MeasuredCell]) -> np.ndarray:
    return np.array([cell.latency_ms for cell in cells])


def fewest_gpus(cells: list[MeasuredCell], demands: Demands, instance: int, planned_ms: np.ndarray) -> int:
    """Return the least number of GPUs over all partitions into pairs and single workloads."""

    def fits(workload: int, side: Configuration, ms: float) -> bool:
        position = instance, workload
        limit_ms = min(demands.budget_ms[position], demands.ms_per_item[position] * side.batch)
        return MODELS[demands.model[position]] == side.model and ms <= limit_ms

    def share_a_gpu(i: int, j: int) -> bool:
        return any(
            fits(i, cell.sides[x], ms[x]) and fits(j, cell.sides[1 - x], ms[1 - x])
            for cell, ms in zip(cells, planned_ms, strict=True)
            for x in (0, 1)
        )

    def gpus(remaining: tuple[int, ...]) -> int:
        if not remaining:
            return 0
        first, *rest = remaining
        alone = 1 + gpus(tuple(rest))
        paired = [1 + gpus(tuple(k for k in rest if k != j)) for j in rest if share_a_gpu(first, j)]
        return min([alone, *paired])

    return gpus(tuple(range(demands.model.shape[1])))


@pytest.mark.parametrize("slack", [False, True])
def test_plans_have_the_fewest_gpus(slack: bool) -> None:
    cells, workloads = CELLS[::4], 5
    demands, options = demands_of(0, 50, workloads), options_of(cells)
    planned_ms = 1.1 * latencies_of(cells)
    by_option = options.latencies_ms(planned_ms)
    enumerated = [fewest_gpus(cells, demands, k, planned_ms) for k in range(50)]
    for k, least in enumerate(enumerated):
        only = Demands(demands.model[[k]], demands.budget_ms[[k]], demands.ms_per_item[[k]])
        assert score(options, only, by_option, by_option, slack).gpus == least
    assert len(set(enumerated)) > 1
    assert score(options, demands, by_option, by_option, slack).gpus == pytest.approx(sum(enumerated) / 50)


def test_only_plans_with_underestimated_latencies_have_late_workloads() -> None:
    demands, options = demands_of(1, 100, 8), options_of(CELLS)
    measured_ms = options.latencies_ms(latencies_of(CELLS))
    assert score(options, demands, measured_ms, measured_ms, slack=False).violations == 0.0
    underestimated = score(options, demands, measured_ms / 2.0, measured_ms, slack=False)
    assert underestimated.violations > 0.05
    assert score(options, demands, measured_ms / 2.0, measured_ms, slack=True).violations < underestimated.violations


def test_a_larger_margin_never_needs_fewer_gpus() -> None:
    demands, options = demands_of(2, 50, 8), options_of(CELLS)
    measured_ms = options.latencies_ms(latencies_of(CELLS))
    gpus = [score(options, demands, m * measured_ms, measured_ms, slack=False).gpus for m in (0.5, 1.0, 1.2, 1.5, 9.0)]
    assert gpus == sorted(gpus)
    assert gpus[0] < gpus[-1] == 8.0


def test_an_exact_model_costs_nothing_and_no_model_needs_a_margin() -> None:
    outcomes = model_cost(CELLS, SOLO, lambda seen: V100, SMALL, ["hybrid", "inss"])
    exact = [outcome for outcome in outcomes if outcome.model in (MEASURED, "hybrid")]
    assert len(exact) == 7
    for outcome in exact:
        assert (outcome.margin.value, outcome.violations.value, outcome.regret.value) == (1.0, 0.0, 0.0)
    alone, calibrated = (
        next(o for o in outcomes if o.model == NO_INTERFERENCE and o.level == level) for level in (None, SMALL.level)
    )
    assert alone.violations.value > 0.1
    assert alone.regret.value < 0.0 < calibrated.regret.value
    assert calibrated.margin.value > 1.0
    assert calibrated.violations.value < 0.05


def test_a_fit_sees_only_its_part_without_what_it_predicts() -> None:
    seen: list[set[tuple[str, str]]] = []
    sizes: list[int] = []

    def fit(cells: list[MeasuredCell]) -> object:
        seen.append({cell.models for cell in cells})
        sizes.append(len(cells))
        return V100

    model_cost(CELLS, SOLO, fit, replace(SMALL, seeds=(0,)), ["hybrid"])  # type: ignore[arg-type]
    pairs = {cell.models for cell in CELLS}
    assert seen[0] == pairs
    assert sizes[0] == len(CELLS) / 3
    assert [pairs - known for known in seen[1:4]] == [{pair} for pair in sorted(pairs)]
    assert [len(pairs - known) for known in seen[4:]] == [2, 2, 2]


def test_risk_control_adds_one_instance_that_is_entirely_late() -> None:
    setting = replace(SMALL, instances=60, level=0.05)
    plain, controlled = (
        next(
            outcome
            for outcome in model_cost(CELLS, SOLO, lambda seen: V100, variant, [])
            if outcome.model == NO_INTERFERENCE and outcome.level == setting.level
        )
        for variant in (setting, replace(setting, controlled=True))
    )
    assert controlled.margin.value > plain.margin.value
    assert controlled.gpus.value >= plain.gpus.value
    assert controlled.violations.value <= setting.level
    with pytest.raises(InputError, match=r"level: is 0.01; 60 instances can control 0.0164 or more"):
        replace(setting, level=0.01, controlled=True)


def test_margins_of_a_fit_cover_the_other_half_at_their_level() -> None:
    random = np.random.default_rng(0)
    cells = [
        replace(cell, latency_ms=(cell.latency_ms[0] * factors[0], cell.latency_ms[1] * factors[1]))
        for cell, factors in zip(CELLS, random.lognormal(0.0, 0.1, (len(CELLS), 2)).tolist(), strict=True)
    ]
    covered = covered_by_fit(cells, lambda seen: V100, (0.8, 0.95), 2)
    assert list(covered) == [0.8, 0.95]
    assert all(len(fractions) == 2 for fractions in covered.values())
    assert 0.75 <= np.mean(covered[0.8]) <= np.mean(covered[0.95])
    assert np.mean(covered[0.95]) >= 0.93
    assert covered_by_fit(cells[:6], lambda seen: V100, (0.95,), 2) == {}


@pytest.mark.parametrize(
    ("field", "value"), [("instances", 0), ("workloads", 17), ("workloads", 1), ("most_slack", 1.0), ("level", 1.5)]
)
def test_settings_out_of_range_are_refused(field: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{field}: is {value:g}; expected"):
        replace(SMALL, **{field: value})


def test_with_one_pair_of_models_only_cells_are_left_out() -> None:
    cells = [cell for cell in CELLS if cell.models == ("alexnet", "vgg19")]
    solo = [sample for sample in SOLO if sample.configuration.model != "resnet50"]
    outcomes = model_cost(cells, solo, lambda seen: V100, replace(SMALL, seeds=(0,)), ["hybrid"])
    assert {outcome.left_out for outcome in outcomes} == {"", "cell"}
    assert all(outcome.gpus.error is None for outcome in outcomes)


def test_too_few_cells_are_refused() -> None:
    with pytest.raises(InputError, match=r"pairs: has 3 cells for a fit"):
        model_cost(CELLS[:9], SOLO, lambda seen: V100, SMALL, ["hybrid"])


def test_cells_join_both_files_and_need_all_four_latencies(tmp_path: Path) -> None:
    head = "model_a,batch_a,share_a_pct,model_b,batch_b,share_b_pct,latency_a_ms\n"
    (tmp_path / "pairs.csv").write_text(f"{head}a,1,50,b,2,50,3\na,1,20,b,2,80,4\nc,1,50,c,1,50,5\n", encoding="utf-8")
    solo = [
        SoloSample(Configuration(*side), 1.0, 0.0, 0.0)
        for side in (("a", 1, 50.0), ("b", 2, 50.0), ("a", 1, 20.0), ("c", 1, 50.0))
    ]
    assert [cell.latency_ms for cell in read_cells(tmp_path, solo)] == [(5.0, 5.0)]
    (tmp_path / "pairs_other_side.csv").write_text(f"{head}b,2,50,a,1,50,7\nb,2,80,a,1,20,8\n", encoding="utf-8")
    # the latency of b at 80 % alone is unknown
    assert [cell.latency_ms for cell in read_cells(tmp_path, solo)] == [(3.0, 7.0), (5.0, 5.0)]
    with pytest.raises(InputError, match="has no two configurations"):
        read_cells(tmp_path, solo[:1])
